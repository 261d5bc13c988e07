// The totals of an estimate as one line of text, and back. The text comes from a file, so nothing in it is trusted.
#include <charconv>

#include "stream/stream.h"

namespace swoop {
namespace {

constexpr std::string_view kLead = "swoop ";

struct Field {
  std::string_view name;
  int64_t EstimateFigures::*member;
};
constexpr Field kFields[] = {
    {"total_cycles", &EstimateFigures::total_cycles},
    {"npu_cycles", &EstimateFigures::npu_cycles},
    {"macs", &EstimateFigures::macs},
    {"sram_bytes", &EstimateFigures::sram_bytes},
    {"flash_bytes", &EstimateFigures::flash_bytes},
    {"dram_bytes", &EstimateFigures::dram_bytes},
};

// The text up to the next ";", which is removed together with the blank after it.
std::string_view take_part(std::string_view& text) {
  size_t end = text.find(';');
  std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  if (text.starts_with(' ')) text.remove_prefix(1);
  return part;
}

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  auto [stop, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::string estimates_text(const Estimates& estimates, std::string_view version) {
  EstimateFigures figures{std::string(version),   estimates.total_cycles,  estimates.npu_cycles,  estimates.macs,
                          estimates.sram_bytes(), estimates.flash_bytes(), estimates.dram_bytes()};
  std::string text = fmt::format("{}{}", kLead, version);
  for (const Field& field : kFields) text += fmt::format("; {}={}", field.name, figures.*field.member);
  return text;
}

std::optional<EstimateFigures> parse_estimates_text(std::string_view text) {
  if (!text.starts_with(kLead)) return std::nullopt;
  text.remove_prefix(kLead.size());
  EstimateFigures figures;
  figures.version = std::string(take_part(text));
  size_t found = 0;
  while (!text.empty()) {
    std::string_view part = take_part(text);
    size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    for (const Field& field : kFields) {
      if (part.substr(0, equals) != field.name) continue;
      std::optional<int64_t> value = parse_count(part.substr(equals + 1));
      if (!value) return std::nullopt;
      figures.*field.member = *value;
      ++found;
    }
  }
  if (found != std::size(kFields)) return std::nullopt;
  return figures;
}

}  // namespace swoop
