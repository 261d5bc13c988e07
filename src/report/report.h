// What a person or a build system reads about a compile: ten lines of text, JSON, a page for a browser, or a C header.
// Measures nothing itself.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/ir.h"
#include "stream/stream.h"
#include "support/timer.h"

namespace swoop {

constexpr std::string_view kSwoopVersion = "0.1.0";

struct PortSummary {
  std::string name;
  std::string dtype;  // "float32", "int8", ...
  Shape shape;
  int64_t bytes = 0;
  std::optional<double> scale;  // of the codes on the NPU's side of the border
  std::optional<int64_t> zero_point;
};

struct LayerSummary {
  std::string name;
  std::string op;
  int64_t cycles = 0;
  int64_t npu_cycles = 0;  // without waiting for memory
  int64_t macs = 0;
  int64_t sram_bytes = 0;  // held while it runs
  std::string source;      // "net.py:31"
  std::string code;        // the Python line
  std::string module;      // "encoder.block1"
};

// What computes with what: a node of a region's graph, or of the program around the regions, in execution order.
struct NodeSummary {
  std::string name;
  std::string op;
  std::vector<size_t> inputs;    // nodes whose results it takes, as places in the same list
  std::optional<size_t> region;  // it is the call of this region
};

struct RegionSummary {
  std::string name;
  size_t tosa_ops = 0;
  Estimates estimates;
  uint64_t scratch_bytes = 0;
  std::vector<LayerSummary> layers;
  std::vector<NodeSummary> nodes;
};

struct HostNodeSummary {
  std::string node;
  std::string op;
  std::string rule;
  std::string reason;
  std::string source;
  std::string code;  // the Python line
  std::string advice;
};

// One output of the file against the float model's, over all samples.
struct OutputAccuracy {
  double sqnr_db = 0;
  double max_error = 0;
  std::optional<double> equal;  // of integers, which have no noise: the share of elements that are the same
};

// How often the label is the largest output, or among the five largest.
struct LabelAccuracy {
  size_t labels = 0;
  double top1 = 0, top5 = 0;                     // of the file
  std::optional<double> float_top1, float_top5;  // of the float model; absent: it is not there
};

// A part of an output: what one operand of the concats that made it has become.
struct PartAccuracy {
  size_t output = 0;
  std::string name;    // of the model's value
  std::string source;  // "net.py:31"
  double sqnr_db = 0;
  bool flat = false;                                            // it varies in the float model and not in the file
  std::vector<size_t> flat_channels = {};                       // the same of channels
  std::optional<std::pair<size_t, double>> worst_channel = {};  // and its SQNR in dB, where there are several
};

// One layer against the float model's value, when types have been chosen and everything is rounded to them.
struct LayerNoise {
  std::string name, op, source;
  double own_db = 0;   // of this layer alone, its operands being exact
  double all_db = 0;   // with all that went wrong before it
  double clipped = 0;  // share of float elements outside the type's range
};

struct AccuracySummary {
  size_t samples = 0;  // that the figures are of
  size_t given = 0;
  bool test = false;  // held out; otherwise those that ranges were measured on
  std::optional<bool> bit_exact;
  size_t layers = 0;                                  // compared with what their types promise, and within it
  std::vector<std::string> inexact;                   // a sentence about each of the others
  std::vector<OutputAccuracy> outputs;                // empty: not compared
  std::vector<PartAccuracy> parts;                    // of outputs that are joined from several, the worst first
  std::vector<LayerNoise> by_layer;                   // worst first; empty: not measured
  std::optional<std::pair<double, double>> left_out;  // dB of the last sample by its types: with ranges that it had a
                                                      // part in, and without
  std::optional<LabelAccuracy> labels;
};

// Whether the program fits a memory of a board.
struct MemoryFit {
  std::string memory;             // "SRAM", "DRAM", "flash"
  int64_t needed = 0;             // bytes
  std::optional<int64_t> there;   // bytes; nullopt: not known
  std::optional<int64_t> within;  // the largest piece of them, where it has several
  int64_t largest = 0;            // of what is needed, the largest piece
  std::vector<std::string> sources;

  std::optional<bool> fits() const;  // nullopt: not known
};

struct BoardFit {
  std::string board;
  std::string text;  // "Alif Ensemble E8 DevKit, Ethos-U85"
  std::vector<MemoryFit> memories;
};

// The same model built before.
struct BuildComparison {
  struct Line {
    std::string name;
    std::optional<int64_t> before, now;  // nullopt: not known
  };
  std::string path;
  std::vector<Line> lines;
};

// Values that have int16 because that is nearly free.
struct WidenedSummary {
  struct Value {
    std::string name, op, source;
  };
  std::vector<Value> values;
  int64_t cycles_before = 0;
  int64_t cycles = 0;
};

// Weights with coarser steps than their largest ones ask for.
struct SmallerWeightsSummary {
  int64_t bytes_before = 0;  // encoded, by how common each code is
  int64_t bytes = 0;
  double lost_db = 0;  // by the output that lost most, on the first samples
};

// Over all regions. They run one after the other in the same SRAM and DRAM, so of those the largest counts.
struct Totals {
  size_t tosa_ops = 0;
  int64_t macs = 0;
  int64_t npu_cycles = 0;
  int64_t total_cycles = 0;
  double inference_ms = 0;
  int64_t sram_bytes = 0;
  int64_t dram_bytes = 0;
  int64_t flash_bytes = 0;
};

// One of several builds of a model, which are compared.
struct BuildPoint {
  bool built = false;
  std::string why;  // it is not built, or which limits it breaks; empty: it fits
  Totals totals;
  int64_t pte_bytes = 0;
  std::optional<double> sqnr_db;  // of the worst output; absent: not measured

  bool fits() const { return built && why.empty(); }
};

// The model built for one NPU in one memory mode.
struct SweepPoint : BuildPoint {
  std::string target, memory_mode, system_config;
  size_t regions = 0;
  std::map<std::string, int> host_ops;
  bool front = false;  // no other one is faster in as little SRAM, or as fast in less
};

// One build of `swoop compile --search`.
struct SearchPoint : BuildPoint {
  std::string what;      // how it differs from the build that was asked for; "as given"
  bool front = false;    // no other one is better in cycles, bytes or SQNR without being worse in another
  bool written = false;  // the one that was chosen
};

struct Summary {
  std::string model;
  std::string output;
  std::string target;
  std::string system_config;
  std::string memory_mode;
  std::vector<std::pair<std::string, Elapsed>> times;  // per stage, in order
  std::map<std::string, int> host_ops;                 // kernels between the borders
  std::map<std::string, int> border_ops;               // quantize, dequantize and casts
  std::vector<HostNodeSummary> host_nodes;
  std::vector<RegionSummary> regions;
  std::vector<NodeSummary> nodes;                        // of the program around the regions
  std::optional<BuildComparison> comparison;             // of --compare
  std::vector<SweepPoint> sweep;                         // of `swoop sweep`; empty: this is the only build
  std::vector<SearchPoint> search;                       // of --search; empty: this is the only build
  std::optional<BoardFit> board;                         // of --board
  std::optional<int64_t> max_sram, max_flash;            // that it was held to, in bytes
  std::optional<WidenedSummary> widened;                 // absent: there are none
  std::optional<SmallerWeightsSummary> smaller_weights;  // absent: there are none
  std::vector<PortSummary> inputs;
  std::vector<PortSummary> outputs;
  int64_t pte_bytes = 0;
  std::optional<int64_t> tosa_bytes;  // of the .tosa file that was written instead
  int64_t planned_bytes = 0;
  int64_t method_bytes = 0;
  int64_t temp_bytes = 0;
  int64_t fast_bytes = 0;            // dedicated SRAM of the NPU
  std::string method;                // its name in the file
  std::vector<std::string> kernels;  // of the runtime, as a selective build names them
  std::optional<AccuracySummary> accuracy;
  std::string accuracy_why;           // why there is none
  std::vector<std::string> warnings;  // "ranges come from random data", ...
};

Totals totals_of(const Summary& summary);

std::string to_json(const std::vector<SweepPoint>& points);
std::string to_json(const Summary& summary);
std::string to_text(const Summary& summary);
std::string to_html(const Summary& summary);  // one file that loads nothing: src/report/page with to_json() inside

// The program as a C header: what to reserve, the ports, the kernels, and the bytes of the .pte as an aligned array.
// Its names begin with c_name(file).
std::string to_header(const Summary& summary, Bytes pte, std::string_view file);
std::string c_name(std::string_view file);  // "resnet8_v2" of "out/resnet8-v2.h"

// The example that runs it on a device: file names and texts, the header among them.
constexpr std::string_view kFirmwareHeader = "model.h";
std::vector<std::pair<std::string, std::string>> to_firmware(const Summary& summary, Bytes pte);

// Texts come from files; a terminal must not meet control characters.
std::string printable(std::string_view text);

}  // namespace swoop
