// The kernels of the stock runtime with their arguments, from kernels.def.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swoop::emit {

struct KernelArgument {
  std::string_view name;
  char kind;                  // see kernels.def
  std::string_view fallback;  // default as a token; empty: required
};

struct Kernel {
  std::string_view name;      // "aten::topk"
  std::string_view overload;  // "values"
  std::string_view arguments;
  std::string_view results;

  std::vector<KernelArgument> argument_list() const;
  size_t result_count() const;  // 1 for a list of results
  bool list_result() const { return results.ends_with("[]"); }
};

std::span<const Kernel> kernels();
const Kernel* find_kernel(std::string_view name, std::string_view overload);

}  // namespace swoop::emit
