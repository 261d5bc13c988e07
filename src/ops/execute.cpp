// Whole graphs in float: values are computed in execution order and let go after their last use.
#include <algorithm>
#include <cmath>
#include <new>

#include "ops/infer.h"
#include "ops/kernels.h"
#include "ops/ops.h"
#include "support/check.h"

namespace swoop {

namespace {

constexpr int64_t kMaxIterations = int64_t{1} << 20;  // of a while loop, before we say that it does not end

using Tensors = std::vector<Tensor>;

Result<Tensors> run_graph(const Graph& graph, std::span<const Tensor> inputs, const ExecuteOptions& options);

// Floats are read where they are: the weights of a large model should not be in memory twice.
bool is_borrowed(const Value& constant) {
  return constant.type.dtype == DType::F32 && !constant.type.quantized() &&
         reinterpret_cast<uintptr_t>(constant.data.data()) % kVectorAlignment == 0 &&
         constant.data.size() == static_cast<size_t>(element_count(constant.type.shape)) * sizeof(float);
}

Tensor read_constant(const Value& constant) {
  return is_borrowed(constant) ? Tensor{DType::F32, constant.type.shape, Storage::borrowed(constant.data)}
                               : to_tensor(constant);
}

struct Run {
  const Graph& graph;
  const ExecuteOptions& options;
  std::vector<Tensor> values;       // by value id; empty where not computed or already let go
  std::vector<uint32_t> uses_left;  // by value id

  Run(const Graph& g, const ExecuteOptions& o)
      : graph(g), options(o), values(g.value_slots()), uses_left(g.value_slots()) {
    for (ValueId id = 0; id < g.value_slots(); ++id) uses_left[id] = static_cast<uint32_t>(g.value(id).uses.size());
  }

  // Gives a fresh result its type: quantized, wrapped or rounded to what the type can hold.
  void define(ValueId id, Tensor tensor) {
    const Type& type = graph.type(id);
    if (type.quantized()) {
      if (options.rounds) round(id, tensor);
    } else {
      settle(tensor, type.dtype);
    }
    if (options.observer) options.observer(graph, id, tensor);
    if (uses_left[id] > 0) values[id] = std::move(tensor);
  }

  // A quotient of two operands that were both rounded to 0 is NaN here and 0 in codes.
  void round(ValueId id, Tensor& tensor) const {
    if (const Node* node = graph.producer(id); node && node->op == Op::Div)
      for (float& x : tensor.as<float>()) x = std::isnan(x) ? 0 : x;
    fake_quantize(tensor, graph.type(id));
  }

  const Tensor* fetch(ValueId id) {
    if (id == kNone) return nullptr;
    const Value& value = graph.value(id);
    if (value.constant && options.constants && options.constants->are_of(graph))
      if (const Tensor* known = options.constants->of(id)) return known;
    if (value.constant && values[id].shape.empty() && values[id].data.empty()) values[id] = read_constant(value);
    return &values[id];
  }

  void release(ValueId id) {
    if (id != kNone && --uses_left[id] == 0) values[id] = Tensor{};
  }
};

Result<bool> truth_of(const Tensor& tensor) {
  if (tensor.dtype != DType::Bool || tensor.data.size() != 1) return error("a condition must be a single bool");
  return tensor.as<uint8_t>()[0] != 0;
}

// Row `index` along the first dim.
Tensor row_of(const Tensor& tensor, int64_t index) {
  Shape shape(tensor.shape.begin() + 1, tensor.shape.end());
  Tensor row = make_tensor(tensor.dtype, std::move(shape));
  if (!row.data.empty())
    std::memcpy(row.data.data(), tensor.data.data() + static_cast<size_t>(index) * row.data.size(), row.data.size());
  return row;
}

void set_row(Tensor& tensor, int64_t index, const Tensor& row) {
  if (!row.data.empty())
    std::memcpy(tensor.data.data() + static_cast<size_t>(index) * row.data.size(), row.data.data(), row.data.size());
}

Tensors copies(std::span<const Tensor* const> inputs, size_t first, size_t last) {
  Tensors list;
  for (size_t i = first; i < last; ++i) list.push_back(*inputs[i]);
  return list;
}

Result<Tensors> run_while(const Node& node, std::span<const Tensor* const> inputs, const ExecuteOptions& options) {
  auto carried = static_cast<size_t>(node.integer(Key::Carried));
  Tensors state = copies(inputs, 0, inputs.size());
  for (int64_t i = 0; i < kMaxIterations; ++i) {
    TRY_ASSIGN(Tensors verdict, run_graph(*node.bodies[0], state, options));
    TRY_ASSIGN(bool goes_on, truth_of(verdict[0]));
    if (!goes_on) {
      state.resize(carried);
      return state;
    }
    TRY_ASSIGN(Tensors next, run_graph(*node.bodies[1], state, options));
    std::move(next.begin(), next.end(), state.begin());
  }
  return error("this while loop has not ended after {} iterations", kMaxIterations);
}

// map is a scan that carries nothing.
Result<Tensors> run_scan(const Node& node, std::span<const Tensor* const> inputs, size_t carried, size_t scanned,
                         std::span<Tensor> results, const ExecuteOptions& options) {
  int64_t steps = inputs[carried]->shape[0];
  Tensors state = copies(inputs, 0, carried);
  for (int64_t step = 0; step < steps; ++step) {
    Tensors operands = std::move(state);
    for (size_t i = carried; i < carried + scanned; ++i) operands.push_back(row_of(*inputs[i], step));
    for (size_t i = carried + scanned; i < inputs.size(); ++i) operands.push_back(*inputs[i]);
    TRY_ASSIGN(Tensors given, run_graph(*node.bodies[0], operands, options));
    state.assign(std::make_move_iterator(given.begin()),
                 std::make_move_iterator(given.begin() + static_cast<int64_t>(carried)));
    for (size_t i = carried; i < given.size(); ++i) set_row(results[i], step, given[i]);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (i >= carried) state.push_back(std::move(results[i]));
  }
  return state;
}

Result<Tensors> run_node(const Node& node, std::span<const Tensor* const> inputs, Tensors results,
                         const ExecuteOptions& options) {
  if (node.op == Op::Cond) {
    TRY_ASSIGN(bool yes, truth_of(*inputs[0]));
    return run_graph(*node.bodies[yes ? 0 : 1], copies(inputs, 1, inputs.size()), options);
  }
  if (node.op == Op::While) return run_while(node, inputs, options);
  if (node.op == Op::Map)
    return run_scan(node, inputs, 0, static_cast<size_t>(node.integer(Key::Carried)), results, options);
  if (node.op == Op::Scan)
    return run_scan(node, inputs, static_cast<size_t>(node.integer(Key::Carried)),
                    static_cast<size_t>(node.integer(Key::Scanned)), results, options);
  if (node.op == Op::Opaque && options.opaque)
    TRY(options.opaque->evaluate(node, inputs, results));
  else
    TRY(evaluate(node, inputs, results));
  return results;
}

// Their results hold the very elements of their operand.
bool keeps_elements(Op op) { return op == Op::Reshape || op == Op::Quantize || op == Op::Dequantize; }

std::string where(const Graph& graph, const Node& node) {
  const Loc* loc = graph.loc(node.loc);
  std::string place = loc ? to_text(*loc) : "";
  return place.empty() ? node.name : place;
}

Result<Tensors> run_graph(const Graph& graph, std::span<const Tensor> inputs, const ExecuteOptions& options) {
  if (inputs.size() != graph.inputs().size())
    return error("this graph has {} inputs, and {} were given", graph.inputs().size(), inputs.size());
  Run run(graph, options);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    if (inputs[i].shape != value.type.shape || inputs[i].dtype != execution_dtype(value.type))
      return error("input {} is {}, and was given as {}{}", value.name, to_text(value.type), name_of(inputs[i].dtype),
                   to_text(inputs[i].shape));
    run.define(graph.inputs()[i], inputs[i]);
  }
  for (NodeId id = graph.first(); id != kNone; id = graph.node(id).next) {
    const Node& node = graph.node(id);
    Tensors results;
    for (ValueId output : node.outputs) {
      const Type& type = graph.type(output);
      TRY(check_memory(node, type.shape, execution_dtype(type)));
      results.push_back(make_tensor(execution_dtype(type), type.shape));
    }
    std::vector<const Tensor*> operands;
    for (ValueId input : node.inputs) operands.push_back(run.fetch(input));
    if (keeps_elements(node.op) && operands[0] == &run.values[node.inputs[0]] &&
        run.uses_left[node.inputs[0]] == 1) {  // its operand is not needed any more
      results[0].data = std::move(run.values[node.inputs[0]].data);
      run.define(node.outputs[0], std::move(results[0]));
      run.release(node.inputs[0]);
      continue;
    }
    Result<Tensors> computed = run_node(node, operands, std::move(results), options);
    if (!computed) return error("{}: {}", where(graph, node), computed.error().message);
    if (computed->size() != node.outputs.size())
      return error("{}: {} gives {} results, and {} are expected", where(graph, node), name_of(node.op),
                   computed->size(), node.outputs.size());
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      CHECK((*computed)[i].shape == graph.type(node.outputs[i]).shape, "{} computed {} for {}", name_of(node.op),
            to_text((*computed)[i].shape), to_text(graph.type(node.outputs[i])));
      run.define(node.outputs[i], std::move((*computed)[i]));
    }
    for (ValueId input : node.inputs) run.release(input);
  }
  Tensors outputs;
  for (ValueId output : graph.outputs()) {
    const Tensor* tensor = run.fetch(output);
    if (tensor == &run.values[output] && run.uses_left[output] == 1)
      outputs.push_back(std::move(run.values[output]));
    else
      outputs.push_back(*tensor);
    --run.uses_left[output];
  }
  return outputs;
}

}  // namespace

const Tensor* ConstantTensors::of(ValueId id) {
  constexpr size_t kMost = size_t{64} << 20;
  const std::lock_guard lock(mutex_);
  if (tensors_[id]) return &*tensors_[id];
  const Value& value = graph_.value(id);
  const bool borrows = is_borrowed(value);
  const size_t bytes = borrows ? 0 : static_cast<size_t>(element_count(value.type.shape)) * sizeof(float);
  if (bytes_ + bytes > kMost) return nullptr;
  bytes_ += bytes;
  tensors_[id] = read_constant(value);
  return &*tensors_[id];
}

// Memory can run out on a model that is merely large: that is the user's to know, not ours to die of.
Result<std::vector<Tensor>> execute(const Graph& graph, std::span<const Tensor> inputs, const ExecuteOptions& options) {
  StorageReuse reuse;
  try {
    return run_graph(graph, inputs, options);
  } catch (const std::bad_alloc&) {
    return error("there is not enough memory to execute this graph");
  }
}

}  // namespace swoop
