// A computer as the board: inputs from standard input, outputs to standard output, one after the other as raw bytes.
// The NPU is swoop's, in software: libswoop_run.so brings it.
#include <cstdio>
#include <vector>

#include "board.h"

int board_init() { return 0; }

const void* board_read_input(size_t, size_t bytes) {
  static std::vector<unsigned char> data;
  data.resize(bytes);
  return std::fread(data.data(), 1, bytes, stdin) == bytes ? data.data() : nullptr;
}

void board_write_output(size_t, const void* data, size_t bytes) { std::fwrite(data, 1, bytes, stdout); }

void board_fail(const char* what, unsigned code) { std::fprintf(stderr, "%s: error %#x\n", what, code); }
