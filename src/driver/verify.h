// Checks a compile on its samples. The finished file runs on the stock runtime with the NPU in software. What each NPU
// region gives is compared, bit for bit, with the TOSA interpreter on the region's inputs; what each layer gives, with
// what its type promises (forecast.h); what the file gives, with the float model (SQNR).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/fault.h"
#include "driver/pipeline.h"
#include "report/report.h"
#include "tosa/tosa.h"

namespace swoop {

struct FileCheck {
  Bytes pte;
  std::vector<const tosa::Program*> regions;  // as they were compiled, in the order of the file's delegates
  std::vector<const Graph*> graphs;           // what these were lowered from
  const Graph* source = nullptr;              // what the file was made of: its ports' types
  const Pipeline* pipeline = nullptr;
  Samples made_up;     // where the pipeline has no samples
  int64_t macs = 0;    // of one run: large programs are run on fewer samples
  std::string bundle;  // folder for the program when a layer is
};

struct FileVerdict {
  AccuracySummary accuracy;
  std::optional<RegionFault> fault;  // the first region that does not compute its TOSA; numbered as in FileCheck
};

// A layer that is further from the float model than its type allows is an Error that names it and the bundle.
Result<FileVerdict> check_file(const FileCheck& check);

}  // namespace swoop
