// The container of a `.pt2`: finds the program inside of the zip, tells the layouts of PyTorch's versions apart, and
// gives out weights. Weights that are row-major in the file are used where they are; views with strides or offsets are
// copied to row-major.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "import/budget.h"
#include "import/import.h"
#include "import/json.h"
#include "import/meta.h"
#include "support/zip.h"

namespace swoop {

struct StoredTensor {
  Type type;
  Bytes data;
  bool complex = false;  // complex.h
};

// Throws Malformed from every function.
class Archive {
 public:
  // `owner` keeps what has to be copied out of the file.
  Archive(Bytes file, const ImportOptions& options, Graph& owner, Budget& budget);

  Json model() const { return model_; }

  // A parameter, buffer or constant by its qualified name. Persistent entries are looked for among the weights first,
  // the others among the constants.
  StoredTensor tensor(std::string_view fqn, bool persistent);

 private:
  struct Section {
    std::string folder;
    Json config;
    std::unordered_map<std::string_view, Json> entries;
  };

  std::string find_root() const;
  void check_layout();
  std::string find_model() const;
  const ZipEntry& entry(std::string_view name) const;
  Bytes read(const ZipEntry& entry);
  std::string_view small_text(std::string_view name);
  void load_section(Section& section, std::string_view folder, std::string_view model,
                    std::initializer_list<std::string_view> suffixes);
  StoredTensor load(const Section& section, std::string_view fqn, Json payload);

  Bytes file_;
  ZipArchive zip_;
  Graph& owner_;
  Budget& budget_;
  std::string root_;
  std::deque<simdjson::dom::parser> parsers_;
  Json model_;
  Section weights_;
  Section constants_;
  std::unordered_map<std::string_view, Bytes> payloads_;  // by entry name: tensors that share storage share its bytes
};

}  // namespace swoop
