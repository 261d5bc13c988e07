#include "tosa/tosa.h"

#include <iostream>

#include "support/file.h"
#include "support/npz.h"
#include "support/timer.h"
#include "tool/commands.h"

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

struct RunFlags {
  std::string program, all;
  std::vector<std::string> inputs, outputs;
  bool rewrite = false;
  bool time = false;
};

void add_run_options(CLI::App* run, RunFlags& flags) {
  run->add_option("FILE.tosa", flags.program)->required();
  run->add_option("-i", flags.inputs, "IN.npy, in order")->allow_extra_args(false);
  run->add_option("-o", flags.outputs, "OUT.npy, in order")->allow_extra_args(false);
  run->add_option("--all", flags.all, "ALL.npz: what every operator makes, in order, as NUMBER/LOCATION/TENSOR");
  run->add_flag("--rewrite", flags.rewrite, "writes and reads the program first");
  run->add_flag("--time", flags.time);
}

Result<void> run_file(const RunFlags& flags) {
  const auto& [path, all, inputs, outputs, rewrite, time] = flags;
  TRY_ASSIGN(Program program, load_program(path));
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

Result<void> serve(const test_tool::NoFlags&) {
  for (std::string line; std::getline(std::cin, line);) {
    CLI::App app;
    RunFlags flags;
    add_run_options(&app, flags);
    Result<void> result;
    try {
      app.parse(line);
      result = run_file(flags);
    } catch (const CLI::ParseError& problem) {
      result = Error{problem.what()};
    }
    std::cout << (result ? "ok" : "error: " + result.error().message) << std::endl;
  }
  return {};
}

struct FileFlags {
  std::string program, out;
};

Result<void> print_text(const FileFlags& flags) {
  TRY_ASSIGN(Program program, load_program(flags.program));
  fmt::print("{}", text(program));
  return {};
}

Result<void> rewrite_file(const FileFlags& flags) {
  TRY_ASSIGN(Program program, load_program(flags.program));
  Timer timer;
  Buffer bytes = write(program);
  fmt::print("{:.3f} ms, {} operators, {} bytes\n", timer.milliseconds(), program.bodies[0].operators.size(),
             bytes.size());
  return write_file(flags.out, bytes);
}

}  // namespace
}  // namespace swoop::tosa

namespace swoop::test_tool {

void add_tosa(Commands& commands) {
  auto run = std::make_shared<tosa::RunFlags>();
  tosa::add_run_options(commands.add("tosa-run", "runs a program with our interpreter", run, tosa::run_file), *run);
  commands.add("tosa-serve", "one argument list of tosa-run per line of standard input, one line of answer each",
               std::make_shared<NoFlags>(), tosa::serve);
  auto text = std::make_shared<tosa::FileFlags>();
  commands.add("tosa-text", "reads, validates and prints a program", text, tosa::print_text)
      ->add_option("FILE.tosa", text->program)
      ->required();
  auto rewrite = std::make_shared<tosa::FileFlags>();
  CLI::App* command = commands.add("tosa-rewrite", "reads a program and writes it again", rewrite, tosa::rewrite_file);
  command->add_option("FILE.tosa", rewrite->program)->required();
  command->add_option("OUT.tosa", rewrite->out)->required();
}

}  // namespace swoop::test_tool
