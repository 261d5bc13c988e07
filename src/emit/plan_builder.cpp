#include "emit/plan_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "emit/kernel_table.h"
#include "support/check.h"
#include "support/hash.h"

namespace swoop::emit {

template <typename T, typename Make>
int PlanBuilder::shared(std::map<T, int>& cache, const T& key, Make make) {
  auto [entry, is_new] = cache.try_emplace(key, 0);
  if (is_new) entry->second = make();
  return entry->second;
}

int PlanBuilder::fresh(PlanValue value) {
  plan.values.push_back(std::move(value));
  return static_cast<int>(plan.values.size()) - 1;
}

int PlanBuilder::null() {
  if (null_ == kAbsent) null_ = fresh(Nothing{});
  return null_;
}

int PlanBuilder::integer(int64_t value) {
  return shared(integers_, value, [&] { return fresh(value); });
}

int PlanBuilder::boolean(bool value) {
  int& slot = booleans_[value ? 1 : 0];
  if (slot == kAbsent) slot = fresh(value);
  return slot;
}

int PlanBuilder::real(double value) {
  return shared(reals_, std::bit_cast<uint64_t>(value), [&] { return fresh(value); });
}

int PlanBuilder::text(std::string_view value) {
  return shared(texts_, std::string(value), [&] { return fresh(std::string(value)); });
}

int PlanBuilder::integers(const Ints& values) {
  return shared(int_lists_, values, [&] {
    IntList list;
    for (int64_t value : values) list.items.push_back(integer(value));
    return fresh(std::move(list));
  });
}

int PlanBuilder::reals(const Doubles& values) {
  std::vector<uint64_t> key;
  for (double value : values) key.push_back(std::bit_cast<uint64_t>(value));
  return shared(real_lists_, key, [&] { return fresh(DoubleList{values}); });
}

int PlanBuilder::booleans(const std::vector<bool>& values) { return fresh(BoolList{values}); }

int PlanBuilder::tensors(std::vector<int> values) {
  return shared(tensor_lists_, values, [&] { return fresh(TensorList{values}); });
}

int PlanBuilder::optional_tensors(std::vector<int> values) { return fresh(OptionalTensorList{std::move(values)}); }

int PlanBuilder::scalar(DType dtype, double value) {
  bool whole = !is_float(dtype) && std::nearbyint(value) == value && std::fabs(value) < 0x1p62;
  return whole ? integer(static_cast<int64_t>(value)) : real(value);
}

int PlanBuilder::planned(DType dtype, Shape shape, std::string name) {
  Storage storage;
  storage.bytes = element_count(shape) * static_cast<int64_t>(byte_size(dtype));
  TensorValue tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.storage = static_cast<int>(plan.storages.size());
  tensor.name = std::move(name);
  plan.storages.push_back(storage);
  return fresh(std::move(tensor));
}

int PlanBuilder::alias(int value, Shape shape) {
  TensorValue copy = tensor(value);
  if (copy.shape == shape) return value;
  CHECK(element_count(copy.shape) == element_count(shape), "a view of {} as {}", to_text(copy.shape), to_text(shape));
  copy.shape = std::move(shape);
  copy.name.clear();
  copy.dynamic = false;
  copy.initial = -1;  // the bytes are loaded once, through the buffer itself
  return fresh(std::move(copy));
}

int PlanBuilder::constant(DType dtype, Shape shape, Bytes data) {
  TensorValue tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  std::vector<int>& same_hash = constants_[hash_bytes(data)];
  for (int candidate : same_hash)
    if (std::ranges::equal(plan.constants[static_cast<size_t>(candidate)], data)) tensor.constant = candidate;
  if (tensor.constant < 0) {
    tensor.constant = static_cast<int>(plan.constants.size());
    plan.constants.push_back(data);
    same_hash.push_back(tensor.constant);
  }
  return fresh(std::move(tensor));
}

int PlanBuilder::constant(DType dtype, Shape shape, Buffer data) {
  return constant(dtype, std::move(shape), Bytes(plan.owned.emplace_back(std::move(data))));
}

int PlanBuilder::op_index(std::string_view name) {
  return shared(ops_, std::string(name), [&] {
    size_t colon = name.find("::");
    size_t dot = name.find('.', colon == std::string_view::npos ? 0 : colon);
    std::string overload = dot == std::string_view::npos ? "" : std::string(name.substr(dot + 1));
    plan.operators.emplace_back(std::string(name.substr(0, dot)), overload);
    return static_cast<int>(plan.operators.size()) - 1;
  });
}

void PlanBuilder::kernel(std::string_view name, std::vector<int> args, std::vector<int> results) {
  if (!ops_.contains(std::string(name)) && !name.starts_with("dim_order_ops::")) {
    size_t dot = name.find('.');
    const Kernel* known = find_kernel(name.substr(0, dot), name.substr(dot + 1));
    CHECK(known, "the runtime has no kernel {}", name);
    CHECK(known->argument_list().size() == args.size(), "kernel {} is called with {} arguments", name, args.size());
  }
  args.insert(args.end(), results.begin(), results.end());
  args.push_back(results.size() == 1 ? results[0] : tensors(results));
  plan.instructions.push_back(KernelCall{op_index(name), std::move(args)});
}

void PlanBuilder::primitive(std::string_view name, std::vector<int> args) {
  plan.instructions.push_back(KernelCall{op_index(name), std::move(args)});
}

void PlanBuilder::in_place(std::string_view name, std::vector<int> args) {
  args.push_back(args[0]);
  plan.instructions.push_back(KernelCall{op_index(name), std::move(args)});
}

void PlanBuilder::delegate(int index, std::vector<int> args) {
  plan.instructions.push_back(DelegateCall{index, std::move(args)});
}

int PlanBuilder::jump_false(int condition, int destination) {
  plan.instructions.emplace_back(std::in_place_type<JumpFalse>, JumpFalse{condition, destination});
  return position() - 1;
}

void PlanBuilder::land(int jump) {
  std::get<JumpFalse>(plan.instructions[static_cast<size_t>(jump)]).destination = position();
}

void PlanBuilder::hold(int value, int first, int last) {
  if (tensor(value).storage >= 0) plan.holds.push_back({tensor(value).storage, first, last});
}

int PlanBuilder::copy(int from, int out) {
  if (out == kAbsent) out = like(from);
  if (tensor(from).shape == tensor(out).shape)
    kernel("aten::clone.out", {from, null()}, {out});
  else
    kernel("aten::view_copy.out", {from, integers(tensor(out).shape)}, {out});
  return out;
}

namespace {

// Row-major permutation of any element size.
Buffer permuted(Bytes data, const Shape& shape, const Ints& perm, size_t element) {
  Buffer result(data.size());
  std::vector<int64_t> strides = row_major_strides(shape);
  size_t rank = shape.size();
  Ints index(rank, 0);
  int64_t count = element_count(shape);
  for (int64_t i = 0; i < count; ++i) {
    int64_t source = 0;
    for (size_t d = 0; d < rank; ++d) source += index[d] * strides[static_cast<size_t>(perm[d])];
    std::memcpy(result.data() + static_cast<size_t>(i) * element, data.data() + static_cast<size_t>(source) * element,
                element);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < shape[static_cast<size_t>(perm[d])]) break;
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace

int PlanBuilder::permute(int value, const Ints& perm, int out) {
  Shape shape;
  for (int64_t axis : perm) shape.push_back(tensor(value).shape[static_cast<size_t>(axis)]);
  DType dtype = tensor(value).dtype;
  if (out == kAbsent && is_constant(value))
    return constant(dtype, shape, permuted(constant_bytes(value), tensor(value).shape, perm, byte_size(dtype)));
  if (out == kAbsent) out = planned(dtype, shape);
  kernel("aten::permute_copy.out", {value, integers(perm)}, {out});
  return out;
}

int PlanBuilder::unary(std::string_view name, int x, int out) {
  if (out == kAbsent) out = like(x);
  kernel(name, {x}, {out});
  return out;
}

int PlanBuilder::binary(std::string_view name, int a, int b, int out) {
  if (out == kAbsent) out = planned(tensor(a).dtype, broadcast(tensor(a).shape, tensor(b).shape));
  kernel(name, {a, b}, {out});
  return out;
}

int PlanBuilder::add(int a, int b, int out) {
  if (out == kAbsent) out = planned(tensor(a).dtype, broadcast(tensor(a).shape, tensor(b).shape));
  kernel("aten::add.out", {a, b, integer(1)}, {out});
  return out;
}

int PlanBuilder::sub(int a, int b, int out) {
  if (out == kAbsent) out = planned(tensor(a).dtype, broadcast(tensor(a).shape, tensor(b).shape));
  kernel("aten::sub.out", {a, b, integer(1)}, {out});
  return out;
}

int PlanBuilder::add_scalar(int x, double value, int out) {
  if (out == kAbsent) out = like(x);
  kernel("aten::add.Scalar_out", {x, scalar(tensor(x).dtype, value), integer(1)}, {out});
  return out;
}

int PlanBuilder::mul_scalar(int x, double value, int out) {
  if (out == kAbsent) out = like(x);
  kernel("aten::mul.Scalar_out", {x, scalar(tensor(x).dtype, value)}, {out});
  return out;
}

int PlanBuilder::clamp(int x, std::optional<double> min, std::optional<double> max, int out) {
  if (out == kAbsent) out = like(x);
  DType dtype = tensor(x).dtype;
  kernel("aten::clamp.out", {x, min ? scalar(dtype, *min) : null(), max ? scalar(dtype, *max) : null()}, {out});
  return out;
}

int PlanBuilder::cast(int x, DType dtype, int out) {
  if (out == kAbsent && tensor(x).dtype == dtype) return x;
  if (out == kAbsent) out = planned(dtype, tensor(x).shape);
  kernel("dim_order_ops::_to_dim_order_copy.out", {x, boolean(false), null()}, {out});
  return out;
}

int PlanBuilder::greater(int x, double value) {
  int out = planned(DType::Bool, tensor(x).shape);
  kernel("aten::gt.Scalar_out", {x, scalar(tensor(x).dtype, value)}, {out});
  return out;
}

int PlanBuilder::where(int condition, int a, int b, int out) {
  if (out == kAbsent) out = planned(tensor(a).dtype, broadcast(tensor(a).shape, tensor(b).shape));
  kernel("aten::where.self_out", {condition, a, b}, {out});
  return out;
}

Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape shape = longer;
  size_t lead = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i)
    if (shape[lead + i] == 1) shape[lead + i] = shorter[i];
  return shape;
}

}  // namespace swoop::emit
