// SWOOP_CLONES before a function: compiled for plain x86-64 and for AVX2, chosen when the program starts. The project
// is compiled without contraction of a * b + c, so both give the same bits.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define SWOOP_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define SWOOP_CLONES
#endif
