// Builds that are compared with others: a folder for their files, and what is kept of each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "driver/options.h"
#include "report/report.h"
#include "support/result.h"

namespace swoop {

// A folder for files that nobody asked for. It goes away with the object.
class Scratch {
 public:
  explicit Scratch(std::string_view command);  // "sweep"
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  Result<void> make() const;
  std::string file(size_t number) const;

 private:
  std::string path_;
};

// Builds into the file `output`, without a word, a page, a dump and limits, and fills in the point; its limits are
// those of `asked`. Null: it cannot be built.
std::optional<Summary> build_point(CompileOptions options, const CompileOptions& asked, std::string output,
                                   BuildPoint& point);

}  // namespace swoop
