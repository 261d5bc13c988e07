// A device with an Ethos-U as the board: the part that is the same on all of them. Give the figures below with
// -D, the addresses from your chip's manual, and replace the functions that read and write.
#include <ethosu_driver.h>

#include <cstdio>

#include "board.h"

#ifndef BOARD_NPU_BASE
#error "BOARD_NPU_BASE: the address of the NPU's registers"
#endif
#ifndef BOARD_NPU_SECURE
#define BOARD_NPU_SECURE 1
#endif
#ifndef BOARD_NPU_PRIVILEGED
#define BOARD_NPU_PRIVILEGED 1
#endif

#ifndef BOARD_INPUT_BYTES
#define BOARD_INPUT_BYTES 65536
#endif

static struct ethosu_driver npu;

// The vector table calls this one: the name, and enabling the interrupt before main(), are the board support's.
extern "C" void board_npu_interrupt(void) { ethosu_irq_handler(&npu); }

int board_init() {
  return ethosu_init(&npu, reinterpret_cast<void*>(BOARD_NPU_BASE), nullptr, 0, BOARD_NPU_SECURE, BOARD_NPU_PRIVILEGED);
}

// Once, with zeros. Give the buffer of your sensor here; inputs larger than this one end the example.
const void* board_read_input(size_t index, size_t bytes) {
  static unsigned char zeros[BOARD_INPUT_BYTES];
  static bool done = false;
  if ((index == 0 && done) || bytes > sizeof(zeros)) return nullptr;
  done = true;
  return zeros;
}

void board_write_output(size_t index, const void* data, size_t bytes) {
  const unsigned char* at = static_cast<const unsigned char*>(data);
  std::printf("output %u:", static_cast<unsigned>(index));
  for (size_t i = 0; i < bytes; ++i) std::printf(" %02x", at[i]);
  std::printf("\n");
}

void board_fail(const char* what, unsigned code) { std::printf("%s: error 0x%x\n", what, code); }
