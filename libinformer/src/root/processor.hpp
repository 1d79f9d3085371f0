// Which instructions the target has. With INFORMER_PORTABLE: none but what every machine has, in all of the library or, as
// the tests of those forms do it, in one unit.
#pragma once

#if defined(__SSE2__) && !defined(INFORMER_PORTABLE)
#define INFORMER_SSE2 1 // part of x86-64: nothing to ask at run time
#include <emmintrin.h>
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(INFORMER_PORTABLE)
#define INFORMER_AVX2 1 // where the processor has it, which is asked
#include <immintrin.h>
#endif
