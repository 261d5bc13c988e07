// Small `.pt2` files made in memory, for tests and as the fuzzer's frame: the archive of torch.export.save around a
// given program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/check.h"
#include "support/zip.h"

namespace swoop {

struct Pt2Entry {
  std::string name;
  std::string data;
};

inline Buffer make_archive(const std::vector<Pt2Entry>& entries) {
  ZipWriter zip;
  for (const Pt2Entry& entry : entries) CHECK(zip.add(entry.name, bytes_of(entry.data)), "a test archive is too large");
  Result<Buffer> bytes = zip.finish();
  CHECK(bytes, "a test archive is too large");
  return std::move(*bytes);
}

inline std::string meta_json(std::string_view sizes, std::string_view strides, int dtype = 7, int offset = 0) {
  auto list = [](std::string_view numbers) {
    std::string text;
    while (!numbers.empty()) {
      size_t comma = numbers.find(',');
      text += fmt::format("{}{{\"as_int\": {}}}", text.empty() ? "" : ", ", numbers.substr(0, comma));
      numbers = comma == std::string_view::npos ? std::string_view() : numbers.substr(comma + 1);
    }
    return text;
  };
  return fmt::format(
      R"({{"dtype": {}, "sizes": [{}], "requires_grad": false, "device": {{"type": "cpu", "index": null}},
    "strides": [{}], "storage_offset": {{"as_int": {}}}, "layout": 7}})",
      dtype, list(sizes), list(strides), offset);
}

inline std::string tensor_argument(std::string_view name) {
  return fmt::format(R"({{"as_tensor": {{"name": "{}"}}}})", name);
}

// add(x, w) and relu of it, w a buffer of 4 floats; every part can be replaced.
struct Pt2Program {
  std::string x_meta = meta_json("2,4", "4,1");
  std::string w_meta = meta_json("4", "1");
  std::string w_data = std::string("\0\0\x80\x3f\0\0\0\x40\0\0\0\0\0\0\x80\xbf", 16);  // 1, 2, 0, -1
  std::string add_input = "x";
  std::string relu_input = "add";
  std::string relu_output = "relu";
  std::string relu_meta = meta_json("2,4", "4,1");
  std::string extra_nodes;
  std::string use_pickle = "false";
  std::string weight_path = "weight_0";
  int major = 8;

  std::string model() const {
    std::string node = R"({{"target": "torch.ops.aten.{}", "inputs": [{}], "outputs": [{}], "metadata": {{"stack_trace":
      "File \"/home/me/net.py\", line 31, in forward\n    return (x + self.w).relu()\n",
      "nn_module_stack": "L__self__,,net.Net"}},
      "is_hop_single_tensor_return": null, "name": "{}"}})";
    auto input = [](std::string_view name, std::string_view value) {
      return fmt::format(R"({{"name": "{}", "arg": {}, "kind": 1}})", name, tensor_argument(value));
    };
    std::string add =
        fmt::format(fmt::runtime(node), "add.Tensor", input("self", add_input) + ", " + input("other", "b_w"),
                    tensor_argument("add"), "add");
    std::string relu = fmt::format(fmt::runtime(node), "relu.default", input("self", relu_input),
                                   tensor_argument(relu_output), "relu");
    return fmt::format(
        R"({{"graph_module": {{"graph": {{"inputs": [{}, {}], "outputs": [{}], "nodes": [{}, {}{}],
        "tensor_values": {{"x": {}, "b_w": {}, "add": {}, "relu": {}}}, "sym_int_values": {{}}, "sym_bool_values": {{}},
        "is_single_tensor_return": false, "custom_obj_values": {{}}, "sym_float_values": {{}}}},
        "signature": {{"input_specs": [
        {{"buffer": {{"arg": {{"name": "b_w"}}, "buffer_name": "w", "persistent": true}}}},
        {{"user_input": {{"arg": {}}}}}], "output_specs": [{{"user_output": {{"arg": {}}}}}]}},
        "module_call_graph": [], "metadata": {{}}, "treespec_namedtuple_fields": {{}}}},
        "opset_version": {{"aten": 10}},
        "range_constraints": {{}}, "schema_version": {{"major": {}, "minor": 20}}, "verifiers": ["TRAINING"],
        "torch_version": "2.13.0", "guards_code": []}})",
        tensor_argument("b_w"), tensor_argument("x"), tensor_argument("relu"), add, relu, extra_nodes, x_meta, w_meta,
        x_meta, relu_meta, tensor_argument("x"), tensor_argument("relu"), major);
  }

  std::string weights() const {
    return fmt::format(
        R"({{"config": {{"w": {{"path_name": "{}", "is_param": false, "use_pickle": {}, "tensor_meta": {}}}}}}})",
        weight_path, use_pickle, w_meta);
  }

  std::vector<Pt2Entry> entries() const { return frame(model()); }

  std::vector<Pt2Entry> frame(std::string model_json) const {
    return {{"net/data/weights/weight_0", w_data},
            {"net/data/weights/model_weights_config.json", weights()},
            {"net/data/constants/model_constants_config.json", R"({"config": {}})"},
            {"net/models/model.json", std::move(model_json)},
            {"net/archive_format", "pt2"},
            {"net/archive_version", "0"},
            {"net/byteorder", "little"}};
  }

  Buffer archive() const { return make_archive(entries()); }
};

}  // namespace swoop
