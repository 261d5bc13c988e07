// Rules that walk towards the target: composites into integer primitives, windows into the forms TOSA and the core
// take, channels last, transposes sunk until they cancel. They touch only nodes that live in integers; what stays float
// stays for the host. Every table takes the NpuTarget as its context.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rewriter/rewriter.h"
#include "target/target.h"

namespace swoop {

// What 32 bits are for, where 16 were chosen. A model that came quantized rounds and cuts off as it says.
std::span<const Rule> square_rules();

// Linear, matmul, pools, reductions, pads, slices, ... into forms that lower/ has a function for.
std::span<const Rule> expand_rules();

// Channels-first windows become channels-last between transposes. Once: each window is turned one time.
std::span<const Rule> channels_last_rules();

// Transposes and reshapes move towards the outputs through what does not care about them, until they meet their
// inverse.
std::span<const Rule> layout_rules();

// After the moves have settled: transposes with as few dims as possible, sums in the form that the layout allows.
std::span<const Rule> finish_rules();
std::span<const Rule> extreme_rules();  // after layout, which decides the axes

// Branches that stay on the host take in what follows them.
std::span<const Rule> branch_rules();

// What the caller of the program hands over and takes.
enum class PortNumbers : uint8_t {
  Float,  // what the model has
  Codes,  // quantized numbers as the NPU has them: int8 or int16
  Bytes,  // the same, with uint8 in the place of int8
};
struct PortOptions {
  static constexpr std::string_view kImages = "*";  // in channels_last: everything with four dims
  PortNumbers inputs = PortNumbers::Float;
  PortNumbers outputs = PortNumbers::Float;
  std::vector<std::string> channels_last;  // inputs by name, outputs as out0, out1, ...

  bool is_channels_last(std::string_view name, size_t rank) const;
};
void choose_ports(Graph& graph, const PortOptions& options);

}  // namespace swoop
