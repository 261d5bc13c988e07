// What the command line asks of a compile.
#pragma once

#include <string>
#include <vector>

#include "npu/npu.h"
#include "quantize/quantize.h"
#include "samples/samples.h"

namespace swoop {

struct CompileOptions {
  std::string model;   // .pt2, or the text of a graph (.ir)
  std::string output;  // .pte; empty: beside the model
  std::string target = "ethos-u55-128";
  NpuOptions npu;
  std::string samples;  // --calibrate
  SampleOptions sample_options;
  QuantizeOptions quantize;
  bool integer_io = false;  // --io int8
  bool segments = false;    // delegate blobs as segments of the file
  bool strip = false;       // no map of layers in the file
  bool verify = true;
  std::string dump;        // folder
  std::string stop_after;  // name of a step or stage
  bool stats = false;
  bool json = false;
  bool quiet = false;
};

}  // namespace swoop
