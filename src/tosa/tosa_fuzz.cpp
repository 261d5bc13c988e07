// libFuzzer: any bytes as a .tosa file. What is read is written, and read again it is the same program.
#include "support/check.h"
#include "tosa/tosa.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace swoop;
  auto program = tosa::read({reinterpret_cast<const std::byte*>(data), size});
  if (!program) return 0;
  const Buffer written = tosa::write(*program);
  auto again = tosa::read(written);
  CHECK(again && tosa::write(*again) == written, "what was written is not what was read");
  return 0;
}
