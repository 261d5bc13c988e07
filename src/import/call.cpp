#include "import/call.h"

#include <algorithm>
#include <cmath>

#include "import/aten.h"
#include "import/scope.h"
#include "ops/ops.h"

namespace swoop {

namespace {

const ArgValue kAbsent;

const ArgValue& at(const Call& call, size_t index) { return index < call.args.size() ? call.args[index] : kAbsent; }

[[noreturn]] void wrong(const Call& call, size_t index, std::string_view wanted) {
  const TensorArg* arg = index < call.args.size() ? std::get_if<TensorArg>(&call.args[index]) : nullptr;
  if (arg && arg->binding && arg->binding->counted && index < call.names.size())
    malformed("its argument `{}` is a number that depends on the data; compute with tensors instead",
              call.names[index]);
  malformed("its argument `{}` is not {}", index < call.names.size() ? call.names[index] : std::string_view("?"),
            wanted);
}

constexpr size_t kMaxRead = 256;  // constants that a number may be made of
constexpr int kMaxChain = 256;    // operators in a row

// The value as a constant, computed by the float kernels, and the constants that were read; kNone when it is none.
ValueId folded(Graph& graph, ValueId x, std::vector<ValueId>& read, int depth = 0) {
  if (graph.value(x).constant) {
    read.push_back(x);
    return read.size() > kMaxRead ? kNone : x;
  }
  const Node* producer = graph.producer(x);
  if (!producer || producer->outputs.size() != 1 || !producer->bodies.empty() || depth > kMaxChain) return kNone;
  Node draft;
  draft.op = producer->op;
  draft.inputs = producer->inputs;
  draft.outputs = producer->outputs;
  draft.attrs = producer->attrs;
  for (ValueId& input : draft.inputs) {
    if (input == kNone) continue;
    input = folded(graph, input, read, depth + 1);
    if (input == kNone) return kNone;
  }
  return fold(graph, draft).value_or(kNone);
}

}  // namespace

bool Call::none(size_t index) const {
  const ArgValue& arg = at(*this, index);
  if (const TensorArg* tensor = std::get_if<TensorArg>(&arg)) return !tensor->binding || tensor->binding->absent;
  return std::holds_alternative<std::monostate>(arg);
}

ValueId Call::tensor(size_t index) {
  const TensorArg* arg = std::get_if<TensorArg>(&at(*this, index));
  if (!arg || !arg->binding) wrong(*this, index, "a tensor");
  return scope.read(*arg->binding, *this);
}

ValueId Call::tensor_or_none(size_t index) { return none(index) ? kNone : tensor(index); }

std::vector<ValueId> Call::tensors(size_t index) {
  const auto* list = std::get_if<std::vector<TensorArg>>(&at(*this, index));
  const Ints* empty = std::get_if<Ints>(&at(*this, index));
  if (!list && !(empty && empty->empty())) wrong(*this, index, "a list of tensors");
  std::vector<ValueId> values;
  if (list)
    for (const TensorArg& arg : *list)
      values.push_back(arg.binding && !arg.binding->absent ? scope.read(*arg.binding, *this) : kNone);
  return values;
}

int64_t Call::integer(size_t index) const {
  const ArgValue& arg = at(*this, index);
  if (const int64_t* value = std::get_if<int64_t>(&arg)) return *value;
  if (const bool* value = std::get_if<bool>(&arg)) return *value ? 1 : 0;
  const Ints* list = std::get_if<Ints>(&arg);
  if (list && list->size() == 1) return list->front();
  wrong(*this, index, "an integer");
}

double Call::real(size_t index) const {
  const ArgValue& arg = at(*this, index);
  if (const double* value = std::get_if<double>(&arg)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&arg)) return static_cast<double>(*value);
  if (const bool* value = std::get_if<bool>(&arg)) return *value ? 1 : 0;
  wrong(*this, index, "a number");
}

std::optional<double> Call::real_or_none(size_t index) const {
  if (none(index)) return std::nullopt;
  return real(index);
}

bool Call::flag(size_t index) const {
  const ArgValue& arg = at(*this, index);
  if (const bool* value = std::get_if<bool>(&arg)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&arg)) return *value != 0;
  wrong(*this, index, "true or false");
}

std::string_view Call::text(size_t index) const {
  const std::string* value = std::get_if<std::string>(&at(*this, index));
  if (!value) wrong(*this, index, "text");
  return *value;
}

Ints Call::ints(size_t index) const {
  const ArgValue& arg = at(*this, index);
  if (const Ints* list = std::get_if<Ints>(&arg)) return *list;
  if (const int64_t* value = std::get_if<int64_t>(&arg)) return {*value};
  wrong(*this, index, "a list of integers");
}

Ints Call::ints(size_t index, size_t count) const {
  Ints list = ints(index);
  if (list.size() == 1 && count != 1) list.resize(count, list[0]);
  if (list.size() != count)
    malformed("its argument `{}` has {} values instead of {}", names[index], list.size(), count);
  return list;
}

Doubles Call::reals(size_t index) const {
  const ArgValue& arg = at(*this, index);
  if (const Doubles* list = std::get_if<Doubles>(&arg)) return *list;
  if (const Ints* list = std::get_if<Ints>(&arg)) return {list->begin(), list->end()};
  return {real(index)};
}

DType Call::dtype_arg(size_t index, DType if_none) const {
  if (none(index)) return if_none;
  const DType* value = std::get_if<DType>(&at(*this, index));
  if (!value) wrong(*this, index, "an element type");
  return *value;
}

bool Call::is_number(size_t index) const {
  const ArgValue& arg = at(*this, index);
  return std::holds_alternative<int64_t>(arg) || std::holds_alternative<double>(arg) ||
         std::holds_alternative<bool>(arg);
}

ValueId Call::operand(size_t index, DType as) {
  if (!is_number(index)) return cast(tensor(index), as);
  // Python keeps 2 an integer even beside floats; large integers must not pass through a double.
  if (const int64_t* value = std::get_if<int64_t>(&args[index])) return filled(as, {}, [&](int64_t) { return *value; });
  return scalar(real(index), as);
}

int64_t Call::axis(size_t index, int rank) const { return normalised_axis(integer(index), rank); }

Ints Call::axes(size_t index, int rank) const {
  Ints list;
  if (!none(index)) list = ints(index);
  if (list.empty())
    for (int d = 0; d < rank; ++d) list.push_back(d);
  else
    for (int64_t& axis : list) axis = normalised_axis(axis, rank);
  std::sort(list.begin(), list.end());
  if (std::adjacent_find(list.begin(), list.end()) != list.end()) malformed("it names an axis twice");
  if (rank == 0) list.clear();
  return list;
}

const StoredTensor* Call::constant_arg(size_t index) const {
  const TensorArg* arg = std::get_if<TensorArg>(&at(*this, index));
  return arg && arg->binding ? scope.constant(*arg->binding) : nullptr;
}

ValueId Call::known(ValueId x) {
  std::vector<ValueId> read;
  ValueId constant = folded(graph, x, read);
  if (constant == kNone) return kNone;
  for (TensorStorage& storage : scope.storages())  // what it was made of must not change any more
    if (std::find(read.begin(), read.end(), storage.value) != read.end()) storage.baked = true;
  return constant;
}

std::optional<double> Call::known_number(ValueId x) {
  ValueId constant = element_count(shape(x)) == 1 ? known(x) : kNone;
  return constant == kNone ? std::nullopt : std::optional(real_at(graph.value(constant), 0));
}

bool Call::contiguous(size_t index) const {
  const TensorArg* arg = std::get_if<TensorArg>(&at(*this, index));
  return arg && arg->binding && arg->binding->contiguous;
}

std::string_view Call::detail() const { return row ? row->detail : std::string_view(); }

const Type& Call::result(size_t index) const {
  if (index >= results.size()) malformed("it has fewer results than its operator gives");
  return results[index];
}

}  // namespace swoop
