// swoop diff: what changed between two .pte files; thresholds for continuous integration.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>

#include "driver/commands.h"
#include "driver/figures.h"
#include "driver/json.h"
#include "support/file.h"
#include "support/zip.h"

namespace swoop {

namespace {

struct DiffFlags {
  std::string a, b;
  std::string inputs;
  std::optional<double> max_cycles;  // percent that b may exceed a by
  std::optional<double> max_bytes;
  std::optional<double> min_sqnr;
  bool json = false;
};

bool grew(int64_t a, int64_t b, double percent) {
  return static_cast<double>(b) > static_cast<double>(a) * (1 + percent / 100);
}

void check_growth(Difference& difference, const FigureLine& line, double percent, std::string_view flag) {
  if (!line.a || !line.b) {
    difference.broken.push_back(
        fmt::format("{}: {} is not known: {}", flag, line.name, (line.a ? difference.b : difference.a).estimates_why));
  } else if (grew(*line.a, *line.b, percent)) {
    difference.broken.push_back(
        fmt::format("{}: {} grew from {} to {}, by more than {} %", flag, line.name, *line.a, *line.b, percent));
  }
}

void check_thresholds(const DiffFlags& flags, Difference& difference) {
  if (flags.max_cycles)
    check_growth(difference, estimate_lines(difference.a, difference.b)[0], *flags.max_cycles, "--max-cycles");
  if (flags.max_bytes)
    for (const FigureLine& line : byte_lines(difference.a, difference.b))
      check_growth(difference, line, *flags.max_bytes, "--max-bytes");
  if (!flags.min_sqnr) return;
  for (const OutputDifference& output : difference.outputs) {
    if (!output.incomparable.empty())
      difference.broken.push_back(
          fmt::format("--min-sqnr: {} cannot be compared: {}", output.name, output.incomparable));
    else if (!output.equal && (!output.sqnr_db || *output.sqnr_db < *flags.min_sqnr) && output.different > 0)
      difference.broken.push_back(fmt::format("--min-sqnr: {} is at {:.2f} dB, below {}", output.name,
                                              output.sqnr_db.value_or(-INFINITY), *flags.min_sqnr));
  }
}

std::string cell(std::optional<int64_t> value) { return value ? fmt::format("{}", *value) : "not known"; }

std::string change(const FigureLine& line) {
  if (!line.a || !line.b) return "?";
  if (*line.a == *line.b) return "=";
  if (*line.a == 0) return "new";
  return fmt::format("{:+.2f} %", 100.0 * static_cast<double>(*line.b - *line.a) / static_cast<double>(*line.a));
}

void add_counts(std::vector<FigureLine>& lines, std::string_view title, const std::map<std::string, int>& a,
                const std::map<std::string, int>& b) {
  std::set<std::string> names;
  for (const auto& [name, count] : a) names.insert(name);
  for (const auto& [name, count] : b) names.insert(name);
  auto count_of = [](const std::map<std::string, int>& counts, const std::string& name) {
    return counts.contains(name) ? counts.at(name) : 0;
  };
  for (const std::string& name : names)
    lines.push_back({fmt::format("{} {}", title, name), count_of(a, name), count_of(b, name)});
}

std::string output_text(const OutputDifference& output) {
  if (!output.incomparable.empty())
    return fmt::format("{}: cannot be compared: {}\n", output.name, output.incomparable);
  if (output.equal) return fmt::format("{}: equal, all {} elements\n", output.name, output.elements);
  return fmt::format("{}: {} of {} elements differ, by {:.6g} at most, SQNR {}\n", output.name, output.different,
                     output.elements, output.max_difference,
                     output.sqnr_db ? fmt::format("{:.2f} dB", *output.sqnr_db) : "not defined");
}

std::string difference_text(const Difference& d) {
  std::vector<FigureLine> lines = {{"regions", d.a.regions, d.b.regions}};
  add_counts(lines, "npu", d.a.operations, d.b.operations);
  add_counts(lines, "host", d.a.kernels, d.b.kernels);
  add_counts(lines, "delegate", d.a.other_delegates, d.b.other_delegates);
  for (const FigureLine& line : byte_lines(d.a, d.b)) lines.push_back(line);
  for (const FigureLine& line : estimate_lines(d.a, d.b)) lines.push_back(line);
  size_t width = 0;
  for (const FigureLine& line : lines) width = std::max(width, line.name.size());

  std::string text =
      fmt::format("a  {}  {}\nb  {}  {}\n", d.a.path, fmt::join(d.a.npus, ", "), d.b.path, fmt::join(d.b.npus, ", "));
  text += fmt::format("{:<{}} {:>12} {:>12}\n", "", width, "a", "b");
  for (const FigureLine& line : lines)
    text += fmt::format("{:<{}} {:>12} {:>12}  {}\n", line.name, width, cell(line.a), cell(line.b), change(line));
  for (const OutputDifference& output : d.outputs) text += output_text(output);
  for (const std::string& sentence : d.broken) text += fmt::format("broken: {}\n", sentence);
  return text;
}

Result<Difference> compare(const DiffFlags& flags) {
  if (flags.min_sqnr && flags.inputs.empty()) return error("--min-sqnr compares outputs: give --inputs FILE.npz");
  TRY_ASSIGN(std::shared_ptr<const MappedFile> a, MappedFile::open(flags.a));
  TRY_ASSIGN(std::shared_ptr<const MappedFile> b, MappedFile::open(flags.b));
  Difference difference;
  TRY_ASSIGN(difference.a, read_figures(flags.a, a->bytes()));
  TRY_ASSIGN(difference.b, read_figures(flags.b, b->bytes()));
  if (!flags.inputs.empty()) {
    TRY_ASSIGN(std::shared_ptr<const MappedFile> inputs, MappedFile::open(flags.inputs));
    if (Result<ZipArchive> archive = ZipArchive::open(inputs->bytes()); !archive)
      return error("{}: not an .npz file: {}", flags.inputs, archive.error().message);
    TRY_ASSIGN(difference.outputs,
               compare_outputs(difference.a, a->bytes(), difference.b, b->bytes(), inputs->bytes()));
  }
  check_thresholds(flags, difference);
  return difference;
}

}  // namespace

Command diff_command(CLI::App& app) {
  auto flags = std::make_shared<DiffFlags>();
  CLI::App* command = app.add_subcommand(
      "diff", "Show what changed between two .pte files; the exit code is 1 when a threshold is exceeded");
  command->add_option("a", flags->a, "the .pte file before")->required()->type_name("FILE");
  command->add_option("b", flags->b, "the .pte file after")->required()->type_name("FILE");
  command->add_option("-i,--inputs", flags->inputs, "an .npz file: run both on it and compare their outputs")
      ->type_name("FILE");
  command->add_option("--max-cycles", flags->max_cycles, "percent by which b's estimated cycles may exceed a's");
  command->add_option("--max-bytes", flags->max_bytes,
                      "percent by which b's file, weights, scratch and planned memory may each exceed a's");
  command->add_option("--min-sqnr", flags->min_sqnr,
                      "SQNR in dB that every output of b must reach, with a as the reference");
  command->add_flag("--json", flags->json, "print the comparison as JSON");
  return {command, [flags] {
            Result<Difference> difference = compare(*flags);
            if (!difference) return fail(difference.error());
            fmt::print("{}", flags->json ? to_json(*difference) : difference_text(*difference));
            return difference->broken.empty() ? 0 : 1;
          }};
}

}  // namespace swoop
