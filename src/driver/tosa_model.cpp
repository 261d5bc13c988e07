#include "driver/tosa_model.h"

#include <algorithm>
#include <random>

#include "support/file.h"

namespace swoop {

namespace {

constexpr size_t kMadeUp = 4;  // samples

DType dtype_of(tosa::DType dtype) {
  switch (dtype) {
    case tosa::DType::Bool: return DType::Bool;
    case tosa::DType::I4: return DType::I4;
    case tosa::DType::I8: return DType::I8;
    case tosa::DType::I16: return DType::I16;
    case tosa::DType::I32: return DType::I32;
    case tosa::DType::I48: return DType::I48;
  }
  return DType::I8;
}

Type type_of(const tosa::Tensor& tensor) {
  return {dtype_of(tensor.dtype), Shape(tensor.shape.begin(), tensor.shape.end()), {}};
}

// The file's own ports around the call of the region.
class TosaModelBuilder {
 public:
  explicit TosaModelBuilder(tosa::Program program) {
    model_.program = std::move(program);
    model_.region = std::make_unique<Graph>();
    model_.region->name = "region0";
  }

  Result<TosaModel> run() {
    name_operators();
    const tosa::Body& main = model_.program.bodies[0];
    outside_.assign(main.tensors.size(), kNone);
    inside_.assign(main.tensors.size(), kNone);
    for (tosa::TensorId id : main.inputs)
      outside_[id] = model_.graph.add_input(type_of(main.tensors[id]), main.tensors[id].name);
    const std::vector<tosa::TensorId> ports = main.outputs;
    keep_what_is_computed();
    if (main.outputs.empty()) return error("nothing in it computes an output");
    fill_region();
    call_region();
    for (tosa::TensorId id : ports) model_.graph.add_output(outside_[id]);
    return std::move(model_);
  }

 private:
  void name_operators() {
    for (tosa::Body& body : model_.program.bodies)
      for (tosa::Operator& op : body.operators)
        if (op.location.empty()) op.location = body.tensors[op.outputs[0]].name;
  }

  // regor leaves out arguments that no operator reads or writes. They stay ports of the program around it.
  void keep_what_is_computed() {
    tosa::Body& main = model_.program.bodies[0];
    std::vector<bool> read(main.tensors.size()), written(main.tensors.size());
    for (const tosa::Operator& op : main.operators) {
      for (tosa::TensorId id : op.inputs) read[id] = true;
      for (tosa::TensorId id : op.outputs) written[id] = true;
    }
    std::erase_if(main.inputs, [&](tosa::TensorId id) { return !read[id]; });
    for (tosa::TensorId id : main.outputs)
      if (const tosa::Tensor& tensor = main.tensors[id]; tensor.is_const && outside_[id] == kNone)
        outside_[id] = model_.graph.add_constant(type_of(tensor), model_.graph.store(tensor.data), tensor.name);
    std::vector<bool> listed(main.tensors.size());
    std::erase_if(main.outputs, [&](tosa::TensorId id) {
      const bool again = listed[id];
      listed[id] = true;
      return again || !written[id];
    });
  }

  void fill_region() {
    const tosa::Body& main = model_.program.bodies[0];
    Graph& region = *model_.region;
    for (tosa::TensorId id : main.inputs)
      inside_[id] = region.add_input(type_of(main.tensors[id]), main.tensors[id].name);
    for (const tosa::Operator& op : main.operators) {
      std::vector<ValueId> inputs;
      for (tosa::TensorId id : op.inputs)
        if (!main.tensors[id].is_const) inputs.push_back(inside_[id]);
      std::vector<Type> types;
      for (tosa::TensorId id : op.outputs) types.push_back(type_of(main.tensors[id]));
      Node& node = region.add_node(Op::Opaque, inputs, types, {{Key::Target, std::string(tosa::name(op.op))}}, kNone,
                                   op.location);
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        inside_[op.outputs[i]] = node.outputs[i];
        region.rename(node.outputs[i], main.tensors[op.outputs[i]].name);
      }
    }
    for (tosa::TensorId id : main.outputs) region.add_output(inside_[id]);
  }

  void call_region() {
    const tosa::Body& main = model_.program.bodies[0];
    std::vector<ValueId> arguments;
    for (tosa::TensorId id : main.inputs) arguments.push_back(outside_[id]);
    std::vector<Type> types;
    for (tosa::TensorId id : main.outputs) types.push_back(type_of(main.tensors[id]));
    Attrs attrs{{Key::Target, std::string(kRegionTarget)}, {Key::Region, int64_t{0}}};
    Node& call = model_.graph.add_node(Op::Opaque, arguments, types, attrs, kNone, model_.region->name);
    for (size_t i = 0; i < main.outputs.size(); ++i) outside_[main.outputs[i]] = call.outputs[i];
  }

  TosaModel model_;
  std::vector<ValueId> outside_, inside_;  // by tensor: its value in the graph and in the region
};

struct Codes {
  int64_t least, most;
};

// What a made-up input may hold: all codes of i8 and i16. An i32 is an index, inside of what it indexes, or a number
// whose sums and products stay far from 2^31.
Codes codes_of(const tosa::Body& main, const Value& input) {
  if (input.type.dtype == DType::Bool) return {0, 1};
  if (input.type.dtype != DType::I32) return {dtype_min(input.type.dtype), dtype_max(input.type.dtype)};
  for (const tosa::Operator& op : main.operators)
    if ((op.op == tosa::Op::Gather || op.op == tosa::Op::Scatter) && main.tensors[op.inputs[1]].name == input.name)
      return {0, main.tensors[op.inputs[0]].shape[1] - 1};
  return {-4096, 4095};
}

}  // namespace

Result<bool> is_tosa_file(const std::string& path) {
  if (path.ends_with(".tosa")) return true;
  TRY_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  return file->bytes().size() >= 8 && text_of(file->bytes()).substr(4, 4) == "TOSA";
}

Result<TosaModel> read_tosa_model(const std::string& path) {
  TRY_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  Result<tosa::Program> program = tosa::read(file->bytes());
  if (!program) return error("{}: {}", path, program.error().message);
  Result<TosaModel> model = TosaModelBuilder(std::move(*program)).run();
  if (!model) return error("{}: {}", path, model.error().message);
  return model;
}

Samples random_codes(const tosa::Program& program, const Graph& graph) {
  std::mt19937_64 words(0);  // the same on every machine
  Samples samples{{}, "random:0", true};
  for (size_t s = 0; s < kMadeUp; ++s) {
    Sample& sample = samples.inputs.emplace_back();
    for (ValueId id : graph.inputs()) {
      const Value& input = graph.value(id);
      const Codes codes = codes_of(program.bodies[0], input);
      auto code = [&] {
        return codes.least + static_cast<int64_t>(words() % static_cast<uint64_t>(codes.most - codes.least + 1));
      };
      const bool flag = input.type.dtype == DType::Bool;
      Tensor& tensor = sample.emplace_back(make_tensor(flag ? DType::Bool : DType::I64, input.type.shape));
      if (flag)
        for (uint8_t& x : tensor.as<uint8_t>()) x = static_cast<uint8_t>(code());
      else
        for (int64_t& x : tensor.as<int64_t>()) x = code();
    }
  }
  return samples;
}

}  // namespace swoop
