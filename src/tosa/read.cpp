// .tosa -> Program. The bytes may be hostile: flatbuffers' verifier checks every offset, this file every name, count
// and size, and validate() everything else.
#include <algorithm>
#include <unordered_map>

#include "schema/tosa.h"
#include "tosa/infer.h"

namespace swoop::tosa {

namespace {

namespace fb = ::tosa;
template <typename T>
using FbVector = swoop_flatbuffers::Vector<T>;
using FbStrings = FbVector<swoop_flatbuffers::Offset<swoop_flatbuffers::String>>;

std::string_view view(const swoop_flatbuffers::String* text) {
  return text ? std::string_view(text->c_str(), text->size()) : std::string_view();
}

template <typename T>
size_t count(const FbVector<T>* list) {
  return list ? list->size() : 0;
}

Result<DType> dtype_of(fb::DType dtype, std::string_view tensor) {
  switch (dtype) {
    case fb::DType::BOOL: return DType::Bool;
    case fb::DType::INT4: return DType::I4;
    case fb::DType::INT8: return DType::I8;
    case fb::DType::INT16: return DType::I16;
    case fb::DType::INT32: return DType::I32;
    case fb::DType::INT48: return DType::I48;
    default: break;
  }
  return error("Tensor '{}' has type {}, which the integer profile does not have.", tensor, fb::EnumNameDType(dtype));
}

// The file packs i4 and i48; memory does not.
Result<Buffer> unpack(const fb::TosaTensor& source, DType dtype, const Shape& shape) {
  size_t elements = static_cast<size_t>(element_count(shape));
  size_t expected = elements * element_bytes(dtype);
  if (dtype == DType::I48) expected = elements * 6;
  if (dtype == DType::I4) expected = (elements + 1) / 2;
  // More is not an error: ExecuTorch writes a weight zero point of shape [1] with one byte per output channel, and the
  // reference model and Vela read the first.
  size_t size = count(source.data());
  if (size < expected)
    return error("Constant '{}' has {} bytes of data; {}{} needs {}.", view(source.name()), size, name(dtype),
                 text(shape), expected);
  const auto* data = reinterpret_cast<const std::byte*>(source.data() ? source.data()->data() : nullptr);
  if (dtype != DType::I48 && dtype != DType::I4) return Buffer(data, data + expected);
  Buffer unpacked(elements * element_bytes(dtype));
  for (size_t i = 0; i < elements; ++i) {
    if (dtype == DType::I48) {
      uint64_t bits = 0;
      std::memcpy(&bits, data + i * 6, 6);
      int64_t value = static_cast<int64_t>(bits << 16) >> 16;
      std::memcpy(unpacked.data() + i * 8, &value, 8);
    } else {
      unsigned bits = static_cast<unsigned>(data[i / 2]) >> (i % 2 * 4) & 0xfu;
      unpacked[i] = static_cast<std::byte>(bits >= 8 ? bits | 0xf0u : bits);
    }
  }
  return unpacked;
}

using Ints = FbVector<int32_t>;

template <size_t N>
Result<void> copy(const Operator& op, std::string_view what, const Ints* from, std::array<int32_t, N>& to) {
  if (count(from) != N) return error("A {} has {} values for its {}; it needs {}.", name(op.op), count(from), what, N);
  std::copy(from->begin(), from->end(), to.begin());
  return {};
}

Result<int64_t> clamp_limit(const FbVector<uint8_t>* bytes, DType dtype) {
  // The value's bytes; the serializer of the reference model may pad them.
  size_t size = element_bytes(dtype);
  if (count(bytes) < size) return error("A CLAMP has {} bytes for a limit of type {}.", count(bytes), name(dtype));
  const auto* at = reinterpret_cast<const std::byte*>(bytes->data());
  if (dtype == DType::I8) return load<int8_t>(at);
  if (dtype == DType::I16) return load<int16_t>(at);
  return error("A CLAMP has the type {}; it may be i8 or i16.", name(dtype));
}

class BodyReader {
 public:
  BodyReader(const std::unordered_map<std::string_view, BodyId>& bodies) : body_ids_(bodies) {}

  Result<Body> read(const fb::TosaRegion& source) {
    if (count(source.blocks()) != 1 || !source.blocks()->Get(0))
      return error("Body '{}' has {} blocks; exactly one is supported.", view(source.name()), count(source.blocks()));
    const fb::TosaBasicBlock& block = *source.blocks()->Get(0);
    body_.name = view(source.name());
    TRY(read_tensors(block));
    TRY(read_shapes(block));
    for (size_t i = 0; i < count(block.operators()); ++i) {
      const fb::TosaOperator* op = block.operators()->Get(static_cast<uint32_t>(i));
      if (!op) return error("Body '{}' has an empty operator.", body_.name);
      TRY(read_operator(*op));
    }
    TRY(resolve(block.inputs(), "input", body_.inputs));
    TRY(resolve(block.outputs(), "output", body_.outputs));
    return std::move(body_);
  }

 private:
  Result<void> read_tensors(const fb::TosaBasicBlock& block) {
    for (size_t i = 0; i < count(block.tensors()); ++i) {
      const fb::TosaTensor* source = block.tensors()->Get(static_cast<uint32_t>(i));
      if (!source || view(source->name()).empty()) return error("Body '{}' has a tensor without a name.", body_.name);
      Tensor tensor;
      tensor.name = view(source->name());
      if (source->variable() || source->is_unranked() || source->offset() > 1)
        return error("Tensor '{}' is a variable, unranked or outside the file; none is supported.", tensor.name);
      TRY_ASSIGN(tensor.dtype, dtype_of(source->type(), tensor.name));
      if (source->shape()) tensor.shape.assign(source->shape()->begin(), source->shape()->end());
      if (!is_legal(tensor.shape)) return error("Tensor '{}' has the shape {}.", tensor.name, text(tensor.shape));
      if (!tensor_ids_.emplace(view(source->name()), static_cast<TensorId>(body_.tensors.size())).second)
        return error("Two tensors of body '{}' are called '{}'.", body_.name, tensor.name);
      sources_.push_back(source);
      body_.tensors.push_back(std::move(tensor));
    }
    return {};
  }

  Result<void> read_shapes(const fb::TosaBasicBlock& block) {
    for (size_t i = 0; i < count(block.shapes()); ++i) {
      const fb::TosaShape* shape = block.shapes()->Get(static_cast<uint32_t>(i));
      if (!shape || view(shape->name()).empty()) return error("Body '{}' has a shape without a name.", body_.name);
      size_t rank = shape->rank();
      if (rank > 2 * kMaxRank || count(shape->data()) < rank * sizeof(int64_t))
        return error("Shape '{}' has rank {} and {} bytes of data.", view(shape->name()), rank, count(shape->data()));
      std::vector<int32_t> values;
      for (size_t d = 0; d < rank; ++d) {
        auto value = load<int64_t>(reinterpret_cast<const std::byte*>(shape->data()->data()) + d * sizeof(int64_t));
        if (value < INT32_MIN || value > INT32_MAX) return error("Shape '{}' holds {}.", view(shape->name()), value);
        values.push_back(static_cast<int32_t>(value));
      }
      if (tensor_ids_.contains(view(shape->name())) || !shapes_.emplace(view(shape->name()), std::move(values)).second)
        return error("A shape and another value of body '{}' are called '{}'.", body_.name, view(shape->name()));
    }
    return {};
  }

  Result<TensorId> find(std::string_view name, std::string_view what) const {
    auto found = tensor_ids_.find(name);
    if (found == tensor_ids_.end()) return error("{} '{}' in body '{}' is no tensor.", what, name, body_.name);
    return found->second;
  }

  Result<void> resolve(const FbStrings* names, std::string_view what, std::vector<TensorId>& ids) const {
    for (size_t i = 0; i < count(names); ++i) {
      TRY_ASSIGN(TensorId id, find(view(names->Get(static_cast<uint32_t>(i))), what));
      ids.push_back(id);
    }
    return {};
  }

  Result<BodyId> body_id(const swoop_flatbuffers::String* name) const {
    auto found = body_ids_.find(view(name));
    if (found == body_ids_.end())
      return error("Body '{}' names a body '{}' that is not there.", body_.name, view(name));
    return found->second;
  }

  Result<void> read_const(const fb::TosaOperator& source) {
    if (count(source.outputs()) != 1 || count(source.inputs()) != 0)
      return error("A CONST of body '{}' does not have exactly one output.", body_.name);
    TRY_ASSIGN(TensorId id, find(view(source.outputs()->Get(0)), "the output of CONST"));
    Tensor& tensor = body_.tensors[id];
    if (tensor.is_const) return error("Constant '{}' is made twice.", tensor.name);
    TRY_ASSIGN(tensor.data, unpack(*sources_[id], tensor.dtype, tensor.shape));
    tensor.is_const = true;
    return {};
  }

  // The shape operands that stand among the inputs, taken out of them.
  Result<void> split_inputs(const fb::TosaOperator& source, Operator& op,
                            std::vector<std::vector<int32_t>>& shapes) const {
    for (size_t i = 0; i < count(source.inputs()); ++i) {
      std::string_view name = view(source.inputs()->Get(static_cast<uint32_t>(i)));
      if (auto shape = shapes_.find(name); shape != shapes_.end()) {
        shapes.push_back(shape->second);
        continue;
      }
      TRY_ASSIGN(TensorId id, find(name, tosa::name(op.op)));
      op.inputs.push_back(id);
    }
    return {};
  }

  Result<void> read_operator(const fb::TosaOperator& source) {
    if (source.op() == fb::Op::CONST) return read_const(source);
    if (source.op() == fb::Op::CONST_SHAPE) return {};
    auto number = static_cast<uint32_t>(source.op());
    Operator op;
    op.op = static_cast<Op>(number);
    if (number > 255 || name(op.op) == "UNKNOWN") {
      return error("Operator {} ({}) of body '{}' is not in the integer profile.", number, fb::EnumNameOp(source.op()),
                   body_.name);
    }
    if (source.location()) op.location = view(source.location()->text());
    TRY(resolve(source.outputs(), tosa::name(op.op), op.outputs));
    std::vector<std::vector<int32_t>> shapes;
    TRY(split_inputs(source, op, shapes));
    size_t expected_shapes = op.op == Op::Resize                                             ? 3
                             : op.op == Op::Slice                                            ? 2
                             : op.op == Op::Pad || op.op == Op::Reshape || op.op == Op::Tile ? 1
                                                                                             : 0;
    if (shapes.size() != expected_shapes)
      return error("{}: it has {} shape operands; it needs {}.", describe(body_, op), shapes.size(), expected_shapes);
    if (static_cast<uint32_t>(source.attribute_type()) != number || !source.attribute())
      return error("{}: its attributes are missing or of another operator.", describe(body_, op));
    TRY(read_attributes(source, shapes, op));
    body_.operators.push_back(std::move(op));
    return {};
  }

  Result<void> need_accumulator(const Operator& op, fb::DType accumulator) const {
    bool wide = !op.inputs.empty() && body_.tensors[op.inputs[0]].dtype == DType::I16 && op.op != Op::AvgPool2d;
    if (accumulator == (wide ? fb::DType::INT48 : fb::DType::INT32)) return {};
    return error("{}: its accumulator is {}.", describe(body_, op), fb::EnumNameDType(accumulator));
  }

  template <typename T, typename Source>
  Result<void> read_convolution(const Source* a, Operator& op) const {
    T result;
    TRY(copy(op, "padding", a->pad(), result.pad));
    TRY(copy(op, "stride", a->stride(), result.stride));
    TRY(copy(op, "dilation", a->dilation(), result.dilation));
    result.local_bound = a->local_bound();
    op.attributes = result;
    return need_accumulator(op, a->acc_type());
  }

  template <typename Source>
  Result<void> read_pool(const Source* a, Operator& op) const {
    PoolAttributes result;
    TRY(copy(op, "kernel", a->kernel(), result.kernel));
    TRY(copy(op, "stride", a->stride(), result.stride));
    TRY(copy(op, "padding", a->pad(), result.pad));
    op.attributes = result;
    return {};
  }

  Result<void> read_resize(const fb::ResizeAttribute* a, const std::vector<std::vector<int32_t>>& shapes,
                           Operator& op) const {
    if (a->mode() != fb::ResizeMode::NEAREST && a->mode() != fb::ResizeMode::BILINEAR)
      return error("{}: its mode is unknown.", describe(body_, op));
    if (shapes[0].size() != 4 || shapes[1].size() != 2 || shapes[2].size() != 2)
      return error("{}: scale, offset and border must have 4, 2 and 2 values.", describe(body_, op));
    ResizeAttributes result{static_cast<ResizeMode>(a->mode()), {}, {}, {}};
    std::copy(shapes[0].begin(), shapes[0].end(), result.scale.begin());
    std::copy(shapes[1].begin(), shapes[1].end(), result.offset.begin());
    std::copy(shapes[2].begin(), shapes[2].end(), result.border.begin());
    op.attributes = result;
    return {};
  }

  Result<void> read_attributes(const fb::TosaOperator& source, std::vector<std::vector<int32_t>>& shapes,
                               Operator& op) {
    switch (op.op) {
      case Op::Argmax: op.attributes = AxisAttributes{source.attribute_as_ArgMaxAttribute()->axis()}; break;
      case Op::ReduceAll: op.attributes = AxisAttributes{source.attribute_as_ReduceAllAttribute()->axis()}; break;
      case Op::ReduceAny: op.attributes = AxisAttributes{source.attribute_as_ReduceAnyAttribute()->axis()}; break;
      case Op::ReduceMax: op.attributes = AxisAttributes{source.attribute_as_ReduceMaxAttribute()->axis()}; break;
      case Op::ReduceMin: op.attributes = AxisAttributes{source.attribute_as_ReduceMinAttribute()->axis()}; break;
      case Op::ReduceSum: op.attributes = AxisAttributes{source.attribute_as_ReduceSumAttribute()->axis()}; break;
      case Op::Concat: op.attributes = AxisAttributes{source.attribute_as_ConcatAttribute()->axis()}; break;
      case Op::Reverse: op.attributes = AxisAttributes{source.attribute_as_ReverseAttribute()->axis()}; break;
      case Op::AvgPool2d:
        TRY(read_pool(source.attribute_as_AvgPool2dAttribute(), op));
        return need_accumulator(op, source.attribute_as_AvgPool2dAttribute()->acc_type());
      case Op::MaxPool2d: return read_pool(source.attribute_as_MaxPool2dAttribute(), op);
      case Op::Conv2d: return read_convolution<Conv2dAttributes>(source.attribute_as_Conv2dAttribute(), op);
      case Op::Conv3d: return read_convolution<Conv3dAttributes>(source.attribute_as_Conv3dAttribute(), op);
      case Op::DepthwiseConv2d:
        return read_convolution<Conv2dAttributes>(source.attribute_as_DepthwiseConv2dAttribute(), op);
      case Op::TransposeConv2d: {
        const auto* a = source.attribute_as_TransposeConv2dAttribute();
        TransposeConv2dAttributes result;
        TRY(copy(op, "output padding", a->out_pad(), result.out_pad));
        TRY(copy(op, "stride", a->stride(), result.stride));
        result.local_bound = a->local_bound();
        op.attributes = result;
        return need_accumulator(op, a->acc_type());
      }
      case Op::Clamp: {
        if (op.inputs.empty()) return error("A CLAMP of body '{}' has no input.", body_.name);
        DType dtype = body_.tensors[op.inputs[0]].dtype;
        const auto* a = source.attribute_as_ClampAttribute();
        ClampAttributes result;
        TRY_ASSIGN(result.min_val, clamp_limit(a->min_val(), dtype));
        TRY_ASSIGN(result.max_val, clamp_limit(a->max_val(), dtype));
        op.attributes = result;
        break;
      }
      case Op::ArithmeticRightShift:
        op.attributes = ShiftAttributes{source.attribute_as_ArithmeticRightShiftAttribute()->round()};
        break;
      case Op::Rescale: {
        const auto* a = source.attribute_as_RescaleAttribute();
        auto rounding = static_cast<uint32_t>(a->rounding_mode());
        if (rounding < 1 || rounding > 3) return error("{}: its rounding mode is unknown.", describe(body_, op));
        op.attributes = RescaleAttributes{a->scale32(), static_cast<Rounding>(rounding), a->per_channel(),
                                          a->input_unsigned(), a->output_unsigned()};
        break;
      }
      case Op::Pad: op.attributes = PadAttributes{std::move(shapes[0])}; break;
      case Op::Reshape: op.attributes = ReshapeAttributes{std::move(shapes[0])}; break;
      case Op::Tile: op.attributes = TileAttributes{std::move(shapes[0])}; break;
      case Op::Slice: op.attributes = SliceAttributes{std::move(shapes[0]), std::move(shapes[1])}; break;
      case Op::Resize: return read_resize(source.attribute_as_ResizeAttribute(), shapes, op);
      case Op::Transpose: {
        const auto* perms = source.attribute_as_TransposeAttribute()->perms();
        if (count(perms) > kMaxRank) return error("{}: it has {} perms.", describe(body_, op), count(perms));
        TransposeAttributes result;
        if (perms) result.perms.assign(perms->begin(), perms->end());
        op.attributes = std::move(result);
        break;
      }
      case Op::Cast:
        if (op.outputs.empty()) return error("A CAST of body '{}' has no output.", body_.name);
        op.attributes = CastAttributes{body_.tensors[op.outputs[0]].dtype};
        break;
      case Op::CondIf: {
        CondIfAttributes result;
        TRY_ASSIGN(result.then_body, body_id(source.attribute_as_CondIfAttribute()->then_graph()));
        TRY_ASSIGN(result.else_body, body_id(source.attribute_as_CondIfAttribute()->else_graph()));
        op.attributes = result;
        break;
      }
      case Op::WhileLoop: {
        WhileLoopAttributes result;
        TRY_ASSIGN(result.cond_body, body_id(source.attribute_as_WhileLoopAttribute()->cond_graph()));
        TRY_ASSIGN(result.loop_body, body_id(source.attribute_as_WhileLoopAttribute()->body_graph()));
        op.attributes = result;
        break;
      }
      default: break;  // the others have no attributes; validate() finds one that should have had some
    }
    return {};
  }

  const std::unordered_map<std::string_view, BodyId>& body_ids_;
  Body body_;
  std::unordered_map<std::string_view, TensorId> tensor_ids_;
  std::unordered_map<std::string_view, std::vector<int32_t>> shapes_;
  std::vector<const fb::TosaTensor*> sources_;
};

}  // namespace

Result<Program> read(Bytes bytes) {
  // Offsets are relative to the start, and the verifier wants it aligned as the schema says.
  Buffer aligned;
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0) {
    aligned.assign(bytes.begin(), bytes.end());
    bytes = aligned;
  }
  swoop_flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (bytes.size() < 8 || !fb::VerifyTosaGraphBuffer(verifier))
    return error("This is not a .tosa file, or it is damaged.");
  const fb::TosaGraph* graph = fb::GetTosaGraph(bytes.data());
  const fb::Version* version = graph->version();
  if (version->_major() != 1)
    return error("The file is of TOSA {}.{}; version 1 is supported.", version->_major(), version->_minor());
  if (count(graph->regions()) == 0) return error("The file has no body.");

  std::unordered_map<std::string_view, BodyId> ids;
  for (uint32_t i = 0; i < graph->regions()->size(); ++i) {
    const fb::TosaRegion* body = graph->regions()->Get(i);
    if (!body || !ids.emplace(view(body->name()), i).second) return error("A body is empty or has another's name.");
  }
  Program program;
  for (const fb::TosaRegion* body : *graph->regions()) {
    TRY_ASSIGN(Body made, BodyReader(ids).read(*body));
    program.bodies.push_back(std::move(made));
  }
  TRY(validate(program));
  return program;
}

}  // namespace swoop::tosa
