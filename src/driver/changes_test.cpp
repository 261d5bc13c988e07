// Changes of a model, as `swoop advise` makes them.
#include "driver/changes.h"

#include <gtest/gtest.h>

#include "ops/inferred_for_tests.h"

namespace swoop {
namespace {

struct Net {
  Graph graph;

  ValueId node(Op op, std::vector<ValueId> inputs, Attrs attrs, std::string name) {
    return add_inferred(graph, op, std::move(inputs), std::move(attrs), std::move(name));
  }
  ValueId ones(Shape shape) {
    Tensor tensor = make_tensor(DType::F32, shape);
    for (float& x : tensor.as<float>()) x = 1;
    return graph.add_constant({DType::F32, shape, {}}, graph.store(tensor.data), "w");
  }
  ValueId conv(ValueId x, int64_t outputs, int64_t groups, int64_t kernel, std::string name) {
    const int64_t pad = kernel / 2;
    return node(Op::Conv, {x, ones({outputs, graph.type(x).shape[1] / groups, kernel, kernel}), ones({outputs})},
                {{Key::Stride, Ints{1, 1}},
                 {Key::Padding, Ints{pad, pad, pad, pad}},
                 {Key::Dilation, Ints{1, 1}},
                 {Key::Groups, groups}},
                std::move(name));
  }
};

// A bottleneck of 20 channels: wide -> depthwise -> + wide -> mean -> narrow, the output.
struct Bottleneck : Net {
  ValueId wide, narrow;
  Bottleneck() {
    const ValueId x = graph.add_input({DType::F32, {1, 3, 8, 8}, {}}, "x", {Port::Role::User, "x", {}});
    wide = conv(x, 20, 1, 5, "wide");
    const ValueId sum = node(Op::Add, {conv(wide, 20, 20, 3, "depthwise"), wide}, {}, "sum");
    const ValueId mean = node(Op::Mean, {sum}, {{Key::Axes, Ints{2, 3}}, {Key::Keepdim, true}}, "mean");
    narrow = conv(mean, 5, 1, 1, "narrow");
    graph.add_output(narrow);
  }
  const Shape& shape(std::string_view name) const {
    for (ValueId id = 0; id < graph.value_slots(); ++id)
      if (graph.value(id).name == name) return graph.type(id).shape;
    ADD_FAILURE() << "no value " << name;
    return graph.type(0).shape;
  }
};

TEST(Changes, channels_are_followed_to_all_that_have_them) {
  for (int64_t channels : {16, 32}) {
    Bottleneck net;
    EXPECT_TRUE(resize_channels(net.graph, net.wide, channels));
    EXPECT_EQ(verify(net.graph), std::nullopt);
    EXPECT_EQ(net.shape("depthwise"), (Shape{1, channels, 8, 8}));
    EXPECT_EQ(net.shape("mean"), (Shape{1, channels, 1, 1}));
    EXPECT_EQ(net.shape("narrow"), (Shape{1, 5, 1, 1}));
  }
}

TEST(Changes, channels_of_an_output_stay) {
  Bottleneck net;
  EXPECT_FALSE(resize_channels(net.graph, net.narrow, 16));
}

TEST(Changes, each_can_be_done_or_says_no) {
  Bottleneck net;
  std::vector<std::string> done;
  for (const Change& change : possible_changes(net.graph)) {
    Graph copy = clone(net.graph);
    if (!change.change(copy)) continue;
    EXPECT_EQ(verify(copy), std::nullopt) << change.what;
    done.push_back(change.node + ": " + change.what);
  }
  EXPECT_EQ(done,
            (std::vector<std::string>{"wide: 16 output channels instead of 20",
                                      "wide: 32 output channels instead of 20", "wide: a kernel of 3 instead of 5"}));
}

}  // namespace
}  // namespace swoop
