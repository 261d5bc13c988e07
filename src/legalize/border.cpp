// How the caller hands over inputs and takes outputs: floats or codes, channels first or last.
#include <algorithm>
#include <cstring>

#include "legalize/common.h"
#include "legalize/legalize.h"

namespace swoop {

namespace {

// The same codes counted from 0 instead of -128.
Type as_bytes(const Type& type) {
  return type.quantized() && type.dtype == DType::I8
             ? quantized(DType::U8, type.shape, type.scale(), type.zero_point() + 128)
             : type;
}

// A float input that is only quantized, always the same way, becomes the quantized value itself.
void give_codes(Graph& graph, ValueId input, PortNumbers numbers) {
  const std::vector<Use> uses = graph.value(input).uses;
  auto quantizes_alike = [&](const Use& use) {
    if (use.node == kNone || graph.node(use.node).op != Op::Quantize) return false;
    return graph.type(graph.node(use.node).outputs[0]) == graph.type(graph.node(uses[0].node).outputs[0]);
  };
  if (uses.empty() || !std::all_of(uses.begin(), uses.end(), quantizes_alike)) return;
  const Type codes = graph.type(graph.node(uses[0].node).outputs[0]);
  graph.value(input).type = numbers == PortNumbers::Bytes ? as_bytes(codes) : codes;
  if (graph.type(input) != codes) return;  // its quantize nodes now change the type of codes
  for (const Use& use : uses) {
    graph.replace_all_uses(graph.node(use.node).outputs[0], input);
    graph.erase(use.node);
  }
}

// A dequantized output becomes the codes.
void take_codes(Graph& graph, size_t output, PortNumbers numbers) {
  const Node* dequantize = graph.producer(graph.outputs()[output]);
  if (!dequantize || dequantize->op != Op::Dequantize) return;
  ValueId codes = dequantize->inputs[0];
  if (graph.type(codes).dtype == DType::I32) return;  // of parts that 16 bits are too few for: as wide as floats
  const Type type = numbers == PortNumbers::Bytes ? as_bytes(graph.type(codes)) : graph.type(codes);
  if (type != graph.type(codes)) {
    const LocId loc = dequantize->loc;
    codes = graph.add_node(Op::Quantize, {codes}, {type}, {}, loc, graph.value(codes).name + "_bytes").outputs[0];
  }
  graph.set_output(output, codes);
}

// The codes of the numbers that a buffer begins with; without any, it begins with zeros.
Buffer initial_codes(const Port& port, const Type& type) {
  const size_t width = byte_size(type.dtype);
  Buffer data(static_cast<size_t>(element_count(type.shape)) * width);
  for (size_t i = 0; i * width < data.size(); ++i) {
    float real = 0;
    if (!port.initial.empty()) std::memcpy(&real, port.initial.data() + i * sizeof real, sizeof real);
    const int64_t code = quantize_value(real, type.scale(), type.zero_point(), type.quant->qmin, type.quant->qmax);
    std::memcpy(data.data() + i * width, &code, width);  // little endian: the low bytes come first
  }
  return data;
}

// A buffer of floats that is quantized whenever it is read, and written from codes of that type, holds the codes.
void keep_codes(Graph& graph, size_t input) {
  const ValueId id = graph.inputs()[input];
  const Port& port = graph.input_port(input);
  size_t output = 0;
  while (output < graph.outputs().size() && graph.output_port(output) != port) ++output;
  if (output == graph.outputs().size() || graph.type(id).dtype != DType::F32 || graph.type(id).quantized()) return;
  const Node* dequantize = graph.producer(graph.outputs()[output]);
  if (!dequantize || dequantize->op != Op::Dequantize || graph.value(id).uses.empty()) return;
  const Type codes = graph.type(dequantize->inputs[0]);
  const Use& first = graph.value(id).uses[0];
  if (!is_codes(codes) || first.node == kNone || graph.type(graph.node(first.node).outputs[0]) != codes) return;
  give_codes(graph, id, PortNumbers::Codes);
  if (graph.type(id) != codes) return;  // somebody reads the floats
  graph.set_initial(input, graph.store(initial_codes(port, codes)));
  take_codes(graph, output, PortNumbers::Codes);
}

Type moved(Type type, const Ints& perm) {
  const Shape from = type.shape;
  for (size_t i = 0; i < perm.size(); ++i) type.shape[i] = from[static_cast<size_t>(perm[i])];
  return type;
}

// The value of the input, or of what quantizes it, comes channels last and is turned before its first use.
void turn_after(Graph& graph, ValueId value) {
  const Type inside = graph.type(value);
  const size_t rank = inside.shape.size();
  const std::vector<Use> uses = graph.value(value).uses;
  graph.value(value).type = moved(inside, to_channels_last(rank));
  ValueId turned = kNone;
  for (const Use& use : uses) {
    if (use.node != kNone && graph.node(use.node).op == Op::Quantize) {
      turn_after(graph, graph.node(use.node).outputs[0]);
      continue;
    }
    if (turned == kNone) {
      const Node* producer = graph.producer(value);
      const NodeId before = producer ? producer->next : graph.first();
      turned = graph
                   .add_node(Op::Transpose, {value}, {inside}, {{Key::Perm, to_channels_first(rank)}},
                             producer ? producer->loc : kNone, graph.value(value).name + "_first", before)
                   .outputs[0];
    }
    if (use.node == kNone)
      graph.set_output(use.index, turned);
    else
      graph.set_input(graph.node(use.node), use.index, turned);
  }
}

// The output leaves channels last; codes are turned before they become floats.
void turn_before(Graph& graph, size_t output) {
  ValueId value = graph.outputs()[output];
  const Node* producer = graph.producer(value);
  const LocId loc = producer ? producer->loc : kNone;
  const bool dequantizes = producer && producer->op == Op::Dequantize;
  const Type floats = graph.type(value);
  if (dequantizes) value = producer->inputs[0];
  const Ints perm = to_channels_last(floats.shape.size());
  const std::string name = graph.value(value).name + "_last";
  value = graph.add_node(Op::Transpose, {value}, {moved(graph.type(value), perm)}, {{Key::Perm, perm}}, loc, name)
              .outputs[0];
  if (dequantizes)
    value = graph.add_node(Op::Dequantize, {value}, {moved(floats, perm)}, {}, loc, name + "_dq").outputs[0];
  graph.set_output(output, value);
}

}  // namespace

bool PortOptions::is_channels_last(std::string_view name, size_t rank) const {
  return std::any_of(channels_last.begin(), channels_last.end(), [&](const std::string& wanted) {
    return wanted == kImages ? rank == 4 : wanted == name && rank > 2;
  });
}

void choose_ports(Graph& graph, const PortOptions& options) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId input = graph.inputs()[i];
    if (graph.input_port(i).role == Port::Role::State) keep_codes(graph, i);
    if (graph.input_port(i).role != Port::Role::User) continue;
    if (options.inputs != PortNumbers::Float) give_codes(graph, input, options.inputs);
    if (options.is_channels_last(graph.value(input).name, graph.type(input).shape.size())) turn_after(graph, input);
  }
  for (size_t i = 0, user = 0; i < graph.outputs().size(); ++i) {
    if (graph.output_port(i).role != Port::Role::User) continue;
    const size_t rank = graph.type(graph.outputs()[i]).shape.size();
    if (options.is_channels_last(fmt::format("out{}", user++), rank)) turn_before(graph, i);
    if (options.outputs != PortNumbers::Float) take_codes(graph, i, options.outputs);
  }
  graph.erase_dead();
}

}  // namespace swoop
