// The version of this library, for `#if` and for display. CMake reads it from here.
#pragma once

/// As one number: 10,000 * first + 100 * second + third. Releases with the same second number are compatible.
#define INFORMER_VERSION 100
/// The same as a string.
#define INFORMER_VERSION_STRING "0.1.0"
