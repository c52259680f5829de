// JSON as a tree: what tokenizer files and chat descriptions are written in.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/failure.h"

namespace etir {
namespace llm {

struct Json {
  enum class Type { Null, Bool, Number, String, Array, Object };
  Type type = Type::Null;
  bool boolean = false;
  double number = 0;
  std::string text;
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> members;

  bool is(Type wanted) const { return type == wanted; }
  bool is_null() const { return type == Type::Null; }
  /// A member of an object, or a null for what there is not (nor in what is no object).
  const Json& operator[](std::string_view name) const;
  bool has(std::string_view name) const { return !(*this)[name].is_null(); }
  std::string string_or(std::string_view otherwise) const { return is(Type::String) ? text : std::string(otherwise); }
  bool bool_or(bool otherwise) const { return is(Type::Bool) ? boolean : otherwise; }
  /// A whole number of at most 2^31 - 1 in magnitude, or `otherwise`.
  int int_or(int otherwise) const;

  /// Reads a text (RFC 8259), nested up to 64 deep. A failure says at which byte.
  static bool parse(std::string_view text, Json* out, std::string* wrong);
};

/// A text between quotes.
std::string json_quoted(std::string_view text);

}  // namespace llm
}  // namespace etir
