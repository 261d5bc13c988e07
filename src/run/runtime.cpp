#include "run/runtime.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <mutex>

namespace swoop {

namespace {

constexpr const char* kLibrary = "libswoop_run.so";

std::string folder_of(std::string path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Beside the code that asks (libswoop or the program), then beside the program, then wherever the loader looks.
std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  Dl_info here;
  if (dladdr(reinterpret_cast<const void*>(&folder_of), &here) != 0 && here.dli_fname)
    paths.push_back(folder_of(here.dli_fname) + "/" + kLibrary);
  std::array<char, PATH_MAX> program;
  ssize_t length = readlink("/proc/self/exe", program.data(), program.size());
  if (length > 0) paths.push_back(folder_of(std::string(program.data(), static_cast<size_t>(length))) + "/" + kLibrary);
  paths.emplace_back(kLibrary);
  return paths;
}

Result<const RuntimeApi*> open_library() {
  std::string why;
  for (const std::string& path : candidates()) {
    if (path.find('/') != std::string::npos && access(path.c_str(), R_OK) != 0) continue;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      why = dlerror();
      continue;
    }
    auto entry = reinterpret_cast<RuntimeApiFn>(dlsym(library, "swoop_runtime_api"));
    const RuntimeApi* api = entry ? entry() : nullptr;
    if (!api || api->version != kRuntimeApiVersion)
      return error("{} belongs to another version of swoop; build both together.", path);
    return api;
  }
  return error(
      "The ExecuTorch runtime could not be loaded: {}. It is built as {} beside the program and needs the executorch "
      "package "
      "it was built with.",
      why.empty() ? "the library is missing" : why, kLibrary);
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
