// Result<T>: a value or an Error, with the member names of C++23's std::expected so that it can be swapped later.
// Used at room doors for what a user's file or flag can get wrong. Our own bugs use CHECK (check.h) instead, or
// defect() where the work can go on in another way.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace swoop {

struct Error {
  std::string message;  // a whole sentence for the person who gave us the input, without a trailing newline
  bool ours = false;    // a check of ours found a defect of ours; nothing is wrong with the input
};

template <typename... Args>
Error error(fmt::format_string<Args...> format, Args&&... args) {
  return Error{fmt::format(format, std::forward<Args>(args)...)};
}

// What a check of ours found wrong with what we made.
template <typename... Args>
Error defect(fmt::format_string<Args...> format, Args&&... args) {
  return Error{fmt::format(format, std::forward<Args>(args)...), true};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() { return std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace swoop

#define SWOOP_CONCAT_(a, b) a##b
#define SWOOP_CONCAT(a, b) SWOOP_CONCAT_(a, b)

// TRY(expr): returns the error of a Result<void>, or goes on.
#define TRY(expr)                                          \
  do {                                                     \
    auto try_result = (expr);                              \
    if (!try_result) return std::move(try_result.error()); \
  } while (false)

// TRY_ASSIGN(auto x, expr): unwraps a Result<T> into x, or returns its error.
#define TRY_ASSIGN(declaration, expr) TRY_ASSIGN_(SWOOP_CONCAT(try_result_, __LINE__), declaration, expr)
#define TRY_ASSIGN_(result, declaration, expr)   \
  auto result = (expr);                          \
  if (!result) return std::move(result.error()); \
  declaration = std::move(*result)
