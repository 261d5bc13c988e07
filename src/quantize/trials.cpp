#include "quantize/trials.h"

#include <algorithm>

namespace swoop {

Trials::Trials(const Graph& prepared, std::span<const Sample> samples, OpaqueKernels* opaque)
    : prepared_(prepared), samples_(samples), opaque_(opaque) {}

Result<Trials> Trials::start(const Graph& prepared, const Samples& samples, OpaqueKernels* opaque, size_t count) {
  const std::span<const Sample> all(samples.inputs);
  Trials trials(prepared, all.first(std::min({all.size(), kSamples, count})), opaque);
  for (const Sample& sample : trials.samples_) {
    Sample inputs = sample;
    if (!trials.exact_.empty()) carry_state(prepared, trials.exact_.back(), inputs);
    TRY_ASSIGN(std::vector<Tensor> outputs, execute(prepared, inputs, {opaque}));
    trials.exact_.push_back(std::move(outputs));
  }
  return trials;
}

Result<std::vector<Noise>> Trials::noise(const Graph& quantized, size_t samples) const {
  std::vector<Noise> noise(prepared_.outputs().size());
  std::vector<Tensor> actual;
  for (size_t i = 0; i < std::min(samples, samples_.size()); ++i) {
    Sample inputs = samples_[i];
    carry_state(quantized, actual, inputs);
    TRY_ASSIGN(actual, execute(quantized, inputs, {opaque_}));
    for (size_t o = 0; o < actual.size(); ++o) noise[o].add(exact_[i][o], actual[o]);
  }
  return noise;
}

bool Trials::counts(size_t output) const {
  return prepared_.output_port(output).role == Port::Role::User && exact_[0][output].dtype == DType::F32;
}

}  // namespace swoop
