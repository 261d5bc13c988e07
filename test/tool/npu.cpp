#include "npu/npu.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "support/file.h"
#include "support/json.h"
#include "support/timer.h"
#include "tool/commands.h"

namespace swoop::test_tool {
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

struct NpuFlags {
  std::string tosa, target, folder, optimise, config, reproducer;
  NpuOptions options;
  uint64_t ballast = 0;
  int repeat = 1;
  int threads = 1;
};

Result<void> compile_tosa(const NpuFlags& flags) {
  prepare_npu();
  const std::vector<char> ballast(flags.ballast, 1);
  NpuOptions options = flags.options;
  if (!flags.optimise.empty()) {
    TRY_ASSIGN(options.optimise, parse_optimise(flags.optimise));
  }
  if (!flags.config.empty()) {
    TRY_ASSIGN(const auto config, MappedFile::open(flags.config));
    options.config = text_of(config->bytes());
    options.config_path = flags.config;
  }
  TRY_ASSIGN(const NpuTarget target, parse_target(flags.target));
  TRY_ASSIGN(const auto file, MappedFile::open(flags.tosa));
  const auto compiled = compile_npu(file->bytes(), target, options, "region0");
  if (!compiled && !flags.reproducer.empty())
    TRY(keep_reproducer(file->bytes(), target, options, "region0", flags.reproducer));
  TRY_ASSIGN(const NpuProgram program, compiled);
  TRY_ASSIGN(const Buffer blob, pack(program));

  const Timer timer;
  std::vector<std::thread> crew;
  std::vector<int> different(static_cast<size_t>(flags.threads));
  for (int t = 0; t < flags.threads; ++t) {
    crew.emplace_back([&, t] {
      for (int i = 1; i < flags.repeat; ++i) {
        const auto again = compile_npu(file->bytes(), target, options, "region0");
        if (!again || *pack(*again) != blob) ++different[static_cast<size_t>(t)];
      }
    });
  }
  for (std::thread& thread : crew) thread.join();
  for (int count : different) {
    if (count) return error("{} of {} compiles gave another program", count, flags.repeat - 1);
  }
  if (flags.repeat > 1) fmt::print("{:.3f} ms per compile\n", timer.milliseconds() / (flags.repeat - 1));

  const std::string& folder = flags.folder;
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

void add_npu(Commands& commands) {
  auto flags = std::make_shared<NpuFlags>();
  CLI::App* npu =
      commands.add("npu",
                   "compiles and writes the program in pieces that can be compared with Vela's: commands.bin, "
                   "weights.bin, blob.bin, layers.csv and program.json",
                   flags, compile_tosa);
  npu->add_option("FILE.tosa", flags->tosa)->required();
  npu->add_option("TARGET", flags->target)->required();
  npu->add_option("FOLDER", flags->folder)->required();
  npu->add_option("--system-config", flags->options.system_config);
  npu->add_option("--memory-mode", flags->options.memory_mode);
  npu->add_option("--arena-cache-size", flags->options.arena_cache_size);
  npu->add_option("--timeout", flags->options.timeout_seconds);
  npu->add_option("--memory-limit", flags->options.memory_limit);
  npu->add_option("--reproducer", flags->reproducer, "folder for what reproduces a failure");
  npu->add_option("--optimise", flags->optimise);
  npu->add_option("--config", flags->config);
  npu->add_option("--ballast", flags->ballast, "bytes of memory in use, which a fork would have to copy");
  npu->add_option("--repeat", flags->repeat, "compiles so often and compares the programs");
  npu->add_option("--threads", flags->threads);
}

}  // namespace swoop::test_tool
