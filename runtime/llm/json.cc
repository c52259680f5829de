#include "llm/json.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "llm/text.h"

namespace etir {
namespace llm {

namespace {

constexpr int kMostDepth = 64;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  bool parse(Json* out, std::string* wrong) {
    bool done = value(out, 0);
    if (done) {
      skip();
      if (at_ < text_.size()) done = fail("there is more text after the value");
    }
    if (!done) *wrong = wrong_ + " at byte " + std::to_string(at_);
    return done;
  }

 private:
  bool fail(const char* what) {
    if (wrong_.empty()) wrong_ = what;
    return false;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip() {
    while (at_ < text_.size() && (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t')) ++at_;
  }
  bool take(char wanted) {
    if (peek() != wanted || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return fail("a value is expected");
    at_ += word.size();
    return true;
  }

  bool value(Json* out, int depth) {
    if (depth > kMostDepth) return fail("values are nested too deep");
    skip();
    switch (peek()) {
      case '{':
        return object(out, depth);
      case '[':
        return array(out, depth);
      case '"':
        out->type = Json::Type::String;
        return string(&out->text);
      case 't':
        out->type = Json::Type::Bool;
        out->boolean = true;
        return word("true");
      case 'f':
        out->type = Json::Type::Bool;
        return word("false");
      case 'n':
        return word("null");
      default:
        return number(out);
    }
  }

  bool object(Json* out, int depth) {
    out->type = Json::Type::Object;
    ++at_;
    skip();
    if (take('}')) return true;
    for (;;) {
      skip();
      out->members.emplace_back();
      auto& [name, item] = out->members.back();
      if (peek() != '"' || !string(&name)) return fail("the name of a member is expected");
      skip();
      if (!take(':')) return fail("':' is expected");
      if (!value(&item, depth + 1)) return false;
      skip();
      if (take('}')) return true;
      if (!take(',')) return fail("',' or '}' is expected");
    }
  }

  bool array(Json* out, int depth) {
    out->type = Json::Type::Array;
    ++at_;
    skip();
    if (take(']')) return true;
    for (;;) {
      out->items.emplace_back();
      if (!value(&out->items.back(), depth + 1)) return false;
      skip();
      if (take(']')) return true;
      if (!take(',')) return fail("',' or ']' is expected");
    }
  }

  bool number(Json* out) {
    const size_t begin = at_;
    const auto digits = [this] {
      const size_t first = at_;
      while (peek() >= '0' && peek() <= '9') ++at_;
      return at_ > first;
    };
    take('-');
    if (!digits()) return fail("a value is expected");
    if (take('.') && !digits()) return fail("digits are expected");
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      if (!digits()) return fail("digits are expected");
    }
    out->type = Json::Type::Number;
    out->number = std::strtod(std::string(text_.substr(begin, at_ - begin)).c_str(), nullptr);
    return true;
  }

  bool hex(uint32_t* unit) {
    *unit = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
      if (digit < 0) return fail("four hexadecimal digits are expected");
      *unit = *unit << 4 | static_cast<uint32_t>(digit);
    }
    return true;
  }

  bool string(std::string* out) {
    ++at_;
    for (;;) {
      const size_t begin = at_;
      while (at_ < text_.size() && peek() != '"' && peek() != '\\' && static_cast<unsigned char>(peek()) >= 0x20) ++at_;
      const std::string_view plain = text_.substr(begin, at_ - begin);
      for (size_t i = 0, length = 0; i < plain.size(); i += length) {
        const uint32_t point = decode_utf8(plain, i, &length);
        if (point == kReplacement && plain.substr(i, length) != "\xEF\xBF\xBD") return fail("a text is not UTF-8");
      }
      out->append(plain);
      if (at_ >= text_.size()) return fail("a text does not end");
      if (take('"')) return true;
      if (!take('\\')) return fail("a control character stands in a text");
      static constexpr char kFrom[] = "\"\\/bfnrt", kTo[] = "\"\\/\b\f\n\r\t";
      const char c = peek();
      const char* found = c == '\0' ? nullptr : std::strchr(kFrom, c);
      if (found != nullptr) {
        out->push_back(kTo[found - kFrom]);
        ++at_;
        continue;
      }
      if (!take('u')) return fail("an escape is not known");
      uint32_t unit = 0, second = 0;
      if (!hex(&unit)) return false;
      if (unit >= 0xD800 && unit < 0xDC00) {
        if (!take('\\') || !take('u') || !hex(&second)) return fail("half of a character");
        if (second < 0xDC00 || second > 0xDFFF) return fail("half of a character");
        unit = 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00);
      } else if (unit >= 0xDC00 && unit < 0xE000) {
        return fail("half of a character");
      }
      append_utf8(unit, out);
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string wrong_;
};

}  // namespace

const Json& Json::operator[](std::string_view name) const {
  static const Json kNull;
  // The last of several, as other readers do.
  for (size_t i = members.size(); i-- > 0;) {
    if (members[i].first == name) return members[i].second;
  }
  return kNull;
}

int Json::int_or(int otherwise) const {
  if (type != Type::Number || number < -2147483647.0 || number > 2147483647.0) return otherwise;
  const int whole = static_cast<int>(number);
  return whole == number ? whole : otherwise;
}

bool Json::parse(std::string_view text, Json* out, std::string* wrong) { return Parser(text).parse(out, wrong); }

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace llm
}  // namespace etir
