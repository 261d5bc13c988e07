// Typed access to the JSON of a `.pt2`. Each function throws Malformed with the key's name when the file has something
// else there.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string_view>

#include "support/bytes.h"

namespace swoop {

using Json = simdjson::dom::element;
using JsonArray = simdjson::dom::array;
using JsonObject = simdjson::dom::object;

// Parses in place when the 64 readable bytes that simdjson wants after the text are inside `whole`; copies the text
// otherwise.
Json parse_json(simdjson::dom::parser& parser, Bytes text, Bytes whole, std::string_view what);

std::optional<Json> find(Json object, std::string_view key);  // absent when missing or null
Json member(Json object, std::string_view key);

JsonArray as_array(Json value, std::string_view what);
JsonObject as_object(Json value, std::string_view what);
std::string_view as_text(Json value, std::string_view what);
int64_t as_integer(Json value, std::string_view what);
double as_real(Json value, std::string_view what);  // also the strings "Infinity", "-Infinity" and "NaN"
bool as_flag(Json value, std::string_view what);

// The one key and value of a union.
struct Tagged {
  std::string_view tag;
  Json value;
};
Tagged as_union(Json value, std::string_view what);

}  // namespace swoop
