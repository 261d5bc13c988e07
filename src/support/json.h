// JSON out: nlohmann's, with keys in the order in which they are set, and one way to say that a number is not there:
// null, and beside it `<name>_why` with the reason. Include <nlohmann/json.hpp> in few .cpp files: it takes seconds to
// compile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace swoop {

using Json = nlohmann::ordered_json;

// One line with its end. Bytes that are not UTF-8, which only names from files can hold, become U+FFFD.
std::string to_line(const Json& json);

// A number, or why there is none.
class Figure {
 public:
  Figure(double value, std::string_view why_not_finite);  // JSON has no infinity and no NaN
  static Figure none(std::string_view why) { return Figure(why); }
  const std::optional<double>& value() const { return value_; }
  const std::string& why() const { return why_; }

 private:
  explicit Figure(std::string_view why) : why_(why) {}
  std::optional<double> value_;
  std::string why_;
};

void set_unknown(Json& object, const std::string& name, std::string_view why);
void set(Json& object, const std::string& name, const Figure& figure);
// A list, and where it has a null, `<name>_why` as a list of the same length: null beside a number.
void set(Json& object, const std::string& name, std::span<const Figure> figures);

}  // namespace swoop
