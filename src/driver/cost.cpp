#include "driver/cost.h"

#include <algorithm>

#include "driver/layer_map.h"
#include "driver/npu_code.h"
#include "lower/lower.h"
#include "npu/npu.h"
#include "support/check.h"
#include "support/hash.h"
#include "support/timer.h"

namespace swoop {

namespace {

// The value of the model that each node computes, or takes part in computing: what rules made up belongs to the value
// that comes next.
std::map<std::string, std::string, std::less<>> values_of_nodes(const Graph& region) {
  std::map<std::string, std::string, std::less<>> values;
  std::vector<std::string_view> made_up;
  for (NodeId id : region.order()) {
    const Node& node = region.node(id);
    made_up.push_back(node.name);
    if (node.outputs.empty() || !region.value(node.outputs[0]).origin) continue;
    for (std::string_view name : made_up) values[std::string(name)] = name_in_model(region.value(node.outputs[0]));
    made_up.clear();
  }
  return values;
}

// Two hashes side by side, each as in support/hash.h.
Fingerprint fingerprint(Bytes file) {
  constexpr uint64_t kPrime = 0x100000001b3ull, kOther = 0x9e3779b97f4a7c15ull;
  uint64_t first = hash_bytes({}), second = kOther;
  size_t i = 0;
  for (; i + 8 <= file.size(); i += 8) {
    const auto word = load<uint64_t>(file.data() + i);
    first = (first ^ word) * kPrime;
    second = (second ^ word) * kOther;
    first ^= first >> 32;
    second ^= second >> 32;
  }
  const Bytes rest = file.subspan(i);
  return {file.size(), hash_bytes(rest, first), hash_bytes(rest, second)};
}

const NpuProgram* known_program(const Pipeline& pipeline, const Fingerprint& tosa) {
  const auto known = std::ranges::find(pipeline.priced, tosa, &PricedProgram::tosa);
  return known == pipeline.priced.end() ? nullptr : &known->program;
}

// What ships is mostly what was priced last. The oldest go when all take too much memory: a program has the weights.
void forget_oldest(std::deque<PricedProgram>& priced) {
  constexpr size_t kMostBytes = size_t{64} << 20;
  size_t bytes = 0;
  for (const PricedProgram& one : priced) bytes += one.program.weights.size();
  while (priced.size() > 1 && bytes > kMostBytes) {
    bytes -= priced.front().program.weights.size();
    priced.pop_front();
  }
}

// The names are what a price needs of a program that was written.
void forget_constants(tosa::Program& program) {
  for (tosa::Body& body : program.bodies)
    for (tosa::Tensor& tensor : body.tensors) tensor.data = Buffer();
}

// As regor compiles it, unless it has done so before. Null: it does not.
const NpuProgram* priced(const Buffer& tosa, const std::string& name, Pipeline& pipeline) {
  const Fingerprint print = fingerprint(tosa);
  if (const NpuProgram* known = known_program(pipeline, print)) return known;
  Timer timer;
  Result<NpuProgram> program = npu_code(tosa, pipeline.target, pipeline.options, name);
  pipeline.pricing += timer.elapsed();
  if (!program) return nullptr;
  CHECK(program->estimates, "regor gave no estimates for {}", name);
  pipeline.priced.push_back({print, std::move(*program)});
  forget_oldest(pipeline.priced);
  return &pipeline.priced.back().program;
}

// Programs run one after the other in the same SRAM and DRAM, but each has constants of its own in flash.
void add_totals(const Estimates& estimates, Cost& cost) {
  cost.value += static_cast<double>(estimates.total_cycles);
  double& sram = cost.bytes["SRAM"];
  double& dram = cost.bytes["DRAM"];
  sram = std::max(sram, static_cast<double>(estimates.sram_bytes()));
  dram = std::max(dram, static_cast<double>(estimates.dram_bytes()));
  cost.bytes["flash"] += static_cast<double>(estimates.flash_bytes());
}

struct LoweredRegion {
  std::string name;
  tosa::Program program;
  std::map<std::string, std::string, std::less<>> values;  // of its nodes
};

// False: regor does not compile it.
bool add_cost(LoweredRegion& region, Pipeline& pipeline, Cost& cost) {
  const Buffer tosa = tosa::write(region.program);
  forget_constants(region.program);
  const NpuProgram* code = priced(tosa, region.name, pipeline);
  if (!code) return false;
  add_totals(*code->estimates, cost);
  const std::vector<Layer>& layers = code->estimates->layers;
  const std::vector<std::string_view> nodes = nodes_of_layers(region.program, layers);
  for (size_t i = 0; i < layers.size(); ++i)
    if (auto value = region.values.find(nodes[i]); value != region.values.end()) {
      cost.each[value->second] += static_cast<double>(layers[i].cycles);
      cost.wide[value->second] +=
          static_cast<double>(std::max(layers[i].cycles, 2 * layers[i].npu_cycles) - layers[i].cycles);
    }
  return true;
}

}  // namespace

const NpuProgram* priced_program(const Pipeline& pipeline, const Buffer& tosa) {
  return pipeline.priced.empty() ? nullptr : known_program(pipeline, fingerprint(tosa));
}

std::optional<Cost> npu_cost(const Graph& quantized, Pipeline& pipeline) {
  Graph graph = clone(quantized);
  Pipeline rest{.options = pipeline.options, .target = pipeline.target, .own_types = pipeline.own_types};
  if (!run_steps(graph, rest, "ports", kPartition)) return std::nullopt;
  set_check_context("quantize");  // which goes on
  Cost cost;
  cost.programs = rest.partition.regions.size();
  for (const HostReason& host : rest.partition.host) cost.on_host.insert(host.op + " " + host.node);
  std::vector<LoweredRegion> regions;
  for (const auto& region : rest.partition.regions) {
    Result<tosa::Program> program = lower(*region);
    if (!program) return std::nullopt;
    join_rescales(*program, pipeline.target);
    avoid_defects(*program, pipeline.target);
    regions.push_back({region->name, std::move(*program), values_of_nodes(*region)});
  }
  rest.partition.regions.clear();
  graph = Graph();  // its constants are in the programs now, and take as much memory there
  for (LoweredRegion& region : regions)
    if (!add_cost(region, pipeline, cost)) return std::nullopt;
  return cost;
}

}  // namespace swoop
