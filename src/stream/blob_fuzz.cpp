// unpack() on anything; what it accepts must pack to the same bytes again, padding aside.
#include "stream/stream.h"
#include "support/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto program = swoop::unpack(std::as_bytes(std::span(data, size)));
  if (!program) return 0;
  const auto packed = swoop::pack(*program);
  CHECK(packed.has_value(), "{}", packed.error().message);
  const auto again = swoop::unpack(*packed);
  CHECK(again.has_value() && again->inputs == program->inputs && again->commands == program->commands,
        "another program");
  return 0;
}
