// Conditionals and loops as jumps. A jump on the constant false is the unconditional one.
#include <algorithm>

#include "emit/graph_emitter.h"
#include "support/check.h"

namespace swoop::emit {

// `results` (empty: anywhere) are the tensors that the body's outputs must end up in.
Result<std::vector<int>> GraphEmitter::emit_body(const Graph& body, const std::vector<int>& inputs,
                                                 const std::vector<int>& results) {
  Scope scope = scope_of(body);
  CHECK(inputs.size() == body.inputs().size(), "a body with {} inputs gets {}", body.inputs().size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) scope.values[body.inputs()[i]] = inputs[i];
  for (size_t i = 0; i < results.size(); ++i) {
    ValueId id = body.outputs()[i];
    if (body.producer(id) && scope.values[id] == kAbsent) scope.values[id] = results[i];
  }
  for (NodeId id : body.order()) TRY(emit_node(scope, body.node(id)));
  std::vector<int> outputs;
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    TRY_ASSIGN(int output, value(scope, body.outputs()[i]));
    if (!results.empty() && output != results[i]) output = b_.copy(output, results[i]);
    outputs.push_back(output);
  }
  return outputs;
}

//   jump_false predicate -> else;  then...;  jump -> end;  else: ...;  end:
Result<void> GraphEmitter::emit_cond(Scope& scope, const Node& node) {
  TRY_ASSIGN(int predicate, value(scope, node.inputs[0]));
  if (b_.tensor(predicate).dtype != DType::Bool) {
    int flag = b_.planned(DType::Bool, b_.tensor(predicate).shape);
    b_.kernel("aten::ne.Scalar_out", {predicate, b_.integer(0)}, {flag});
    predicate = flag;
  }
  std::vector<int> operands;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    TRY_ASSIGN(int operand, value(scope, node.inputs[i]));
    operands.push_back(operand);
  }
  std::vector<int> results;
  for (ValueId id : node.outputs) {
    TRY_ASSIGN(int r, result(scope, id));
    results.push_back(r);
  }
  int to_else = b_.jump_false(predicate);
  TRY(emit_body(*node.bodies[0], operands, results));
  int to_end = b_.jump_false(b_.boolean(false));
  b_.land(to_else);
  TRY(emit_body(*node.bodies[1], operands, results));
  b_.land(to_end);
  return {};
}

//   carried = initial;  again: condition...;  jump_false -> end;  body...;  carried = new;  jump -> again;  end:
Result<void> GraphEmitter::emit_while(Scope& scope, const Node& node) {
  auto count = static_cast<size_t>(node.integer(Key::Carried));
  std::vector<int> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    TRY_ASSIGN(int initial, value(scope, node.inputs[i]));
    if (i >= count) {
      operands.push_back(initial);
      continue;
    }
    TRY_ASSIGN(int carried, result(scope, node.outputs[i]));
    b_.copy(initial, carried);
    operands.push_back(carried);
  }
  int again = b_.position();
  TRY_ASSIGN(std::vector<int> condition, emit_body(*node.bodies[0], operands, {}));
  int to_end = b_.jump_false(condition.at(0));
  TRY_ASSIGN(std::vector<int> next, emit_body(*node.bodies[1], operands, {}));
  std::vector<std::pair<int, int>> moves;
  for (size_t i = 0; i < count; ++i) moves.emplace_back(next.at(i), operands[i]);
  write_back(std::move(moves));
  int back = b_.jump_false(b_.boolean(false), again);
  for (size_t i = 0; i < count; ++i) b_.hold(operands[i], again, back);
  b_.land(to_end);
  return {};
}

// Map is a scan that carries nothing. Rows are taken with select_copy and collected with et_copy_index, which grows its
// target row by row: the collected tensors have an upper bound for a shape. The counter goes back to 0 so that the
// program can run again.
Result<void> GraphEmitter::emit_scan(Scope& scope, const Node& node) {
  bool map = node.op == Op::Map;
  size_t carried_count = map ? 0 : static_cast<size_t>(node.integer(Key::Carried));
  auto row_count = static_cast<size_t>(node.integer(map ? Key::Carried : Key::Scanned));
  std::vector<int> operands(node.inputs.size());
  std::vector<int> sources;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    TRY_ASSIGN(int x, value(scope, node.inputs[i]));
    operands[i] = x;
    if (i < carried_count) {
      TRY_ASSIGN(operands[i], result(scope, node.outputs[i]));
      b_.copy(x, operands[i]);
    } else if (i < carried_count + row_count) {
      Shape row(b_.tensor(x).shape.begin() + 1, b_.tensor(x).shape.end());
      sources.push_back(x);
      operands[i] = b_.planned(b_.tensor(x).dtype, row);
    }
  }
  CHECK(!sources.empty(), "node {} scans nothing", node.name);
  int64_t turns = b_.tensor(sources[0]).shape[0];
  std::vector<int> collected;
  for (size_t i = carried_count; i < node.outputs.size(); ++i) {
    TRY_ASSIGN(int stack, result(scope, node.outputs[i]));
    b_.tensor(stack).dynamic = true;
    collected.push_back(stack);
  }
  if (turns == 0) return {};

  int counter = b_.fresh(int64_t{0});
  int done = b_.fresh(false);
  int again = b_.position();
  for (size_t i = 0; i < sources.size(); ++i)
    b_.kernel("aten::select_copy.int_out", {sources[i], b_.integer(0), counter}, {operands[carried_count + i]});
  TRY_ASSIGN(std::vector<int> next, emit_body(*node.bodies[0], operands, {}));
  for (size_t i = 0; i < collected.size(); ++i)
    b_.primitive("executorch_prim::et_copy_index.tensor", {collected[i], next.at(carried_count + i), counter});
  std::vector<std::pair<int, int>> moves;
  for (size_t i = 0; i < carried_count; ++i) moves.emplace_back(next.at(i), operands[i]);
  write_back(std::move(moves));
  b_.primitive("executorch_prim::add.Scalar", {counter, b_.integer(1), counter});
  b_.primitive("executorch_prim::eq.Scalar", {counter, b_.integer(turns), done});
  int back = b_.jump_false(done, again);
  b_.primitive("executorch_prim::sub.Scalar", {counter, b_.integer(turns), counter});
  for (int stack : collected) b_.hold(stack, again, back);
  for (size_t i = 0; i < carried_count; ++i) b_.hold(operands[i], again, back);
  return {};
}

}  // namespace swoop::emit
