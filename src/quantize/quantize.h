// Post-training quantization: a float graph and samples become the same graph on quantized types. Ranges are measured
// by executing the graph in float; an op's policy (ops/ops.h) says how its result gets its type; data movement shares
// its input's. Quantize and dequantize nodes stand only where floats and integers meet. The result is the same for any
// number of threads.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ir/ir.h"
#include "ops/ops.h"
#include "samples/samples.h"
#include "support/result.h"

namespace swoop {

// -- what the user may ask for

enum class Precision : uint8_t { Int8, Int16, Float };  // of activations: int8 affine; int16 symmetric; not quantized
enum class Method : uint8_t { MinMax, Percentile, Histogram, Mse };
std::string_view name_of(Precision precision);  // int8, int16, float
std::string_view name_of(Method method);        // minmax, percentile, histogram, mse
Result<Precision> parse_precision(std::string_view text);
struct QuantizeOptions;
// One of these, or auto: int8, and int16 where that is nearly free.
constexpr std::string_view kAutoPrecision = "auto";
Result<void> set_precision(QuantizeOptions& options, std::string_view text);
Result<Method> parse_method(std::string_view text);

// A rule for some nodes. Of the rules that fit a node, those for nodes win over those for ops, those over modules;
// among equals the last.
struct Scope {
  enum class Kind : uint8_t { Module, Op, Node };
  Kind kind = Kind::Module;
  std::string pattern;  // as of the shell (fnmatch): of the module path (and all below it), of the core op's name or a
                        // unary's function, of the node's name
  std::optional<Precision> precision = {};
  std::optional<Method> method = {};
  std::optional<int> weight_bits = {};
};

// What a quantized graph costs, in any unit (NPU cycles, say).
struct Cost {
  double value = 0;
  std::map<std::string, double> each = {};   // by name_in_model(): what computing a value costs
  std::map<std::string, double> wide = {};   // the same: what it costs more from 16 bits
  std::map<std::string, double> bytes = {};  // by the kind of memory
  size_t programs = 0;
  std::set<std::string> on_host = {};  // operators, each with its node
};
const std::string& name_in_model(const Value& value);

// A value that may have 16 bits instead of 8.
struct Candidate {
  std::string name;  // behind the path of its body
  std::string op;
  std::string source;
  double gain_db = 0;  // alone
  double cost = 0;     // added, in units of the cost function
};

// All of them that are left, in the order in which --min-sqnr raises them.
struct Ranking {
  std::vector<Candidate> candidates;
  double cost = 0;  // of the graph without any of them raised
};

// Those that were raised because that is nearly free.
struct Cheap {
  std::vector<Candidate> candidates;  // without their gains, which nobody measured
  double cost_before = 0;
  double cost_after = 0;
};

constexpr double kNearlyFree = 0.01;
constexpr double kHardlyHeard = 0.5;  // dB: what `swoop compile` gives for smaller weights

struct QuantizeOptions {
  Precision precision = Precision::Int8;
  double int16_budget = 0;    // share of the cost, and of each memory, that values raised to int16 may add in all
  bool raises_inputs = true;  // they may be among those
  bool raises_outputs = true;
  Method method = Method::Mse;  // measured best over the zoo: docs/decisions.md
  double percentile = 99.99;    // of Method::Percentile, on each side
  int weight_bits = 8;          // 8 or 4
  bool per_channel = true;      // weights: a scale per output channel, or one
  bool correct_bias = true;     // the mean error of rounded weights is taken off the bias
  double weight_rate = 0;       // dB that each output may lose for smaller weights
  bool equalize = false;        // channels of consecutive layers are brought to like ranges first
  bool shift_resizes = true;    // bilinear resizes get scales a power of two apart, for cores that shift their sums
  std::vector<Scope> scopes;
  std::set<std::string> wide;           // names of values that take int16 in any case
  std::vector<std::string> keep_float;  // patterns on node names and module paths
  std::optional<double> min_sqnr;       // dB; layers are raised to int16 until each output is forecast to have it
  const Ranking* ranking = nullptr;     // of an earlier call with the same graph and samples: not measured again
  // Absent, or without an answer: multiply-accumulates and elements moved.
  std::function<std::optional<Cost>(const Graph&)> cost;
  // Whether the second matrix of [heads, rows, depth] by [heads, depth, channels] becomes weights, which have no code
  // -128. Absent: it does not.
  std::function<bool(int64_t heads, int64_t rows, int64_t depth, int64_t channels)> writes_weights;
  OpaqueKernels* opaque = nullptr;  // for executing what the compiler knows by name alone
};

// -- what comes of it

struct ValueReport {
  std::string name;  // of the value
  std::string node;  // that computes it; empty for inputs
  std::string op;
  std::string source;  // "net.py:31"
  std::string type;    // "i8 q(0.1, -3)"
  double min = 0;      // measured
  double max = 0;
  double clipped = 0;  // share of the samples' elements outside the type's range
};

// The SQNR of the last sample, with ranges that it had a part in and with ranges of the other samples alone: of the
// output that loses most.
struct LeftOut {
  double seen_db = 0;
  double unseen_db = 0;

  double loss_db() const { return seen_db - unseen_db; }
};

// Weights with coarser steps than their largest ones ask for.
struct SmallerWeights {
  double bytes_before = 0;  // encoded, by their entropy
  double bytes = 0;
  double lost_db = 0;  // by the output that lost most, on the first samples
};

struct QuantizeReport {
  size_t samples = 0;
  bool uncalibrated = false;  // random samples
  Method method = Method::Mse;
  std::vector<ValueReport> values;  // in execution order
  size_t equalized = 0;             // pairs of layers
  size_t bias_corrected = 0;        // layers
  std::optional<LeftOut> left_out;  // of few samples that are not random
  Cheap cheap;                      // with a budget
  std::optional<SmallerWeights> smaller_weights;
  std::optional<double> wanted_sqnr;
  std::optional<double> sqnr_db;   // with --min-sqnr: forecast of the worst output
  std::optional<Ranking> ranking;  // with --min-sqnr, unless nothing had to be raised
  size_t raised = 0;               // of the ranking's candidates, from the first

  std::span<const Candidate> raised_layers() const {
    return ranking ? std::span(ranking->candidates).first(raised) : std::span<const Candidate>();
  }
  std::vector<std::string> warnings;               // what the samples do not show
  std::vector<std::vector<Tensor>> float_outputs;  // of the first samples; none where equalizing changed the graph
  double calibrate_seconds = 0;                    // executing the samples and measuring, the first time
};

// Types for all that is float. Samples must fit the graph (load_samples sees to it). Constants of the result are the
// graph's own.
Result<QuantizeReport> quantize(Graph& graph, const Samples& samples, const QuantizeOptions& options = {});

// Tells each norm on codes what less variance counts as in its integer form, so that the float kernel has it the same
// way. quantize() does; a graph that came with its types needs it as well.
void note_least_variances(Graph& graph);
std::string to_text(const QuantizeReport& report);

// Patterns that match nothing are mistakes of the person who wrote them. `following`: of the model as it was imported,
// because a node may have been joined with the one that follows it.
using FollowingNodes = std::map<std::string, std::string>;  // a node that reads it, by a node's name
FollowingNodes following_nodes(const Graph& model);
Result<void> check_names(const Graph& model, const FollowingNodes& following, const QuantizeOptions& options);

// Whether a scope says how precise a value is: that of the node that computes it, or of one that reads an input.
bool is_settled(const Graph& graph, ValueId value, const QuantizeOptions& options);

// What a sample gives depends on those before it.
bool has_state(const Graph& graph);

// True when some op that could be quantized still works on floats: then quantize() has work and samples are needed.
bool needs_quantization(const Graph& graph);

}  // namespace swoop
