#include "support/hash.h"
#include "tosa/infer.h"

namespace swoop::tosa {

namespace {

std::string_view name(Rounding rounding) {
  switch (rounding) {
    case Rounding::Single: return "single";
    case Rounding::Inexact: return "inexact";
    case Rounding::Double: return "double";
  }
  return "unknown";
}

// One printer per attribute struct; the variant makes a missing one a compile error.
struct Printer {
  const Program& program;

  std::string operator()(const NoAttributes&) const { return ""; }
  std::string operator()(const Conv2dAttributes& a) const {
    return fmt::format(" pad=[{}] stride=[{}] dilation=[{}]{}", fmt::join(a.pad, ","), fmt::join(a.stride, ","),
                       fmt::join(a.dilation, ","), a.local_bound ? " local_bound" : "");
  }
  std::string operator()(const Conv3dAttributes& a) const {
    return fmt::format(" pad=[{}] stride=[{}] dilation=[{}]{}", fmt::join(a.pad, ","), fmt::join(a.stride, ","),
                       fmt::join(a.dilation, ","), a.local_bound ? " local_bound" : "");
  }
  std::string operator()(const TransposeConv2dAttributes& a) const {
    return fmt::format(" out_pad=[{}] stride=[{}]{}", fmt::join(a.out_pad, ","), fmt::join(a.stride, ","),
                       a.local_bound ? " local_bound" : "");
  }
  std::string operator()(const PoolAttributes& a) const {
    return fmt::format(" kernel=[{}] stride=[{}] pad=[{}]", fmt::join(a.kernel, ","), fmt::join(a.stride, ","),
                       fmt::join(a.pad, ","));
  }
  std::string operator()(const RescaleAttributes& a) const {
    return fmt::format(" {} rounding={}{}{}{}", a.scale32 ? "scale32" : "scale16", name(a.rounding),
                       a.per_channel ? " per_channel" : "", a.input_unsigned ? " input_unsigned" : "",
                       a.output_unsigned ? " output_unsigned" : "");
  }
  std::string operator()(const ClampAttributes& a) const { return fmt::format(" min={} max={}", a.min_val, a.max_val); }
  std::string operator()(const ShiftAttributes& a) const { return a.round ? " round" : ""; }
  std::string operator()(const AxisAttributes& a) const { return fmt::format(" axis={}", a.axis); }
  std::string operator()(const PadAttributes& a) const { return fmt::format(" padding={}", text(a.padding)); }
  std::string operator()(const ReshapeAttributes& a) const { return fmt::format(" shape={}", text(a.shape)); }
  std::string operator()(const TileAttributes& a) const { return fmt::format(" multiples={}", text(a.multiples)); }
  std::string operator()(const SliceAttributes& a) const {
    return fmt::format(" start={} size={}", text(a.start), text(a.size));
  }
  std::string operator()(const TransposeAttributes& a) const { return fmt::format(" perms={}", text(a.perms)); }
  std::string operator()(const ResizeAttributes& a) const {
    return fmt::format(" {} scale=[{}] offset=[{}] border=[{}]", a.mode == ResizeMode::Nearest ? "nearest" : "bilinear",
                       fmt::join(a.scale, ","), fmt::join(a.offset, ","), fmt::join(a.border, ","));
  }
  std::string operator()(const CastAttributes& a) const { return fmt::format(" to={}", tosa::name(a.to)); }
  std::string operator()(const CondIfAttributes& a) const {
    return fmt::format(" then=@{} else=@{}", program.bodies[a.then_body].name, program.bodies[a.else_body].name);
  }
  std::string operator()(const WhileLoopAttributes& a) const {
    return fmt::format(" cond=@{} body=@{}", program.bodies[a.cond_body].name, program.bodies[a.loop_body].name);
  }
};

std::string type_text(const Tensor& tensor) { return fmt::format("{}{}", name(tensor.dtype), text(tensor.shape)); }

// Small constants by value, so that a zero point can be read where it is used; larger ones by hash.
std::string operand_text(const Tensor& tensor) {
  constexpr size_t kShownElements = 4;
  if (!tensor.is_const) return "%" + tensor.name;
  auto count = static_cast<size_t>(element_count(tensor.shape));
  if (count > kShownElements) return fmt::format("{}#{:016x}", type_text(tensor), hash_bytes(tensor.data));
  std::vector<int64_t> values;
  for (size_t i = 0; i < count; ++i) values.push_back(read_element(tensor, i));
  if (count == 1 && tensor.shape.size() <= 1) return fmt::format("{}({})", name(tensor.dtype), values[0]);
  return fmt::format("{}({})", type_text(tensor), fmt::join(values, ","));
}

}  // namespace

std::string text(const Program& program) {
  std::string out;
  for (const Body& body : program.bodies) {
    out += fmt::format("body @{}(", body.name);
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      const Tensor& input = body.tensors[body.inputs[i]];
      out += fmt::format("{}%{} : {}", i ? ", " : "", input.name, type_text(input));
    }
    out += ")\n";
    for (const Operator& op : body.operators) {
      out += " ";
      for (TensorId id : op.outputs)
        out += fmt::format(" %{} : {}", body.tensors[id].name, type_text(body.tensors[id]));
      out += fmt::format(" = {}", name(op.op));
      for (TensorId id : op.inputs) out += " " + operand_text(body.tensors[id]);
      out += std::visit(Printer{program}, op.attributes);
      if (!op.location.empty()) out += "  # " + op.location;
      out += "\n";
    }
    out += "  return";
    for (TensorId id : body.outputs) out += " " + operand_text(body.tensors[id]);
    out += "\n";
  }
  return out;
}

}  // namespace swoop::tosa
