// What was computed last of each constant, and of some graphs, while types were chosen. They are chosen many times,
// with other ranges, other widths and other rates, and most constants come out as they did before.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "quantize/rounding.h"
#include "quantize/weights_by_rate.h"

namespace swoop {

// The last two answers to questions about each value: types are chosen with the finest weights and with coarser ones in
// turn. Values that were added to a copy of the graph have none.
template <typename Question, typename Answer>
class LastAnswers {
 public:
  explicit LastAnswers(size_t values) : known_(values) {}

  std::optional<Answer> find(ValueId id, const Question& question) {
    const std::lock_guard lock(mutex_);
    if (id >= known_.size()) return std::nullopt;
    for (const auto& known : known_[id])
      if (known && known->first == question) return known->second;
    return std::nullopt;
  }

  void keep(ValueId id, const Question& question, Answer answer) {
    const std::lock_guard lock(mutex_);
    if (id >= known_.size()) return;
    std::swap(known_[id][0], known_[id][1]);
    known_[id][0].emplace(question, std::move(answer));
  }

 private:
  std::mutex mutex_;                                                              // types are chosen on several threads
  std::vector<std::array<std::optional<std::pair<Question, Answer>>, 2>> known_;  // by value id
};

struct KnownConstants {
  using Outputs = std::pair<bool, int64_t>;  // how a layer's weights belong to its outputs: transposed, groups
  // The codes of weights, how they belong to outputs, and the sums and the count of what the layer reads.
  using ErrorsQuestion = std::tuple<Type, Outputs, std::vector<double>, uint64_t>;
  // As choose_range() has them. What is measured while this lives is told apart by where it is.
  using RangeQuestion = std::tuple<const Statistics*, Method, int, double>;
  using FoldQuestion = std::pair<const Statistics*, NodeId>;

  explicit KnownConstants(const Graph& prepared, Roundings roundings = {})
      : roundings(std::move(roundings)),
        codes(prepared.value_slots()),
        forms(prepared.value_slots()),
        ends(prepared.value_slots()),
        power(prepared.value_slots()),
        errors(prepared.value_slots()),
        bits(prepared.value_slots()),
        ranges(prepared.value_slots()),
        folds(prepared.value_slots()) {}

  const Rounding* rounding(ValueId weights) const {
    const auto at = roundings.find(weights);
    return at == roundings.end() ? nullptr : &at->second;
  }

  const Roundings roundings;                                        // of weights; none: to the nearest code
  LastAnswers<Type, std::shared_ptr<const Buffer>> codes;           // in that type; graphs share them
  LastAnswers<std::vector<double>, std::vector<Coarseness>> forms;  // of weights with these steps
  LastAnswers<std::pair<Outputs, int>, std::vector<float>> ends;    // of output channels, in so many bits
  LastAnswers<std::monostate, double> power;                        // mean square
  LastAnswers<ErrorsQuestion, std::vector<double>> errors;          // of a layer's results on average
  LastAnswers<Type, double> bits;                                   // of a layer's weights in that type, encoded
  LastAnswers<RangeQuestion, Range> ranges;                         // of values that are measured
  LastAnswers<FoldQuestion, bool> folds;                            // whether a function makes noise of it

  // Graphs with the finest weights, by the request's room and raised.
  std::map<std::pair<double, std::set<std::string>>, Judged> finest;
};

}  // namespace swoop
