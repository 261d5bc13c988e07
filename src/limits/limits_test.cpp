// One case per constraint: a node that just fits, one that does not, and the words about it.
#include "limits/limits.h"

#include <gtest/gtest.h>

#include <set>

namespace swoop {
namespace {

struct Case {
  std::string_view label;
  std::string_view ports;
  std::string_view fits;     // the node %y
  std::string_view refused;  // likewise
  std::string_view words;    // of the reason
};

constexpr Case kCases[] = {
    {"all.c1", "%x: i8[1,4] q(0.5, 0)", "%y = add %x, %x : i8[1,4] q(0.5, 0)",
     "%y = softmax %x axis=1 : i8[1,4] q(0.5, 0)", "softmax"},
    {"all.c2", "%x: i8[1,4] q(0.5, 0), %f: f32[1,4]", "%y = add %x, %x : i8[1,4] q(0.5, 0)",
     "%y = add %f, %f : f32[1,4]", "f is f32"},
    {"all.c3", "%x: i8[1,1,1,1,1,4] q(0.5, 0)", "%y = add %x, %x : i8[1,1,1,1,1,4] q(0.5, 0)",
     "%y = reshape %x shape=[1,1,1,1,1,1,4] : i8[1,1,1,1,1,1,4] q(0.5, 0)", "y has rank 7"},
    {"all.c4", "%x: i8[1,1,4,4] q(0.5, 0)",
     "%y = conv_transpose %x, %w, _ stride=[2,2] padding=[0,0,0,0] output_padding=[0,0] dilation=[1,1] groups=1 : "
     "i8[1,1,8,8] q(1, 0)",
     "%y = conv_transpose %x, %w, _ stride=[2,2] padding=[0,0,0,0] output_padding=[0,0] dilation=[2,1] groups=1 : "
     "i8[1,1,9,8] q(1, 0)",
     "dilation above 1"},
    {"all.c5", "%x: u8[1,4] q(0.5, 0)", "%y = quantize %x : i8[1,4] q(0.5, 0)", "%y = add %x, %x : u8[1,4] q(0.5, 0)",
     "x is uint8"},
    {"u55.c1", "%x: i8[1,4] q(0.5, 0), %b: bool[1,4]", "%y = reshape %x shape=[4] : i8[4] q(0.5, 0)",
     "%y = reshape %b shape=[4] : bool[4]", "b is boolean"},
    {"u55.c2", "%x: i8[1,1,12,12] q(0.5, 0)",
     "%y = max_pool %x kernel=[1,1] stride=[3,3] padding=[0,0,0,0] dilation=[1,1] : i8[1,1,4,4] q(0.5, 0)",
     "%y = max_pool %x kernel=[1,1] stride=[1,4] padding=[0,0,0,0] dilation=[1,1] : i8[1,1,12,3] q(0.5, 0)",
     "stride 4"},
    {"u55.c3", "%x: i8[1,1,4,4] q(0.5, 0), %v: i8[1,1,2,2] q(0.5, 0)",
     "%y = conv %x, %w, _ stride=[1,1] padding=[0,0,0,0] dilation=[1,1] groups=1 : i8[1,1,3,3] q(1, 0)",
     "%y = conv %x, %v, _ stride=[1,1] padding=[0,0,0,0] dilation=[1,1] groups=1 : i8[1,1,3,3] q(1, 0)",
     "v is computed"},
    {"u55.c4", "%x: i8[1,1,9,9] q(0.5, 0)",
     "%y = avg_pool %x kernel=[8,8] stride=[1,1] padding=[1,1,1,1] count_include_pad=false divisor=0 : i8[1,1,4,4] "
     "q(0.5, 0)",
     "%y = avg_pool %x kernel=[9,8] stride=[1,1] padding=[1,1,1,1] count_include_pad=false divisor=0 : i8[1,1,3,4] "
     "q(0.5, 0)",
     "kernel 9 with padding"},
    {"u55.c5", "%x: i8[1,1,257,256] q(0.5, 0)",
     "%y = max_pool %x kernel=[256,256] stride=[1,1] padding=[0,0,0,0] dilation=[1,1] : i8[1,1,2,1] q(0.5, 0)",
     "%y = max_pool %x kernel=[257,1] stride=[1,1] padding=[0,0,0,0] dilation=[1,1] : i8[1,1,1,256] q(0.5, 0)",
     "pool 257x1"},
    {"u55.c5", "%x: i8[1,1,66,66] q(0.5, 0)",
     "%y = conv %x, %w, _ stride=[1,1] padding=[0,0,0,0] dilation=[63,63] groups=1 : i8[1,1,3,3] q(1, 0)",
     "%y = conv %x, %w, _ stride=[1,1] padding=[0,0,0,0] dilation=[64,1] groups=1 : i8[1,1,2,65] q(1, 0)",
     "kernel 2x2 (dilated)"},
    {"u55.c6", "%x: i8[1,4,4] q(0.5, 0), %z: i16[1,4,4] q(0.5, 0)", "%y = matmul %x, %x : i8[1,4,4] q(1, 0)",
     "%y = matmul %z, %z : i16[1,4,4] q(1, 0)", "operand of type i16"},
    {"all.c8", "%x: i8[1,1,4,4] q(0.5, 0), %b: i32[1] q(0.5, 0)",
     "%y = conv %x, %w, _ stride=[1,1] padding=[0,0,0,0] dilation=[1,1] groups=1 : i8[1,1,3,3] q(1, 0)",
     "%y = conv %x, %w, %b stride=[1,1] padding=[0,0,0,0] dilation=[1,1] groups=1 : i8[1,1,3,3] q(1, 0)",
     "b is computed"},
    {"all.c6", "%x: i8[1,4] q(0.5, 0)", "%y = div %x, %x : i8[1,4] q(1, 0)",
     "%y = div %x, %x mode=\"floor\" : i8[1,4] q(1, 0)", "rounding mode floor"},
    {"all.c7", "%x: i8[1,2] q(0.5, 0), %z: i8[1,2] q(axis=1, [0.5,1], [0,0])", "%y = div %x, %x : i8[1,2] q(1, 0)",
     "%y = div %x, %z : i8[1,2] q(1, 0)", "z has no single scale"},
    {"u55.c7", "%x: i8[1,1,4,4] q(0.5, 0)",
     "%y = conv_transpose %x, %w, _ stride=[2,2] padding=[0,0,0,0] output_padding=[0,0] dilation=[1,1] groups=1 : "
     "i8[1,1,8,8] q(1, 0)",
     "%y = conv_transpose %x, %w, _ stride=[2,3] padding=[0,0,0,0] output_padding=[0,0] dilation=[1,1] groups=1 : "
     "i8[1,1,8,11] q(1, 0)",
     "stride 2x3"},
    {"u55.c8", "%x: i8[1,1,4,4] q(0.5, 0)",
     "%y = resize %x size=[32,32] mode=\"nearest\" scales=d[0.0,0.0] : i8[1,1,32,32] q(0.5, 0)",
     "%y = resize %x size=[12,12] mode=\"nearest\" scales=d[0.0,0.0] : i8[1,1,12,12] q(0.5, 0)", "factor 3"},
    {"u55.c9", "%x: i8[2,4] q(0.5, 0)", "%y = flip %x axes=[0] : i8[2,4] q(0.5, 0)",
     "%y = flip %x axes=[1] : i8[2,4] q(0.5, 0)", "axis 1"},
    {"u55.c10", "%x: i8[1,127] q(0.5, 0), %z: i8[1,128] q(0.5, 0)", "%y = argmax %x axis=1 keepdim=true : i32[1,1]",
     "%y = argmax %z axis=1 keepdim=true : i32[1,1]", "128 channels of i8"},
    {"u55.c11", "%x: i16[2,4] q(0.5, 0), %z: i32[2,4] q(0.5, 0)",
     "%y = amax %x axes=[0] keepdim=true : i16[1,4] q(0.5, 0)",
     "%y = amax %z axes=[0] keepdim=true : i32[1,4] q(0.5, 0)", "a 32-bit operand"},
    {"u55.c12", "%x: i32[4]", "%y = bitwise %x, %x fn=\"shl\" : i32[4]", "%y = bitwise %x, %x fn=\"and\" : i32[4]",
     "and of i32"},
    {"all.c9", "%x: i32[1,4], %l: i64[1,4]", "%y = add %x, %x : i32[1,4]", "%y = add %l, %l : i64[1,4]",
     "l is a 64-bit integer"},
    {"all.c9", "%x: i32[1,4], %l: i64[1,4]", "%y = add %x, %x : i32[1,4]", "%y = compare %l, %l fn=\"lt\" : bool[1,4]",
     "l is a 64-bit integer"},
    {"u55.c1", "%x: i32[1,4]", "%y = add %x, %x : i32[1,4]", "%y = compare %x, %x fn=\"lt\" : bool[1,4]",
     "y is boolean"},
};

Support support_of(const Case& c, std::string_view node, const NpuTarget& target) {
  std::string text =
      fmt::format("graph \"g\" ({})\n  %w = const i8[1,1,2,2] q(0.25, 0) = fill 3\n  {}\n  return %y\n", c.ports, node);
  Result<Graph> graph = parse(text);
  EXPECT_TRUE(graph) << graph.error().message << "\n" << text;
  return supports(*graph, *graph->producer(graph->outputs()[0]), target);
}

// What `swoop ops` prints.
bool has_limit(NpuFamily family, std::string_view label) {
  for (const Constraint& constraint : constraints())
    if (constraint.label == label)
      for (NpuFamily other : constraint.families)
        if (other == family) return true;
  return false;
}

TEST(Limits, refuse_what_is_beyond_and_say_why) {
  std::set<std::string_view> seen;
  for (const Case& c : kCases) {
    seen.insert(c.label);
    for (const NpuTarget& target : npu_targets()) {
      EXPECT_TRUE(support_of(c, c.fits, target).ok) << c.label << " " << target.name;
      Support support = support_of(c, c.refused, target);
      ASSERT_EQ(support.ok, !has_limit(target.family, c.label))
          << c.label << " " << target.name << " " << support.reason;
      if (support.ok) continue;
      EXPECT_EQ(support.rule, c.label) << support.reason;
      EXPECT_TRUE(support.reason.starts_with(c.words)) << support.reason;
    }
  }
  for (const Constraint& constraint : constraints()) EXPECT_TRUE(seen.contains(constraint.label)) << constraint.label;
}

TEST(Limits, name_the_core_and_its_number) {
  EXPECT_EQ(support_of(kCases[6], kCases[6].refused, *parse_target("ethos-u65-512")).reason,
            "stride 4; limit on Ethos-U65: stride at most 3");
}

}  // namespace
}  // namespace swoop
