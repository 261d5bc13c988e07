#include "import/import.h"

#include <limits>

#include "ops/ops.h"
#include "support/npz.h"
#include "support/timer.h"
#include "tool/commands.h"

namespace swoop::test_tool {
namespace {

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

struct ImportFlags {
  std::string model;
  int time = 0;
  std::vector<std::string> run;
};

Result<void> import_model(const ImportFlags& flags) {
  if (flags.time > 0) {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < flags.time; ++i) {
      Timer timer;
      TRY(import_pt2(flags.model));
      best = std::min(best, timer.milliseconds());
    }
    fmt::print("{:.3f}\n", best);
    return {};
  }
  std::vector<ImportNote> notes;
  TRY_ASSIGN(Graph graph, import_pt2(flags.model, {}, &notes));
  for (const ImportNote& note : notes) fmt::print(stderr, "{}: {} ({})\n", note.source, note.message, note.node);
  fmt::print("{}", print(graph, {false, true}));
  return flags.run.empty() ? Result<void>() : run(graph, flags.run[0], flags.run[1]);
}

Result<void> print_operators(const NoFlags&) {
  for (const AtenOperator& op : aten_operators())
    fmt::print("{}\t{}\t{}\n", op.name, op.schema, op.opaque ? "opaque" : "core");
  return {};
}

}  // namespace

void add_import(Commands& commands) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* import = commands.add("import", "prints the imported graph as text, notes on stderr", flags, import_model);
  import->add_option("FILE.pt2", flags->model)->required();
  import->add_option("--time", flags->time, "prints the fastest of so many imports in milliseconds instead");
  import->add_option("--run", flags->run, "IN.npz OUT.npz: also executes it in float; the results are out0, out1, ...")
      ->expected(2);
  commands.add("operators", "the ATen table, a name and its schema per line", std::make_shared<NoFlags>(),
               print_operators);
}

}  // namespace swoop::test_tool
