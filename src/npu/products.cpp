#include <algorithm>

#include "npu/npu.h"

namespace swoop {

namespace {

using tosa::Op;
using tosa::TensorId;

constexpr int kWidest = 24;   // outputs of a convolution, beside the unused ones: a block of the core has 32
constexpr int kStreams = 24;  // that share a tensor; CONCAT takes 64 parts (TOSA 1.0, level 8K)

// What is to be known about the tensors of a body.
class Uses {
 public:
  explicit Uses(const tosa::Body& body)
      : body_(body), producer_(body.tensors.size(), nullptr), readers_(body.tensors.size()) {
    for (const tosa::Operator& op : body.operators) {
      for (TensorId output : op.outputs) producer_[output] = &op;
      for (TensorId input : op.inputs) readers_[input].push_back(&op);
    }
    for (TensorId output : body.outputs) readers_[output].push_back(nullptr);
  }

  const tosa::Operator* producer(TensorId id) const { return producer_[id]; }
  const tosa::Operator* only_reader(TensorId id) const {
    return readers_[id].size() == 1 ? readers_[id].front() : nullptr;
  }

  // Whether no code is -128: its magnitude would take nine bits.
  bool is_symmetric(TensorId id) const {
    const tosa::Operator* op = producer_[id];
    if (!op) return body_.tensors[id].is_const && lowest(body_.tensors[id].data) > -128;
    const auto is = [&](std::initializer_list<Op> list) { return std::ranges::find(list, op->op) != list.end(); };
    if (op->op == Op::Clamp) return std::get<tosa::ClampAttributes>(op->attributes).min_val > -128;
    if (op->op == Op::Table) return is_symmetric(op->inputs[1]);
    if (is({Op::Reshape, Op::Transpose, Op::Slice, Op::Reverse, Op::Tile})) return is_symmetric(op->inputs[0]);
    return is({Op::Pad, Op::Concat}) &&
           std::ranges::all_of(op->inputs, [&](TensorId part) { return is_symmetric(part); });
  }

 private:
  static int lowest(const Buffer& codes) {
    int least = 127;
    for (std::byte code : codes) least = std::min(least, int{static_cast<int8_t>(code)});
    return least;
  }

  const tosa::Body& body_;
  std::vector<const tosa::Operator*> producer_;
  std::vector<std::vector<const tosa::Operator*>> readers_;  // null: an output
};

// A product and how it is to be written.
struct Planned {
  const tosa::Operator* matmul = nullptr;
  const tosa::Operator* rescale = nullptr;  // that alone reads it; may be null
  TensorId weights = 0;                     // [heads, N, K] if turned, else [heads, K, N]
  bool turned = false;
};

class Writer {
 public:
  Writer(const tosa::Body& body, const NpuTarget& target, bool own_scales)
      : body_(body),
        target_(target),
        own_scales_(own_scales),
        uses_(body),
        builder_(result_.program, body.name),
        made_(body.tensors.size()) {}

  std::optional<ProgramWithProducts> run() {
    for (const tosa::Operator& op : body_.operators)
      if (std::optional<Planned> planned = plan(op)) planned_.push_back(*planned);
    if (planned_.empty()) return std::nullopt;
    result_.count = std::ssize(planned_);
    find_needed();
    for (TensorId input : body_.inputs)
      made_[input] = builder_.input(body_.tensors[input].name, body_.tensors[input].dtype, body_.tensors[input].shape);
    for (const tosa::Operator& op : body_.operators) write(op);
    for (TensorId output : body_.outputs) builder_.output(*made_[output]);
    to_places();
    return std::move(result_);
  }

 private:
  const tosa::Shape& shape(TensorId id) const { return body_.tensors[id].shape; }

  int zero_point(TensorId id) const { return int{static_cast<int8_t>(body_.tensors[id].data[0])}; }

  // ---- what gains

  std::optional<Planned> plan(const tosa::Operator& op) const {
    if (op.op != Op::Matmul || body_.tensors[op.inputs[0]].dtype != tosa::DType::I8) return std::nullopt;
    if (zero_point(op.inputs[3]) != 0 || !uses_.is_symmetric(op.inputs[1])) return std::nullopt;
    Planned planned{&op, uses_.only_reader(op.outputs[0]), op.inputs[1], false};
    if (planned.rescale && (planned.rescale->op != Op::Rescale ||
                            std::get<tosa::RescaleAttributes>(planned.rescale->attributes).per_channel))
      planned.rescale = nullptr;
    const tosa::Shape& a = shape(op.inputs[0]);
    if (const tosa::Operator* turn = turn_of(op.inputs[1], a[0])) {
      planned.weights = turn->inputs[0];
      planned.turned = true;
    }
    const int channels = shape(op.inputs[1])[2];
    return target_.writes_weights({a[0], a[1], a[2], channels}) ? std::optional(planned) : std::nullopt;
  }

  // The TRANSPOSE that makes [heads, depth, channels] of a tensor with the last two axes swapped; of one head, also as
  // matrices. Null: there is none.
  const tosa::Operator* turn_of(TensorId id, int heads) const {
    const tosa::Operator* turn = uses_.producer(id);
    while (heads == 1 && turn && turn->op == Op::Reshape) turn = uses_.producer(turn->inputs[0]);
    if (!turn || turn->op != Op::Transpose) return nullptr;
    const tosa::Shape &from = shape(turn->inputs[0]), &to = shape(id);
    if (from[from.size() - 1] != to[1] || from[from.size() - 2] != to[2]) return nullptr;
    const std::vector<int32_t>& perms = std::get<tosa::TransposeAttributes>(turn->attributes).perms;
    const bool matrices = heads == 1 && perms == std::vector<int32_t>{1, 0};
    return matrices || perms == std::vector<int32_t>{0, 2, 1} ? turn : nullptr;
  }

  // ---- the program

  const Planned* planned(const tosa::Operator& op) const {
    const auto found = std::ranges::find(planned_, &op, &Planned::matmul);
    return found == planned_.end() ? nullptr : &*found;
  }

  // What the products no longer read is left out.
  void find_needed() {
    needed_.assign(body_.tensors.size(), false);
    for (TensorId output : body_.outputs) needed_[output] = true;
    for (auto op = body_.operators.rbegin(); op != body_.operators.rend(); ++op) {
      if (std::ranges::none_of(op->outputs, [&](TensorId id) { return needed_[id]; })) continue;
      if (const Planned* product = planned(*op)) {
        needed_[op->inputs[0]] = needed_[product->weights] = true;
        continue;
      }
      for (TensorId input : op->inputs) needed_[input] = true;
    }
  }

  TensorId made(TensorId id) {
    const tosa::Tensor& tensor = body_.tensors[id];
    if (!made_[id]) made_[id] = builder_.constant(tensor.dtype, tensor.shape, tensor.data, tensor.name);
    return *made_[id];
  }

  void write(const tosa::Operator& op) {
    if (std::ranges::none_of(op.outputs, [&](TensorId id) { return needed_[id]; })) return;
    builder_.set_location(op.location);
    if (const Planned* product = planned(op)) return write_product(*product);
    if (op.op == Op::Rescale && made_[op.outputs[0]]) return;  // a product's
    std::vector<TensorId> inputs;
    for (TensorId input : op.inputs) inputs.push_back(made(input));
    const std::vector<TensorId> outputs = builder_.add_operator(op.op, op.attributes, std::move(inputs));
    for (size_t i = 0; i < outputs.size(); ++i) name(op.outputs[i], outputs[i]);
  }

  void name(TensorId original, TensorId made) {
    builder_.rename(made, body_.tensors[original].name);
    made_[original] = made;
  }

  // The operator that was added last.
  int last() const { return static_cast<int>(result_.program.bodies[0].operators.size()) - 1; }

  // [heads, M, K] x [heads, K, N]
  void write_product(const Planned& planned) {
    const tosa::Operator& op = *planned.matmul;
    const int channels = shape(op.inputs[1])[2];
    const int width = std::min(kWidest, channels / WeightCodes::kUnused * WeightCodes::kUnused);
    const tosa::Shape& a = shape(op.inputs[0]);
    TensorId weights = made(planned.weights);
    if (planned.turned && builder_.shape(weights).size() == 2) weights = builder_.reshape(weights, {1, channels, a[2]});
    if (!planned.turned) weights = builder_.transpose(weights, {0, 2, 1});
    // A table of a whole transpose would become a part of it, which is several operations. With a PAD by nothing in
    // between it becomes a part of that one.
    std::optional<int> copy;
    if (!planned.turned && channels == width) {
      weights = builder_.pad(weights, std::vector<int32_t>(6, 0), 0);
      copy = last();
    }
    const TensorId operand = made(op.inputs[0]);
    const int count = (channels + width - 1) / width;
    std::vector<TensorId> parts;
    for (int first = 0; first < count; first += kStreams) {
      std::vector<int> starts;  // the last part overlaps the one before it, so that all have the same width
      for (int i = first; i < std::min(first + kStreams, count); ++i)
        starts.push_back(std::min(i * width, channels - width));
      parts.push_back(write_streams(planned, operand, weights, starts, width, first * width));
      if (copy) result_.products.back().streams[0].table = *copy;
    }
    TensorId result = parts.size() > 1 ? builder_.concat(parts, 3) : parts[0];
    result = builder_.reshape(result, {a[0], a[1], channels});
    name(planned.rescale ? planned.rescale->outputs[0] : op.outputs[0], result);
  }

  // The outputs from `known` on, of the parts that start at `starts`: [1, heads, M, ...].
  TensorId write_streams(const Planned& planned, TensorId operand, TensorId weights, const std::vector<int>& starts,
                         int width, int known) {
    const tosa::Shape in = builder_.shape(operand);
    const int heads = in[0], depth = in[2], count = static_cast<int>(starts.size());
    const WeightCodes codes(width, depth, target_.microblock_outputs());
    ComputedWeights product{heads, in[1], 0, 0, 0, {}, {}};
    const Buffer table = weight_code_table();
    std::vector<TensorId> parts(1);  // the constants come first
    for (int i = 0; i < count; ++i) {
      const TensorId rows = builder_.slice(weights, {0, starts[static_cast<size_t>(i)], 0}, {heads, width, depth});
      parts.push_back(builder_.table(rows, builder_.constant(tosa::DType::I8, {256}, table)));
      product.streams.push_back({codes, codes.bytes() * i, last(), {}});
    }
    // Room for all streams, where the next head and the operand are aligned.
    const int64_t scales = own_scales_ ? codes.scale_bytes() : 0, fixed = constant_bytes(codes);
    int rows = 1;
    const auto fits = [&] {
      const int64_t head = int64_t{rows + count * width + in[1]} * depth;
      return int64_t{rows + count * width} * depth >= count * codes.bytes() + scales &&
             head % WeightCodes::kAlignment == 0 && int64_t{rows} * depth >= fixed + scales;
    };
    while (!fits()) ++rows;
    if (own_scales_) product.scales = {count * codes.bytes(), fixed};
    parts[0] = constants(codes, heads, rows, depth);
    parts.push_back(operand);
    product.operand = int64_t{rows + count * width} * depth;
    product.head_bytes = product.operand + int64_t{in[1]} * depth;
    const TensorId all = builder_.concat(parts, 1);
    product.constants = last();
    const TensorId result = convolve(planned, all, product, starts, width, known);
    result_.products.push_back(std::move(product));
    return result;
  }

  static int64_t constant_bytes(const WeightCodes& codes) {
    int64_t bytes = 0;
    for (const WeightCodes::Constant& constant : codes.constants()) bytes += std::ssize(constant.bytes);
    return bytes;
  }

  // The same for each head; what is left is room.
  TensorId constants(const WeightCodes& codes, int heads, int rows, int depth) {
    Buffer head;
    for (const WeightCodes::Constant& constant : codes.constants()) append(head, Bytes(constant.bytes));
    // Scales are written into it later: no two may be alike, or regor keeps one for both.
    if (own_scales_) append(head, static_cast<uint32_t>(result_.products.size()));
    head.resize(static_cast<size_t>(rows) * static_cast<size_t>(depth));
    Buffer all;
    for (int i = 0; i < heads; ++i) append(all, Bytes(head));
    return builder_.constant(tosa::DType::I8, {heads, rows, depth}, std::move(all));
  }

  TensorId convolve(const Planned& planned, TensorId all, ComputedWeights& product, const std::vector<int>& starts,
                    int width, int known) {
    const int depth = builder_.shape(all)[2], first = builder_.shape(all)[1] - product.rows;
    const int outputs = product.streams[0].codes.outputs();
    const TensorId zeros = builder_.constant(tosa::DType::I8, {outputs, 1, 1, depth},
                                             Buffer(static_cast<size_t>(outputs) * static_cast<size_t>(depth)));
    const TensorId bias = builder_.constant(tosa::DType::I32, {1}, {0});
    std::vector<TensorId> parts;
    for (size_t i = 0; i < starts.size(); ++i) {
      std::vector<TensorId> results;
      for (int head = 0; head < product.heads; ++head) {
        const TensorId rows = builder_.reshape(builder_.slice(all, {head, first, 0}, {1, product.rows, depth}),
                                               {1, 1, product.rows, depth});
        results.push_back(builder_.conv2d(rows, zeros, bias, {}, zero_point(planned.matmul->inputs[2])));
        product.streams[i].products.push_back(last());
        if (planned.rescale) results.back() = rescaled(*planned.rescale, results.back());
      }
      const TensorId joined = results.size() > 1 ? builder_.concat(results, 1) : results[0];
      const int start = std::max(known, starts[i]), skipped = WeightCodes::kUnused + start - starts[i];
      known = starts[i] + width;
      parts.push_back(builder_.slice(joined, {0, 0, 0, skipped}, {1, product.heads, product.rows, outputs - skipped}));
    }
    return parts.size() > 1 ? builder_.concat(parts, 3) : parts[0];
  }

  TensorId rescaled(const tosa::Operator& rescale, TensorId x) {
    std::vector<TensorId> inputs = {x};
    for (size_t i = 1; i < rescale.inputs.size(); ++i) inputs.push_back(made(rescale.inputs[i]));
    return builder_.add_operator(rescale.op, rescale.attributes, std::move(inputs))[0];
  }

  // Operators are known to regor by their place in the file, constants included.
  void to_places() {
    const auto before = static_cast<int>(tosa::constants_in_file(result_.program.bodies[0]));
    for (ComputedWeights& product : result_.products) {
      product.constants += before;
      for (ComputedWeights::Stream& stream : product.streams) {
        stream.table += before;
        for (int& place : stream.products) place += before;
      }
    }
  }

  const tosa::Body& body_;
  const NpuTarget& target_;
  const bool own_scales_;
  const Uses uses_;
  ProgramWithProducts result_;
  tosa::Builder builder_;
  std::vector<std::optional<TensorId>> made_;  // by tensor of the original
  std::vector<bool> needed_;
  std::vector<Planned> planned_;
};

}  // namespace

std::optional<ProgramWithProducts> with_products(const tosa::Program& program, const NpuTarget& target,
                                                 bool own_scales) {
  if (program.bodies.size() != 1) return std::nullopt;
  return Writer(program.bodies[0], target, own_scales).run();
}

tosa::Program copy_of_groups(int rows) {
  tosa::Program program;
  tosa::Builder builder(program);
  const TensorId x = builder.input("x", tosa::DType::I8, {1, rows, WeightCodes::kGroup, WeightCodes::kGroup});
  builder.output(builder.clamp(x, -127, 127));
  return program;
}

}  // namespace swoop
