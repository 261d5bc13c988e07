#include "legalize/common.h"

namespace swoop {

std::span<const Rule> computed_weight_rules();
std::span<const Rule> window_rules();
std::span<const Rule> product_rules();
std::span<const Rule> primitive_rules();
std::span<const Rule> piece_rules();  // before what expands them
std::span<const Rule> norm_rules();
std::span<const Rule> softmax_rules();
std::span<const Rule> attention_rules();
std::span<const Rule> convolution_rules();
std::span<const Rule> shuffle_rules();
std::span<const Rule> transposed_rules();
std::span<const Rule> pooling_rules();
std::span<const Rule> resample_rules();
std::span<const Rule> arithmetic_rules();
std::span<const Rule> rounded_rules();  // after arithmetic_rules, which have tables for constant divisors
std::span<const Rule> gather_rules();
std::span<const Rule> integer_rules();
std::span<const Rule> count_rules();

// One table, since an expansion may make what another one expands.
std::span<const Rule> expand_rules() {
  static const std::vector<Rule> kRules = [] {
    std::vector<Rule> all;
    for (std::span<const Rule> part :
         {piece_rules(), norm_rules(), attention_rules(), softmax_rules(), pooling_rules(), computed_weight_rules(),
          window_rules(), convolution_rules(), shuffle_rules(), transposed_rules(), resample_rules(), gather_rules(),
          integer_rules(), count_rules(), arithmetic_rules(), rounded_rules(), product_rules(), primitive_rules()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return kRules;
}

}  // namespace swoop
