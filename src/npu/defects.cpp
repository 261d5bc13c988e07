// Forms that regor gets wrong (docs/regor-defects.md), written another way.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "npu/npu.h"

namespace swoop {

namespace {

// A copy of a tensor, by a PAD by nothing: regor joins nothing across it.
tosa::TensorId guard(tosa::Body& body, tosa::TensorId id, const std::string& location,
                     std::vector<tosa::Operator>& operators) {
  const tosa::Tensor original = body.tensors[id];
  tosa::Tensor fill{
      original.name + "_guard_fill", original.dtype, {1}, true, Buffer(tosa::element_bytes(original.dtype))};
  tosa::Tensor copy{original.name + "_guard", original.dtype, original.shape, false, {}};
  const auto fill_id = static_cast<tosa::TensorId>(body.tensors.size());
  body.tensors.push_back(std::move(fill));
  body.tensors.push_back(std::move(copy));
  operators.push_back({tosa::Op::Pad,
                       tosa::PadAttributes{std::vector<int32_t>(2 * original.shape.size(), 0)},
                       {id, fill_id},
                       {fill_id + 1},
                       location});
  return fill_id + 1;
}

// Puts a copy before every operand of which `reads_wrongly(op, i)` says that regor does not read it as it is.
template <typename Judge>
void guard_operands(tosa::Body& body, const Judge& reads_wrongly) {
  std::vector<tosa::Operator> operators;
  for (const tosa::Operator& op : body.operators) {
    tosa::Operator copy = op;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (reads_wrongly(op, i)) copy.inputs[i] = guard(body, op.inputs[i], op.location, operators);
    operators.push_back(std::move(copy));
  }
  body.operators = std::move(operators);
}

class SliceGuard {
 public:
  SliceGuard(tosa::Body& body, const NpuTarget& target)
      : body_(body), target_(target), producer_(body.tensors.size(), kNone), readers_(body.tensors.size()) {
    for (size_t i = 0; i < body.operators.size(); ++i) {
      for (tosa::TensorId output : body.operators[i].outputs) producer_[output] = i;
      for (tosa::TensorId input : body.operators[i].inputs) ++readers_[input];
    }
    for (tosa::TensorId output : body.outputs) ++readers_[output];
  }

  void run() {
    guard_operands(body_, [&](const tosa::Operator& op, size_t i) {
      const tosa::Operator* slice = slice_behind(op.inputs[i], is_reduction(op));
      return slice && reads_wrongly(op, i, *slice);
    });
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  static bool is_reduction(const tosa::Operator& op) { return tosa::name(op.op).starts_with("REDUCE_"); }

  // The SLICE that a tensor is a view of, for regor: RESHAPEs do not keep it from joining the two. In front of a
  // reduction nor does a RESCALE, which becomes part of it if nothing else reads its result, and if what is sliced is
  // computed here.
  const tosa::Operator* slice_behind(tosa::TensorId id, bool past_rescale) const {
    bool rescaled = false;
    for (const tosa::Operator* op = producer_of(id); op; op = producer_of(op->inputs[0])) {
      if (op->op == tosa::Op::Slice) return rescaled && !producer_of(op->inputs[0]) ? nullptr : op;
      if (op->op == tosa::Op::Rescale && readers_[op->outputs[0]] > 1) return nullptr;
      rescaled |= op->op == tosa::Op::Rescale;
      if (op->op != tosa::Op::Reshape && !(past_rescale && op->op == tosa::Op::Rescale)) return nullptr;
    }
    return nullptr;
  }

  const tosa::Operator* producer_of(tosa::TensorId id) const {
    return id < producer_.size() && producer_[id] != kNone ? &body_.operators[producer_[id]] : nullptr;
  }

  bool reads_wrongly(const tosa::Operator& user, size_t operand, const tosa::Operator& slice) const {
    if (operand == 0 && (user.op == tosa::Op::Conv2d || user.op == tosa::Op::DepthwiseConv2d)) {
      const auto& window = std::get<tosa::Conv2dAttributes>(user.attributes);
      return padded(window.pad) && taken_apart(user, window.stride, window.dilation);
    }
    if (operand == 0 && (user.op == tosa::Op::AvgPool2d || user.op == tosa::Op::MaxPool2d)) {
      const auto& window = std::get<tosa::PoolAttributes>(user.attributes);
      return padded(window.pad) && taken_apart(user, window.stride, {1, 1});
    }
    // A core without products of 16 bits has none at all: regor makes them of elementwise operations on whole matrices.
    if (user.op == tosa::Op::Matmul) return !target_.facts().matmul_of_16_bits && cuts_matrices(slice);
    return user.op == tosa::Op::Argmax || is_reduction(user);  // reshaped, the slice is lost
  }

  // At the top or on the left.
  static bool padded(const std::array<int32_t, 4>& pad) { return pad[0] > 0 || pad[2] > 0; }

  // regor makes several operations of a window over a batch, or with steps that the core does not have.
  bool taken_apart(const tosa::Operator& user, const std::array<int32_t, 2>& stride,
                   const std::array<int32_t, 2>& dilation) const {
    return body_.tensors[user.inputs[0]].shape[0] > 1 || std::max(stride[0], stride[1]) > target_.facts().max_stride ||
           std::max(dilation[0], dilation[1]) > target_.facts().max_dilation;
  }

  bool cuts_matrices(const tosa::Operator& slice) const {
    const tosa::Shape& whole = body_.tensors[slice.inputs[0]].shape;
    const tosa::Shape& part = body_.tensors[slice.outputs[0]].shape;
    return !std::equal(whole.end() - std::min<size_t>(2, whole.size()), whole.end(),
                       part.end() - std::min<size_t>(2, part.size()), part.end());
  }

  tosa::Body& body_;
  const NpuTarget& target_;
  std::vector<size_t> producer_;  // by tensor, of those that were there at the start
  std::vector<int> readers_;      // by tensor, then
};

// The second operand of a product, turned: regor turns it once more, takes out both transposes, and with them what they
// read, even if that is an output of the region, or a RESHAPE of one.
class OutputGuard {
 public:
  explicit OutputGuard(tosa::Body& body)
      : body_(body), producer_(body.tensors.size(), nullptr), reader_(body.tensors.size(), nullptr) {
    for (const tosa::Operator& op : body.operators) {
      for (tosa::TensorId input : op.inputs) reader_[input] = &op;
      for (tosa::TensorId output : op.outputs) producer_[output] = &op;
    }
  }

  void run() {
    guard_operands(body_, [&](const tosa::Operator& op, size_t i) {
      return op.op == tosa::Op::Transpose && i == 0 && is_output(op.inputs[0]) && meets_second_operand(op.outputs[0]);
    });
  }

 private:
  bool is_output(tosa::TensorId id) const {
    const auto leaves = [&] { return std::ranges::find(body_.outputs, id) != body_.outputs.end(); };
    while (!leaves() && producer_[id] && producer_[id]->op == tosa::Op::Reshape) id = producer_[id]->inputs[0];
    return leaves();
  }

  bool meets_second_operand(tosa::TensorId id) const {
    const tosa::Operator* reader = reader_[id];
    while (reader && reader->op == tosa::Op::Reshape) {
      id = reader->outputs[0];
      reader = reader_[id];
    }
    return reader && reader->op == tosa::Op::Matmul && reader->inputs[1] == id;
  }

  tosa::Body& body_;
  std::vector<const tosa::Operator*> producer_, reader_;  // by tensor; the last reader
};

// regor reads an operand of SELECT in the shape that the last RESHAPE of its tensor had. If what decides was computed
// from the same tensor in another shape, as where a row is sorted, that is the wrong one.
class ChoiceGuard {
 public:
  explicit ChoiceGuard(tosa::Body& body) : body_(body), producer_(body.tensors.size(), nullptr) {
    for (const tosa::Operator& op : body.operators)
      for (tosa::TensorId output : op.outputs) producer_[output] = &op;
  }

  void run() {
    guard_operands(body_, [&](const tosa::Operator& op, size_t i) {
      return op.op == tosa::Op::Select && i > 0 && has_other_shape(op.inputs[0], op.inputs[i]);
    });
  }

 private:
  tosa::TensorId before_reshapes(tosa::TensorId id) const {
    while (producer_[id] && producer_[id]->op == tosa::Op::Reshape) id = producer_[id]->inputs[0];
    return id;
  }

  // Whether `from` depends on the tensor of `id` in another shape.
  bool has_other_shape(tosa::TensorId from, tosa::TensorId id) const {
    const tosa::TensorId tensor = before_reshapes(id);
    std::vector<tosa::TensorId> open = {from};
    std::set<tosa::TensorId> seen;
    while (!open.empty()) {
      const tosa::TensorId at = open.back();
      open.pop_back();
      if (!producer_[at] || !seen.insert(at).second) continue;
      const bool reshaped = producer_[at]->op == tosa::Op::Reshape && before_reshapes(at) == tensor;
      if (reshaped && body_.tensors[at].shape != body_.tensors[id].shape) return true;
      open.insert(open.end(), producer_[at]->inputs.begin(), producer_[at]->inputs.end());
    }
    return false;
  }

  tosa::Body& body_;
  std::vector<const tosa::Operator*> producer_;  // by tensor, of those that were there at the start
};

// Operations that hand each other their results without memory between (a chain) have all of their tables in the
// internal memory at once: regor brings them there before the first one. It does not ask whether they fit, so that a
// table of 16 bits, which takes the whole of it, overwrites the others.
class ChainedTables {
 public:
  explicit ChainedTables(tosa::Body& body) : body_(body), bytes_(body.tensors.size()), readers_(body.tensors.size()) {
    for (const tosa::Operator& op : body.operators)
      for (tosa::TensorId input : op.inputs) ++readers_[input];
    for (tosa::TensorId output : body.outputs) ++readers_[output];
  }

  void run() {
    guard_operands(body_, [&](const tosa::Operator& op, size_t i) {
      if (i > 0) return false;
      size_t before = chained_into(op);
      const size_t own = op.op == tosa::Op::Table ? table_bytes(op) : 0;
      const bool too_much = own > 0 && before > 0 && before + own > kTableMemory;
      if (too_much) before = 0;
      for (tosa::TensorId output : op.outputs) bytes_[output] = before + own;
      return too_much;
    });
  }

 private:
  static constexpr size_t kTableMemory = 2048;

  size_t table_bytes(const tosa::Operator& op) const {
    return body_.tensors[op.inputs[0]].dtype == tosa::DType::I16 ? kTableMemory : 256;
  }

  // Those of the tables in a chain that this operator may continue.
  size_t chained_into(const tosa::Operator& op) const {
    const bool elementwise = tosa::Op::Clamp <= op.op && op.op <= tosa::Op::GreaterEqual;
    if (!elementwise && op.op != tosa::Op::Rescale && op.op != tosa::Op::Cast && op.op != tosa::Op::Reshape) return 0;
    const int64_t elements = tosa::element_count(body_.tensors[op.outputs[0]].shape);
    size_t most = 0;
    for (tosa::TensorId input : op.inputs)
      if (readers_[input] == 1 && tosa::element_count(body_.tensors[input].shape) == elements)
        most = std::max(most, bytes_[input]);
    return most;
  }

  tosa::Body& body_;
  std::vector<size_t> bytes_;    // by tensor: of the tables of the chain that ends there
  std::vector<size_t> readers_;  // by tensor
};

// A convolution of 16 bits whose RESCALE is by one, as where it only moves codes: regor takes that for no RESCALE at
// all and lets the convolution do the next one as well, with a multiplier of 32 bits where the hardware has 16.
class UnitRescales {
 public:
  explicit UnitRescales(tosa::Body& body) : body_(body), producer_(body.tensors.size(), nullptr) {
    for (const tosa::Operator& op : body.operators)
      for (tosa::TensorId output : op.outputs) producer_[output] = &op;
  }

  void run() {
    guard_operands(body_, [&](const tosa::Operator& op, size_t i) {
      return i == 0 && op.op == tosa::Op::Rescale && is_of_unit_rescale(op.inputs[0]);
    });
  }

 private:
  bool is_of_unit_rescale(tosa::TensorId id) const {
    while (producer_[id] && producer_[id]->op == tosa::Op::Reshape) id = producer_[id]->inputs[0];
    const tosa::Operator* rescale = producer_[id];
    return rescale && rescale->op == tosa::Op::Rescale && body_.tensors[rescale->inputs[0]].dtype == tosa::DType::I48 &&
           is_by_one(*rescale);
  }

  bool is_by_one(const tosa::Operator& rescale) const {
    const tosa::Tensor& multipliers = body_.tensors[rescale.inputs[1]];
    const Buffer& shifts = body_.tensors[rescale.inputs[2]].data;
    if (multipliers.dtype != tosa::DType::I16) return false;
    for (size_t i = 0; i < shifts.size(); ++i) {
      int16_t multiplier = 0;
      std::memcpy(&multiplier, multipliers.data.data() + i * sizeof(multiplier), sizeof(multiplier));
      if (multiplier != 1 << std::to_integer<int>(shifts[i])) return false;
    }
    return true;
  }

  tosa::Body& body_;
  std::vector<const tosa::Operator*> producer_;  // by tensor, of those that were there at the start
};

// A number minus a tensor of more than four dims: regor reads past the number. The dims in front become one.
class FlatDifferences {
 public:
  explicit FlatDifferences(tosa::Body& body) : body_(body) {}

  void run() {
    for (const tosa::Operator& op : body_.operators) {
      if (reads_past_number(op))
        flatten(op);
      else
        operators_.push_back(op);
    }
    body_.operators = std::move(operators_);
  }

 private:
  bool reads_past_number(const tosa::Operator& op) const {
    const size_t rank = body_.tensors[op.outputs[0]].shape.size();
    return op.op == tosa::Op::Sub && rank > 4 && tosa::element_count(body_.tensors[op.inputs[0]].shape) == 1 &&
           body_.tensors[op.inputs[0]].is_const;
  }

  void flatten(const tosa::Operator& op) {
    tosa::Shape flat = body_.tensors[op.outputs[0]].shape;
    while (flat.size() > 4) {
      flat[1] *= flat[0];
      flat.erase(flat.begin());
    }
    tosa::Tensor number = body_.tensors[op.inputs[0]];
    number.shape.assign(4, 1);
    number.name.clear();  // the writer makes one up
    const tosa::TensorId minuend = add(std::move(number));
    const tosa::TensorId x = add_like(op.inputs[1], flat), difference = add_like(op.outputs[0], flat);
    operators_.push_back({tosa::Op::Reshape, tosa::ReshapeAttributes{flat}, {op.inputs[1]}, {x}, op.location});
    operators_.push_back({op.op, op.attributes, {minuend, x}, {difference}, op.location});
    operators_.push_back({tosa::Op::Reshape,
                          tosa::ReshapeAttributes{body_.tensors[op.outputs[0]].shape},
                          {difference},
                          op.outputs,
                          op.location});
  }

  tosa::TensorId add_like(tosa::TensorId id, const tosa::Shape& shape) {
    return add({{}, body_.tensors[id].dtype, shape, false, {}});
  }

  tosa::TensorId add(tosa::Tensor tensor) {
    body_.tensors.push_back(std::move(tensor));
    return static_cast<tosa::TensorId>(body_.tensors.size() - 1);
  }

  tosa::Body& body_;
  std::vector<tosa::Operator> operators_;
};

// A constant that is a convolution's weights and something else too, as ones of the same shape are: regor gives the
// weights of a depthwise convolution another shape, and the other operator then has operands that do not fit. Each kind
// of reader has its own.
class OwnWeights {
 public:
  explicit OwnWeights(tosa::Body& body) : body_(body) {}

  void run() {
    for (tosa::Operator& op : body_.operators)
      for (size_t i = 0; i < op.inputs.size(); ++i)
        if (body_.tensors[op.inputs[i]].is_const) op.inputs[i] = own(op.inputs[i], reader(op, i));
  }

 private:
  // A kind of convolution that reads its weights, or nothing.
  static std::optional<tosa::Op> reader(const tosa::Operator& op, size_t operand) {
    const bool conv =
        op.op == tosa::Op::Conv2d || op.op == tosa::Op::DepthwiseConv2d || op.op == tosa::Op::TransposeConv2d;
    return conv && operand == 1 ? std::optional(op.op) : std::nullopt;
  }

  tosa::TensorId own(tosa::TensorId id, std::optional<tosa::Op> reader) {
    std::map<std::optional<tosa::Op>, tosa::TensorId>& known = copies_[id];
    if (const auto found = known.find(reader); found != known.end()) return found->second;
    if (known.empty()) return known[reader] = id;
    tosa::Tensor copy = body_.tensors[id];
    copy.name.clear();  // the writer makes one up
    body_.tensors.push_back(std::move(copy));
    return known[reader] = static_cast<tosa::TensorId>(body_.tensors.size() - 1);
  }

  tosa::Body& body_;
  std::map<tosa::TensorId, std::map<std::optional<tosa::Op>, tosa::TensorId>> copies_;  // by the constant
};

// Convolutions with the same weights and the same scales, but other biases: regor encodes weights, scales and biases
// once, and knows them again by weights and scales alone. For the second bias, the scale of one channel is made smaller
// by its last bit: one part in 2^30, or in 2^14 with 16 bits. For the third it is that of the next channel.
class DistinctScales {
 public:
  explicit DistinctScales(tosa::Body& body) : body_(body), rescale_(body.tensors.size(), nullptr) {
    for (tosa::Operator& op : body.operators)
      if (op.op == tosa::Op::Rescale) rescale_[op.inputs[0]] = &op;
  }

  void run() {
    for (const tosa::Operator& op : body_.operators) {
      const bool conv =
          op.op == tosa::Op::Conv2d || op.op == tosa::Op::DepthwiseConv2d || op.op == tosa::Op::TransposeConv2d;
      tosa::Operator* rescale = conv ? rescale_[op.outputs[0]] : nullptr;
      if (!rescale) continue;
      const std::string_view weights = bytes_of(op.inputs[1]), bias = bytes_of(op.inputs[2]);
      if (weights.empty()) continue;  // computed
      auto& biases = biases_[{weights, bytes_of(rescale->inputs[1]), bytes_of(rescale->inputs[2])}];
      const auto known = std::find(biases.begin(), biases.end(), bias);
      const auto place = static_cast<size_t>(known - biases.begin());
      if (known == biases.end()) biases.push_back(bias);
      if (place > 0) rescale->inputs[1] = less(rescale->inputs[1], place - 1);
    }
  }

 private:
  // Of a constant. They stay where they are when tensors are added.
  std::string_view bytes_of(tosa::TensorId id) const {
    const Buffer& data = body_.tensors[id].data;
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }

  // The multipliers with a smaller one in place `at`, or what is left of it after all of them.
  tosa::TensorId less(tosa::TensorId multipliers, size_t at) {
    tosa::Tensor copy = body_.tensors[multipliers];
    copy.name.clear();  // the writer makes one up
    const auto count = static_cast<size_t>(tosa::element_count(copy.shape));
    std::byte* const place = copy.data.data() + at % count * tosa::element_bytes(copy.dtype);
    const auto by = static_cast<int32_t>(1 + at / count);
    if (copy.dtype == tosa::DType::I16)
      subtract<int16_t>(place, by);
    else
      subtract<int32_t>(place, by);
    body_.tensors.push_back(std::move(copy));
    return static_cast<tosa::TensorId>(body_.tensors.size() - 1);
  }

  template <typename Multiplier>
  static void subtract(std::byte* place, int32_t by) {
    Multiplier multiplier = 0;
    std::memcpy(&multiplier, place, sizeof(multiplier));
    multiplier = static_cast<Multiplier>(std::max(multiplier - by, 0));
    std::memcpy(place, &multiplier, sizeof(multiplier));
  }

  tosa::Body& body_;
  std::vector<tosa::Operator*> rescale_;  // by the tensor that it reads
  // By weights, multipliers and shifts.
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, std::vector<std::string_view>> biases_;
};

}  // namespace

void avoid_defects(tosa::Program& program, const NpuTarget& target) {
  for (tosa::Body& body : program.bodies) {
    SliceGuard(body, target).run();
    OutputGuard(body).run();
    ChoiceGuard(body).run();
    if (target.facts().chains_elementwise) ChainedTables(body).run();
    if (target.facts().matmul_of_16_bits) UnitRescales(body).run();
    FlatDifferences(body).run();
    OwnWeights(body).run();
    DistinctScales(body).run();
  }
}

}  // namespace swoop
