#include "samples/random.h"

#include <algorithm>

#include "samples/inputs.h"

namespace swoop {

namespace {

constexpr size_t kRandomSamples = 4;

// Uniform words from a counter (splitmix64): the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t word() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(word() >> 11) * 0x1.0p-53; }
  float normal() {  // the sum of twelve uniforms: no libm, so the same bits everywhere
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return static_cast<float>(sum - 6.0);
  }

 private:
  uint64_t state_;
};

// Indices must stay inside what they index.
int64_t index_limit(const Graph& graph, ValueId input) {
  int64_t limit = 2;
  for (const Use& use : graph.value(input).uses) {
    if (use.node == kNone) continue;
    const Node& node = graph.node(use.node);
    if (info(node.op).traits.movement && static_cast<int>(use.index) == info(node.op).traits.selector)
      limit = graph.type(node.inputs[0]).shape[static_cast<size_t>(node.integer(Key::Axis))];
    if (node.op == Op::Cast || node.op == Op::Reshape) limit = std::max(limit, index_limit(graph, node.outputs[0]));
  }
  return std::max<int64_t>(1, limit);
}

}  // namespace

std::vector<Sample> random_samples(uint64_t seed, const Graph& graph) {
  std::vector<Sample> samples;
  Random random(seed);
  for (size_t s = 0; s < kRandomSamples; ++s) {
    Sample sample = blank_sample(graph);
    for (const Input& input : user_inputs(graph)) {
      Tensor& tensor = sample[input.index];
      int64_t limit = index_limit(graph, graph.inputs()[input.index]);
      if (input.type->quantized()) {
        const Range range = range_of(*input.type);
        for (float& x : tensor.as<float>())
          x = static_cast<float>(range.min + (range.max - range.min) * random.uniform());
      } else if (tensor.dtype == DType::F32)
        for (float& x : tensor.as<float>()) x = random.normal();
      else if (tensor.dtype == DType::I64)
        for (int64_t& x : tensor.as<int64_t>()) x = static_cast<int64_t>(random.word() % static_cast<uint64_t>(limit));
      else
        for (uint8_t& x : tensor.as<uint8_t>()) x = random.word() & 1;
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace swoop
