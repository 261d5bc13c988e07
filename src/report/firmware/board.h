// What main.cpp needs from the machine that it runs on. board_host.cpp is a computer, board_ethosu.cpp a device.
#pragma once

#include <stddef.h>

// Where the NPU's scratch memory goes, as an attribute: __attribute__((section(".bss.tensor_arena"))), for instance.
// Empty: into .bss, which must then be memory that the NPU reaches.
#ifndef BOARD_NPU_MEMORY
#define BOARD_NPU_MEMORY
#endif
// The same for dedicated SRAM. Only programs with MODEL_FAST_BYTES above 0 have it.
#ifndef BOARD_FAST_MEMORY
#define BOARD_FAST_MEMORY
#endif

// Once, before anything else: clocks, console, NPU. 0 means that it worked.
int board_init(void);

// Where the bytes of input `index` are, until the next call for the same input. NULL means that there are no more, and
// ends the example.
const void* board_read_input(size_t index, size_t bytes);

// Takes output `index` of the program.
void board_write_output(size_t index, const void* data, size_t bytes);

// Says what went wrong; `code` is ExecuTorch's error.
void board_fail(const char* what, unsigned code);
