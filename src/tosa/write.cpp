// Program -> .tosa. The file is what the peer's serializer writes, with shared strings: constants and shapes first,
// then the operators in order, every attribute union present and numbered as its operator.
#include <algorithm>
#include <map>
#include <set>

#include "schema/tosa.h"
#include "support/check.h"
#include "tosa/tosa.h"

namespace swoop::tosa {

namespace {

namespace fb = ::tosa;
using swoop_flatbuffers::FlatBufferBuilder;
template <typename T>
using Offset = swoop_flatbuffers::Offset<T>;
using Any = Offset<void>;
using Text = Offset<swoop_flatbuffers::String>;
using Strings = std::vector<Text>;

constexpr auto kNan = fb::NanPropagationMode::PROPAGATE;  // no meaning for integers; the specification's default

fb::DType accumulator(const Body& body, const Operator& op) {
  return body.tensors[op.inputs[0]].dtype == DType::I16 && op.op != Op::AvgPool2d ? fb::DType::INT48 : fb::DType::INT32;
}

template <size_t N>
Offset<swoop_flatbuffers::Vector<int32_t>> ints(FlatBufferBuilder& b, const std::array<int32_t, N>& values) {
  return b.CreateVector(values.data(), N);
}

// Vectors of raw bytes start at multiples of 8 (force_align in the schema).
Offset<swoop_flatbuffers::Vector<uint8_t>> raw(FlatBufferBuilder& b, const void* data, size_t size) {
  b.ForceVectorAlignment(size, 1, 8);
  return b.CreateVector(static_cast<const uint8_t*>(data), size);
}

// CLAMP's limits: the bytes of a value of the operand's type.
Offset<swoop_flatbuffers::Vector<uint8_t>> limit(FlatBufferBuilder& b, int64_t value, DType dtype) {
  return raw(b, &value, element_bytes(dtype));
}

struct AttributeWriter {
  FlatBufferBuilder& b;
  const Program& program;
  const Body& body;
  const Operator& op;

  Any operator()(const NoAttributes&) const {
    if (op.op == Op::Maximum) return fb::CreateMaximumAttribute(b, kNan).Union();
    if (op.op == Op::Minimum) return fb::CreateMinimumAttribute(b, kNan).Union();
    return fb::CreateAddAttribute(b).Union();  // all attributes without fields are the same empty table
  }
  Any operator()(const Conv2dAttributes& a) const {  // DepthwiseConv2dAttribute has the same fields
    auto pad = ints(b, a.pad);
    auto stride = ints(b, a.stride);
    auto dilation = ints(b, a.dilation);
    return fb::CreateConv2dAttribute(b, pad, stride, dilation, a.local_bound, accumulator(body, op)).Union();
  }
  Any operator()(const Conv3dAttributes& a) const {
    auto pad = ints(b, a.pad);
    auto stride = ints(b, a.stride);
    auto dilation = ints(b, a.dilation);
    return fb::CreateConv3dAttribute(b, pad, stride, dilation, a.local_bound, accumulator(body, op)).Union();
  }
  Any operator()(const TransposeConv2dAttributes& a) const {
    auto pad = ints(b, a.out_pad);
    auto stride = ints(b, a.stride);
    return fb::CreateTransposeConv2dAttribute(b, pad, stride, a.local_bound, accumulator(body, op)).Union();
  }
  Any operator()(const PoolAttributes& a) const {
    auto kernel = ints(b, a.kernel);
    auto stride = ints(b, a.stride);
    auto pad = ints(b, a.pad);
    if (op.op == Op::MaxPool2d) return fb::CreateMaxPool2dAttribute(b, kernel, stride, pad, kNan).Union();
    return fb::CreateAvgPool2dAttribute(b, kernel, stride, pad, accumulator(body, op)).Union();
  }
  Any operator()(const RescaleAttributes& a) const {
    return fb::CreateRescaleAttribute(b, a.scale32, static_cast<fb::RoundingMode>(a.rounding), a.per_channel,
                                      a.input_unsigned, a.output_unsigned)
        .Union();
  }
  Any operator()(const ClampAttributes& a) const {
    DType dtype = body.tensors[op.inputs[0]].dtype;
    auto low = limit(b, a.min_val, dtype);
    auto high = limit(b, a.max_val, dtype);
    return fb::CreateClampAttribute(b, low, high, kNan).Union();
  }
  Any operator()(const ShiftAttributes& a) const { return fb::CreateArithmeticRightShiftAttribute(b, a.round).Union(); }
  Any operator()(const AxisAttributes& a) const {
    if (op.op == Op::Argmax) return fb::CreateArgMaxAttribute(b, a.axis, kNan).Union();
    if (op.op == Op::ReduceMax) return fb::CreateReduceMaxAttribute(b, a.axis, kNan).Union();
    if (op.op == Op::ReduceMin) return fb::CreateReduceMinAttribute(b, a.axis, kNan).Union();
    return fb::CreateReduceSumAttribute(b, a.axis).Union();  // the others are this one field too
  }
  Any operator()(const PadAttributes&) const { return fb::CreatePadAttribute(b).Union(); }
  Any operator()(const ReshapeAttributes&) const { return fb::CreateReshapeAttribute(b).Union(); }
  Any operator()(const TileAttributes&) const { return fb::CreateTileAttribute(b).Union(); }
  Any operator()(const SliceAttributes&) const { return fb::CreateSliceAttribute(b).Union(); }
  Any operator()(const TransposeAttributes& a) const {
    return fb::CreateTransposeAttribute(b, b.CreateVector(a.perms)).Union();
  }
  Any operator()(const ResizeAttributes& a) const {
    return fb::CreateResizeAttribute(b, static_cast<fb::ResizeMode>(a.mode)).Union();
  }
  Any operator()(const CastAttributes&) const { return fb::CreateCastAttribute(b).Union(); }
  Any operator()(const CondIfAttributes& a) const {
    auto yes = b.CreateSharedString(program.bodies[a.then_body].name);
    auto no = b.CreateSharedString(program.bodies[a.else_body].name);
    return fb::CreateCondIfAttribute(b, yes, no).Union();
  }
  Any operator()(const WhileLoopAttributes& a) const {
    auto condition = b.CreateSharedString(program.bodies[a.cond_body].name);
    auto body = b.CreateSharedString(program.bodies[a.loop_body].name);
    return fb::CreateWhileLoopAttribute(b, condition, body).Union();
  }
};

// The shape operands of an operator, in order, and before which of its tensor inputs they stand.
struct ShapeOperands {
  size_t position = 1;
  std::vector<std::vector<int32_t>> values;
};

ShapeOperands shape_operands(const Operator& op) {
  if (const auto* pad = std::get_if<PadAttributes>(&op.attributes)) return {1, {pad->padding}};
  if (const auto* reshape = std::get_if<ReshapeAttributes>(&op.attributes)) return {1, {reshape->shape}};
  if (const auto* tile = std::get_if<TileAttributes>(&op.attributes)) return {1, {tile->multiples}};
  if (const auto* slice = std::get_if<SliceAttributes>(&op.attributes)) return {1, {slice->start, slice->size}};
  if (const auto* resize = std::get_if<ResizeAttributes>(&op.attributes)) {
    return {1,
            {{resize->scale.begin(), resize->scale.end()},
             {resize->offset.begin(), resize->offset.end()},
             {resize->border.begin(), resize->border.end()}}};
  }
  return {};
}

// A constant's elements as the file holds them: i4 two to a byte, low half first; i48 in six bytes.
Offset<swoop_flatbuffers::Vector<uint8_t>> constant_data(FlatBufferBuilder& b, const Tensor& tensor) {
  if (tensor.dtype == DType::I48) {
    std::vector<uint8_t> packed(tensor.data.size() / 8 * 6);
    for (size_t i = 0; i < packed.size() / 6; ++i) std::memcpy(packed.data() + i * 6, tensor.data.data() + i * 8, 6);
    return raw(b, packed.data(), packed.size());
  }
  if (tensor.dtype == DType::I4) {
    std::vector<uint8_t> packed((tensor.data.size() + 1) / 2);
    for (size_t i = 0; i < tensor.data.size(); ++i)
      packed[i / 2] |= static_cast<uint8_t>((static_cast<unsigned>(tensor.data[i]) & 0xfu) << (i % 2 * 4));
    return raw(b, packed.data(), packed.size());
  }
  return raw(b, tensor.data.data(), tensor.data.size());
}

class BodyWriter {
 public:
  BodyWriter(FlatBufferBuilder& b, const Program& program, const Body& body) : b_(b), program_(program), body_(body) {}

  Offset<fb::TosaRegion> write() {
    write_tensors();
    for (const Operator& op : body_.operators) write_operator(op);
    Text body_name = b_.CreateSharedString(body_.name);
    Strings inputs = names_of(body_.inputs);
    Strings outputs = names_of(body_.outputs);
    constants_.insert(constants_.end(), operators_.begin(), operators_.end());
    auto operators = b_.CreateVector(constants_);
    auto tensors = b_.CreateVector(tensors_);
    auto input_names = b_.CreateVector(inputs);
    auto output_names = b_.CreateVector(outputs);
    auto shapes = b_.CreateVector(shapes_);
    auto block = fb::CreateTosaBasicBlock(b_, body_name, operators, tensors, input_names, output_names, shapes);
    return fb::CreateTosaRegion(b_, body_name, b_.CreateVector(&block, 1));
  }

 private:
  void write_tensors() {
    empty_ = fb::CreateConstAttribute(b_).Union();
    no_inputs_ = b_.CreateVector(Strings{});
    for (TensorId id = 0; id < body_.tensors.size(); ++id) {
      const Tensor& tensor = body_.tensors[id];
      Text name = b_.CreateString(tensor.name.empty() ? fmt::format("unnamed.{}", id) : tensor.name);
      names_.push_back(name);
      // Names of shapes must differ from all names of tensors.
      while (tensor.name.starts_with(shape_prefix_)) shape_prefix_ += '_';
      auto shape = b_.CreateVector(tensor.shape);
      auto data = tensor.is_const ? constant_data(b_, tensor) : 0;
      tensors_.push_back(fb::CreateTosaTensor(b_, name, shape, static_cast<fb::DType>(tensor.dtype), data));
      if (tensor.is_const) add_constant(fb::Op::CONST, fb::Attribute::ConstAttribute, name);
    }
  }

  void add_constant(fb::Op op, fb::Attribute attribute, Text name) {
    auto outputs = b_.CreateVector(&name, 1);
    constants_.push_back(fb::CreateTosaOperator(b_, op, attribute, empty_, no_inputs_, outputs));
  }

  Text shape_name(const std::vector<int32_t>& values) {
    auto [entry, is_new] = shape_names_.try_emplace(values);
    if (is_new) {
      Text name = b_.CreateString(fmt::format("{}{}", shape_prefix_, shapes_.size()));
      std::vector<int64_t> wide(values.begin(), values.end());
      auto data = raw(b_, wide.data(), wide.size() * sizeof(int64_t));
      shapes_.push_back(fb::CreateTosaShape(b_, name, static_cast<uint32_t>(wide.size()), data));
      add_constant(fb::Op::CONST_SHAPE, fb::Attribute::ConstShapeAttribute, name);
      entry->second = name;
    }
    return entry->second;
  }

  Strings names_of(const std::vector<TensorId>& ids) const {
    Strings names;
    for (TensorId id : ids) names.push_back(names_[id]);
    return names;
  }

  void write_operator(const Operator& op) {
    Strings inputs = names_of(op.inputs);
    Strings outputs = names_of(op.outputs);
    ShapeOperands shapes = shape_operands(op);
    for (size_t i = 0; i < shapes.values.size(); ++i)
      inputs.insert(inputs.begin() + static_cast<ptrdiff_t>(shapes.position + i), shape_name(shapes.values[i]));
    Any attribute = std::visit(AttributeWriter{b_, program_, body_, op}, op.attributes);
    auto input_names = b_.CreateVector(inputs);
    auto output_names = b_.CreateVector(outputs);
    Offset<fb::OpLocation> location = 0;
    if (!op.location.empty()) location = fb::CreateOpLocation(b_, b_.CreateSharedString(op.location));
    operators_.push_back(fb::CreateTosaOperator(b_, static_cast<fb::Op>(op.op), static_cast<fb::Attribute>(op.op),
                                                attribute, input_names, output_names, location));
  }

  FlatBufferBuilder& b_;
  const Program& program_;
  const Body& body_;
  Any empty_ = 0;
  Offset<swoop_flatbuffers::Vector<Text>> no_inputs_ = 0;
  Strings names_;
  std::string shape_prefix_ = "shape.";
  std::map<std::vector<int32_t>, Text> shape_names_;
  std::vector<Offset<fb::TosaTensor>> tensors_;
  std::vector<Offset<fb::TosaShape>> shapes_;
  std::vector<Offset<fb::TosaOperator>> constants_;
  std::vector<Offset<fb::TosaOperator>> operators_;
};

}  // namespace

bool holds(Bytes file, Op op) {
  for (const fb::TosaRegion* region : *fb::GetTosaGraph(file.data())->regions())
    for (const fb::TosaBasicBlock* block : *region->blocks())
      for (const fb::TosaOperator* one : *block->operators())
        if (one->op() == static_cast<fb::Op>(op)) return true;
  return false;
}

size_t constants_in_file(const Body& body) {
  std::set<std::vector<int32_t>> shapes;
  for (const Operator& op : body.operators)
    for (std::vector<int32_t>& values : shape_operands(op).values) shapes.insert(std::move(values));
  return shapes.size() + static_cast<size_t>(std::ranges::count_if(body.tensors, &Tensor::is_const));
}

Buffer write(const Program& program) {
  size_t estimate = 1024;
  for (const Body& body : program.bodies) {
    estimate += body.operators.size() * 256;
    for (const Tensor& tensor : body.tensors) estimate += tensor.data.size() + 160;
  }
  FlatBufferBuilder b(estimate);
  std::vector<Offset<fb::TosaRegion>> bodies;
  for (const Body& body : program.bodies) bodies.push_back(BodyWriter(b, program, body).write());
  auto body_list = b.CreateVector(bodies);
  auto version = fb::CreateVersion(b, 1, 0, 0, false);
  b.Finish(fb::CreateTosaGraph(b, version, body_list), fb::TosaGraphIdentifier());
  const auto* data = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
  return {data, data + b.GetSize()};
}

}  // namespace swoop::tosa
