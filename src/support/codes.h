// What a summary says in brackets after a warning, or after the reason of a host operator that breaks no limit of the
// NPU. `swoop explain` and docs/SUPPORT.md print this table.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace swoop {

enum class Code {
  // warnings
  Uncalibrated,
  FewSamples,
  ConstantInput,
  Dropout,
  DynamicRange,
  Raised,
  Repaired,
  Fetched,
  Cut,
  Inexact,
  Finer,
  Noisy,
  WidePort,
  // reasons of host operators
  Branch,
  Differs,
  Counting,
};

struct CodeInfo {
  std::string_view code;
  std::string_view meaning;
  std::string_view advice;
};

std::span<const CodeInfo> codes();
std::string_view name_of(Code code);
std::string with_code(std::string text, Code code);  // "text [code]"

}  // namespace swoop
