// import_tool FILE.pt2                  prints the imported graph as text, notes on stderr
// import_tool FILE.pt2 --time N         prints the fastest of N imports in milliseconds
// import_tool FILE.pt2 --run IN OUT     also executes it in float: IN and OUT are .npz, OUT has out0, out1, ...
// import_tool --operators               prints the ATen table, a name and its schema per line
// For the Python tests, which compare with PyTorch.
#include <cstdio>
#include <string>
#include <string_view>

#include "import/import.h"
#include "ops/ops.h"
#include "support/npz.h"
#include "support/timer.h"

namespace swoop {

namespace {

int fail(const std::string& message) {
  fmt::print(stderr, "{}\n", message);
  return 1;
}

Result<Tensor> to_input(const NpyArray& array, const Type& type) {
  struct Kind {
    std::string_view npy;
    DType dtype;
  };
  constexpr Kind kKinds[] = {{"<f4", DType::F32}, {"<i8", DType::I64}, {"<i4", DType::I32},
                             {"|i1", DType::I8},  {"|u1", DType::U8},  {"|b1", DType::Bool}};
  for (const Kind& kind : kKinds)
    if (kind.npy == array.dtype) {
      Value value;
      value.type = {kind.dtype, array.shape, type.quant};  // codes of a quantized input become reals
      value.data = array.data;
      return to_tensor(value);
    }
  return error("the tool does not take inputs of type {}", array.dtype);
}

NpyArray to_npy(const Tensor& tensor) {
  std::string dtype = tensor.dtype == DType::F32 ? "<f4" : tensor.dtype == DType::Bool ? "|b1" : "<i8";
  return {dtype, tensor.shape, tensor.data};
}

Result<void> run(const Graph& graph, const std::string& in, const std::string& out) {
  TRY_ASSIGN(auto file, MappedFile::open(in));
  TRY_ASSIGN(std::vector<NamedArray> arrays, read_npz(file->bytes()));
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Port& port = graph.input_port(i);
    if (port.role == Port::Role::State) {
      Value state;
      state.type = graph.type(graph.inputs()[i]);
      state.data = port.initial;
      inputs.push_back(to_tensor(state));
      continue;
    }
    const NpyArray* array = find_array(arrays, port.name);
    if (!array) return error("the inputs lack {}", port.name);
    TRY_ASSIGN(Tensor tensor, to_input(*array, graph.type(graph.inputs()[i])));
    inputs.push_back(std::move(tensor));
  }
  TRY_ASSIGN(std::vector<Tensor> results, execute(graph, inputs));
  std::vector<NamedArray> named;
  for (size_t i = 0; i < results.size(); ++i) named.push_back({fmt::format("out{}", i), to_npy(results[i])});
  TRY_ASSIGN(Buffer bytes, write_npz(named));
  return write_file(out, bytes);
}

int tool(const std::vector<std::string>& args) {
  if (args.empty()) return fail("usage: import_tool FILE.pt2 [--time N | --run IN.npz OUT.npz]");
  if (args[0] == "--operators") {
    for (const AtenOperator& op : aten_operators())
      fmt::print("{}\t{}\t{}\n", op.name, op.schema, op.opaque ? "opaque" : "core");
    return 0;
  }
  if (args.size() == 3 && args[1] == "--time") {
    double best = 1e9;
    for (int i = 0; i < std::stoi(args[2]); ++i) {
      Timer timer;
      Result<Graph> graph = import_pt2(args[0]);
      best = std::min(best, timer.milliseconds());
    }
    fmt::print("{:.3f}\n", best);
    return 0;
  }
  std::vector<ImportNote> notes;
  Result<Graph> graph = import_pt2(args[0], {}, &notes);
  if (!graph) return fail(graph.error().message);
  for (const ImportNote& note : notes) fmt::print(stderr, "{}: {} ({})\n", note.source, note.message, note.node);
  fmt::print("{}", print(*graph, {false, true}));
  if (args.size() != 4 || args[1] != "--run") return 0;
  Result<void> done = run(*graph, args[2], args[3]);
  return done ? 0 : fail(done.error().message);
}

}  // namespace

}  // namespace swoop

int main(int argc, char** argv) { return swoop::tool({argv + 1, argv + argc}); }
