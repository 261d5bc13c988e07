#include "emit/kernel_table.h"

#include <algorithm>

namespace swoop::emit {

namespace {

constexpr Kernel kKernels[] = {
#define KERNEL(name, overload, arguments, results) {name, overload, arguments, results},
#include "emit/kernels.def"
#undef KERNEL
};

}  // namespace

std::span<const Kernel> kernels() { return kKernels; }

const Kernel* find_kernel(std::string_view name, std::string_view overload) {
  const auto* at = std::find_if(std::begin(kKernels), std::end(kKernels), [&](const Kernel& kernel) {
    return kernel.name == name && kernel.overload == overload;
  });
  return at == std::end(kKernels) ? nullptr : at;
}

std::vector<KernelArgument> Kernel::argument_list() const {
  std::vector<KernelArgument> list;
  for (std::string_view rest = arguments; !rest.empty();) {
    size_t end = std::min(rest.find(';'), rest.size());
    std::string_view one = rest.substr(0, end);
    size_t colon = one.find(':');
    size_t equals = one.find('=');
    list.push_back(
        {one.substr(0, colon), one[colon + 1], equals == std::string_view::npos ? "" : one.substr(equals + 1)});
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return list;
}

size_t Kernel::result_count() const {
  return results.empty() ? 0 : static_cast<size_t>(std::count(results.begin(), results.end(), ',')) + 1;
}

}  // namespace swoop::emit
