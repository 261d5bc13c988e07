#include "support/check.h"
#include "tosa/infer.h"
#include "tosa/kernels.h"

namespace swoop::tosa {

int64_t Call::scalar(size_t i, bool is_unsigned) const {
  switch (in[i].dtype) {
    case DType::I16: return is_unsigned ? int64_t{*in[i].as<uint16_t>()} : *in[i].as<int16_t>();
    case DType::I32: return *in[i].as<int32_t>();
    case DType::I48: return *in[i].as<int64_t>();
    default: return is_unsigned ? int64_t{*in[i].as<uint8_t>()} : *in[i].as<int8_t>();
  }
}

Error Call::fail(std::string_view what) const { return error("{}: {}.", describe(body, op), what); }

namespace {

constexpr size_t kMaxLiveBytes = size_t{8} << 30;  // a hostile program may ask for anything
constexpr uint64_t kMaxLoopTurns = 1 << 20;

Result<void> run_operator(const Call& call) {
  switch (call.op.op) {
    case Op::Conv2d:
    case Op::Conv3d:
    case Op::DepthwiseConv2d:
    case Op::TransposeConv2d: return run_convolution(call);
    case Op::Matmul: return run_matmul(call);
    case Op::AvgPool2d:
    case Op::MaxPool2d: return run_pool(call);
    case Op::Resize: return run_resize(call);
    case Op::Add:
    case Op::ArithmeticRightShift:
    case Op::BitwiseAnd:
    case Op::BitwiseOr:
    case Op::BitwiseXor:
    case Op::Intdiv:
    case Op::LogicalAnd:
    case Op::LogicalLeftShift:
    case Op::LogicalRightShift:
    case Op::LogicalOr:
    case Op::LogicalXor:
    case Op::Maximum:
    case Op::Minimum:
    case Op::Mul:
    case Op::Sub:
    case Op::Equal:
    case Op::Greater:
    case Op::GreaterEqual: return run_binary(call);
    case Op::Abs:
    case Op::BitwiseNot:
    case Op::Clz:
    case Op::LogicalNot: return run_unary(call);
    case Op::Select: return run_select(call);
    case Op::Rescale: return run_rescale(call);
    case Op::Table:
    case Op::Clamp:
    case Op::Negate:
    case Op::Cast: return run_convert(call);
    case Op::Argmax:
    case Op::ReduceAll:
    case Op::ReduceAny:
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::ReduceSum: return run_reduce(call);
    case Op::Concat:
    case Op::Pad:
    case Op::Reshape:
    case Op::Reverse:
    case Op::Slice:
    case Op::Tile:
    case Op::Transpose:
    case Op::Identity: return run_move(call);
    case Op::Gather:
    case Op::Scatter: return run_gather(call);
    case Op::CondIf:
    case Op::WhileLoop: break;  // Interpreter::run_control
  }
  CHECK(false, "no kernel for {}", name(call.op.op));
}

size_t byte_count(const Tensor& tensor) {
  return static_cast<size_t>(element_count(tensor.shape)) * element_bytes(tensor.dtype);
}

class Interpreter {
 public:
  Interpreter(const Program& program, const Observer& observer) : program_(program), observer_(observer) {}

  Result<std::vector<TensorData>> run_body(BodyId id, std::span<const TensorData> inputs) {
    const Body& body = program_.bodies[id];
    const std::vector<uint32_t>& last_use = last_uses(id);
    std::vector<TensorData> values(body.tensors.size());
    for (size_t i = 0; i < inputs.size(); ++i) values[body.inputs[i]] = inputs[i];
    for (uint32_t at = 0; at < body.operators.size(); ++at) {
      const Operator& op = body.operators[at];
      TRY(run_one(body, op, values));
      if (observer_)
        for (TensorId output : op.outputs) observer_(body, op, output, values[output]);
      for (std::span<const TensorId> ids : {std::span(op.inputs), std::span(op.outputs)})
        for (TensorId tensor : ids)
          if (last_use[tensor] == at) release(values[tensor]);
    }
    std::vector<TensorData> outputs;
    for (TensorId output : body.outputs) {
      const Tensor& tensor = body.tensors[output];
      outputs.push_back(tensor.is_const ? TensorData{tensor.dtype, tensor.shape, tensor.data} : values[output]);
    }
    for (TensorData& value : values) release(value);
    return outputs;
  }

 private:
  Result<void> run_one(const Body& body, const Operator& op, std::vector<TensorData>& values) {
    if (op.op == Op::CondIf || op.op == Op::WhileLoop) return run_control(body, op, values);
    std::vector<Value> in;
    for (TensorId id : op.inputs) {
      const Tensor& tensor = body.tensors[id];
      in.push_back({tensor.dtype, &tensor.shape, tensor.is_const ? tensor.data.data() : values[id].data.data()});
    }
    std::vector<TensorData> out;
    for (TensorId id : op.outputs) {
      const Tensor& tensor = body.tensors[id];
      live_bytes_ += byte_count(tensor);
      if (live_bytes_ > kMaxLiveBytes)
        return error("{}: the program needs more than {} GiB at once.", describe(body, op), kMaxLiveBytes >> 30);
      out.push_back({tensor.dtype, tensor.shape, Buffer(byte_count(tensor))});
    }
    TRY(run_operator({body, op, in, out}));
    for (size_t i = 0; i < out.size(); ++i) values[op.outputs[i]] = std::move(out[i]);
    return {};
  }

  Result<void> run_control(const Body& body, const Operator& op, std::vector<TensorData>& values) {
    std::vector<TensorData> operands;
    for (TensorId id : op.inputs) {
      const Tensor& tensor = body.tensors[id];
      operands.push_back(tensor.is_const ? TensorData{tensor.dtype, tensor.shape, tensor.data} : values[id]);
    }
    std::vector<TensorData> results;
    if (const auto* branch = std::get_if<CondIfAttributes>(&op.attributes)) {
      bool taken = operands[0].data[0] != std::byte{0};
      TRY_ASSIGN(results, run_body(taken ? branch->then_body : branch->else_body, std::span(operands).subspan(1)));
    } else {
      const auto& loop = std::get<WhileLoopAttributes>(op.attributes);
      results = std::move(operands);
      for (;;) {
        TRY_ASSIGN(std::vector<TensorData> condition, run_body(loop.cond_body, results));
        if (condition[0].data[0] == std::byte{0}) break;
        if (++loop_turns_ > kMaxLoopTurns)
          return error("{}: the loop does not end after {} turns.", describe(body, op), kMaxLoopTurns);
        TRY_ASSIGN(results, run_body(loop.loop_body, results));
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      live_bytes_ += results[i].data.size();
      values[op.outputs[i]] = std::move(results[i]);
    }
    return {};
  }

  void release(TensorData& value) {
    live_bytes_ -= std::min(live_bytes_, value.data.size());
    value = TensorData{};
  }

  // The last operator that uses each tensor; outputs of the body live on.
  const std::vector<uint32_t>& last_uses(BodyId id) {
    last_uses_.resize(program_.bodies.size());
    std::vector<uint32_t>& uses = last_uses_[id];
    const Body& body = program_.bodies[id];
    if (!uses.empty() || body.tensors.empty()) return uses;
    uses.assign(body.tensors.size(), UINT32_MAX);
    for (uint32_t at = 0; at < body.operators.size(); ++at)
      for (std::span<const TensorId> ids :
           {std::span(body.operators[at].inputs), std::span(body.operators[at].outputs)})
        for (TensorId tensor : ids) uses[tensor] = at;
    for (TensorId output : body.outputs) uses[output] = UINT32_MAX;
    return uses;
  }

  const Program& program_;
  const Observer& observer_;
  std::vector<std::vector<uint32_t>> last_uses_;
  size_t live_bytes_ = 0;
  uint64_t loop_turns_ = 0;
};

}  // namespace

Result<std::vector<TensorData>> run(const Program& program, std::span<const TensorData> inputs,
                                    const Observer& observer) {
  CHECK(!program.bodies.empty(), "a program without bodies is not valid");
  const Body& main = program.bodies[0];
  if (inputs.size() != main.inputs.size())
    return error("The program has {} inputs; {} were given.", main.inputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& expected = main.tensors[main.inputs[i]];
    if (inputs[i].dtype != expected.dtype || inputs[i].shape != expected.shape ||
        inputs[i].data.size() != byte_count(expected)) {
      return error("Input '{}' is {}{}; {}{} with {} bytes was given.", expected.name, name(expected.dtype),
                   text(expected.shape), name(inputs[i].dtype), text(inputs[i].shape), inputs[i].data.size());
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (std::byte value : inputs[i].dtype == DType::Bool ? Bytes(inputs[i].data) : Bytes())
      if (value > std::byte{1}) return error("Input {} is bool and holds another value than 0 and 1.", i);
  }
  return Interpreter(program, observer).run_body(0, inputs);
}

}  // namespace swoop::tosa
