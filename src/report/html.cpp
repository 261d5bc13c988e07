#include "page_text.h"  // made by cmake/page.cmake from src/report/page
#include "report/report.h"

namespace swoop {

namespace {

// JSON that may stand in a <script>: names come from files, and "</script>" in one would end it. Outside of strings
// JSON has no "<", and inside of them \u003c means the same.
std::string inside_script(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (char c : json) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

}  // namespace

std::string to_html(const Summary& summary) {
  std::string page(kPageBeforeJson);
  page += inside_script(to_json(summary));
  page += kPageAfterJson;
  return page;
}

}  // namespace swoop
