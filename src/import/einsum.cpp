#include "import/einsum.h"

#include <algorithm>
#include <string>

namespace swoop {

namespace {

// A tensor whose dims have one-letter names. The dims of an ellipsis are named from kDots on.
struct Term {
  ValueId value = kNone;
  std::string labels;
};

constexpr char kDots = '\x01';
constexpr size_t kMaxDots = 16;

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// "b...ij" for a tensor of this rank, the ellipsis spelled out. `dots`: dims it stands for.
std::string spell(std::string_view text, size_t rank, size_t& dots) {
  std::string labels;
  size_t letters = static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char ch) { return ch != '.'; }));
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '.') {
      labels += text[i];
      continue;
    }
    if (text.substr(i, 3) != "..." || rank < letters || rank - letters > kMaxDots)
      malformed("its equation does not fit its operands");
    dots = rank - letters;
    // Aligned at the right, as broadcasting is.
    for (size_t d = 0; d < dots; ++d) labels += static_cast<char>(kDots + static_cast<char>(dots - 1 - d));
    i += 2;
  }
  if (labels.size() != rank)
    malformed("its equation names {} dimensions of an operand that has {}", labels.size(), rank);
  return labels;
}

// Labels that nothing needs any more are summed away.
void sum_unneeded(Call& c, Term& term, const std::string& needed) {
  Ints axes;
  std::string left;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (has(needed, term.labels[i]))
      left += term.labels[i];
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  if (axes.empty()) return;
  term.value = c.reduce(Op::Sum, term.value, std::move(axes), false);
  term.labels = left;
}

// The dims in the order of `labels`; missing ones are not allowed.
ValueId ordered(Call& c, const Term& term, const std::string& labels) {
  Ints perm;
  for (char label : labels) perm.push_back(static_cast<int64_t>(term.labels.find(label)));
  return c.transpose(term.value, std::move(perm));
}

int64_t size_of(Call& c, const Term& term, char label) {
  return c.dim(term.value, static_cast<int64_t>(term.labels.find(label)));
}

// [batch, left, contracted] x [batch, contracted, right] -> [batch, left, right]
Term multiply(Call& c, Term a, Term b, const std::string& needed) {
  sum_unneeded(c, a, needed + b.labels);
  sum_unneeded(c, b, needed + a.labels);
  std::string batch, contracted, left, right;
  for (char label : a.labels) {
    if (!has(b.labels, label))
      left += label;
    else if (has(needed, label))
      batch += label;
    else
      contracted += label;
  }
  for (char label : b.labels)
    if (!has(a.labels, label)) right += label;
  Shape batch_shape, left_shape, right_shape;
  int64_t inner = 1;
  for (char label : batch + contracted) {
    int64_t size = size_of(c, a, label);
    int64_t other = size_of(c, b, label);
    if (size != other && size != 1 && other != 1)
      malformed("its operands disagree about a size: {} and {}", size, other);
    int64_t both = size == 1 ? other : size;
    for (Term* term : {&a, &b}) {
      if (size_of(c, *term, label) == both) continue;
      Shape wide = c.shape(term->value);
      wide[term->labels.find(label)] = both;
      term->value = c.expand(term->value, wide);
    }
    if (has(batch, label))
      batch_shape.push_back(both);
    else
      inner *= both;
  }
  for (char label : left) left_shape.push_back(size_of(c, a, label));
  for (char label : right) right_shape.push_back(size_of(c, b, label));
  Shape result = batch_shape;
  result.insert(result.end(), left_shape.begin(), left_shape.end());
  result.insert(result.end(), right_shape.begin(), right_shape.end());
  int64_t batches = element_count(batch_shape);
  ValueId x = c.reshape(ordered(c, a, batch + left + contracted), {batches, element_count(left_shape), inner});
  ValueId y = c.reshape(ordered(c, b, batch + contracted + right), {batches, inner, element_count(right_shape)});
  return {c.reshape(c.make(Op::MatMul, {x, y}), std::move(result)), batch + left + right};
}

}  // namespace

ValueId make_einsum(Call& c, std::string_view equation, std::vector<ValueId> operands) {
  std::string text;
  for (char ch : equation)
    if (ch != ' ') text += ch;
  size_t arrow = text.find("->");
  std::string inputs = text.substr(0, arrow);
  std::vector<Term> terms;
  size_t dots = 0;
  for (size_t i = 0, at = 0; i < operands.size(); ++i) {
    if (operands[i] == kNone || at > inputs.size()) malformed("its equation does not fit its operands");
    size_t end = std::min(inputs.find(',', at), inputs.size());
    size_t here = 0;
    terms.push_back({operands[i], spell(std::string_view(inputs).substr(at, end - at),
                                        static_cast<size_t>(c.rank(operands[i])), here)});
    dots = std::max(dots, here);
    at = end + 1;
    std::string sorted = terms.back().labels;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) unsupported("einsum of a diagonal");
  }
  if (terms.empty() || static_cast<size_t>(std::count(inputs.begin(), inputs.end(), ',')) + 1 != terms.size())
    malformed("its equation does not fit its operands");

  std::string output;
  if (arrow != std::string::npos) {
    std::string_view spelled = std::string_view(text).substr(arrow + 2);
    size_t letters =
        static_cast<size_t>(std::count_if(spelled.begin(), spelled.end(), [](char ch) { return ch != '.'; }));
    size_t unused = 0;
    output = spell(spelled, letters + (spelled.find('.') == std::string_view::npos ? 0 : dots), unused);
  } else {  // implicit: the ellipsis, then every label that occurs once, in order
    std::string all;
    for (const Term& term : terms) all += term.labels;
    std::sort(all.begin(), all.end());
    for (size_t d = dots; d-- > 0;) output += static_cast<char>(kDots + static_cast<char>(d));
    for (char label : all)
      if (label >= 'A' && std::count(all.begin(), all.end(), label) == 1) output += label;
  }
  Term result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string needed = output;
    for (size_t j = i + 1; j < terms.size(); ++j) needed += terms[j].labels;
    result = multiply(c, result, terms[i], needed);
  }
  sum_unneeded(c, result, output);
  for (char label : output)
    if (!has(result.labels, label) || std::count(output.begin(), output.end(), label) != 1)
      malformed("its equation does not fit its operands");
  return ordered(c, result, output);
}

}  // namespace swoop
