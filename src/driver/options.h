// What the command line asks for.
#pragma once

#include <string>

#include "npu/npu.h"

namespace swoop {

struct CompileOptions {
  std::string model;
  std::string output;               // .pte; empty: beside the model
  std::string target = "ethos-u55-128";
  NpuOptions npu;
  bool integer_io = false;          // --io int8
  bool segments = false;            // delegate blobs as segments of the file
  std::string dump;                 // folder
  std::string stop_after;           // name of a step or stage
  bool stats = false;
  bool json = false;
  bool quiet = false;
};

}  // namespace swoop
