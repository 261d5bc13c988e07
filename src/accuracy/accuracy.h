// What quantization costs: signal over noise (SQNR) of tensors against their reference, and of every layer of a
// quantized graph against the float graph that it was made from.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/ops.h"
#include "samples/samples.h"
#include "support/result.h"

namespace swoop {

// Signal and noise of values against their reference, summed over tensors.
struct Noise {
  double signal = 0;
  double error = 0;

  void add(float reference, float actual);
  void add(const Tensor& reference,
           const Tensor& actual);  // of one type and shape; elements that are not finite are masked by design
  double db() const;               // 999 when they are equal
};

// Of one output, over all samples.
struct OutputNoise {
  Noise noise;
  double max_error = 0;
  bool integers = false;  // which have no noise: equal elements are counted
  size_t equal = 0, elements = 0;

  void add(const Tensor& reference, const Tensor& actual);
  std::optional<double> equal_share() const;  // of integers
};

// Of `actual` against `reference`, over all tensors together, in dB.
double sqnr_db(std::span<const Tensor> reference, std::span<const Tensor> actual);

struct LayerAccuracy {
  std::string name;  // of the value
  std::string node;
  std::string op;
  std::string source;  // "net.py:31"
  std::string type;
  double sqnr_db = 0;  // of its value in the quantized graph, with all that went wrong before it
  double own_db = 0;   // of this layer alone, its operands being exact
  double clipped = 0;  // share of float elements outside the type's range
};

struct AccuracyReport {
  size_t samples = 0;
  bool uncalibrated = false;
  std::vector<OutputNoise> outputs;   // that the caller gets
  std::vector<LayerAccuracy> layers;  // worst own_db first

  std::optional<double> worst_db() const;  // of the float outputs
};

// `reference` is the float graph that `quantized` was made from in place: clone() it before quantize().
Result<AccuracyReport> measure_accuracy(const Graph& reference, const Graph& quantized, const Samples& samples,
                                        OpaqueKernels* opaque = nullptr);
std::string to_text(const AccuracyReport& report);

// The axis of a layer's operand and of its result, of this rank, that holds channels: what one layer calls channels may
// be another's positions.
inline int channels_at(const Node& layer, int rank) { return layer.op == Op::Linear ? rank - 1 : 1; }

// Where `id` is what a layer with weights gives, without bounds: the axis along which its elements may have units of
// their own.
std::optional<size_t> units_axis(const Graph& graph, ValueId id);

// Signal over noise per part of an output. An output that a model joins from several values (boxes in pixels, scores
// between 0 and 1) may be good as a whole and bad in one of them: what is small beside the others has no part in the
// sum. A group is what one operand of the joining concats becomes in the output, however it is moved afterwards; an
// output that is not joined is one group.
struct GroupAccuracy {
  size_t output = 0;   // among the graph's outputs
  std::string name;    // of the value that the group holds
  std::string source;  // "net.py:31"
  double sqnr_db = 0;
  bool flat =
      false;  // differs from element to element in float, by more than a step of 8 bits, and nowhere in the file
  std::vector<size_t> flat_channels =
      {};  // the same within a channel, of groups with units_axis(), where sqnr_db hides it
  std::optional<std::pair<size_t, double>> worst_channel = {};  // and its dB
};

class OutputGroups {
 public:
  // Float outputs of `reference` are taken apart.
  static Result<OutputGroups> of(const Graph& reference);

  // One run: what output `output` should be and what it is. Other outputs than floats are left out.
  void add(size_t output, const Tensor& expected, const Tensor& actual);

  std::vector<GroupAccuracy> worst_first() const;

 private:
  struct Extent {
    float min = INFINITY;
    float max = -INFINITY;
    void add(float x) {
      min = std::min(min, x);
      max = std::max(max, x);
    }
    void add(const Extent& other) {
      min = std::min(min, other.min);
      max = std::max(max, other.max);
    }
    float moved() const { return max - min; }
    bool moves() const { return max > min; }
    float size() const { return std::max(std::fabs(min), std::fabs(max)); }
  };
  // Elements of one group and, where it has units_axis(), of one channel.
  struct Channel {
    Noise noise;
    Extent expected;
    Extent actual;
  };
  struct Group {
    std::string name;
    std::string source;
    size_t first = 0;  // of its channels
    size_t count = 1;
  };
  struct Output {
    std::vector<uint32_t> channel_of;  // by element
    std::vector<Channel> channels;
    std::vector<Group> groups;
  };
  static GroupAccuracy accuracy_of(size_t number, const Output& output, const Group& group);

  std::vector<Output> outputs_;
};

}  // namespace swoop
