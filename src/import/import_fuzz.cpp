// libFuzzer on the reader. Inputs that start with a zip signature are whole archives; anything else is the program's
// JSON inside of a good archive, so that mutations that change its length reach the reader too. Seeds:
// test/fuzz/import_fuzz, made by test/fuzz/make_import_seeds.py.
#include "import/import.h"
#include "import/pt2_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace swoop;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  ImportOptions options{.memory_limit = uint64_t{64} << 20, .check_crc = false};
  Buffer file;
  if (text.starts_with("PK")) {
    append(file, bytes_of(text));
  } else {
    file = make_archive(Pt2Program().frame(std::string(text)));
  }
  Result<Graph> graph = import_pt2(Bytes(file), options);
  if (graph) {
    CHECK(!verify(*graph), "an accepted file gave a broken graph");
    print(*graph);
  }
  return 0;
}
