#include "support/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace swoop {

std::string to_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Figure::Figure(double value, std::string_view why_not_finite) {
  if (std::isfinite(value))
    value_ = value;
  else
    why_ = why_not_finite;
}

void set_unknown(Json& object, const std::string& name, std::string_view why) {
  object[name] = nullptr;
  object[name + "_why"] = why;
}

void set(Json& object, const std::string& name, const Figure& figure) {
  if (figure.value())
    object[name] = *figure.value();
  else
    set_unknown(object, name, figure.why());
}

void set(Json& object, const std::string& name, std::span<const Figure> figures) {
  Json values = Json::array(), reasons = Json::array();
  for (const Figure& figure : figures) {
    values.push_back(figure.value() ? Json(*figure.value()) : Json());
    reasons.push_back(figure.value() ? Json() : Json(figure.why()));
  }
  object[name] = std::move(values);
  if (std::any_of(figures.begin(), figures.end(), [](const Figure& figure) { return !figure.value(); }))
    object[name + "_why"] = std::move(reasons);
}

}  // namespace swoop
