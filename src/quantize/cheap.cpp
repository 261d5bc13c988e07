#include "quantize/cheap.h"

#include <algorithm>
#include <utility>

#include "quantize/candidates.h"
#include "quantize/choices.h"
#include "quantize/noise.h"
#include "quantize/weights_by_rate.h"

namespace swoop {

namespace {

constexpr int kTries = 3;             // each compiles the graph; the last one with outputs alone
constexpr double kInaudible = 1e-6;   // noise over signal, 60 dB: nothing is to be gained
constexpr double kNoticeable = 2e-3;  // of all the noise: less is not worth 16 bits, even for nothing

constexpr double kMuch = 0.05;               // of the cycles
constexpr double kMuchSmaller = 0.9;         // of the weights' bytes
constexpr double kWithSmallerWeights = 3.0;  // times the budget
constexpr double kTable = 2048;              // bytes, of a function on 16 bits
constexpr std::string_view kSram = "SRAM";   // which holds no constants

struct Option {
  Candidate candidate;
  std::vector<ValueId> members;  // that have its type
  double noise = 0;              // that it adds to the outputs
};

// Somebody chose its precision, or its number format is the caller's.
bool is_fixed(const Graph& prepared, const Graph& typed, const std::vector<ValueId>& members,
              const QuantizeOptions& options) {
  const ValueId value = value_in_float(typed, members[0]);
  if (is_settled(prepared, value, options)) return true;
  if (!prepared.producer(value) && !options.raises_inputs) return true;
  for (ValueId member : members)
    for (const Use& use : typed.value(member).uses) {
      if (use.node == kNone) return true;
      if (typed.node(use.node).op == Op::Dequantize && !options.raises_outputs) return true;
    }
  return false;
}

// Those that are worth it.
std::vector<Option> options_of(const Graph& prepared, const Graph& typed, const TypeRequest& request) {
  const NoiseShares noise = noise_of_outputs(prepared, typed, request.measured, request.known);
  std::vector<Option> list;
  double all = noise.weights;
  for (ValueId choice : choices(typed, prepared)) {
    std::vector<ValueId> members = moved_from(typed, choice);
    all += noise.values[choice];
    if (!is_fixed(prepared, typed, members, request.options))
      list.push_back({describe(prepared, value_in_float(typed, choice)), std::move(members), noise.values[choice]});
  }
  std::erase_if(list, [&](const Option& option) { return all < kInaudible || option.noise < kNoticeable * all; });
  return list;
}

// How much a memory may grow. In a small network, a table for one function of 16 bits is more than 1 % of the
// constants.
double allowed_bytes(std::string_view memory, double bytes, double budget) {
  return std::max(budget * bytes, memory == kSram || bytes == 0 ? 0 : kTable + 256);
}

// At 16 bits, with what it is computed from or one thing that is computed from it, it is larger than all that is in the
// SRAM at any time; and that may not grow by so much.
bool outgrows_sram(const Graph& typed, const Option& option, const Cost& price, double budget) {
  const auto sram = price.bytes.find(std::string(kSram));
  if (sram == price.bytes.end() || sram->second == 0) return false;
  const auto bytes = [&](ValueId id) {
    const Type& type = typed.type(id);
    return static_cast<double>(element_count(type.shape)) * (type.dtype == DType::I16 ? 2 : 1);
  };
  double beside = 0;
  for (ValueId input : typed.producer(option.members[0])->inputs)
    if (input != kNone && typed.type(input).quantized() && !typed.value(input).constant)
      beside = std::max(beside, bytes(input));
  for (ValueId reader : readers_of(typed, option.members))
    if (reader != option.members[0] && typed.type(reader).quantized()) beside = std::max(beside, bytes(reader));
  return 2 * bytes(option.members[0]) + beside > sram->second + allowed_bytes(kSram, sram->second, budget);
}

// What the tables of functions that read or give it take more at 16 bits.
double table_bytes(const Graph& typed, const Option& option) {
  constexpr double kMore = kTable - 256;
  const Op op = typed.producer(option.members[0])->op;
  double bytes = op == Op::Unary || op == Op::Softmax || op == Op::LogSoftmax ? kMore : 0;
  for (ValueId reader : readers_of(typed, option.members))
    if (reader != option.members[0] && typed.producer(reader)->op == Op::Unary) bytes += kMore;
  return bytes;
}

// As many as the budget and `left`, in the unit of the price, hold: the most noise per cost first.
void keep_affordable(std::vector<Option>& list, const Graph& typed, const Cost& price, double budget, double left) {
  const double unit = 1e-4 * price.value;
  std::erase_if(list, [&](const Option& option) { return outgrows_sram(typed, option, price, budget); });
  for (Option& option : list) option.candidate.cost = cost_of_width(typed, option.members, price);
  std::stable_sort(list.begin(), list.end(), [&](const Option& a, const Option& b) {
    return a.noise * (b.candidate.cost + unit) > b.noise * (a.candidate.cost + unit);
  });
  double bytes_left = 0;  // in the memory that holds constants
  for (const auto& [memory, bytes] : price.bytes)
    if (memory != kSram) bytes_left = std::max(bytes_left, allowed_bytes(memory, bytes, budget));
  std::erase_if(list, [&](const Option& option) {
    const double bytes = table_bytes(typed, option);
    if (option.candidate.cost > left || bytes > bytes_left) return true;
    left -= option.candidate.cost;
    bytes_left -= bytes;
    return false;
  });
}

// By how many bytes a memory grows beyond what it may.
double bytes_over(const Cost& before, const Cost& after, double budget) {
  double most = 0;
  for (const auto& [memory, bytes] : after.bytes) {
    auto known = before.bytes.find(memory);
    const double was = known == before.bytes.end() ? 0 : known->second;
    most = std::max(most, bytes - was - allowed_bytes(memory, was, budget));
  }
  return most;
}

bool keeps_budget(const Cost& before, const Cost& after, double budget) {
  return after.value <= (1 + budget) * before.value && bytes_over(before, after, budget) <= 0 &&
         after.programs == before.programs && std::ranges::includes(before.on_host, after.on_host);
}

// Leaves out what is large enough to be the reason that a memory grew, and what turned out to cost most, until the
// rest should fit. False: the reason is another one.
bool leave_out(std::vector<Option>& list, const Graph& typed, const Cost& before, const Cost& after, double budget) {
  const auto added = [&](ValueId id) {
    const auto of = [&](const Cost& price) {
      auto found = price.each.find(name_in_model(typed.value(id)));
      return found == price.each.end() ? 0.0 : found->second;
    };
    return of(after) - of(before);
  };
  const double bytes = bytes_over(before, after, budget);
  double over = after.value - (1 + budget) * before.value;
  for (Option& option : list) {
    option.candidate.cost = added(option.members[0]);
    for (ValueId reader : readers_of(typed, option.members))
      if (reader != option.members[0]) option.candidate.cost += added(reader);
  }
  const size_t count = list.size();
  const auto drop = [&](const Option& option) { over -= std::max(0.0, option.candidate.cost); };
  std::erase_if(list, [&](const Option& option) {
    const bool large = bytes > 0 && static_cast<double>(element_count(typed.type(option.members[0]).shape)) > bytes / 4;
    if (large) drop(option);
    return large;
  });
  std::stable_sort(list.begin(), list.end(),
                   [&](const Option& a, const Option& b) { return a.candidate.cost < b.candidate.cost; });
  while (!list.empty() && over > 0) {
    drop(list.back());
    list.pop_back();
  }
  return list.size() < count;
}

// What only the caller reads: an accumulator gives 16 bits as fast as 8.
std::vector<Option> outputs_of(std::vector<Option> list, const Graph& typed) {
  std::erase_if(list, [&](const Option& option) {
    const std::vector<ValueId> readers = readers_of(typed, option.members);
    return !std::ranges::all_of(readers, [&](ValueId id) { return typed.producer(id)->op == Op::Dequantize; });
  });
  return list;
}

// The program with smaller weights in place of 16 bits that stand in their way, where it would take much less time.
Result<std::optional<Cost>> without_wide(const Graph& prepared, const Samples& samples, const TypeRequest& request,
                                         const Confirmed& wider, const Cost& after) {
  if (wider.smaller || request.options.weight_rate <= 0) return std::optional<Cost>();
  TypeRequest narrow = request;
  TRY_ASSIGN(const Confirmed plain, confirm_weight_rate(prepared, samples, narrow));
  if (!plain.smaller) return std::optional<Cost>();
  std::optional<Cost> without = request.options.cost(plain.graph);
  if (without && after.value <= (1 + kMuch) * without->value) without.reset();
  return without;
}

}  // namespace

Result<void> raise_what_is_cheap(const Graph& prepared, const Samples& samples, TypeRequest& request,
                                 QuantizeReport& report) {
  const QuantizeOptions& options = request.options;
  TypeRequest finest = request;  // what waits for large weights has time for 16 bits
  finest.weight_rate = 0;
  const Graph base = typed(prepared, finest);
  std::vector<Option> list = options_of(prepared, base, request);
  const std::optional<Cost> before = list.empty() || !options.cost ? std::nullopt : options.cost(base);
  if (!before) return {};
  // Much smaller weights save more than 16 bits can cost, and a part of that is better spent on 16 bits.
  const bool smaller = options.weight_rate > 0 && encoded_bytes(typed(prepared, request), request.known) <
                                                      kMuchSmaller * encoded_bytes(base, request.known);
  const double share = (smaller ? kWithSmallerWeights : 1) * options.int16_budget;
  keep_affordable(list, base, *before, options.int16_budget, share * before->value);
  std::vector<Option> outputs = outputs_of(list, base);
  if (options.weight_rate > 0 && !options.min_sqnr) {
    TRY_ASSIGN(request.plain, noise_to_judge(prepared, samples, base, request));
  }
  TypeRequest wider = request;
  for (int tries = 0; tries < kTries && !list.empty(); ++tries) {
    wider.raised = request.raised;
    for (const Option& option : list) wider.raised.insert(option.candidate.name);
    TRY_ASSIGN(Confirmed confirmed, confirm_weight_rate(prepared, samples, wider));
    // Where noise is large, a finer value may happen to make more of it elsewhere.
    if (confirmed.below_plain > clearly_worse(options.weight_rate)) return {};
    std::optional<Cost> after = options.cost(confirmed.graph);
    if (after && confirmed.smaller && !keeps_budget(*before, *after, options.int16_budget)) {
      // regor may schedule other weights in another way, which is no fault of the values.
      wider.weight_rate = 0;
      confirmed.smaller.reset();
      after = options.cost(typed(prepared, wider));
    }
    if (!after) return {};
    if (keeps_budget(*before, *after, options.int16_budget)) {
      TRY_ASSIGN(const std::optional<Cost> without, without_wide(prepared, samples, request, confirmed, *after));
      if (without) {
        wider.weight_rate.reset();
        TRY_ASSIGN(confirmed, confirm_weight_rate(prepared, samples, wider, Spending::Gains));
        after = confirmed.smaller ? options.cost(confirmed.graph) : std::nullopt;
        if (!after || after->value > (1 + kMuch) * without->value) return {};
      }
      request.raised = std::move(wider.raised);
      request.weight_rate = wider.weight_rate;
      report.smaller_weights = confirmed.smaller;
      report.cheap.cost_before = before->value;
      report.cheap.cost_after = after->value;
      for (Option& option : list) report.cheap.candidates.push_back(std::move(option.candidate));
      return {};
    }
    const bool explained = leave_out(list, base, *before, *after, options.int16_budget);
    if (!explained || list.empty() || tries + 2 == kTries) list = std::exchange(outputs, {});
  }
  return {};
}

}  // namespace swoop
