// read_pte on arbitrary bytes. Seeds: any .pte; without one the fuzzer starts from a header that passes the first
// check.
#include <cstdint>

#include "emit/emit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto info = swoop::read_pte(swoop::Bytes(reinterpret_cast<const std::byte*>(data), size));
  (void)info;
  return 0;
}
