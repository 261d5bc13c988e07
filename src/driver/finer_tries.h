// A file in which a part of an output, or a channel of one, has one value where the float model's varies is not
// written. Before it is refused, it is built with what is finer and costs little, one way after the other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/pipeline.h"
#include "report/report.h"

namespace swoop {

class FinerTries {
 public:
  // After each build; `summary` is absent where there is no file. True: the pipeline is set for another one.
  bool next(Pipeline& pipeline, const Summary* summary);

  // What a file that was built finer has given up for what.
  std::optional<std::string> warning(const Summary& summary) const;
  std::string tried_text() const;  // "; building it with ... does not help"; empty: nothing was tried
  Error refusal() const;           // where the last way gave no file at all

 private:
  struct Way {
    std::string what;
    Finer finer;
    bool widens = true;
  };
  static std::vector<Way> ways(const Pipeline& pipeline, const std::vector<const PartAccuracy*>& flat);

  std::vector<Way> ways_;
  size_t tried_ = 0;
  std::string flat_;          // in the first file
  int64_t first_cycles_ = 0;  // of that one
};

}  // namespace swoop
