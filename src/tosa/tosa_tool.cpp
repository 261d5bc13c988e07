// A program for the Python tests: runs, checks, prints and rewrites .tosa files.
//   tosa_tool run FILE.tosa [--rewrite] [--time] [--all ALL.npz] [-i IN.npy]... [-o OUT.npy]...
//     --all: what every operator makes, in order, as NUMBER/LOCATION/TENSOR
//   tosa_tool validate|text|rewrite FILE.tosa [OUT.tosa]
//   tosa_tool serve: one `run` argument list per line of standard input, one line of answer each
#include <cstdio>
#include <iostream>
#include <sstream>

#include "support/file.h"
#include "support/npz.h"
#include "support/timer.h"
#include "tosa/tosa.h"

namespace swoop::tosa {
namespace {

std::string_view npy_dtype(DType dtype) {
  switch (dtype) {
    case DType::Bool: return "|b1";
    case DType::I16: return "<i2";
    case DType::I32: return "<i4";
    case DType::I48: return "<i8";
    default: return "|i1";
  }
}

Result<Program> load_program(const std::string& path) {
  TRY_ASSIGN(auto file, MappedFile::open(path));
  return read(file->bytes());
}

Result<void> run_file(const std::vector<std::string>& arguments) {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  bool rewrite = false;
  bool time = false;
  std::string all;
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--rewrite")
      rewrite = true;
    else if (arguments[i] == "--time")
      time = true;
    else if (arguments[i] == "--all" && i + 1 < arguments.size())
      all = arguments[++i];
    else if (i + 1 < arguments.size())
      (arguments[i] == "-i" ? inputs : outputs).push_back(arguments[i + 1]), ++i;
  }
  TRY_ASSIGN(Program program, load_program(arguments[0]));
  if (rewrite) {
    Buffer first = write(program);
    TRY_ASSIGN(program, read(first));
    if (write(program) != first) return error("Writing what was read changes the file.");
  }
  std::vector<TensorData> values;
  for (size_t i = 0; i < inputs.size() && i < program.bodies[0].inputs.size(); ++i) {
    TRY_ASSIGN(auto file, MappedFile::open(inputs[i]));
    TRY_ASSIGN(NpyArray array, read_npy(file->bytes()));
    const Tensor& expected = program.bodies[0].tensors[program.bodies[0].inputs[i]];
    if (array.dtype != npy_dtype(expected.dtype)) return error("{} has type {}.", inputs[i], array.dtype);
    values.push_back({expected.dtype, {array.shape.begin(), array.shape.end()}, std::move(array.data)});
  }
  Timer timer;
  std::vector<NamedArray> seen;
  Observer observer;
  if (!all.empty())
    observer = [&](const Body& body, const Operator& op, TensorId id, const TensorData& value) {
      NpyArray array{std::string(npy_dtype(value.dtype)), {value.shape.begin(), value.shape.end()}, value.data};
      seen.push_back({fmt::format("{}/{}/{}", seen.size(), op.location, body.tensors[id].name), std::move(array)});
    };
  TRY_ASSIGN(std::vector<TensorData> results, run(program, values, observer));
  if (!all.empty()) {
    TRY_ASSIGN(Buffer archive, write_npz(seen));
    TRY(write_file(all, archive));
  }
  if (time) fmt::print(stderr, "{:.3f} ms\n", timer.milliseconds());
  for (size_t i = 0; i < results.size() && i < outputs.size(); ++i) {
    NpyArray array{std::string(npy_dtype(results[i].dtype)), {results[i].shape.begin(), results[i].shape.end()}, {}};
    array.data = std::move(results[i].data);
    TRY(write_file(outputs[i], write_npy(array)));
  }
  return {};
}

Result<void> main_with(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) return error("usage: tosa_tool run|validate|text|rewrite FILE.tosa ...");
  if (arguments[0] == "run") return run_file({arguments.begin() + 1, arguments.end()});
  TRY_ASSIGN(Program program, load_program(arguments[1]));
  if (arguments[0] == "text") fmt::print("{}", text(program));
  if (arguments[0] == "rewrite" && arguments.size() > 2) {
    Timer timer;
    Buffer bytes = write(program);
    fmt::print("{:.3f} ms, {} operators, {} bytes\n", timer.milliseconds(), program.bodies[0].operators.size(),
               bytes.size());
    TRY(write_file(arguments[2], bytes));
  }
  return {};
}

void serve() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    Result<void> result = arguments.empty() ? error("an empty line") : run_file(arguments);
    std::cout << (result ? "ok" : "error: " + result.error().message) << std::endl;
  }
}

}  // namespace
}  // namespace swoop::tosa

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1 && arguments[0] == "serve") {
    swoop::tosa::serve();
    return 0;
  }
  swoop::Result<void> result = swoop::tosa::main_with(arguments);
  if (result) return 0;
  fmt::print(stderr, "tosa_tool: {}\n", result.error().message);
  return 1;
}
