#include <gtest/gtest.h>

#include "report/report.h"

namespace swoop {
namespace {

constexpr std::string_view kOpens = R"(<script type="application/json" id="summary">)";

// What a browser takes for the text of the script that holds the summary.
std::string script_text(const std::string& page) {
  size_t begin = page.find(kOpens) + kOpens.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Html, HoldsTheJson) {
  Summary summary;
  summary.model = "net.pt2";
  summary.target = "ethos-u55-128";
  std::string page = to_html(summary);
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_EQ(script_text(page), to_json(summary));  // nothing in it had to be written otherwise
  EXPECT_EQ(count(page, "{{"), 0u);                // every part is in its place
}

TEST(Html, NamesCannotLeaveTheScript) {
  const std::string bad = "</script><!--<script>alert(1)</SCRIPT >";
  Summary plain, hostile;
  for (Summary* summary : {&plain, &hostile}) {
    const std::string name = summary == &plain ? "name" : bad;
    summary->model = name;
    summary->warnings = {name};
    summary->host_nodes.push_back({name, name, name, name, name, name, name});
    summary->nodes.push_back({name, name, {}, {}});
    RegionSummary& region = summary->regions.emplace_back();
    region.name = name;
    region.nodes.push_back({name, name, {}, {}});
    LayerSummary& layer = region.layers.emplace_back();
    layer.name = layer.op = layer.source = layer.code = layer.module = name;
  }
  std::string page = to_html(hostile);
  EXPECT_EQ(count(script_text(page), "<"), 0u);
  EXPECT_EQ(count(page, "<"), count(to_html(plain), "<"));
  EXPECT_EQ(count(script_text(page), R"(\u003c/script>\u003c!--)"), count(to_json(hostile), "</script><!--"));
}

}  // namespace
}  // namespace swoop
