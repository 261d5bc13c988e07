// Where a node came from in the user's Python, from the metadata that torch.export keeps.
#pragma once

#include <unordered_map>

#include "import/json.h"
#include "ir/ir.h"

namespace swoop {

// `stack_trace` as Python prints it, `module_stack` as torch.export joins it ("key,path,type;key,path,type").
Loc read_location(std::string_view stack_trace, std::string_view module_stack);

// Interns locations; nodes that share their metadata share the work.
class Locations {
 public:
  LocId intern(Graph& graph, Json metadata);

 private:
  struct Key {
    std::string_view trace;
    std::string_view modules;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  std::unordered_map<Key, LocId, Hash> known_;
};

}  // namespace swoop
