#include <gtest/gtest.h>

#include "stream/stream.h"

namespace swoop {
namespace {

LayerMap some_map() {
  LayerMap map;
  MappedLayer conv;
  conv.name = "conv2d";
  conv.op = "conv";
  conv.source = "net.py:31";
  conv.shape = {1, 8, 8, 300};
  conv.quant.emplace(0.0123, -128);
  conv.value = "relu";
  conv.moves = {{true, {0, 2, 3, 1}}, {false, {1, 8, 8, 300}}};
  MappedLayer reshape = conv;
  reshape.name = "view";
  reshape.moves.clear();
  reshape.inside = 2;
  MappedLayer index;
  index.name = "argmax";
  index.op = "argmax";
  index.dtype = "i32";
  index.shape = {1, 8};
  map.layers = {conv, reshape, index};
  map.operations = {{7, 0, true}, {200, 0, true}, {201, 2, false}, {70000, 2, true}};
  return map;
}

std::string packed() { return pack_layers(some_map()); }

TEST(LayerMap, comes_back_whole) {
  const auto map = unpack_layers(packed());
  ASSERT_TRUE(map);
  EXPECT_EQ(*map, some_map());
  EXPECT_EQ(pack_layers(*map), packed());
  EXPECT_EQ(unpack_layers(pack_layers({})).value(), LayerMap());
}

TEST(LayerMap, says_a_text_once) {
  LayerMap map = some_map();
  const size_t before = pack_layers(map).size();
  map.layers.push_back(map.layers[0]);
  EXPECT_LT(pack_layers(map).size() - before, 40u);
}

// An unrolled loop: the same layers again under other names.
TEST(LayerMap, takes_a_few_bytes_for_a_layer) {
  LayerMap map;
  for (uint32_t i = 0; i < 500; ++i) {
    MappedLayer layer = some_map().layers[0];
    layer.name = layer.value = "conv2d_" + std::to_string(i);
    map.layers.push_back(layer);
    map.operations.push_back({40 * i, i, true});
  }
  EXPECT_LT(pack_layers(map).size(), map.layers.size());
  EXPECT_EQ(unpack_layers(pack_layers(map)).value(), map);
}

TEST(LayerMap, gives_back_every_text_with_digits) {
  LayerMap map = some_map();
  for (std::string_view name :
       {"", "0", "00", "7", "add_007", "add_70", "add_9", "add_123456789", "add_1234567890", "4x"})
    map.layers.emplace_back(map.layers[0]).name = name;
  EXPECT_EQ(unpack_layers(pack_layers(map)).value(), map);
}

// A little file must not make us fill the memory: a table's entry can be long and used by every layer.
TEST(LayerMap, bounds_what_a_small_file_unfolds_to) {
  LayerMap map = some_map();
  map.layers[0].moves.assign(20, map.layers[0].moves[1]);
  map.layers.resize(60000, map.layers[0]);
  EXPECT_EQ(pack_layers(map), "");
}

TEST(LayerMap, refuses_every_truncation_and_what_follows) {
  const std::string whole = packed();
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(unpack_layers(whole.substr(0, size))) << size;
  EXPECT_FALSE(unpack_layers(whole + '\0'));
}

// Each byte replaced by each other one: an error, or a map whose indices are in range.
TEST(LayerMap, garbled_bytes_give_an_error_or_a_map_in_range) {
  const std::string whole = packed();
  size_t refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string garbled = whole;
      garbled[at] = static_cast<char>(value);
      const auto map = unpack_layers(garbled);
      refused += !map;
      if (!map) continue;
      for (const StreamOperation& operation : map->operations) EXPECT_LT(operation.layer, map->layers.size());
      for (const MappedLayer& layer : map->layers) {
        for (int64_t size : layer.shape) EXPECT_GT(size, 0);
        if (layer.inside) {
          EXPECT_LT(*layer.inside, map->layers.size());
        }
      }
    }
  }
  EXPECT_GT(refused, whole.size() * 64);
}

TEST(LayerMap, refuses_counts_that_cannot_be) {
  LayerMap map = some_map();
  map.layers[0].shape = {1 << 20, 1 << 20};
  EXPECT_FALSE(unpack_layers(pack_layers(map)));
  map = some_map();
  map.layers[0].moves[0].to = {0, 2, 2, 1};
  EXPECT_FALSE(unpack_layers(pack_layers(map)));
  map = some_map();
  map.layers[0].moves[1].to = {1, 8, 8, 301};
  EXPECT_FALSE(unpack_layers(pack_layers(map)));
  map = some_map();
  map.operations.back().layer = 3;
  EXPECT_FALSE(unpack_layers(pack_layers(map)));
  map = some_map();
  map.operations.back().position = map.operations.front().position;  // does not ascend
  EXPECT_FALSE(unpack_layers(pack_layers(map)));
}

}  // namespace
}  // namespace swoop
