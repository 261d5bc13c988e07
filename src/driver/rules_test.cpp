// Rules as before/after pictures: every file under test/ that ends in .test. A file holds cases:
//
//   # what the case shows
//   run:  STEP-OR-RULE [STEP-OR-RULE ...] [on TARGET]
//   for:  (%x : i8[1,8,8,3] q(0.5, 0))
//   in:   %y = ...
//         return %y
//   out:  return %x
//
// Steps are those of the pipeline; a rule's name runs that rule alone, to its fixpoint. The whole output is compared,
// and where nothing fired it must be the input. UPDATE_GOLDENS=1 rewrites the files. A rule without a case that fires,
// or without one that must not, is a failure of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "driver/pipeline.h"
#include "support/file.h"

namespace swoop {
namespace {

struct Case {
  std::string title;
  std::vector<std::string> run;
  std::string target = "ethos-u55-128";
  std::string signature;
  std::string in;
  std::string out;
};

std::string trimmed(std::string_view text) {
  size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

std::vector<Case> read_cases(const std::string& text) {
  std::vector<Case> cases;
  std::string* open = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto starts = [&](std::string_view key) { return line.rfind(key, 0) == 0; };
    if (starts("#")) {
      if (cases.empty() || !cases.back().run.empty()) cases.emplace_back();
      cases.back().title += (cases.back().title.empty() ? "" : "\n") + line;
      open = nullptr;
    } else if (starts("run:")) {
      std::istringstream words(line.substr(4));
      for (std::string word; words >> word;) {
        if (word == "on")
          words >> cases.back().target;
        else
          cases.back().run.push_back(word);
      }
    } else if (starts("for:")) {
      cases.back().signature = trimmed(line.substr(4));
    } else if (starts("in:") || starts("out:")) {
      open = starts("in:") ? &cases.back().in : &cases.back().out;
      *open = trimmed(line.substr(line.find(':') + 1)) + "\n";
    } else if (open && !trimmed(line).empty()) {
      *open += trimmed(line) + "\n";
    }
  }
  return cases;
}

std::string indented(std::string_view key, const std::string& body) {
  std::string text;
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) text += fmt::format("{:<5} {}\n", text.empty() ? key : "", line);
  return text;
}

std::string written(const std::vector<Case>& cases) {
  std::string text;
  for (const Case& c : cases) {
    text += fmt::format("{}{}\nrun:  ", text.empty() ? "" : "\n", c.title);
    for (const std::string& name : c.run) text += name + " ";
    text += fmt::format("on {}\nfor:  {}\n{}{}", c.target, c.signature, indented("in:", c.in), indented("out:", c.out));
  }
  return text;
}

bool is_step(std::string_view name) {
  std::span<const Step> steps = pipeline_steps();
  return std::any_of(steps.begin(), steps.end(), [&](const Step& step) { return step.name == name; });
}

// A rule by its name, and how its step repeats it.
std::optional<std::pair<Rule, Repeat>> rule_named(std::string_view name) {
  for (const Step& step : pipeline_steps())
    for (const Rule& rule : step.rules)
      if (rule.name == name) return std::pair{rule, step.repeat};
  return std::nullopt;
}

std::map<std::string, std::pair<int, int>, std::less<>>
    fired;  // rule -> cases in which it did and did not, run by its own name

std::string print_body(const Graph& graph) {
  std::string text = print(graph), body;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);  // the signature
  while (std::getline(lines, line))
    if (!trimmed(line).empty()) body += trimmed(line) + "\n";
  return body;
}

Result<std::string> run_case(const Case& c) {
  Result<Graph> graph = parse(fmt::format("graph \"main\" {}\n{}", c.signature, c.in));
  if (!graph) return error("does not parse: {}", graph.error().message);
  CompileOptions options;
  options.samples = "random:0";  // for the steps of a model that is to be quantized
  Pipeline pipeline{.options = options};
  options.target = c.target;
  TRY_ASSIGN(pipeline.target, target_of(options));
  const std::string before = print_body(*graph);
  size_t hits = 0;
  for (const std::string& name : c.run) {
    if (is_step(name)) {
      TRY(run_steps(*graph, pipeline, name, name));
      hits += pipeline.stats.back().hits;
      continue;
    }
    auto found = rule_named(name);
    if (!found) return error("there is no step or rule called {}", name);
    StepStats stats = rewrite(*graph, {&found->first, 1}, found->second, &pipeline.target);
    (stats.hits > 0 ? fired[name].first : fired[name].second) += 1;
    hits += stats.hits;
  }
  if (std::optional<std::string> fault = verify(*graph)) return error("the graph is broken: {}", *fault);
  std::string after = print_body(*graph);
  if (hits == 0 && after != before) return error("no rule fired, and yet the graph became\n{}", after);
  return after;
}

TEST(Rules, give_what_their_files_say) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(SWOOP_SOURCE_DIR) + "/test"))
    if (entry.path().extension() == ".test") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  bool update = std::getenv("UPDATE_GOLDENS") != nullptr;
  for (const std::string& file : files) {
    Result<std::shared_ptr<const MappedFile>> mapped = MappedFile::open(file);
    ASSERT_TRUE(mapped) << file;
    std::vector<Case> cases = read_cases(std::string(text_of((*mapped)->bytes())));
    for (Case& c : cases) {
      Result<std::string> got = run_case(c);
      ASSERT_TRUE(got) << file << "\n" << c.title << "\n" << got.error().message;
      if (update) c.out = *got;
      EXPECT_EQ(*got, c.out) << file << "\n" << c.title;
    }
    if (update) {
      ASSERT_TRUE(write_file(file, written(cases)));
    }
  }
  for (const Step& step : pipeline_steps()) {
    for (const Rule& rule : step.rules) {
      auto found = fired.find(rule.name);
      bool both = found != fired.end() && found->second.first > 0 && found->second.second > 0;
      EXPECT_TRUE(both) << rule.name << " needs a case in which it fires and one in which it does not";
    }
  }
}

}  // namespace
}  // namespace swoop
