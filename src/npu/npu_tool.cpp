// npu_tool FILE.tosa TARGET OUT_DIR [--system-config X] [--memory-mode X] [--config FILE] [--optimise X]
// [--arena-cache-size N]
//          [--timeout S] [--repeat N] [--threads N]
// Compiles and writes the program in pieces that a Python test can compare with Vela's: commands.bin, weights.bin,
// blob.bin, layers.csv and program.json. Prints the error and ends with 1 when there is one.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "npu/npu.h"
#include "support/file.h"
#include "support/json.h"
#include "support/timer.h"

namespace swoop {
namespace {

Json json_of(const std::vector<NpuTensor>& tensors) {
  Json list = Json::array();
  for (const NpuTensor& t : tensors)
    list.push_back({{"shape", t.shape}, {"elem_size", t.elem_size}, {"region", t.region}, {"offset", t.offset}});
  return list;
}

Json json_of(const Estimates& e) {
  Json json = {{"macs", e.macs},
               {"npu_cycles", e.npu_cycles},
               {"total_cycles", e.total_cycles},
               {"clock_hz", e.clock_hz},
               {"inference_ms", e.inference_ms},
               {"arena_cache_size", e.arena_cache_size},
               {"original_weight_bytes", e.original_weight_bytes},
               {"encoded_weight_bytes", e.encoded_weight_bytes},
               {"operations", e.operations},
               {"operations_after_cascading", e.operations_after_cascading},
               {"weights_memory", memory_name(e.weights_memory)},
               {"feature_map_memory", memory_name(e.feature_map_memory)},
               {"memories", Json::object()},
               {"tosa_index", Json::array()}};
  for (size_t i = 0; i < kNpuMemoryCount; ++i) {
    if (!e.memories[i]) continue;
    const MemoryEstimate& m = *e.memories[i];
    json["memories"][std::string(memory_name(static_cast<NpuMemory>(i)))] = {
        {"bytes_used", m.bytes_used},
        {"access_cycles", m.access_cycles},
        {"feature_map_read_bytes", m.feature_map_read_bytes},
        {"feature_map_write_bytes", m.feature_map_write_bytes},
        {"weight_read_bytes", m.weight_read_bytes},
        {"weight_write_bytes", m.weight_write_bytes},
        {"total_bytes", m.total_bytes}};
  }
  for (const Layer& layer : e.layers) json["tosa_index"].push_back(layer.tosa_index.value_or(-1));
  return json;
}

Result<void> run(int argc, char** argv) {
  if (argc < 4) return error("usage: npu_tool FILE.tosa TARGET OUT_DIR [--flag value]...");
  prepare_npu();
  NpuOptions options;
  std::vector<char> ballast;  // memory in use, which a fork would have to copy
  int repeat = 1;
  int threads = 1;
  for (int i = 4; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--system-config") options.system_config = value;
    if (flag == "--memory-mode") options.memory_mode = value;
    if (flag == "--arena-cache-size") options.arena_cache_size = std::strtoull(value.c_str(), nullptr, 10);
    if (flag == "--timeout") options.timeout_seconds = std::strtod(value.c_str(), nullptr);
    if (flag == "--memory-limit") options.memory_limit = std::strtoull(value.c_str(), nullptr, 10);
    if (flag == "--reproducer") options.reproducer_dir = value;
    if (flag == "--ballast") ballast.resize(std::strtoull(value.c_str(), nullptr, 10), 1);
    if (flag == "--repeat") repeat = std::atoi(value.c_str());
    if (flag == "--threads") threads = std::atoi(value.c_str());
    if (flag == "--optimise") {
      TRY_ASSIGN(options.optimise, parse_optimise(value));
    }
    if (flag == "--config") {
      TRY_ASSIGN(const auto config, MappedFile::open(value));
      options.config = text_of(config->bytes());
      options.config_path = value;
    }
  }
  TRY_ASSIGN(const NpuTarget target, parse_target(argv[2]));
  TRY_ASSIGN(const auto file, MappedFile::open(argv[1]));
  TRY_ASSIGN(const NpuProgram program, compile_npu(file->bytes(), target, options, "region0"));
  TRY_ASSIGN(const Buffer blob, pack(program));

  const Timer timer;
  std::vector<std::thread> crew;
  std::vector<int> different(static_cast<size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    crew.emplace_back([&, t] {
      for (int i = 1; i < repeat; ++i) {
        const auto again = compile_npu(file->bytes(), target, options, "region0");
        if (!again || *pack(*again) != blob) ++different[static_cast<size_t>(t)];
      }
    });
  }
  for (std::thread& thread : crew) thread.join();
  for (int count : different) {
    if (count) return error("{} of {} compiles gave another program", count, repeat - 1);
  }
  if (repeat > 1) fmt::print("{:.3f} ms per compile\n", timer.milliseconds() / (repeat - 1));

  const std::string folder = argv[3];
  TRY(make_directory(folder));
  TRY(write_file(folder + "/commands.bin", program.commands));
  TRY(write_file(folder + "/weights.bin", program.weights));
  TRY(write_file(folder + "/blob.bin", blob));
  TRY(write_file(folder + "/layers.csv", layers_csv(*program.estimates)));
  TRY(write_file(folder + "/program.json", to_line({{"weight_region", program.weight_region},
                                                    {"scratch_size", program.scratch_size},
                                                    {"scratch_region", program.scratch_region},
                                                    {"scratch_fast_size", *program.scratch_fast_size},
                                                    {"scratch_fast_region", program.scratch_fast_region},
                                                    {"inputs", json_of(program.inputs)},
                                                    {"outputs", json_of(program.outputs)},
                                                    {"variables", json_of(program.variables)},
                                                    {"estimates", json_of(*program.estimates)}})));
  return {};
}

}  // namespace
}  // namespace swoop

int main(int argc, char** argv) {
  const auto result = swoop::run(argc, argv);
  if (result) return 0;
  fmt::print(stderr, "{}\n", result.error().message);
  return 1;
}
