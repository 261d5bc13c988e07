#include "quantize/folds.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "quantize/known_constants.h"

namespace swoop {

namespace {

constexpr int kFewTurns = 2;     // of gelu, abs, a sine of one turn: 8 bits follow these
constexpr double kNoisy = 0.01;  // noise over signal, 20 dB
constexpr double kGain = 4;      // less noise by that much is worth 16 bits

// A function over what was seen of its operand.
class Seen {
 public:
  Seen(const Node& n, const Statistics& operand) : n_(n), s_(operand), function_(unary_function(n.text(Key::Fn))) {
    if (s_.empty() || s_.bins.empty() || s_.min == s_.max) function_ = nullptr;
  }

  bool known() const { return function_; }

  // How often it changes from rising to falling or back.
  int turns() const {
    std::array<float, Statistics::kBins> x, all;
    for (size_t bin = 0; bin < x.size(); ++bin) x[bin] = static_cast<float>(middle(bin));
    function_->map(x.data(), all.data(), x.size(), parameter(Key::Alpha), parameter(Key::Beta));
    int count = 0;
    double last = static_cast<double>(all[0]), direction = 0;
    for (size_t bin = 1; bin < all.size(); ++bin) {
      const double y = static_cast<double>(all[bin]), rise = y - last;
      if (rise * direction < 0) ++count;
      if (rise != 0) direction = rise;
      last = y;
    }
    return count;
  }

  // Noise over signal of the results, if the operand has `codes` codes.
  double noise(double codes) const {
    const double step = (std::max<double>(s_.max, 0) - std::min<double>(s_.min, 0)) / codes;
    double signal = 0, noise = 0;
    for (size_t bin = 0; bin < Statistics::kBins; ++bin) {
      if (s_.bins[bin] == 0) continue;
      const double y = at(bin);
      for (double offset : {-0.375, -0.125, 0.125, 0.375}) {
        const double error = of(middle(bin) + offset * step) - y;
        if (!std::isfinite(error)) continue;
        noise += s_.bins[bin] * error * error / 4;
        signal += s_.bins[bin] * y * y / 4;
      }
    }
    return signal > 0 ? noise / signal : 0;
  }

 private:
  double middle(size_t bin) const {
    const double width = (static_cast<double>(s_.max) - s_.min) / Statistics::kBins;
    return s_.min + (static_cast<double>(bin) + 0.5) * width;
  }
  double at(size_t bin) const { return of(middle(bin)); }
  double of(double x) const {
    return function_->of(static_cast<float>(x), parameter(Key::Alpha), parameter(Key::Beta));
  }
  float parameter(Key key) const { return static_cast<float>(n_.real(key, 0)); }

  const Node& n_;
  const Statistics& s_;
  const UnaryFunction* function_;
};

// The operand, and what it is a function of, or a sum or product with a constant: 16 bits after 8 gain nothing.
void widen_with_sources(const Graph& graph, ValueId operand, bool inputs, std::vector<bool>& wide) {
  while (operand < wide.size() && (inputs || graph.producer(operand))) {
    wide[operand] = true;
    const Node* n = graph.producer(operand);
    const bool pair = n && (n->op == Op::Mul || n->op == Op::Add || n->op == Op::Sub);
    if (!n || (!pair && n->op != Op::Unary && n->op != Op::Clamp)) return;
    const size_t from = pair && graph.value(n->inputs[0]).constant ? 1 : 0;
    if (pair && !graph.value(n->inputs[1 - from]).constant) return;
    operand = origin(graph, n->inputs[from]);
  }
}

bool folds_to_noise(const Node& unary, const Statistics& operand) {
  const Seen seen(unary, operand);
  if (!seen.known() || seen.turns() <= kFewTurns) return false;
  const double narrow = seen.noise(255);
  return narrow > kNoisy && seen.noise(65535) * kGain < narrow;
}

bool folds_to_noise(const Node& unary, ValueId id, const Statistics& operand, KnownConstants* known) {
  const KnownConstants::FoldQuestion question{&operand, unary.id};
  if (auto folds = known ? known->folds.find(id, question) : std::nullopt) return *folds;
  const bool folds = folds_to_noise(unary, operand);
  if (known) known->folds.keep(id, question, folds);
  return folds;
}

// Less than 64 steps of the operand are left.
bool is_cut_short(const Node& sum, const Statistics& operand) {
  if (operand.empty() || !sum.has(Key::ActMin) || !sum.has(Key::ActMax)) return false;
  const double span = std::max<double>(operand.max, 0) - std::min<double>(operand.min, 0);
  return span / 255 > (sum.real(Key::ActMax) - sum.real(Key::ActMin)) / 64;
}

// Elements of one value are compared with each other: a map with its own maxima, say, to find its peaks. What differs
// by less than a step would be equal.
bool compares_with_itself(const Graph& graph, const Node& node) {
  return node.op == Op::Compare && node.inputs[0] != node.inputs[1] && is_float(graph.type(node.inputs[0]).dtype) &&
         origin(graph, node.inputs[0]) == origin(graph, node.inputs[1]);
}

}  // namespace

void widen_folded(const Graph& graph, const Measured& measured, bool inputs, KnownConstants* known,
                  std::vector<bool>& wide) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (compares_with_itself(graph, node)) widen_with_sources(graph, origin(graph, node.inputs[0]), inputs, wide);
    const bool folds = node.op == Op::Unary, sums = node.op == Op::Add || node.op == Op::Sub;
    if (!folds && !sums) continue;
    for (ValueId input : node.inputs) {
      const ValueId operand = origin(graph, input);
      if (graph.value(operand).constant || operand >= measured.values.size()) continue;
      const Statistics& seen = measured.values[operand];
      if (folds ? folds_to_noise(node, operand, seen, known) : is_cut_short(node, seen))
        widen_with_sources(graph, operand, inputs, wide);
    }
  }
}

}  // namespace swoop
