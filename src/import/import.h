// import: the `.pt2` of torch.export becomes a Graph of core operators. The only room that knows ATen names.
// Weights stay in the mapped file. In-place operators come out functional, mutable buffers as State ports, q/dq pairs
// as Quantize and Dequantize nodes whose quantization is in the types. The file may be hostile: whatever is in it costs
// a sentence at most.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/ir.h"
#include "support/bytes.h"
#include "support/file.h"
#include "support/result.h"

namespace swoop {

// Values for sizes that the export left open.
struct OpenSizes {
  std::optional<int64_t> batch;         // of the first dimension of every input, where that is open
  std::map<std::string, Shape> shapes;  // of whole inputs, by name
};

struct ImportOptions {
  uint64_t memory_limit = uint64_t{4} << 30;  // bytes that unpacked weights and folded constants may take
  bool check_crc = true;                      // off only in the fuzzer, which could not get past it
  OpenSizes sizes = {};
};

// What the user should know about a model that imports.
struct ImportNote {
  std::string node;      // the exported name
  std::string source;    // "net.py:31"
  std::string message;   // why the operator stays opaque, or what was left out
  bool warning = false;  // something was left out: the user must know
};

// Several problems show at once: the error carries one line per problem. `notes` may be null.
Result<Graph> import_pt2(const std::string& path, const ImportOptions& options = {},
                         std::vector<ImportNote>* notes = nullptr);
Result<Graph> import_pt2(std::shared_ptr<const MappedFile> file, const ImportOptions& options = {},
                         std::vector<ImportNote>* notes = nullptr);
// The bytes must outlive the graph.
Result<Graph> import_pt2(Bytes file, const ImportOptions& options = {}, std::vector<ImportNote>* notes = nullptr);

// The rows of the ATen table, for `swoop ops` and for the test that compares them with torch.
struct AtenOperator {
  std::string_view name;    // "aten.conv2d.default"
  std::string_view schema;  // "input, weight, bias=None, stride=1, ..."
  bool opaque = false;      // known, but no core operator says it: stays a host kernel
};
std::vector<AtenOperator> aten_operators();

// Arguments of Op::Opaque, attribute `args`: one token per argument of the schema, in its order, `name=value`. Defaults
// are filled in when the operator is in our table; otherwise only what the file spells out is there. value is one of
//   %2            input 2 of the node            [%0,none,%3]   a list of tensors, some absent
//   none          an absent optional             true  false    a flag
//   -3            an integer                     [1,2]  []      integers, or an empty list of any kind
//   0.5  inf nan  a real, with one of . e n      [0.5,1.0]      reals
//   "text"        with \" and \\ escaped         ["a","b"]      texts
//   [true,false]  flags                          complex:1.0,2.0
//   dtype:f32     an element type                layout:7  memory_format:1  device:cpu   as torch.export numbers them
// The attribute `target` is "aten::topk" and `overload` the overload's name ("" for default).

}  // namespace swoop
