#include "import/json.h"

#include <algorithm>
#include <limits>

#include "import/refuse.h"

namespace swoop {

namespace {

template <typename T>
T typed(Json value, std::string_view what, std::string_view wanted) {
  T result;
  if (value.get(result) != simdjson::SUCCESS) malformed("`{}` in the model's JSON is not {}.", what, wanted);
  return result;
}

}  // namespace

Json parse_json(simdjson::dom::parser& parser, Bytes text, Bytes whole, std::string_view what) {
  // Depth: a graph nests its control flow about eight levels per body; the importer's own limit is lower.
  constexpr size_t kMaxDepth = 1024;
  if (parser.allocate(std::max<size_t>(text.size(), 64), kMaxDepth) != simdjson::SUCCESS)
    malformed("{} is too large to be read ({} bytes).", what, text.size());
  auto address = [](const std::byte* at) { return reinterpret_cast<uintptr_t>(at); };
  uintptr_t end = address(text.data()) + text.size();
  uintptr_t limit = address(whole.data()) + whole.size();
  bool padded =
      address(text.data()) >= address(whole.data()) && end <= limit && limit - end >= simdjson::SIMDJSON_PADDING;
  Json root;
  auto status = parser.parse(reinterpret_cast<const char*>(text.data()), text.size(), !padded).get(root);
  if (status != simdjson::SUCCESS) malformed("{} is not valid JSON: {}.", what, simdjson::error_message(status));
  return root;
}

std::optional<Json> find(Json object, std::string_view key) {
  JsonObject members;
  Json value;
  if (object.get(members) != simdjson::SUCCESS || members.at_key(key).get(value) != simdjson::SUCCESS ||
      value.is_null())
    return std::nullopt;
  return value;
}

Json member(Json object, std::string_view key) {
  std::optional<Json> value = find(object, key);
  if (!value) malformed("The model's JSON lacks `{}` where it is needed.", key);
  return *value;
}

JsonArray as_array(Json value, std::string_view what) { return typed<JsonArray>(value, what, "a list"); }
JsonObject as_object(Json value, std::string_view what) { return typed<JsonObject>(value, what, "an object"); }
std::string_view as_text(Json value, std::string_view what) { return typed<std::string_view>(value, what, "text"); }
int64_t as_integer(Json value, std::string_view what) { return typed<int64_t>(value, what, "an integer"); }
bool as_flag(Json value, std::string_view what) { return typed<bool>(value, what, "true or false"); }

double as_real(Json value, std::string_view what) {
  if (value.is_string()) {
    std::string_view text = as_text(value, what);
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  return typed<double>(value, what, "a number");
}

Tagged as_union(Json value, std::string_view what) {
  JsonObject object = as_object(value, what);
  auto first = object.begin();
  if (first == object.end()) malformed("`{}` in the model's JSON is empty.", what);
  return {first.key(), first.value()};
}

}  // namespace swoop
