#include "driver/scratch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

namespace swoop {

Scratch::Scratch(std::string_view command)
    : path_(std::filesystem::temp_directory_path() / fmt::format("swoop-{}-{}", command, getpid())) {}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Result<void> Scratch::make() const {
  std::error_code problem;
  std::filesystem::create_directories(path_, problem);
  if (problem) return error("{}: {}", path_, problem.message());
  return {};
}

std::string Scratch::file(size_t number) const { return fmt::format("{}/{}.pte", path_, number); }

}  // namespace swoop
