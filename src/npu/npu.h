// TOSA -> NPU program: the call into regor, the C++ core of Arm's Vela.
// Why so careful: regor throws through its C interface, crashes on some legal graphs, and its contexts collide when two
// threads compile. So every compile runs in a forked child; whatever happens there comes back as a value or an Error.
// Invariant: the program equals, byte for byte, what the `vela` command makes of the same file with the same flags.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stream/stream.h"
#include "support/bytes.h"
#include "support/result.h"
#include "target/target.h"
#include "tosa/tosa.h"

namespace swoop {

enum class Optimise { Performance, Size };

// "Performance" or "Size", as Vela's --optimise spells them.
Result<Optimise> parse_optimise(std::string_view name);

struct NpuOptions {
  std::string system_config;  // section names of the config; empty = the target's default
  std::string memory_mode;
  std::string config;       // text in vela.ini format; empty = the vela.ini that comes with Vela
  std::string config_path;  // where `config` came from: for messages and for the reproducer's command line
  Optimise optimise = Optimise::Performance;
  std::optional<uint64_t> arena_cache_size;  // bytes; nullopt = what the memory mode says
  double timeout_seconds = 900;              // regor is stopped and reported after this; 8,000 operators take it 3 s
  uint64_t memory_limit = 0;                 // bytes regor may take; 0 = what usable_memory() says
};

// The sections in use.
std::string_view system_config_name(const NpuTarget& target, const NpuOptions& options);
std::string_view memory_mode_name(const NpuTarget& target, const NpuOptions& options);

// Names that --system-config and --memory-mode take, from the config in `options`.
Result<std::vector<std::string>> system_configs(const NpuOptions& options);
Result<std::vector<std::string>> memory_modes(const NpuOptions& options);

// Checks config, names and sizes without compiling, so that the driver can complain before the long work.
Result<void> check_npu_options(const NpuTarget& target, const NpuOptions& options);

// Bytes of SRAM for feature maps, where those are in DRAM; 0: they are in SRAM.
Result<int64_t> staging_bytes(const NpuTarget& target, const NpuOptions& options);

// Optional; call it first thing in main(), before threads and large memory: it forks the small process from which every
// compile is forked (1 ms instead of 1 ms per 30 MB in use). Without it compile_npu forks this process.
void prepare_npu();

// `region` names the region in messages ("region0"). Callable from several threads at once. The error says what regor
// did: "regor crashed with SIGSEGV while compiling region0 for ethos-u55-128".
Result<NpuProgram> compile_npu(Bytes tosa, const NpuTarget& target, const NpuOptions& options, std::string_view region);

// That regor left out no input and no output of what it was given.
Result<void> check_ports(const tosa::Program& tosa, const NpuProgram& program);

// Writes the .tosa, the config and the `vela` command line that shows the same thing without this program into
// `folder`, as REGION.tosa, vela.ini and vela.sh.
Result<void> keep_reproducer(Bytes tosa, const NpuTarget& target, const NpuOptions& options, std::string_view region,
                             const std::string& folder);

// Puts a PAD by nothing behind a SLICE where regor would read the slice in place and compute other numbers; see
// docs/regor-defects.md. The results stay the same.
void avoid_defects(tosa::Program& program, const NpuTarget& target);

// Forms that regor joins into fewer operations, with the same results. Before avoid_defects: longer chains may have
// defects too.
void join_rescales(tosa::Program& program, const NpuTarget& target);

}  // namespace swoop

#include "npu/products.h"
