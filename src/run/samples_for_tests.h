// Small programs with known results (test/data/npu).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "run/run.h"
#include "support/file.h"

namespace swoop {

inline const std::string kFolder = std::string(SWOOP_SOURCE_DIR) + "/test/data/npu";

inline std::vector<std::string> sample_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".blob") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline Buffer read(const std::string& path) {
  auto file = MappedFile::open(path);
  EXPECT_TRUE(file.has_value()) << path;
  return Buffer((*file)->bytes().begin(), (*file)->bytes().end());
}

struct Sample {
  NpuProgram program;
  Buffer data;
  std::vector<Bytes> inputs;
  Buffer expected;

  explicit Sample(const std::string& name)
      : data(read(kFolder + "/" + name + ".in")), expected(read(kFolder + "/" + name + ".out")) {
    auto unpacked = unpack(read(kFolder + "/" + name + ".blob"));
    EXPECT_TRUE(unpacked.has_value()) << unpacked.error().message;
    program = std::move(*unpacked);
    size_t at = 0;
    for (const NpuTensor& tensor : program.inputs) {
      inputs.push_back(Bytes(data).subspan(at, static_cast<size_t>(tensor.byte_size())));
      at += static_cast<size_t>(tensor.byte_size());
    }
  }

  Result<Buffer> run(const NpuRunOptions& options = {}) const {
    std::vector<Buffer> outputs;
    TRY(execute_npu(program, inputs, outputs, options));
    Buffer joined;
    for (const Buffer& output : outputs) append(joined, Bytes(output));
    return joined;
  }
};

}  // namespace swoop
