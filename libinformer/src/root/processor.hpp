// Which instructions the target has. With INFORMER_PORTABLE only those that every machine has are used, in the whole
// library or, as the tests of the portable code do, in one translation unit.
#pragma once

#if defined(__SSE2__) && !defined(INFORMER_PORTABLE)
#define INFORMER_SSE2 1 // part of x86-64: no check at run time
#include <emmintrin.h>
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(INFORMER_PORTABLE)
#define INFORMER_AVX2 1 // used if the processor has it, which is checked at run time
#include <immintrin.h>
#endif
