// A node whose results have the types that its operands give, for tests.
#pragma once

#include <gtest/gtest.h>

#include "ops/ops.h"

namespace swoop {

inline ValueId add_inferred(Graph& graph, Op op, std::vector<ValueId> inputs, Attrs attrs, std::string name) {
  Node& made = graph.add_node(op, std::move(inputs), {}, std::move(attrs), kNone, std::move(name));
  Result<std::vector<Type>> types = infer(graph, made);
  EXPECT_TRUE(types) << types.error().message;
  for (const Type& type : *types) graph.add_result(made, type);
  return made.outputs[0];
}

}  // namespace swoop
