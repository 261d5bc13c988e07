// unpack_layers() on anything; what it accepts must pack to a map that is the same.
#include "stream/stream.h"
#include "support/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto map = swoop::unpack_layers({reinterpret_cast<const char*>(data), size});
  if (!map) return 0;
  const auto again = swoop::unpack_layers(swoop::pack_layers(*map));
  CHECK(again.has_value() && *again == *map, "another map");
  return 0;
}
