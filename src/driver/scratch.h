// A folder for files that nobody asked for. It goes away with the object.
#pragma once

#include <string>
#include <string_view>

#include "support/result.h"

namespace swoop {

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

}  // namespace swoop
