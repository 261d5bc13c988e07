#include "quantize/trials.h"

#include <algorithm>

namespace swoop {

Trials::Trials(const Graph& prepared, const Samples& samples, const Measured& measured, OpaqueKernels* opaque,
               size_t count)
    : prepared_(prepared),
      samples_(std::span(samples.inputs).first(std::min(measured.first_outputs.size(), count))),
      opaque_(opaque),
      exact_(measured.first_outputs) {}

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
