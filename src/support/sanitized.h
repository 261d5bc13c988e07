// SWOOP_SANITIZED: whether AddressSanitizer watches this build. Only Clang builds it so.
#pragma once

#ifdef __has_feature
#define SWOOP_SANITIZED __has_feature(address_sanitizer)
#else
#define SWOOP_SANITIZED 0
#endif
