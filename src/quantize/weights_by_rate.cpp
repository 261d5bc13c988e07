#include "quantize/weights_by_rate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "quantize/borders.h"
#include "quantize/known_constants.h"
#include "quantize/layers.h"
#include "quantize/noise.h"
#include "quantize/trials.h"
#include "quantize/weights.h"
#include "support/clones.h"

namespace swoop {

namespace {

constexpr int64_t kMost = 127;     // code of a weight with 8 bits
constexpr size_t kLooksAt = 1024;  // weights of a layer, to see how common each code is

// Weights that may have coarser steps. Several nodes may share them.
struct RatedWeights {
  ValueId id = kNone;
  double gain = 0;                // of the outputs' noise, from a mean square error of 1
  std::vector<Coarseness> forms;  // from the finest on
  size_t chosen = 0;

  double noise(size_t form) const { return gain * forms[form].mean_square; }
};

bool is_settled_layer(const Graph& graph, const Node& node) {
  return is_layer(node.op) && graph.value(node.inputs[1]).constant && is_plain_float(graph, node.inputs[1]) &&
         graph.type(node.inputs[0]).quantized() && graph.type(node.outputs[0]).quantized();
}

constexpr size_t kPalette = 32;
using Counts = std::array<uint32_t, 256 + kPalette>;  // by symbol: see symbol_of() and with_palette()

size_t symbol_of(int64_t code) { return static_cast<size_t>(code < 0 ? -2 * code - 1 : 2 * code); }

// Some weights of a layer, evenly spread, each with its channel's step.
struct Sampled {
  std::vector<double> weights;
  std::vector<double> steps;
};
Sampled sample(std::span<const float> weights, const WeightIndex& index, const std::vector<double>& steps) {
  Sampled list;
  const size_t stride = std::max<size_t>(1, weights.size() / kLooksAt) | 1;  // odd: it meets all columns of a kernel
  for (size_t i = 0; i < weights.size(); i += stride) {
    list.weights.push_back(static_cast<double>(weights[i]));
    list.steps.push_back(steps[steps.size() == 1 ? 0 : static_cast<size_t>(index.output(static_cast<int64_t>(i)))]);
  }
  return list;
}

// The symbol of each weight, with steps that are no finer than `least`.
SWOOP_CLONES void find_symbols(const double* weights, const double* steps, double least, size_t count,
                               int32_t* symbols) {
  constexpr auto kLimit = static_cast<double>(kMost);
  for (size_t i = 0; i < count; ++i) {
    double code = std::rint(weights[i] / coarser_step(steps[i], least));
    code = code < -kLimit ? -kLimit : code;
    code = code > kLimit ? kLimit : code;
    const auto whole = static_cast<int32_t>(code);
    symbols[i] = whole < 0 ? -2 * whole - 1 : 2 * whole;
  }
}

Counts count_codes(const Sampled& some, double least) {
  std::vector<int32_t> symbols(some.steps.size());
  find_symbols(some.weights.data(), some.steps.data(), least, symbols.size(), symbols.data());
  Counts counts{};
  for (int32_t symbol : symbols) ++counts[static_cast<size_t>(symbol)];
  return counts;
}

// The most common codes come first where they are half of all.
Counts with_palette(const Counts& counts, uint64_t all) {
  constexpr uint64_t kSymbols = 0xffff;
  std::array<uint64_t, std::tuple_size_v<Counts>> ranks;  // by how often it comes; among equals the smaller symbol
  size_t symbols = 0;
  for (size_t symbol = 0; symbol < counts.size(); ++symbol)
    if (counts[symbol] > 0) ranks[symbols++] = uint64_t{counts[symbol]} << 16 | (kSymbols - symbol);
  const size_t size = std::min(kPalette, symbols);
  const auto palette = ranks.begin() + static_cast<int64_t>(size);
  std::partial_sort(ranks.begin(), palette, ranks.begin() + static_cast<int64_t>(symbols), std::greater<>());
  uint64_t covered = 0;
  for (size_t i = 0; i < size; ++i) covered += ranks[i] >> 16;
  if (covered < all / 2) return counts;
  Counts result{};
  for (size_t i = 0; i < symbols; ++i) {  // what is not in it keeps its number, behind the palette
    const size_t symbol = kSymbols - (ranks[i] & kSymbols);
    result[i < kPalette ? i : std::min(symbol + kPalette, result.size() - 1)] += static_cast<uint32_t>(ranks[i] >> 16);
  }
  return result;
}

// The bits of quotients, each ended by one more bit; cut off after two.
SWOOP_CLONES uint64_t quotient_bits(const uint32_t* counts, uint32_t symbols, uint32_t divisor, uint32_t longest) {
  uint64_t bits = 0;
  for (uint32_t symbol = 0; symbol < symbols; ++symbol) {
    const uint32_t length = (symbol >> divisor) + 1;
    bits += uint64_t{counts[symbol]} * (length < longest ? length : longest);
  }
  return bits;
}

// Bits per weight of the NPU's encoding: Golomb-Rice codes of one divisor, plain or cut off after two, or numbers of
// one width. Runs of zeros are left out: few networks have them.
// `last`: the symbol of the largest code.
double bits_per_weight(const Counts& counts, size_t last) {
  constexpr uint32_t kDivisors = 6, kLongest = 31;
  const uint64_t all = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  const Counts symbols = with_palette(counts, all);
  auto largest = static_cast<uint32_t>(last);
  for (size_t symbol = last; symbol < symbols.size(); ++symbol)
    if (symbols[symbol] > 0) largest = static_cast<uint32_t>(symbol);
  uint64_t best = all * std::max<uint64_t>(2, static_cast<uint64_t>(std::bit_width(largest)));
  for (uint32_t divisor = 0; divisor < kDivisors; ++divisor) {
    if (largest >> divisor > kLongest) continue;
    const uint32_t longest = largest >> divisor <= 2 ? 2 : kLongest + 1;
    best = std::min(best, all * divisor + quotient_bits(symbols.data(), largest + 1, divisor, longest));
  }
  return all ? static_cast<double>(best) / static_cast<double>(all) : 0;
}

// From the channels' own steps to those at which the layer's largest weight is 15 steps, four to an octave.
std::vector<Coarseness> forms_of(std::span<const float> weights, const WeightIndex& index,
                                 const std::vector<double>& steps) {
  constexpr double kFinest = 8 * kMost, kCoarsest = 15;
  const auto [smallest, largest] = std::ranges::minmax(steps);
  std::vector<Coarseness> forms;
  const Sampled some = sample(weights, index, steps);
  const auto add = [&](double least) {
    double squares = 0, most = 0;
    for (double step : steps) {
      const double coarser = coarser_step(step, least);
      squares += coarser * coarser;
      most = std::max(most, std::nearbyint(static_cast<double>(kMost) * step / coarser));
    }
    forms.push_back({least, squares / 12 / static_cast<double>(steps.size()),
                     bits_per_weight(count_codes(some, least), symbol_of(static_cast<int64_t>(most))) *
                         static_cast<double>(weights.size())});
  };
  add(0);
  for (int quarter = 0; kFinest * std::exp2(-quarter / 4.0) >= kCoarsest; ++quarter) {
    const double least = largest * static_cast<double>(kMost) / std::floor(kFinest * std::exp2(-quarter / 4.0));
    if (least > smallest) add(least);
  }
  return forms;
}

std::vector<Coarseness> forms_of(const Graph& graph, const Node& layer, const Type& type, KnownConstants* known) {
  const ValueId id = layer.inputs[1];
  const std::vector<double>& steps = type.quant->scale;
  if (auto forms = known ? known->forms.find(id, steps) : std::nullopt) return std::move(*forms);
  const FloatElements weights(graph.value(id));
  std::vector<Coarseness> forms = forms_of(weights.all(), WeightIndex(layer, type.shape), steps);
  if (known) known->forms.keep(id, steps, forms);
  return forms;
}

std::vector<RatedWeights> weights_of(const Graph& graph, const TypeRequest& request) {
  std::vector<RatedWeights> list;
  std::set<ValueId> seen;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_settled_layer(graph, node) || !seen.insert(node.inputs[1]).second) continue;
    const Type type = choose_layer_constants(graph, node, request.options, 0, request.known).weight;
    if (type.quant->qmax == kMost) list.push_back({node.inputs[1], 0, forms_of(graph, node, type, request.known)});
  }
  return list;
}

double added_noise(const std::vector<RatedWeights>& list) {
  double sum = 0;
  for (const RatedWeights& weights : list) sum += weights.noise(weights.chosen) - weights.noise(0);
  return sum;
}

// The best form where a bit is worth so much noise.
size_t best_form(const RatedWeights& weights, double worth) {
  size_t best = 0;
  const auto price = [&](size_t form) { return weights.noise(form) + worth * weights.forms[form].bits; };
  for (size_t form = 1; form < weights.forms.size(); ++form)
    if (price(form) < price(best)) best = form;
  return best;
}

// Bits are spent best when each is worth the same noise everywhere: how much, is found by halving.
void choose_forms(std::vector<RatedWeights>& list, double allowed) {
  const auto choose_at = [&](double exponent) {
    for (RatedWeights& weights : list) weights.chosen = best_form(weights, std::exp2(exponent));
    return added_noise(list) <= allowed;
  };
  double low = -80, high = 0;  // at 1, all the noise there is would be spent on a bit
  for (int i = 0; i < 20; ++i) (choose_at((low + high) / 2) ? low : high) = (low + high) / 2;
  choose_at(low);
}

// What is added to noise of 1 when the SQNR falls by so much.
double noise_for(double lost_db) { return std::pow(10, lost_db / 10) - 1; }

// How the outputs may fare with coarser weights. Two SQNR are known of each: with the finest weights, and plain, with 8
// bits and the finest weights.
class Bar {
 public:
  Bar(const Trials& trials, std::vector<Noise> finest, const std::vector<Noise>& plain, Spending spending, double rate)
      : trials_(trials), finest_(std::move(finest)) {
    for (size_t i = 0; i < finest_.size(); ++i) {
      const bool tells = trials.numbers(i) >= kTellLittle && plain[i].db() >= kNoise;
      const double now = finest_[i].db(), then = tells ? plain[i].db() : now;
      floors_.push_back(spending == Spending::Gains ? std::max(then, std::min(now - kOfGain * rate, kPlenty))
                                                    : std::max(now - rate, then - clearly_worse(rate)));
      plain_.push_back(then);
    }
    allowed_ = spending == Spending::Gains ? most([&](size_t i) { return finest_[i].db() - floors_[i]; }) : rate;
  }

  double allowed() const { return allowed_; }

  // By how many dB the output that loses most falls.
  double lost(const std::vector<Noise>& coarser) const {
    return most([&](size_t i) { return finest_[i].db() - coarser[i].db(); });
  }
  double below_plain(const std::vector<Noise>& noise) const {
    return most([&](size_t i) { return plain_[i] - noise[i].db(); });
  }
  double missed(const std::vector<Noise>& coarser) const {
    return most([&](size_t i) { return floors_[i] - coarser[i].db(); });
  }

 private:
  static constexpr double kNoise = 12;       // dB: what is below is mostly chance
  static constexpr double kPlenty = 45;      // dB: nobody misses what is above
  static constexpr double kOfGain = 3;       // of what 16 bits gained, times what may be lost otherwise
  static constexpr size_t kTellLittle = 32;  // numbers: of fewer, chance makes the difference between two types

  template <typename Of>
  double most(Of of) const {
    double most = 0;
    for (size_t i = 0; i < finest_.size(); ++i)
      if (trials_.counts(i)) most = std::max(most, of(i));
    return most;
  }

  const Trials& trials_;
  std::vector<Noise> finest_;
  double allowed_ = 0;
  std::vector<double> plain_, floors_;  // dB
};

// Parts of outputs, and channels of those, that vary in float and not in the quantized graph.
size_t count_flat(const OutputGroups& groups) {
  size_t count = 0;
  for (const GroupAccuracy& group : groups.worst_first()) count += group.flat + group.flat_channels.size();
  return count;
}

// As many as show enough elements of each output to tell fractions of a dB from chance.
size_t samples_to_judge(const Graph& prepared) {
  constexpr int64_t kElements = 512;
  int64_t fewest = kElements;
  for (ValueId output : prepared.outputs())
    fewest = std::min(fewest, std::max<int64_t>(1, element_count(prepared.type(output).shape)));
  return static_cast<size_t>((kElements + fewest - 1) / fewest);
}

}  // namespace

WeightSteps coarser_steps(const Graph& graph, const TypeRequest& request) {
  const double rate = request.weight_rate.value_or(request.options.weight_rate);
  if (rate <= 0 || !request.path.empty()) return {};
  std::vector<RatedWeights> list = weights_of(graph, request);
  std::map<ValueId, double> errors;
  for (const RatedWeights& weights : list) errors[weights.id] = weights.forms[0].mean_square;
  const std::map<ValueId, double> gains = gains_of_weights(graph, request.measured, errors, request.known);
  for (RatedWeights& weights : list) weights.gain = gains.at(weights.id);
  std::erase_if(list, [](const RatedWeights& weights) { return !(weights.gain > 0); });  // no output shows it
  choose_forms(list, noise_for(rate));
  WeightSteps steps;
  for (const RatedWeights& weights : list) steps[weights.id] = weights.forms[weights.chosen].least;
  return steps;
}

namespace {

class Judge {
 public:
  Judge(const Graph& prepared, const Samples& samples, const TypeRequest& request)
      : request_(request),
        trials_(prepared, samples, request.measured, request.options.opaque, samples_to_judge(prepared)),
        groups_(OutputGroups::of(prepared)) {}

  const Trials& trials() const { return trials_; }

  Result<Judged> judged(const Graph& typed) const {
    if (!groups_) return groups_.error();
    OutputGroups seen = *groups_;
    TRY_ASSIGN(std::vector<Noise> noise, trials_.noise(typed, Trials::kSamples, &seen));
    return Judged{std::move(noise), count_flat(seen)};
  }

  // Of a graph as the request has it, with the finest weights: several forms are compared with it.
  Result<Judged> judged_finest(const Graph& typed) const {
    if (!request_.known) return judged(typed);
    auto& known = request_.known->finest;
    const auto at = known.find({request_.room, request_.raised});
    if (at != known.end()) return at->second;
    TRY_ASSIGN(Judged fresh, judged(typed));
    return known[{request_.room, request_.raised}] = std::move(fresh);
  }

 private:
  const TypeRequest& request_;
  Trials trials_;
  Result<OutputGroups> groups_;
};

}  // namespace

Result<std::vector<Noise>> noise_to_judge(const Graph& prepared, const Samples& samples, const Graph& typed,
                                          const TypeRequest& request) {
  TRY_ASSIGN(Judged judged, Judge(prepared, samples, request).judged_finest(typed));
  return std::move(judged.noise);
}

Result<Confirmed> confirm_weight_rate(const Graph& prepared, const Samples& samples, TypeRequest& request,
                                      Spending spending) {
  constexpr int kTrials = 6;
  constexpr double kWorthwhile = 0.99;
  const StorageReuse reuse;
  const double hint = request.weight_rate.value_or(0);
  const auto typed_at = [&](double rate) {
    request.weight_rate = rate;
    return typed(prepared, request);
  };
  Graph finest = typed_at(0);
  const double bytes = request.options.weight_rate > 0 ? encoded_bytes(finest, request.known) : 0;
  if (bytes == 0) return Confirmed{std::move(finest), {}};
  const Judge judge(prepared, samples, request);
  TRY_ASSIGN(const Judged before, judge.judged_finest(finest));
  if (request.plain.empty()) request.plain = before.noise;
  const Bar bar(judge.trials(), before.noise, request.plain, spending, request.options.weight_rate);
  double rate = hint > 0 ? hint : bar.allowed();
  for (int trial = 0; trial < kTrials; ++trial) {
    Graph coarser = typed_at(rate);
    const double fewer = encoded_bytes(coarser, request.known);
    if (fewer > kWorthwhile * bytes) break;
    TRY_ASSIGN(const Judged after, judge.judged(coarser));
    const double missed = bar.missed(after.noise);
    const bool flattens = after.flat > before.flat;
    if (missed <= 0 && !flattens)
      return Confirmed{std::move(coarser), SmallerWeights{bytes, fewer, bar.lost(after.noise)},
                       bar.below_plain(after.noise)};
    // The noise that is added is about proportional to the rate: what this trial expects must hold too, or the last of
    // several would be taken because it is lucky on these samples. What small weights carry comes back with finer
    // steps alone.
    rate *= std::min(flattens ? 0.3 : 0.7, noise_for(bar.allowed()) / noise_for(bar.allowed() + missed));
  }
  request.weight_rate = 0;
  return Confirmed{std::move(finest), {}, bar.below_plain(before.noise)};
}

namespace {

double encoded_bits(const Value& weights) {
  // Equal codes follow one another: a count has to wait for the one before, but not for those of other lists.
  constexpr size_t kLists = 4;
  std::array<std::array<uint32_t, 256>, kLists> lists{};
  for (size_t i = 0; i < weights.data.size(); ++i) ++lists[i % kLists][static_cast<uint8_t>(weights.data[i])];
  Counts counts{};
  for (const auto& list : lists)
    for (size_t code = 0; code < list.size(); ++code) counts[symbol_of(static_cast<int8_t>(code))] += list[code];
  return bits_per_weight(counts, 0) * static_cast<double>(weights.data.size());
}

// Copies of the graph have other constants, but the same layers.
double encoded_bits(const Node& layer, const Value& weights, KnownConstants* known) {
  const ValueId result = layer.outputs[0];
  if (auto bits = known ? known->bits.find(result, weights.type) : std::nullopt) return *bits;
  const double bits = encoded_bits(weights);
  if (known) known->bits.keep(result, weights.type, bits);
  return bits;
}

}  // namespace

double encoded_bytes(const Graph& typed, KnownConstants* known) {
  std::set<ValueId> seen;
  double bits = 0;
  for (NodeId id : typed.order()) {
    const Node& node = typed.node(id);
    if (!is_layer(node.op) || !seen.insert(node.inputs[1]).second) continue;
    const Value& weights = typed.value(node.inputs[1]);
    if (!weights.constant || !weights.type.quantized() || weights.type.quant->qmax != kMost) continue;
    bits += encoded_bits(node, weights, known);
  }
  return bits / 8;
}

}  // namespace swoop
