// The command line: flags in, exit code out. 0: done; 1: the input or a flag is at fault and the sentence says how; 2:
// our bug.
#include <cstdio>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "driver/commands.h"
#include "npu/npu.h"
#include "report/report.h"

namespace swoop {

namespace {

// Large blocks come and go with every layer. The allocator keeps them: the kernel would clear each page again.
void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 16 << 20);  // it grows in large steps
#endif
}

int main(int argc, char** argv) {
  keep_freed_memory();
  prepare_npu();  // before threads and memory: the process that compiles for the NPU is forked from a small one
  CLI::App app{"PyTorch to Ethos-U in one fell swoop: .pt2 in, ExecuTorch .pte out.", "swoop"};
  app.set_version_flag("--version", std::string(kSwoopVersion));
  app.require_subcommand(1);
  const Command commands[] = {compile_command(app), run_command(app),   inspect_command(app), accuracy_command(app),
                              diff_command(app),    ops_command(app),   explain_command(app), boards_command(app),
                              doctor_command(app),  init_command(app),  options_command(app), completion_command(app),
                              sweep_command(app),   advise_command(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);  // --help and --version
    return fail(Error{refusal(rows_of(app), {argv, static_cast<size_t>(argc)}, problem)});
  }
  for (const Command& command : commands)
    if (command.app->parsed()) return command.run();
  return 1;
}

}  // namespace

}  // namespace swoop

int main(int argc, char** argv) { return swoop::main(argc, argv); }
