// with_best_simd(work): runs a lambda compiled for the widest vectors of this machine. The program is built for the
// baseline of its architecture; integer results do not depend on the width, only the time does.
#pragma once

namespace swoop::tosa {

// For lambdas given to with_best_simd and the functions they call: what is not inlined keeps the baseline's vectors.
#define SWOOP_INLINE __attribute__((always_inline))

#if defined(__x86_64__)
template <typename Work>
__attribute__((target("avx2"))) void on_avx2(const Work& work) {
  work();
}

#if defined(__clang__)
#define SWOOP_WIDE ""  // clang knows no such word here
#else
#define SWOOP_WIDE ",prefer-vector-width=512"
#endif

template <typename Work>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni" SWOOP_WIDE))) void on_avx512(const Work& work) {
  work();
}
#endif

template <typename Work>
void with_best_simd(const Work& work) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return on_avx512(work);
  if (__builtin_cpu_supports("avx2")) return on_avx2(work);
#endif
  work();
}

}  // namespace swoop::tosa
