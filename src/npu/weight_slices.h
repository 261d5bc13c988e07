// Which coding each part of a stream of weights takes.
#pragma once

#include "npu/regor_parts.h"

struct grc_param_t {  // as in regor's mlw_encode.cpp
  int cfg = 0;        // the coding: see weight_slices.cpp
  int end_pos = 0;
};
