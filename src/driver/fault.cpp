#include "driver/fault.h"

#include <algorithm>
#include <unordered_map>

#include "run/run.h"

namespace swoop {

namespace {

// A place where the region can be cut: behind the last operator of a node.
struct Cut {
  size_t operators = 0;  // before it
  NodeId node = kNone;
};

bool can_leave_a_region(tosa::DType dtype) { return dtype != tosa::DType::I48 && dtype != tosa::DType::I4; }

class FaultFinder {
 public:
  FaultFinder(const RegionFault& fault, const Graph& region, const tosa::Program& program, const Pipeline& pipeline)
      : fault_(fault), region_(region), program_(program), pipeline_(pipeline), options_(pipeline.options.npu) {
    options_.timeout_seconds /= 10;  // there are several pieces to try
  }

  Culprit run() {
    const std::vector<Cut> cuts = find_cuts();
    size_t low = 0, high = cuts.size() - 1;  // all of it goes wrong
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (goes_wrong(first_operators(cuts[middle].operators)))
        high = middle;
      else
        low = middle + 1;
    }
    const Node& node = region_.node(cuts[low].node);
    return {node.name, region_.value(node.outputs[0]).name, low == 0};
  }

 private:
  // A node's results are the tensors with its values' names.
  std::vector<Cut> find_cuts() const {
    std::unordered_map<std::string_view, NodeId> nodes;  // never walked
    for (NodeId id : region_.order())
      for (ValueId output : region_.node(id).outputs) nodes.emplace(region_.value(output).name, id);
    const tosa::Body& main = program_.bodies[0];
    std::vector<Cut> cuts;
    for (size_t i = 0; i < main.operators.size(); ++i) {
      auto made = nodes.find(main.tensors[main.operators[i].outputs[0]].name);
      if (made != nodes.end()) cuts.push_back({i + 1, made->second});
    }
    if (cuts.empty() || cuts.back().operators < main.operators.size())
      cuts.push_back({main.operators.size(), region_.order().back()});
    return cuts;
  }

  // What later operators or the caller read of the first ones are outputs.
  tosa::Program first_operators(size_t count) const {
    tosa::Program piece = program_;
    tosa::Body& main = piece.bodies[0];
    std::vector<bool> wanted(main.tensors.size(), false), used(main.tensors.size(), false);
    for (tosa::TensorId output : main.outputs) wanted[output] = true;
    for (size_t i = count; i < main.operators.size(); ++i)
      for (tosa::TensorId input : main.operators[i].inputs) wanted[input] = true;
    main.operators.resize(count);
    main.outputs.clear();
    for (const tosa::Operator& op : main.operators) {
      for (tosa::TensorId input : op.inputs) used[input] = true;
      for (tosa::TensorId output : op.outputs)
        if (wanted[output]) main.outputs.push_back(output);
    }
    std::erase_if(main.inputs, [&](tosa::TensorId input) { return !used[input]; });
    return piece;
  }

  bool goes_wrong(const tosa::Program& piece) const {
    const tosa::Body& main = piece.bodies[0];
    if (!std::all_of(main.outputs.begin(), main.outputs.end(),
                     [&](tosa::TensorId id) { return can_leave_a_region(main.tensors[id].dtype); }))
      return false;  // such a piece cannot stand alone: it is judged by what follows
    Result<NpuProgram> npu = compile_npu(tosa::write(piece), pipeline_.target, options_, region_.name);
    if (!fault_.inputs) return !npu || !check_ports(piece, *npu);
    return npu && differs(piece, std::move(*npu));
  }

  bool differs(const tosa::Program& piece, NpuProgram npu) const {
    std::vector<tosa::TensorData> inputs;
    const std::vector<tosa::TensorId>& all = program_.bodies[0].inputs;
    for (tosa::TensorId id : piece.bodies[0].inputs)
      inputs.push_back((*fault_.inputs)[static_cast<size_t>(std::find(all.begin(), all.end(), id) - all.begin())]);
    std::vector<Bytes> operands;
    for (const tosa::TensorData& input : inputs) operands.emplace_back(input.data);
    Result<std::vector<tosa::TensorData>> expected = tosa::run(piece, inputs);
    if (!expected) return false;
    (void)repair_npu(npu);  // what it cannot repair, the run refuses
    std::vector<Buffer> outputs;
    if (!execute_npu(npu, operands, outputs)) return true;
    return !std::equal(outputs.begin(), outputs.end(), expected->begin(), expected->end(),
                       [](const Buffer& a, const tosa::TensorData& b) { return a == b.data; });
  }

  const RegionFault& fault_;
  const Graph& region_;
  const tosa::Program& program_;
  const Pipeline& pipeline_;
  NpuOptions options_;
};

}  // namespace

Culprit find_culprit(const RegionFault& fault, const Graph& region, const tosa::Program& program,
                     const Pipeline& pipeline) {
  return FaultFinder(fault, region, program, pipeline).run();
}

}  // namespace swoop
