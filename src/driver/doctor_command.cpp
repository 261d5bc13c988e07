// swoop doctor: is everything there that a compile and its check need? A line each, and the exit code.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "driver/commands.h"
#include "ir/ir.h"
#include "lower/lower.h"
#include "npu/npu.h"
#include "report/report.h"
#include "run/runtime.h"
#include "support/json.h"
#include "support/memory.h"
#include "support/parallel.h"
#include "target/target.h"
#include "tosa/tosa.h"

namespace swoop {

namespace {

struct Finding {
  std::string what;
  std::optional<std::string> fault;
  std::string said;  // where there is no fault
};

// A program that is no program: the runtime must be there to refuse it.
Finding runtime_finding() {
  const std::string nothing(64, '\0');
  Result<std::unique_ptr<ProgramRunner>> loaded =
      load_program(Bytes(reinterpret_cast<const std::byte*>(nothing.data()), nothing.size()));
  const std::string& message = loaded ? "" : loaded.error().message;
  if (message.find("does not accept this file") != std::string::npos)
    return {"runtime", std::nullopt, "libswoop_run.so and ExecuTorch's libraries are loaded"};
  return {"runtime", message, ""};
}

// An addition through lowering, TOSA and regor's process.
Result<void> compile_addition() {
  TRY_ASSIGN(Graph graph, parse("graph \"main\" (%x : i8[1,16] q(0.5, 0))\n"
                                "%y = add %x, %x : i8[1,16] q(1, 0)\nreturn %y\n"));
  TRY_ASSIGN(tosa::Program program, lower(graph));
  TRY(compile_npu(tosa::write(program), npu_targets().front(), {}, "doctor"));
  return {};
}

Finding npu_finding() {
  Result<void> compiled = compile_addition();
  if (!compiled) return {"npu", compiled.error().message, ""};
  return {"npu", std::nullopt, "regor compiles for the NPU in its own process"};
}

Finding folder_finding() {
  std::error_code code;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(code);
  if (code) return {"scratch", fmt::format("there is no folder for temporary files: {}", code.message()), ""};
  const std::filesystem::space_info space = std::filesystem::space(folder, code);
  if (code || space.available < (uintmax_t{64} << 20))
    return {"scratch", fmt::format("{} has less than 64 MiB of room", folder.string()), ""};
  return {"scratch", std::nullopt, fmt::format("{}, {} MiB free", folder.string(), space.available >> 20)};
}

std::vector<Finding> findings() {
  std::vector<Finding> list;
  list.push_back({"version", std::nullopt, fmt::format("swoop {}", kSwoopVersion)});
  list.push_back({"cores", std::nullopt, fmt::format("{} threads", thread_count())});
  list.push_back(
      {"memory", std::nullopt, fmt::format("a compile may take {} MiB (--max-memory)", usable_memory() >> 20)});
  list.push_back(folder_finding());
  list.push_back(npu_finding());
  list.push_back(runtime_finding());
  return list;
}

}  // namespace

Command doctor_command(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("doctor", "Check that this installation can compile and run programs");
  command->add_flag("--json", *json, "print JSON");
  return {command, [json] {
            int code = 0;
            Json lines = Json::array();
            for (const Finding& finding : findings()) {
              if (finding.fault) code = 1;
              const std::string& text = finding.fault ? *finding.fault : finding.said;
              lines.push_back({{"what", finding.what}, {"ok", !finding.fault}, {"text", text}});
              if (!*json) fmt::print("{:<9} {:<5} {}\n", finding.what, finding.fault ? "FAULT" : "ok", text);
            }
            if (*json) fmt::print("{}", to_line({{"schema", 1}, {"ok", code == 0}, {"findings", std::move(lines)}}));
            return code;
          }};
}

}  // namespace swoop
