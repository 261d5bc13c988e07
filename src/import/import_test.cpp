#include "import/import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "import/aten.h"
#include "import/importer.h"
#include "import/locations.h"
#include "import/pt2_builder.h"

namespace swoop {

namespace {

std::string sentence(Bytes file, ImportOptions options = {}) {
  Result<Graph> graph = import_pt2(file, options);
  return graph ? std::string() : graph.error().message;
}

std::string sentence(const Pt2Program& program, ImportOptions options = {}) {
  Buffer file = program.archive();
  return sentence(file, options);
}

// The error says so, and nothing else happened.
#define EXPECT_SAYS(program, words)                                        \
  do {                                                                     \
    std::string said = sentence(program);                                  \
    EXPECT_NE(said.find(words), std::string::npos) << "it says: " << said; \
  } while (false)

TEST(Import, reads_a_program) {
  Buffer file = Pt2Program().archive();
  Result<Graph> graph = import_pt2(Bytes(file));
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(print(*graph, {false, true}),
            "graph \"main\" (%x: f32[2,4] as \"x\")\n"
            "  %w = const f32[4] = [1,2,0,-1]\n"
            "  %add = add %x, %w : f32[2,4] @ \"net.py\":31 \"return (x + self.w).relu()\" \"\" \"Net\" name \"add\"\n"
            "  %relu = clamp %add min=0.0 : f32[2,4] @ \"net.py\":31 \"return (x + self.w).relu()\" \"\" \"Net\" name "
            "\"relu\"\n"
            "  return %relu as \"relu\"\n");
}

TEST(Import, weights_stay_in_the_file) {
  Buffer file = Pt2Program().archive();
  Result<Graph> graph = import_pt2(Bytes(file));
  ASSERT_TRUE(graph);
  const Value& weight = graph->value(graph->node(graph->first()).inputs[1]);
  EXPECT_TRUE(weight.data.data() > file.data() && weight.data.data() < file.data() + file.size());
}

TEST(Import, strided_weights_are_laid_out) {
  Pt2Program program;
  program.w_meta = meta_json("2,1", "-1,0");
  EXPECT_SAYS(program, "strides or an offset that make no sense");
  program.w_meta = meta_json("2,4", "0,1");
  Buffer file = program.archive();
  Result<Graph> graph = import_pt2(Bytes(file));
  ASSERT_TRUE(graph) << graph.error().message;
  const Value& weight = graph->value(graph->node(graph->first()).inputs[1]);
  EXPECT_EQ(weight.data.size(), 32u);
  EXPECT_TRUE(std::equal(weight.data.begin(), weight.data.begin() + 16, weight.data.begin() + 16));
}

TEST(Import, truncated_files_are_refused) {
  Buffer file = Pt2Program().archive();
  for (size_t size = 0; size < file.size(); ++size) {
    Buffer cut(file.begin(),
               file.begin() + static_cast<std::ptrdiff_t>(size));  // its own memory, so that ASan sees a read beyond
    EXPECT_FALSE(sentence(cut).empty()) << size;
  }
}

TEST(Import, flipped_bits_in_contents_are_noticed) {
  Pt2Program program;
  Buffer file = program.archive();
  std::string model = program.model();
  auto found = std::search(file.begin(), file.end(), bytes_of(model).begin(), bytes_of(model).end());
  auto start = static_cast<size_t>(found - file.begin());
  for (size_t at = start; at < start + model.size(); at += 7) {
    Buffer flipped = file;
    flipped[at] ^= std::byte{4};
    EXPECT_NE(sentence(flipped).find("checksum"), std::string::npos) << at;
  }
}

TEST(Import, flipped_bits_anywhere_do_no_harm) {
  Buffer file = Pt2Program().archive();
  for (bool check : {true, false})
    for (size_t at = 0; at < file.size(); ++at) {
      Buffer flipped = file;
      flipped[at] ^= static_cast<std::byte>(1 << (at % 8));
      sentence(flipped, {.memory_limit = 1 << 20, .check_crc = check});
    }
}

TEST(Import, refuses_pickles_and_other_versions) {
  Pt2Program program;
  program.use_pickle = "true";
  EXPECT_SAYS(program, "unpickling runs code");
  program = {};
  program.major = 9;
  EXPECT_SAYS(program, "version 9 of torch.export's schema");
  EXPECT_SAYS(make_archive({{"version", "8.2"}, {"serialized_exported_program.json", "{}"}}), "torch 2.7 or older");
  std::vector<Pt2Entry> entries = Pt2Program().entries();
  entries.push_back({"net/data/weights/model.pt", "pickle"});
  EXPECT_SAYS(make_archive(entries), "as torch 2.8 wrote them");
  EXPECT_SAYS(make_archive({{"archive/data.pkl", "x"}}), "torch.save or TorchScript");
  EXPECT_SAYS(make_archive({{"readme", "x"}}), "no exported program");
  entries = Pt2Program().entries();
  entries[5].data = "7";
  EXPECT_SAYS(make_archive(entries), "version 7");
}

TEST(Import, refuses_circles_and_wrong_order) {
  Pt2Program program;
  program.add_input = "relu";
  EXPECT_SAYS(program, "net.py:31: it uses `relu` before anything has made it");
  program = {};
  program.relu_input = "relu";
  EXPECT_SAYS(program, "it uses `relu` before anything has made it");
  program = {};
  program.relu_output = "add";
  EXPECT_SAYS(program, "the name `add` is given twice");
}

TEST(Import, refuses_absurd_shapes) {
  for (std::string_view sizes :
       {"1152921504606846976,4", "-2,4", "1099511627776,1099511627776", "9223372036854775807,9223372036854775807"}) {
    Pt2Program program;
    program.x_meta = meta_json(sizes, "4,1");
    EXPECT_FALSE(sentence(program).empty()) << sizes;
    program = {};
    program.w_meta = meta_json(sizes, "0,0");
    EXPECT_FALSE(sentence(program).empty()) << sizes;
  }
  Pt2Program program;
  program.relu_meta = meta_json("4,2", "2,1");
  EXPECT_SAYS(program, "the file says its result has the shape [4,2], but the operator gives [2,4]");
}

TEST(Import, refuses_weights_beyond_their_data_or_the_memory) {
  Pt2Program program;
  program.w_meta = meta_json("5", "1");
  EXPECT_SAYS(program, "needs 5 elements of 4 bytes, but its data has only 16 bytes");
  program.w_meta = meta_json("4", "1", 7, 1);
  EXPECT_SAYS(program, "needs 5 elements");
  program.w_meta = meta_json("4", "9223372036854775807");
  EXPECT_SAYS(program, "make no sense");
  program.w_meta = meta_json("1000000,1000000", "0,0");
  EXPECT_SAYS(program, "more than the limit leaves");
  program = {};
  program.w_data.clear();
  program.w_meta = meta_json("1000000000000", "1");
  EXPECT_SAYS(program, "more than the limit leaves");
  program = {};
  program.weight_path = "../../weight_9";
  EXPECT_SAYS(program, "lacks the entry");
}

TEST(Import, refuses_deep_nesting) {
  Pt2Program program;
  EXPECT_SAYS(make_archive(program.frame(std::string(100000, '['))), "not valid JSON");
  std::string deep = R"({"as_int": 1})";
  for (int i = 0; i < 500; ++i) deep = R"({"as_list": )" + deep + "}";
  EXPECT_SAYS(make_archive(program.frame(R"({"schema_version": {"major": 8}, "graph_module": )" + deep + "}")),
              "lacks `graph`");
}

// with torch.no_grad() inside itself, many times
TEST(Import, refuses_deep_subgraphs) {
  std::string body = R"({"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}})";
  auto wrap = [](const std::string& graph) {
    return R"({"target": "torch.ops.higher_order.wrap_with_set_grad_enabled", "outputs": [], "name": "wrap",
      "metadata": {}, "inputs": [{"name": "", "arg": {"as_bool": false}}, {"name": "", "arg": {"as_graph": {"name": "g", "graph": )" +
           graph + "}}}]}";
  };
  for (int i = 0; i < 60; ++i)
    body = R"({"inputs": [], "outputs": [], "tensor_values": {}, "nodes": [)" + wrap(body) + "]}";
  Pt2Program program;
  program.extra_nodes = ", " + wrap(body);
  EXPECT_SAYS(program, "nested more than 32 levels deep");
}

TEST(Import, every_kind_of_garbage_json_is_a_sentence) {
  Pt2Program program;
  std::string model = program.model();
  for (std::string_view garbage : {"null", "[]", "{}", "3", "\"x\"", "true", "-1", "1e308"})
    for (size_t at = model.find(": "); at != std::string::npos; at = model.find(": ", at + 1)) {
      size_t end = model.find_first_of(",}]", at);
      std::string changed = model.substr(0, at + 2) + std::string(garbage) + model.substr(end);
      sentence(make_archive(program.frame(changed)), {.memory_limit = 1 << 20});
    }
}

// Every integer of every seed program becomes a nasty one: sizes, axes, strides, shifts, zero points, versions.
TEST(Import, nasty_numbers_are_sentences) {
  std::filesystem::path seeds = std::filesystem::path(SWOOP_SOURCE_DIR) / "test/fuzz/import_fuzz";
  int imported = 0;
  int tried = 0;
  for (const auto& seed : std::filesystem::directory_iterator(seeds)) {
    Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(seed.path());
    ASSERT_TRUE(file);
    std::vector<Pt2Entry> entries;
    size_t model_at = 3;
    if (seed.path().extension() == ".json") {
      entries = Pt2Program().frame(std::string(text_of((*file)->bytes())));
    } else {
      Result<ZipArchive> zip = ZipArchive::open((*file)->bytes());
      ASSERT_TRUE(zip);
      for (const ZipEntry& entry : zip->entries()) {
        Buffer storage;
        Result<Bytes> data = zip->read(entry, storage);
        ASSERT_TRUE(data);
        if (entry.name.ends_with("model.json")) model_at = entries.size();
        entries.push_back({std::string(entry.name), std::string(text_of(*data))});
      }
    }
    ImportOptions options{.memory_limit = 1 << 24, .check_crc = false};
    const std::string model = entries[model_at].data;
    imported += sentence(make_archive(entries), options).empty() ? 1 : 0;
    for (size_t at = model.find_first_of("0123456789"); at != std::string::npos;
         at = model.find_first_of("0123456789", at)) {
      size_t end = model.find_first_not_of("0123456789", at);
      bool number = model[at - 1] == ':' || model[at - 1] == '[' || model[at - 1] == ',' || model[at - 1] == '-';
      constexpr std::string_view kNasty[] = {
          "0", "-1", "7", "2147483648", "4611686018427387904", "-9223372036854775808", "1e300"};
      for (std::string_view nasty : kNasty) {
        if (!number) break;
        entries[model_at].data = model.substr(0, at) + std::string(nasty) + model.substr(end);
        sentence(make_archive(entries), options);
        ++tried;
      }
      at = end;
    }
  }
  EXPECT_GE(imported, 38);
  EXPECT_GT(tried, 10000);
}

TEST(Locations, take_the_innermost_frame_of_the_user) {
  Loc loc = read_location(
      "  File \"/home/me/net.py\", line 31, in forward\n    y = self.conv(x)\n"
      "  File \"/env/lib/python3.11/site-packages/torch/nn/modules/conv.py\", line 565, in forward\n    return "
      "self._conv_forward(x)\n",
      "L__self__,,net.Net;L__self___conv,conv,torch.nn.modules.conv.Conv2d");
  EXPECT_EQ(loc, (Loc{"net.py", 31, "y = self.conv(x)", "conv", "Conv2d"}));
  // A package of models is the user's code too: its innermost line says more than the wrapper around it.
  Loc packaged = read_location(
      "  File \"/home/me/wrap.py\", line 4, in forward\n    return self.model(x)\n"
      "  File \"/env/lib/python3.11/site-packages/timm/models/resnet.py\", line 90, in forward\n    x = self.act(x)\n"
      "  File \"/env/lib/python3.11/site-packages/torch/nn/functional.py\", line 7, in relu\n    return "
      "torch.relu(x)\n",
      "");
  EXPECT_EQ(packaged.file, "resnet.py");
  EXPECT_EQ(packaged.line, 90);
  EXPECT_EQ(read_location("", ""), Loc{});
  EXPECT_EQ(read_location("File \"", "a"), Loc{});
  EXPECT_EQ(read_location("File \"n.py\", line 3, in f", "a,b").line, 3);
}

TEST(Numbers, fold_as_python_does) {
  auto fold = [](std::string_view target, std::vector<Number> operands) { return fold_number(target, operands); };
  EXPECT_EQ(fold("_operator.floordiv", {int64_t{-7}, int64_t{2}}), Number(int64_t{-4}));
  EXPECT_EQ(fold("_operator.mod", {int64_t{-7}, int64_t{3}}), Number(int64_t{2}));
  EXPECT_EQ(fold("_operator.truediv", {int64_t{7}, int64_t{2}}), Number(3.5));
  EXPECT_EQ(fold("_operator.mul", {int64_t{7}, 0.5}), Number(3.5));
  EXPECT_EQ(fold("torch.sym_max", {int64_t{7}, int64_t{9}}), Number(int64_t{9}));
  EXPECT_EQ(fold("_operator.floordiv", {int64_t{7}, int64_t{0}}), std::nullopt);
  EXPECT_EQ(fold("_operator.mul", {int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(fold("os.system", {int64_t{1}}), std::nullopt);
}

TEST(Table, knows_in_place_forms_and_copies_by_the_naming_scheme) {
  EXPECT_TRUE(find_row("aten.add_.Tensor").in_place);
  EXPECT_EQ(find_row("aten.add_.Tensor").row, find_row("aten.add.Tensor").row);
  EXPECT_TRUE(find_row("aten.view_copy.default").copy);
  EXPECT_EQ(find_row("aten.relu_copy.default").row, nullptr);
  EXPECT_EQ(find_row("aten.moveaxis.int").row->build, find_row("aten.movedim.int").row->build);
  EXPECT_EQ(find_row("nonsense").row, nullptr);
}

TEST(Table, every_schema_parses) {
  for (const AtenOperator& op : aten_operators())
    EXPECT_FALSE(parse_schema(op.schema).empty() && !op.schema.empty()) << op.name;
}

}  // namespace

}  // namespace swoop
