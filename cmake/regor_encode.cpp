// Part of regor's library instead of its mlw_encode.cpp: weights are encoded by swoop (src/npu/encode_weights.cpp), and
// by regor's own encoder where they are all zeros.
#include "architecture/mlw_encode.hpp"

#include <mlw_encode.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "common/bit_flags.hpp"
#include "common/common.hpp"

BEGIN_ENUM_TABLE(WeightFormat)
    ADD_ENUM_NAME(None)
    ADD_ENUM_NAME(Default)
    ADD_ENUM_NAME(Fast)
    ADD_ENUM_NAME(Sparse2_4)
END_ENUM_TABLE()

namespace {

// All that the source has. The memory is used again, and is not cleared: most layers are small, and would cost less than
// that.
struct Weights {
  std::unique_ptr<int16_t[]> storage;
  int room = 0;
  int count = 0;
  int given = 0;  // to regor's encoder

  void read(IWeightSource &source, int step) {
    count = given = 0;
    int got = step;
    while (got == step) {
      if (room < count + step) grow(2 * count + step);
      got = source.Get(storage.get() + count, step);
      count += got;
    }
  }

  void grow(int size) {
    std::unique_ptr<int16_t[]> larger(new int16_t[size_t(size)]);
    std::copy_n(storage.get(), count, larger.get());
    storage = std::move(larger);
    room = size;
  }
};

Weights &weights_of(IWeightSource *source, int step) {
  thread_local Weights weights;
  weights.read(*source, step);
  return weights;
}

// Takes over what regor's encoder made.
MlwEncodeResult finished(mle_context_t *context, ml_encode_result_t &made, std::vector<uint8_t> &output) {
  MlwEncodeResult result;
  result.elements_read = made.source_length;
  result.bytes_written = made.encoded_length;
  result.zero_count = mle_context_query_zeroes(context);
  result.distinct_values = mle_context_query_weights_used(context, result.distinct_weights);
  output.insert(output.end(), made.encoded_data, made.encoded_data + made.encoded_length);
  mle_destroy_context(context);
  mle_free(&made);
  return result;
}

MlwEncodeResult encode_by_regor(Weights &weights, int step, std::vector<uint8_t> &output) {
  const auto next = [](int32_t, ml_source_state_t *state, int16_t *buffer, int32_t size, void *argument) {
    Weights &all = *static_cast<Weights *>(argument);
    const int count = std::min(size, all.count - all.given);
    std::copy_n(all.storage.get() + all.given, count, buffer);
    all.given += count;
    state->eos = count < size;
    return count;
  };
  ml_ethosu_encode_params_t parameters{};
  parameters.source_buffering_hint = step;
  ml_encode_result_t made{};
  mle_context_t *context = nullptr;
  if (ml_encode_ethosu_stream(&made, &parameters, next, &weights, &context) < 0)
    throw std::runtime_error("mlw encode failed");
  return finished(context, made, output);
}

}  // namespace

MlwEncodeResult mle_encode_proxy(IWeightSource *source, int chunkSize, std::vector<uint8_t> &output, unsigned encodeFlags) {
  if (encodeFlags != MLW_ENCODE_FLAG_NONE) throw std::runtime_error("regor encodes weights in another way than Vela 5.1.0");
  constexpr int kLeast = 8192;
  const int part = (std::max(kLeast, chunkSize) + 15) / 16 * 16;
  Weights &weights = weights_of(source, chunkSize);
  const size_t before = output.size();
  const int64_t zeros = swoop::encode_weights(weights.storage.get(), weights.count, part, output);
  if (zeros < 0) return encode_by_regor(weights, chunkSize, output);
  MlwEncodeResult result;
  result.zero_count = int(zeros);
  result.elements_read = weights.count;
  result.bytes_written = int(output.size() - before);
  bool used[512] = {};
  for (int i = 0; i < weights.count; ++i) used[weights.storage[i] + 256] = true;
  for (int weight = 0; weight < 512; ++weight) {
    if (!used[weight]) continue;
    ++result.distinct_values;
    result.distinct_weights[weight / 64] |= uint64_t(1) << (weight % 64);
  }
  return result;
}

MlwEncodeResult mle_encode_fwd_proxy(IWeightSource *source, int chunkSize, std::vector<uint8_t> &output, unsigned encodeFlags) {
  Weights &weights = weights_of(source, chunkSize);
  mle_context_t *context = mle_create_context(MLW_ENCODE_SYNTAX_ETHOSU_FWD);
  ml_encode_result_t made{};
  mle_encode(context, &made, weights.storage.get(), weights.count, encodeFlags);
  return finished(context, made, output);
}
