// Walks a graph, bodies of control flow included, and writes its instructions into a plan.
// Nothing is moved that need not be: views share their input's bytes, branches write straight into the conditional's
// results.
#pragma once

#include <span>

#include "emit/emit.h"
#include "emit/plan_builder.h"

namespace swoop::emit {

class GraphEmitter {
 public:
  GraphEmitter(PlanBuilder& builder, std::span<const Region> regions) : b_(builder), regions_(regions) {}

  // The whole program: inputs, nodes, write-back of buffers and mutated inputs, outputs.
  Result<void> emit_program(const Graph& graph, bool names);
  // One node alone, with inputs made up: to ask whether it can be emitted.
  Result<void> probe(const Graph& graph, const Node& node);

  // delegates_[i] of the program is region regions_[used_regions()[i]]
  const std::vector<int>& used_regions() const { return used_regions_; }

 private:
  struct Scope {
    const Graph& graph;
    std::vector<int> values;  // by ValueId; kAbsent until emitted
    std::vector<int> reals;   // the same values dequantized, where someone needed that
  };

  Result<std::vector<int>> emit_body(const Graph& body, const std::vector<int>& inputs,
                                     const std::vector<int>& results);
  Result<void> emit_node(Scope& scope, const Node& node);
  Result<void> emit_quantize(Scope& scope, const Node& node);
  Result<void> emit_region(Scope& scope, const Node& node);
  Result<void> emit_host(Scope& scope, const Node& node);
  Result<void> emit_reshape(Scope& scope, const Node& node);
  Result<void> emit_cond(Scope& scope, const Node& node);
  Result<void> emit_while(Scope& scope, const Node& node);
  Result<void> emit_scan(Scope& scope, const Node& node);

  Result<int> value(Scope& scope, ValueId id);       // as it is stored
  Result<int> real_value(Scope& scope, ValueId id);  // dequantized when its type is quantized
  Result<int> result(Scope& scope, ValueId id);      // the tensor a node writes
  Result<void> quantize(const Type& type, int from, int to);
  Result<int> dequantize(const Type& type, int from, int to = kAbsent);
  void write_back(std::vector<std::pair<int, int>> moves);  // (from, to), as if all at once
  Scope scope_of(const Graph& graph) const;

  PlanBuilder& b_;
  std::span<const Region> regions_;
  std::vector<int> used_regions_;
  std::vector<int> delegate_of_region_;
};

}  // namespace swoop::emit
