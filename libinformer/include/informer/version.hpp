// The version of this library, for `#if` and for texts. CMake reads it from here.
#pragma once

/// As one number: 10,000 times the first, 100 times the second, the third. Releases of one second number are compatible.
#define INFORMER_VERSION 100
/// The same as a text.
#define INFORMER_VERSION_STRING "0.1.0"
