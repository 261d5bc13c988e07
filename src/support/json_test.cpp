#include "support/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace swoop {
namespace {

TEST(Json, keys_stay_in_their_order_and_numbers_are_exact) {
  Json json;
  json["z"] = 0.1;
  json["a"] = int64_t{9007199254740993};
  json["m"] = {{"text", "tab\t \"quoted\" \x01"}};
  EXPECT_EQ(to_line(json), "{\"z\":0.1,\"a\":9007199254740993,\"m\":{\"text\":\"tab\\t \\\"quoted\\\" \\u0001\"}}\n");
}

TEST(Json, bytes_that_are_not_utf8_are_replaced) { EXPECT_EQ(to_line(Json("caf\xe9")), "\"caf\xef\xbf\xbd\"\n"); }

TEST(Json, a_number_that_is_not_there_says_why) {
  Json json;
  set(json, "a", Figure(2.5, "never"));
  set(json, "b", Figure(INFINITY, "the outputs are equal"));
  set(json, "c", Figure::none("it did not run"));
  EXPECT_EQ(to_line(json),
            "{\"a\":2.5,\"b\":null,\"b_why\":\"the outputs are equal\",\"c\":null,\"c_why\":\"it did not run\"}\n");
}

TEST(Json, a_list_has_a_reason_for_each_null) {
  Json json;
  const std::vector<Figure> some = {Figure(1, ""), Figure(NAN, "not a number")};
  set(json, "some", some);
  set(json, "all", std::span(some).first(1));
  EXPECT_EQ(to_line(json), "{\"some\":[1.0,null],\"some_why\":[null,\"not a number\"],\"all\":[1.0]}\n");
}

}  // namespace
}  // namespace swoop
