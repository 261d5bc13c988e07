#include "ops/ops.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "support/file.h"
#include "support/npy.h"
#include "support/parallel.h"
#include "tool/commands.h"

namespace swoop::test_tool {
namespace {

Result<void> check_inference(const Graph& graph) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    TRY_ASSIGN(std::vector<Type> types, infer(graph, node));
    if (types.size() != node.outputs.size())
      return error("{} has {} results, inference {}", node.name, node.outputs.size(), types.size());
    for (size_t i = 0; i < types.size(); ++i)
      if (types[i] != graph.type(node.outputs[i]))
        return error("{} is stated as {} and inferred as {}", name_of(node.op), to_text(graph.type(node.outputs[i])),
                     to_text(types[i]));
    for (const auto& body : node.bodies) TRY(check_inference(*body));
  }
  return {};
}

Result<DType> dtype_of(std::string_view npy) {
  if (npy == "<f4") return DType::F32;
  if (npy == "<f8") return DType::F64;
  if (npy == "<f2") return DType::F16;
  if (npy == "<i8") return DType::I64;
  if (npy == "<i4") return DType::I32;
  if (npy == "<i2") return DType::I16;
  if (npy == "|i1") return DType::I8;
  if (npy == "|u1") return DType::U8;
  if (npy == "|b1") return DType::Bool;
  return error("arrays of {} are not read", npy);
}

Result<Tensor> load_tensor(const std::string& path) {
  TRY_ASSIGN(auto file, MappedFile::open(path));
  TRY_ASSIGN(NpyArray array, read_npy(file->bytes()));
  Value value;
  value.name = path;
  TRY_ASSIGN(value.type.dtype, dtype_of(array.dtype));
  value.type.shape = array.shape;
  value.data = array.data;
  return to_tensor(value);
}

Result<void> execute_one(const std::string& stem, int repeat) {
  TRY_ASSIGN(auto file, MappedFile::open(stem + ".ir"));
  TRY_ASSIGN(Graph graph, parse(text_of(file->bytes())));
  TRY(check_inference(graph));
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    TRY_ASSIGN(Tensor input, load_tensor(fmt::format("{}.in{}.npy", stem, i)));
    inputs.push_back(std::move(input));
  }
  double best = 1e30;
  for (int i = 0; i < repeat; ++i) {
    std::clock_t start = std::clock();
    TRY(execute(graph, inputs));
    best = std::min(best, static_cast<double>(std::clock() - start) * 1e3 / CLOCKS_PER_SEC);
  }
  if (repeat) fmt::print("{} {:.3f} ms\n", stem, best);
  TRY_ASSIGN(std::vector<Tensor> outputs, execute(graph, inputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& output = outputs[i];
    std::string dtype = output.dtype == DType::F32 ? "<f4" : output.dtype == DType::I64 ? "<i8" : "|b1";
    TRY(write_file(fmt::format("{}.out{}.npy", stem, i), write_npy({dtype, output.shape, output.data})));
  }
  return {};
}

struct OpsFlags {
  std::string folder;
  int repeat = 0;
  int threads = 0;
};

Result<void> execute_folder(const OpsFlags& flags) {
  if (flags.threads > 0) set_thread_count(flags.threads);
  std::vector<std::string> stems;
  for (const auto& entry : std::filesystem::directory_iterator(flags.folder))
    if (entry.path().extension() == ".ir") stems.push_back((entry.path().parent_path() / entry.path().stem()).string());
  std::sort(stems.begin(), stems.end());
  for (const std::string& stem : stems) {
    Result<void> result = execute_one(stem, flags.repeat);
    if (!result) TRY(write_file(stem + ".error", result.error().message));
  }
  return {};
}

}  // namespace

void add_ops(Commands& commands) {
  auto flags = std::make_shared<OpsFlags>();
  CLI::App* ops =
      commands.add("ops",
                   "for every FOLDER/NAME.ir: checks that inference gives the types the text states, executes it in "
                   "float on NAME.in0.npy, ... and writes NAME.out0.npy, ...; what goes wrong is in NAME.error",
                   flags, execute_folder);
  ops->add_option("FOLDER", flags->folder)->required();
  ops->add_option("--repeat", flags->repeat, "prints the least processor time of so many runs");
  ops->add_option("--threads", flags->threads);
}

}  // namespace swoop::test_tool
