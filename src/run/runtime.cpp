#include "run/runtime.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

namespace swoop {

namespace {

// Where the library may be, seen from the folder of the program: in a build folder, and as `make install` puts it.
constexpr const char* kPlaces[] = {"libswoop_run.so", "../lib/swoop/libswoop_run.so"};

// The loader is only ever given a path that starts at the program's own folder: a bare name, or the name that the
// program was called by, could lead into the current folder, where anyone's library may stand.
Result<const RuntimeApi*> open_library() {
  std::error_code problem;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (problem) return error("The folder of the program is not known: {}.", problem.message());
  for (const char* place : kPlaces) {
    const std::string path = (program.parent_path() / place).lexically_normal();
    if (access(path.c_str(), R_OK) != 0) continue;
    void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL);  // a program calls few of its kernels
    if (!library) return error("The ExecuTorch runtime could not be loaded: {}.", dlerror());
    auto entry = reinterpret_cast<RuntimeApiFn>(dlsym(library, "swoop_runtime_api"));
    const RuntimeApi* api = entry ? entry() : nullptr;
    if (!api || api->version != kRuntimeApiVersion)
      return error("{} belongs to another version of swoop; build both together.", path);
    return api;
  }
  return error("The ExecuTorch runtime is missing: neither {} nor {} is in {}.", kPlaces[0], kPlaces[1],
               program.parent_path().string());
}

}  // namespace

Result<std::unique_ptr<ProgramRunner>> load_program(Bytes program, const RuntimeOptions& options) {
  static std::mutex mutex;
  static const RuntimeApi* api = nullptr;
  {
    std::lock_guard lock(mutex);
    if (!api) {
      TRY_ASSIGN(api, open_library());
    }
  }
  return api->load(program, options);
}

}  // namespace swoop
