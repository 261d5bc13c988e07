// What two .pte files are compared by: regions, NPU operations, kernels, bytes, cycles, and outputs on given inputs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stream/stream.h"
#include "support/bytes.h"
#include "support/result.h"

namespace swoop {

struct ProgramFigures {
  std::string path;
  std::vector<std::string> npus;          // that its regions are for, each once
  std::map<std::string, int> operations;  // of all command streams: "CONV" -> 9; waits and the stop are not counted
  std::map<std::string, int> kernels;     // on the host: "aten::add" -> 1
  std::map<std::string, int> other_delegates;  // backends that are not the NPU's, with their number
  int64_t regions = 0;
  int64_t file_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t command_bytes = 0;
  int64_t scratch_bytes = 0;                 // of the largest region
  int64_t planned_bytes = 0;                 // arenas of the runtime
  std::optional<EstimateFigures> estimates;  // sums over the regions; nullopt: some region does not carry them
  std::string estimates_why;
};

// The estimates by name, in the order in which they are shown.
struct NamedEstimate {
  const char* name;
  int64_t EstimateFigures::*value;
};
inline constexpr NamedEstimate kEstimates[] = {{"total_cycles", &EstimateFigures::total_cycles},
                                               {"npu_cycles", &EstimateFigures::npu_cycles},
                                               {"macs", &EstimateFigures::macs},
                                               {"sram_bytes", &EstimateFigures::sram_bytes},
                                               {"flash_bytes", &EstimateFigures::flash_bytes},
                                               {"dram_bytes", &EstimateFigures::dram_bytes}};

// A figure of two programs.
struct FigureLine {
  std::string name;
  std::optional<int64_t> a, b;  // nullopt: not known
};
std::vector<FigureLine> byte_lines(const ProgramFigures& a,
                                   const ProgramFigures& b);  // file, weights, scratch, planned
std::vector<FigureLine> estimate_lines(const ProgramFigures& a, const ProgramFigures& b);  // cycles, MACs, memories

Result<ProgramFigures> read_figures(const std::string& path, Bytes pte);

struct OutputDifference {
  std::string name;               // "out0"
  std::string incomparable;       // why, when types or shapes differ
  bool equal = false;             // bit for bit
  std::optional<double> sqnr_db;  // b against a; nullopt when equal, or when a is all zeros
  double max_difference = 0;
  int64_t elements = 0;
  int64_t different = 0;  // elements
};

struct Difference {
  ProgramFigures a, b;
  std::vector<OutputDifference> outputs;  // empty: outputs were not compared
  std::vector<std::string> broken;        // thresholds, as sentences
};

// Runs both programs on the arrays of an .npz.
Result<std::vector<OutputDifference>> compare_outputs(const ProgramFigures& a, Bytes pte_a, const ProgramFigures& b,
                                                      Bytes pte_b, Bytes inputs);

}  // namespace swoop
