// A program as a C header, and the example that runs it on a device.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "firmware_text.h"  // made by cmake/firmware.cmake from src/report/firmware
#include "report/report.h"

namespace swoop {

namespace {

// Text from a file, as it can stand in a string or a comment of C.
std::string in_c(std::string_view text) {
  std::string safe;
  for (char c : printable(text)) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += c == '*' ? '_' : c;  // no end of a comment
  }
  return safe;
}

void add_ports(std::string& text, const std::string& prefix, std::string_view kind,
               const std::vector<PortSummary>& ports) {
  text += fmt::format("#define {}_{}_COUNT {}\n", prefix, kind, ports.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    const PortSummary& port = ports[i];
    const std::string name = fmt::format("#define {}_{}_{}", prefix, kind, i);
    text += fmt::format("{}_NAME \"{}\"\n", name, in_c(port.name));
    text += fmt::format("{}_TYPE \"{}\"\n", name, port.dtype);
    text += fmt::format("{}_SHAPE {{{}}}\n", name, fmt::join(port.shape, ", "));
    text += fmt::format("{}_BYTES {}u\n", name, port.bytes);
    if (port.scale) {
      text += fmt::format("{}_SCALE {:#.9g}f\n", name, *port.scale);
      text += fmt::format("{}_ZERO_POINT {}\n", name, *port.zero_point);
    }
  }
}

}  // namespace

std::string c_name(std::string_view file) {
  std::string name = std::filesystem::path(file).stem().string();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name = "model_" + name;
  return name;
}

std::string to_header(const Summary& s, Bytes pte, std::string_view file) {
  const std::string name = c_name(file);
  std::string prefix = name;
  std::transform(prefix.begin(), prefix.end(), prefix.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string text = fmt::format(
      "/* {} for {}, {}, {}: made by swoop {}. Include it in one C or C++ file. */\n"
      "#pragma once\n\n#include <stdint.h>\n\n",
      in_c(s.model), s.target, s.system_config, s.memory_mode, kSwoopVersion);

  text += fmt::format(
      "/* What to reserve, each at a multiple of 16.\n"
      "   planned: tensors between kernels, inputs and outputs included.\n"
      "   method:  what the runtime allocates while it loads the program; counted for 64-bit pointers, 32-bit ones "
      "take "
      "less.\n"
      "   temp:    the NPU's scratch memory: the NPU must be able to read and write it.\n"
      "   fast:    dedicated SRAM that ethosu_fast_scratch points to; 0 where the memory mode has none. */\n"
      "#define {0}_PLANNED_BYTES {1}u\n#define {0}_METHOD_BYTES {2}u\n#define {0}_TEMP_BYTES {3}u\n"
      "#define {0}_FAST_BYTES {4}u\n#define {0}_PROGRAM_BYTES {5}u\n\n#define {0}_METHOD_NAME \"{6}\"\n"
      "#define {0}_REGIONS {7}\n\n",
      prefix, s.planned_bytes, s.method_bytes, s.temp_bytes, s.fast_bytes, pte.size(), in_c(s.method),
      s.regions.size());

  text += "/* A code c stands for (c - ZERO_POINT) * SCALE. */\n";
  add_ports(text, prefix, "INPUT", s.inputs);
  add_ports(text, prefix, "OUTPUT", s.outputs);

  text += fmt::format(
      "\n/* The kernels that the program calls: the value of EXECUTORCH_SELECT_OPS_LIST for a selective build. */\n"
      "#define {}_KERNELS \"{}\"\n\n",
      prefix, fmt::join(s.kernels, ","));

  text += fmt::format(
      "/* The section that the linker places the program in; define it before including this file to choose another. "
      "*/\n"
      "#ifndef {0}_SECTION\n#define {0}_SECTION \"network_model_sec\"\n#endif\n\n"
      "static const uint8_t {1}_program[{0}_PROGRAM_BYTES] __attribute__((aligned(16), section({0}_SECTION))) = {{",
      prefix, name);
  text.reserve(text.size() + pte.size() * 4);
  for (size_t i = 0; i < pte.size(); ++i) {
    text += i % 24 == 0 ? "\n" : "";
    fmt::format_to(std::back_inserter(text), "{},", static_cast<unsigned>(pte[i]));
  }
  return text + "\n};\n";
}

std::vector<std::pair<std::string, std::string>> to_firmware(const Summary& summary, Bytes pte) {
  std::vector<std::pair<std::string, std::string>> files = {
      {std::string(kFirmwareHeader), to_header(summary, pte, kFirmwareHeader)}};
  for (const auto& file : kFirmwareFiles) files.emplace_back(file.name, file.text);
  return files;
}

}  // namespace swoop
