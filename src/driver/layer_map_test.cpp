#include "driver/layer_map.h"

#include <gtest/gtest.h>

namespace swoop {
namespace {

Layer layer(std::string name) {
  Layer made;
  made.name = std::move(name);
  return made;
}

TEST(LayerMap, a_layer_that_regor_added_is_part_of_the_next_node) {
  tosa::Program program;
  tosa::Body& body = program.bodies.emplace_back();
  for (const char* name : {"x", "conv_out", "pool_out"})
    body.tensors.push_back({name, tosa::DType::I8, {1}, false, {}});
  body.operators.push_back({tosa::Op::Conv2d, {}, {0}, {1}, "conv"});
  body.operators.push_back({tosa::Op::MaxPool2d, {}, {1}, {2}, "pool"});
  const std::vector<Layer> layers = {layer("#3"), layer("conv_out"), layer("#74"), layer("pool_out"), layer("#75")};
  EXPECT_EQ(nodes_of_layers(program, layers), (std::vector<std::string_view>{"conv", "conv", "pool", "pool", "pool"}));
}

}  // namespace
}  // namespace swoop
