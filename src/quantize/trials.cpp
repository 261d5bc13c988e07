#include "quantize/trials.h"

#include <algorithm>

#include "support/parallel.h"

namespace swoop {

Trials::Trials(const Graph& prepared, const Samples& samples, const Measured& measured, OpaqueKernels* opaque,
               size_t count)
    : prepared_(prepared),
      samples_(std::span(samples.inputs).first(std::min(measured.first_outputs.size(), count))),
      opaque_(opaque),
      exact_(measured.first_outputs) {}

Result<std::vector<Noise>> Trials::noise(const Graph& quantized, size_t samples, OutputGroups* groups) const {
  const StorageReuse reuse;
  const size_t count = std::min(samples, samples_.size());
  ConstantTensors constants(quantized);
  std::vector<Result<std::vector<Tensor>>> outputs(count, std::vector<Tensor>());
  parallel_for(count, has_state(quantized) ? count : 1, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      Sample inputs = samples_[i];
      if (i > first) carry_state(quantized, *outputs[i - 1], inputs);
      outputs[i] = execute(quantized, inputs, {.opaque = opaque_, .constants = &constants});
      if (!outputs[i]) return;
    }
  });
  std::vector<Noise> noise(prepared_.outputs().size());
  for (size_t i = 0; i < count; ++i) {
    TRY_ASSIGN(const std::vector<Tensor> actual, std::move(outputs[i]));
    for (size_t o = 0; o < actual.size(); ++o) {
      noise[o].add(exact_[i][o], actual[o]);
      if (groups) groups->add(o, exact_[i][o], actual[o]);
    }
  }
  return noise;
}

bool Trials::counts(size_t output) const {
  return prepared_.output_port(output).role == Port::Role::User && exact_[0][output].dtype == DType::F32;
}

size_t Trials::numbers(size_t output) const {
  return samples_.size() * static_cast<size_t>(element_count(exact_[0][output].shape));
}

}  // namespace swoop
