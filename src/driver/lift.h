// With --precision auto, a file whose worst output is little more than noise is built again, with int16 for the layers
// that gain most per cycle, as --min-sqnr does it. Where that costs much, the first file stays and a warning has the
// price.
#pragma once

#include <optional>
#include <string>

#include "driver/pipeline.h"
#include "report/report.h"

namespace swoop {

// "2 layers: conv2d, add"
std::string raised_layers_text(const QuantizeReport& report);

class Lift {
 public:
  struct Figures {
    double db = 0;  // of the worst output
    int64_t cycles = 0;
  };

  // With the summary of a file that holds what was asked for.
  void begin(const Pipeline& pipeline, const Summary& summary);

  // True: the pipeline is set for another build.
  bool next(Pipeline& pipeline, const Summary& summary);
  void give_up() { failed_ = true; }  // the last build gave no file

  // Whether the last build gains too little, costs too much or breaks a limit; then the pipeline is set for the first.
  bool undo(Pipeline& pipeline, const Summary& summary);

  std::optional<std::string> warning(const Pipeline& pipeline, const Summary& summary) const;

 private:
  bool open_ = false;  // there may be another build
  bool failed_ = false;
  bool undone_ = false;
  int tries_ = 0;
  size_t broken_ = 0;  // limits, by the first file
  Figures first_, reached_;
};

}  // namespace swoop
