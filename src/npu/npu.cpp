#include "npu/npu.h"

#include <limits>

#include "npu/isolate.h"
#include "npu/regor.h"
#include "support/file.h"

namespace swoop {
namespace {

// Last byte of the child's message: a program, or the sentence with which regor refuses the graph.
constexpr std::byte kProgram{1};
constexpr std::byte kRefused{2};

Buffer compile_in_child(Bytes call_bytes, Bytes tosa) {
  const auto call = decode_call(call_bytes);
  const auto program = call ? call_regor(tosa, *call) : call.error();
  Buffer message;
  if (program) {
    message = encode_program(*program);
  } else {
    append(message, bytes_of(program.error().message));
  }
  message.push_back(program ? kProgram : kRefused);
  return message;
}

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

// A folder name must not lead elsewhere, and a message must not carry control characters.
std::string plain_name(std::string_view region) {
  std::string out;
  for (char c : region.substr(0, 64)) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
    out += plain ? c : '_';
  }
  return out.empty() ? "region" : out;
}

// What every reader of the program relies on. regor writes the arena's size as 32 bits; its report knows the true one.
Result<void> check_sizes(const NpuProgram& program, std::string_view region) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();  // offsets in the .pte are int32
  for (NpuMemory memory : {NpuMemory::Sram, NpuMemory::Dram}) {
    const auto& estimate = program.estimates->memory(memory);
    if (estimate && estimate->bytes_used > kLargest) {
      return error(
          "{} needs {} bytes of {}; the program format has room for 2 GiB. Use smaller inputs or split the model.",
          region, estimate->bytes_used, memory_name(memory));
    }
  }
  return check_tensors(program);
}

}  // namespace

void prepare_npu() { start_isolation_server(); }

Result<NpuProgram> compile_npu(Bytes tosa, const NpuTarget& target, const NpuOptions& options,
                               std::string_view region) {
  TRY(check_npu_options(target, options));
  TRY_ASSIGN(const NpuSystem system, resolve_system(target, options));
  const std::string name = plain_name(region);
  const RegorCall call{target, system, system_text(target, system, config_text(options)),
                       options_text(options, system)};
  const auto message =
      run_isolated(compile_in_child, encode_call(call), tosa, {options.timeout_seconds, options.memory_limit});

  std::string cause;
  if (!message) {
    cause = message.error().message;
  } else if (message->empty()) {
    cause = "ended without a result";
  } else if (message->back() == kProgram) {
    TRY_ASSIGN(NpuProgram program, decode_program(Bytes(*message).first(message->size() - 1)));
    TRY(check_sizes(program, name));
    return program;
  } else {
    cause = fmt::format("refused the graph ({})", text_of(Bytes(*message).first(message->size() - 1)));
  }
  return error("regor {} while compiling {} for {}", cause, name, target.name);
}

Result<void> check_ports(const tosa::Program& tosa, const NpuProgram& program) {
  const tosa::Body& main = tosa.bodies[0];
  if (program.inputs.size() == main.inputs.size() && program.outputs.size() == main.outputs.size()) return {};
  return error("regor made {} inputs and {} outputs of {} and {}", program.inputs.size(), program.outputs.size(),
               main.inputs.size(), main.outputs.size());
}

Result<void> keep_reproducer(Bytes tosa, const NpuTarget& target, const NpuOptions& options, std::string_view region,
                             const std::string& folder) {
  TRY_ASSIGN(const NpuSystem system, resolve_system(target, options));
  TRY(make_directory(folder));
  const std::string file = fmt::format("{}/{}.tosa", folder, plain_name(region));
  TRY(write_file(file, tosa));
  const std::string ini = folder + "/vela.ini";
  TRY(write_file(ini, config_text(options)));
  std::string command = fmt::format(
      "vela --accelerator-config={} --config={} --system-config={} --memory-mode={} --optimise={} --output-format=raw",
      target.name, shell_quoted(ini), shell_quoted(system.system_config), shell_quoted(system.memory_mode),
      options.optimise == Optimise::Size ? "Size" : "Performance");
  if (options.arena_cache_size) command += fmt::format(" --arena-cache-size={}", *options.arena_cache_size);
  command +=
      fmt::format(" --verbose-performance --output-dir={} {}\n", shell_quoted(folder + "/output"), shell_quoted(file));
  return write_file(folder + "/vela.sh", command);
}

}  // namespace swoop
