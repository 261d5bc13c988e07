// What the command line asks of a compile.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "import/import.h"
#include "legalize/legalize.h"
#include "npu/npu.h"
#include "quantize/quantize.h"
#include "samples/samples.h"

namespace swoop {

// What a build must keep to. A limit that is broken is an error, and no file is written.
struct Gates {
  std::optional<int64_t> max_sram;    // bytes
  std::optional<int64_t> max_flash;   // bytes
  std::optional<int64_t> max_cycles;  // estimated
  std::optional<double> max_ms;       // estimated, of one inference
  bool one_region = false;
  std::vector<std::string> allow_flat;  // patterns on the names of parts of outputs
  bool no_host = false;                 // every operator between the borders on the NPU
};

struct CompileOptions {
  std::string model;   // .pt2, .tosa, or the text of a graph (.ir)
  OpenSizes sizes;     // --batch, --shape
  std::string output;  // .pte or .tosa; empty: beside the model
  std::string target = "ethos-u55-128";
  bool tosa = false;  // --target tosa: the TOSA of the NPU's part is written, and not the .pte it was checked in
  std::string board;  // --board; empty: none
  NpuOptions npu;
  std::string samples;  // --calibrate
  SampleOptions sample_options;
  std::string test;  // --test: held-out samples
  QuantizeOptions quantize;
  PortOptions ports;      // --io, --io-layout
  bool segments = false;  // delegate blobs as segments of the file
  bool strip = false;     // no map of layers in the file
  bool verify = true;
  Gates gates;
  std::string report;      // .html; empty: none
  std::string overlay;     // .json for Model Explorer; empty: none
  std::string compare;     // .pte of another build; empty: none
  std::string header;      // .h; empty: none
  std::string firmware;    // folder; empty: none
  std::string dump;        // folder
  std::string stop_after;  // name of a step or stage
  bool stats = false;
  bool json = false;
  bool quiet = false;
  bool says_progress = true;
  bool plain_stream = false;              // as regor makes it, repairs aside
  int64_t sram_with_weights = 512 << 10;  // bytes: shared weights go to SRAM as long as a program takes no more
};

}  // namespace swoop
