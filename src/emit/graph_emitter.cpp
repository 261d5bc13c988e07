#include "emit/graph_emitter.h"

#include <algorithm>

#include "emit/host.h"
#include "ops/ops.h"
#include "stream/stream.h"
#include "support/check.h"

namespace swoop::emit {

namespace {

// Sizes in the file are 32-bit, and so is its arena on the device.
constexpr int64_t kMaxTensorBytes = int64_t{1} << 31;

bool is_region(const Node& node) { return node.op == Op::Opaque && node.text(Key::Target) == kRegionTarget; }

Ints channels_first(size_t rank) {  // [N,s...,C] -> [N,C,s...]
  Ints perm{0, static_cast<int64_t>(rank) - 1};
  for (size_t d = 1; d + 1 < rank; ++d) perm.push_back(static_cast<int64_t>(d));
  return perm;
}

Ints channels_last(size_t rank) {
  Ints perm{0};
  for (size_t d = 2; d < rank; ++d) perm.push_back(static_cast<int64_t>(d));
  perm.push_back(1);
  return perm;
}

Shape permuted_shape(const Shape& shape, const Ints& perm) {
  Shape result;
  for (int64_t axis : perm) result.push_back(shape[static_cast<size_t>(axis)]);
  return result;
}

Result<void> check_type(const Graph& graph, const Value& value) {
  if (scalar_type(value.type.dtype) < 0)
    return error("{} has element type {}, which ExecuTorch does not know; it can only live inside an NPU region.",
                 value.name, name_of(value.type.dtype));
  int64_t bytes = element_count(value.type.shape) * static_cast<int64_t>(byte_size(value.type.dtype));
  if (bytes >= kMaxTensorBytes) {
    const Loc* loc = value.producer == kNone ? nullptr : graph.loc(graph.node(value.producer).loc);
    return error("{}{}{} takes {} bytes; a program holds at most 2 GiB per tensor.", loc ? to_text(*loc) : "",
                 loc ? ": " : "", value.name, bytes);
  }
  return {};
}

}  // namespace

GraphEmitter::Scope GraphEmitter::scope_of(const Graph& graph) const {
  return {graph, std::vector<int>(graph.value_slots(), kAbsent), std::vector<int>(graph.value_slots(), kAbsent)};
}

Result<int> GraphEmitter::value(Scope& scope, ValueId id) {
  int& slot = scope.values[id];
  if (slot != kAbsent) return slot;
  const Value& v = scope.graph.value(id);
  CHECK(v.constant, "value {} is used before it is made", v.name);
  TRY(check_type(scope.graph, v));
  slot = b_.constant(v.type.dtype, v.type.shape, v.data);
  return slot;
}

Result<int> GraphEmitter::real_value(Scope& scope, ValueId id) {
  const Value& v = scope.graph.value(id);
  if (!v.type.quantized()) return value(scope, id);
  int& slot = scope.reals[id];
  if (slot != kAbsent) return slot;
  if (v.constant) {
    Tensor real = to_tensor(v);
    slot = b_.constant(DType::F32, v.type.shape, Buffer(real.data));
    return slot;
  }
  TRY_ASSIGN(int stored, value(scope, id));
  TRY_ASSIGN(int real, dequantize(v.type, stored));
  scope.reals[id] = real;
  return real;
}

Result<int> GraphEmitter::result(Scope& scope, ValueId id) {
  int& slot = scope.values[id];
  if (slot != kAbsent) return slot;  // its place was chosen beforehand
  const Value& v = scope.graph.value(id);
  TRY(check_type(scope.graph, v));
  slot = b_.planned(v.type.dtype, v.type.shape);
  return slot;
}

Result<void> GraphEmitter::quantize(const Type& type, int from, int to) {
  const Quant& quant = *type.quant;
  int qmin = b_.integer(quant.qmin);
  int qmax = b_.integer(quant.qmax);
  int dtype = b_.integer(scalar_type(type.dtype));
  if (!quant.per_channel()) {
    b_.kernel("quantized_decomposed::quantize_per_tensor.out",
              {from, b_.real(quant.scale[0]), b_.integer(quant.zero_point[0]), qmin, qmax, dtype}, {to});
    return {};
  }
  auto channels = static_cast<int64_t>(quant.scale.size());
  int scales = b_.constant(DType::F64, {channels}, std::as_bytes(std::span(quant.scale)));
  int zero_points = b_.constant(DType::I64, {channels}, std::as_bytes(std::span(quant.zero_point)));
  b_.kernel("quantized_decomposed::quantize_per_channel.out",
            {from, scales, zero_points, b_.integer(quant.axis), qmin, qmax, dtype}, {to});
  return {};
}

Result<int> GraphEmitter::dequantize(const Type& type, int from, int to) {
  const Quant& quant = *type.quant;
  if (to == kAbsent) to = b_.planned(DType::F32, type.shape);
  int qmin = b_.integer(quant.qmin);
  int qmax = b_.integer(quant.qmax);
  int dtype = b_.integer(scalar_type(type.dtype));
  if (!quant.per_channel()) {
    b_.kernel("quantized_decomposed::dequantize_per_tensor.out",
              {from, b_.real(quant.scale[0]), b_.integer(quant.zero_point[0]), qmin, qmax, dtype, b_.null()}, {to});
    return to;
  }
  auto channels = static_cast<int64_t>(quant.scale.size());
  int scales = b_.constant(DType::F64, {channels}, std::as_bytes(std::span(quant.scale)));
  int zero_points = b_.constant(DType::I64, {channels}, std::as_bytes(std::span(quant.zero_point)));
  b_.kernel("quantized_decomposed::dequantize_per_channel.out",
            {from, scales, zero_points, b_.integer(quant.axis), qmin, qmax, dtype, b_.null()}, {to});
  return to;
}

Result<void> GraphEmitter::emit_quantize(Scope& scope, const Node& node) {
  const Type& from = scope.graph.type(node.inputs[0]);
  const Type& to = scope.graph.type(node.outputs[0]);
  if (node.op == Op::Quantize) {
    TRY_ASSIGN(int x, real_value(scope, node.inputs[0]));
    if (b_.tensor(x).dtype != DType::F32) x = b_.cast(x, DType::F32);  // the kernel takes nothing else
    TRY_ASSIGN(int out, result(scope, node.outputs[0]));
    return quantize(to, x, out);
  }
  CHECK(from.quantized(), "node {} dequantizes a value that is not quantized", node.name);
  if (scope.graph.value(node.inputs[0]).constant || to.dtype != DType::F32) {
    TRY_ASSIGN(int real, real_value(scope, node.inputs[0]));
    TRY_ASSIGN(int out, result(scope, node.outputs[0]));
    if (to.dtype == DType::F32)
      b_.copy(real, out);
    else
      b_.cast(real, to.dtype, out);
    return {};
  }
  TRY_ASSIGN(int x, value(scope, node.inputs[0]));
  if (scope.reals[node.inputs[0]] != kAbsent && scope.values[node.outputs[0]] == kAbsent) {
    scope.values[node.outputs[0]] = scope.reals[node.inputs[0]];  // another node needed it already
    return {};
  }
  TRY_ASSIGN(int out, result(scope, node.outputs[0]));
  TRY_ASSIGN(scope.reals[node.inputs[0]], dequantize(from, x, out));
  return {};
}

Result<void> GraphEmitter::emit_region(Scope& scope, const Node& node) {
  auto index = static_cast<size_t>(node.integer(Key::Region));
  CHECK(index < regions_.size(), "node {} names region {} of {}", node.name, index, regions_.size());
  std::vector<int> args;
  for (ValueId id : node.inputs) {
    TRY_ASSIGN(int arg, value(scope, id));
    args.push_back(arg);
  }
  for (ValueId id : node.outputs) {
    TRY_ASSIGN(int arg, result(scope, id));
    args.push_back(arg);
  }
  if (delegate_of_region_.empty()) delegate_of_region_.assign(regions_.size(), kAbsent);
  int& delegate = delegate_of_region_[index];
  if (delegate == kAbsent) {
    delegate = static_cast<int>(used_regions_.size());
    used_regions_.push_back(static_cast<int>(index));
    // The device copies whole tensors and compares sizes at run time: find a disagreement now.
    TRY_ASSIGN(NpuProgram program, unpack(regions_[index].blob));
    std::vector<NpuTensor> tensors = program.inputs;
    tensors.insert(tensors.end(), program.outputs.begin(), program.outputs.end());
    if (program.inputs.size() != node.inputs.size() || program.outputs.size() != node.outputs.size())
      return error(
          "NPU region {} was compiled with {} inputs and {} outputs, but its graph has {} and {}: the code generator "
          "dropped some.",
          index, program.inputs.size(), program.outputs.size(), node.inputs.size(), node.outputs.size());
    for (size_t i = 0; i < args.size(); ++i) {
      const TensorValue& tensor = b_.tensor(args[i]);
      if (tensors[i].byte_size() != element_count(tensor.shape) * static_cast<int64_t>(byte_size(tensor.dtype)))
        return error("Argument {} of NPU region {} has {} bytes on the NPU and type {}{} in the program.", i, index,
                     tensors[i].byte_size(), name_of(tensor.dtype), to_text(tensor.shape));
    }
  }
  b_.delegate(delegate, std::move(args));
  return {};
}

// A view shares its input's bytes, unless its place is already chosen.
Result<void> GraphEmitter::emit_reshape(Scope& scope, const Node& node) {
  TRY_ASSIGN(int x, value(scope, node.inputs[0]));
  const Type& type = scope.graph.type(node.outputs[0]);
  int& slot = scope.values[node.outputs[0]];
  if (slot == kAbsent)
    slot = b_.alias(x, type.shape);
  else
    b_.copy(x, slot);
  return {};
}

// An op on quantized values means: dequantize, compute in float, clamp, quantize. Data movement alone works on the
// codes.
Result<void> GraphEmitter::emit_host(Scope& scope, const Node& node) {
  if (node.op == Op::Reshape) return emit_reshape(scope, node);
  bool movement = info(node.op).traits.movement;
  std::vector<int> in;
  for (ValueId id : node.inputs) {
    if (id == kNone) {
      in.push_back(kAbsent);
      continue;
    }
    TRY_ASSIGN(int x, movement ? value(scope, id) : real_value(scope, id));
    in.push_back(x);
  }
  if (node.op == Op::Opaque) {
    std::vector<int> out;
    for (ValueId id : node.outputs) {
      TRY_ASSIGN(int r, result(scope, id));
      out.push_back(r);
    }
    return emit_opaque(b_, scope.graph, node, in, out);
  }

  const Type& type = scope.graph.type(node.outputs[0]);
  TRY_ASSIGN(int out, result(scope, node.outputs[0]));
  bool requantize = type.quantized() && !movement;
  bool clamps = node.has(Key::ActMin) || node.has(Key::ActMax);
  bool last = node.flag(Key::ChannelsLast) && info(node.op).traits.channels;
  int target = requantize ? b_.planned(DType::F32, type.shape) : out;
  int clamped = target;
  if (clamps) target = b_.like(target);
  int laid_out = target;
  if (last) {
    size_t rank = in[0] == kAbsent ? 0 : b_.tensor(in[0]).shape.size();
    in[0] = b_.permute(in[0], channels_first(rank));
    if (node.op == Op::Conv) in[1] = b_.permute(in[1], channels_first(rank));
    if (node.op == Op::ConvTranspose) {  // [O,k...,C/g] -> [C,O/g,k...]
      if (node.integer(Key::Groups) != 1)
        return no_kernel(scope.graph, node,
                         "the runtime cannot run a grouped transposed convolution in channels-last order");
      Ints perm{static_cast<int64_t>(rank) - 1, 0};
      for (size_t d = 1; d + 1 < rank; ++d) perm.push_back(static_cast<int64_t>(d));
      in[1] = b_.permute(in[1], perm);
    }
    target = b_.planned(b_.tensor(target).dtype, permuted_shape(type.shape, channels_first(type.shape.size())));
  }
  HostCall call{b_, scope.graph, node, std::move(in), target};
  TRY(emit_host_op(call));
  if (last) b_.permute(target, channels_last(type.shape.size()), laid_out);
  if (clamps) {
    std::optional<double> min, max;
    if (node.has(Key::ActMin)) min = node.real(Key::ActMin);
    if (node.has(Key::ActMax)) max = node.real(Key::ActMax);
    b_.clamp(laid_out, min, max, clamped);
  }
  if (requantize) TRY(quantize(type, clamped, out));
  return {};
}

Result<void> GraphEmitter::emit_node(Scope& scope, const Node& node) {
  if (is_region(node)) return emit_region(scope, node);
  if (node.op == Op::Quantize || node.op == Op::Dequantize) return emit_quantize(scope, node);
  if (node.op == Op::Cond) return emit_cond(scope, node);
  if (node.op == Op::While) return emit_while(scope, node);
  if (node.op == Op::Map || node.op == Op::Scan) return emit_scan(scope, node);
  return emit_host(scope, node);
}

void GraphEmitter::write_back(std::vector<std::pair<int, int>> moves) {
  auto storage = [&](int value) { return b_.tensor(value).storage; };
  std::erase_if(moves, [&](const auto& move) { return storage(move.first) == storage(move.second); });
  for (auto& [from, to] : moves) {
    int source = storage(from);
    bool overwritten =
        std::any_of(moves.begin(), moves.end(), [&](const auto& m) { return storage(m.second) == source; });
    if (overwritten) from = b_.copy(from);
  }
  for (const auto& [from, to] : moves) {
    int source = b_.tensor(from).shape == b_.tensor(to).shape ? from : b_.alias(from, b_.tensor(to).shape);
    b_.in_place("aten::copy_", {to, source, b_.boolean(false)});
  }
}

Result<void> GraphEmitter::emit_program(const Graph& graph, bool names) {
  Scope scope = scope_of(graph);
  std::map<std::string, int> written;  // buffers and inputs by name
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    ValueId id = graph.inputs()[i];
    const Value& v = graph.value(id);
    const Port& port = graph.input_port(i);
    TRY(check_type(graph, v));
    int slot = b_.planned(v.type.dtype, v.type.shape, names ? (port.name.empty() ? v.name : port.name) : "");
    scope.values[id] = slot;
    written[port.name.empty() ? v.name : port.name] = slot;
    if (port.role != Port::Role::State) {
      b_.plan.inputs.push_back(slot);
      continue;
    }
    CHECK(port.initial.empty() || static_cast<int64_t>(port.initial.size()) == b_.plan.storages.back().bytes,
          "buffer {} starts with {} bytes", port.name, port.initial.size());
    Bytes initial = port.initial;
    if (initial.empty()) initial = b_.plan.owned.emplace_back(static_cast<size_t>(b_.plan.storages.back().bytes));
    b_.tensor(slot).initial = static_cast<int>(b_.plan.initials.size());
    b_.plan.initials.push_back(initial);
  }
  for (NodeId id : graph.order()) TRY(emit_node(scope, graph.node(id)));

  std::vector<std::pair<int, int>> moves;
  std::vector<int> overwritten;  // storages
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Port& port = graph.output_port(i);
    if (port.role == Port::Role::User) continue;
    auto place = written.find(port.name);
    CHECK(place != written.end(), "output {} writes to {}, which is no input", i, port.name);
    TRY_ASSIGN(int source, value(scope, graph.outputs()[i]));
    if (source == place->second) continue;
    moves.emplace_back(source, place->second);
    overwritten.push_back(b_.tensor(place->second).storage);
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    if (graph.output_port(i).role != Port::Role::User) continue;
    TRY_ASSIGN(int output, value(scope, graph.outputs()[i]));
    // A result needs memory of its own: constants may be in flash, and what is written back would change under the
    // reader.
    if (b_.is_constant(output) || std::ranges::find(overwritten, b_.tensor(output).storage) != overwritten.end())
      output = b_.copy(output);
    b_.plan.outputs.push_back(output);
  }
  write_back(std::move(moves));
  int end = b_.position();
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    if (graph.input_port(i).role == Port::Role::State) b_.hold(scope.values[graph.inputs()[i]], -1, end);
  for (int storage : overwritten) b_.plan.holds.push_back({storage, -1, end});
  return {};
}

Result<void> GraphEmitter::probe(const Graph& graph, const Node& node) {
  if (is_region(node) || !node.bodies.empty()) return {};
  Scope scope = scope_of(graph);
  for (ValueId id : node.inputs) {
    if (id == kNone || graph.value(id).constant) continue;
    TRY_ASSIGN(int made_up, result(scope, id));
    (void)made_up;
  }
  return emit_node(scope, node);
}

}  // namespace swoop::emit
