#include "import/expression.h"

#include <gtest/gtest.h>

#include <string>

namespace swoop {
namespace {

std::optional<int64_t> value(std::string_view text) {
  return evaluate_size(text, [](std::string_view name) {
    return name == "s0" ? std::optional<int64_t>(7) : name == "s1" ? std::optional<int64_t>(16) : std::nullopt;
  });
}

TEST(Expression, sizes_as_torch_export_writes_them) {
  EXPECT_EQ(value("Symbol('s0', positive=True, integer=True)"), 7);
  EXPECT_EQ(value("Add(FloorDiv(Add(Symbol('s1', positive=True, integer=True), Integer(-1)), Integer(2)), Integer(1))"),
            8);
  EXPECT_EQ(value("Mul(Integer(2), Symbol('s0', integer=True), Symbol('s1'))"), 224);
  EXPECT_EQ(value("floor(Mul(Rational(1, 2), Symbol('s0')))"), 3);
  EXPECT_EQ(value("Pow(Symbol('s0'), Integer(2))"), 49);
  EXPECT_EQ(value("PythonMod(Mul(Integer(-1), Symbol('s0')), Integer(4))"), 1);
  EXPECT_EQ(value("Max(Integer(1), Symbol('s0'), Integer(3))"), 7);
}

TEST(Expression, what_has_no_value_has_none) {
  EXPECT_EQ(value("Symbol('u3', integer=True)"), std::nullopt);
  EXPECT_EQ(value("Mul(Rational(1, 2), Symbol('s0'))"), std::nullopt) << "no integer";
  EXPECT_EQ(value("FloorDiv(Symbol('s0'), Integer(0))"), std::nullopt);
  EXPECT_EQ(value("Piecewise(Symbol('s0'))"), std::nullopt);
  for (const char* broken : {"", "Add(", "Add()", "Symbol('s0", "Symbol(s0)", "Integer(99999999999999999999)",
                             "Integer(1))", "FloorDiv(Integer(1))"})
    EXPECT_EQ(value(broken), std::nullopt) << broken;
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "Add(";
  EXPECT_EQ(value(deep), std::nullopt);
}

}  // namespace
}  // namespace swoop
