#include "llm/grammar.h"

#include <cstring>

#include "llm/text.h"

namespace etir {
namespace llm {

TokenBytes::TokenBytes(const Tokenizer& tokenizer) {
  bytes.resize(static_cast<size_t>(tokenizer.vocabulary_size()));
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (!tokenizer.is_special(id)) bytes[static_cast<size_t>(id)] = tokenizer.bytes_of(id);
  }
}

namespace {

/// A pushdown automaton over bytes.
class JsonState {
 public:
  /// Goes on with a byte; false when no JSON goes on so.
  bool push(unsigned char c) {
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      if (mode_ == Mode::String || mode_ == Mode::Escape || mode_ == Mode::Hex || mode_ == Mode::Literal) {
        return mode_ == Mode::String && c == ' ' && more_ == 0;
      }
      if (mode_ == Mode::Number) {
        if (!number_done()) return false;
        mode_ = Mode::After;
      }
      // Models that may write spaces without an end do.
      return ++spaces_ <= kMostSpaces;
    }
    spaces_ = 0;
    switch (mode_) {
      case Mode::Begin:
        return c == '{' && open('o');
      case Mode::Value:
      case Mode::FirstValue:
        return value(c);
      case Mode::FirstKey:
        if (c == '}') return shut('o');
        [[fallthrough]];
      case Mode::Key:
        if (c != '"') return false;
        key_ = true;
        mode_ = Mode::String;
        return true;
      case Mode::Colon:
        mode_ = Mode::Value;
        return c == ':';
      case Mode::String:
        return string(c);
      case Mode::Escape:
        if (c == 'u') {
          mode_ = Mode::Hex;
          more_ = 4;
          return true;
        }
        mode_ = Mode::String;
        return c != 0 && std::strchr("\"\\/bfnrt", c) != nullptr;
      case Mode::Hex:
        if (--more_ == 0) mode_ = Mode::String;
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      case Mode::Literal:
        if (*literal_ == '\0' || static_cast<unsigned char>(*literal_) != c) return false;
        if (*++literal_ == '\0') mode_ = Mode::After;
        return true;
      case Mode::Number:
        if (number(c)) return true;
        if (!number_done()) return false;
        mode_ = Mode::After;
        [[fallthrough]];
      case Mode::After:
        return after(c);
      default:
        return false;
    }
  }
  bool done() const { return mode_ == Mode::Done; }

 private:
  enum class Mode { Begin, Value, FirstValue, FirstKey, Key, Colon, String, Escape, Hex, Literal, Number, After, Done };
  static constexpr int kMostSpaces = 16;
  static constexpr size_t kMostDepth = 64;

  bool open(char kind) {
    stack_ += kind;
    mode_ = kind == 'o' ? Mode::FirstKey : Mode::FirstValue;
    return stack_.size() <= kMostDepth;
  }
  bool shut(char kind) {
    if (stack_.empty() || stack_.back() != kind) return false;
    stack_.pop_back();
    mode_ = stack_.empty() ? Mode::Done : Mode::After;
    return true;
  }
  bool value(unsigned char c) {
    const bool first = mode_ == Mode::FirstValue;
    switch (c) {
      case '{':
        return open('o');
      case '[':
        return open('a');
      case ']':
        return first && shut('a');
      case '"':
        key_ = false;
        mode_ = Mode::String;
        return true;
      case 't':
        literal_ = "rue";
        break;
      case 'f':
        literal_ = "alse";
        break;
      case 'n':
        literal_ = "ull";
        break;
      default:
        mode_ = Mode::Number;
        part_ = 's';
        return number(c);
    }
    mode_ = Mode::Literal;
    return true;
  }
  bool after(unsigned char c) {
    if (c == '}') return shut('o');
    if (c == ']') return shut('a');
    if (c != ',' || stack_.empty()) return false;
    mode_ = stack_.back() == 'o' ? Mode::Key : Mode::Value;
    return true;
  }
  bool string(unsigned char c) {
    if (more_ > 0) {
      --more_;
      return (c & 0xC0) == 0x80;
    }
    if (c == '"') {
      mode_ = key_ ? Mode::Colon : Mode::After;
      return true;
    }
    if (c == '\\') mode_ = Mode::Escape;
    if (c < 0x20 || (c >= 0x80 && c < 0xC2) || c > 0xF4) return false;
    more_ = static_cast<int>(utf8_length(static_cast<char>(c))) - 1;
    return true;
  }
  // Parts of a number: s start, m minus, z leading zero, i integer, p point, f fraction, e exponent, g its sign, x
  // digits.
  bool number(unsigned char c) {
    const bool digit = c >= '0' && c <= '9';
    const auto go = [this](char part) {
      part_ = part;
      return true;
    };
    switch (part_) {
      case 's':
        if (c == '-') return go('m');
        [[fallthrough]];
      case 'm':
        return digit && go(c == '0' ? 'z' : 'i');
      case 'i':
        if (digit) return true;
        [[fallthrough]];
      case 'z':
        return (c == '.' && go('p')) || ((c | 32) == 'e' && go('e'));
      case 'p':
        return digit && go('f');
      case 'f':
        return digit || ((c | 32) == 'e' && go('e'));
      case 'e':
        if (c == '+' || c == '-') return go('g');
        [[fallthrough]];
      case 'g':
        return digit && go('x');
      default:
        return digit;
    }
  }
  bool number_done() const { return part_ == 'z' || part_ == 'i' || part_ == 'f' || part_ == 'x'; }

  Mode mode_ = Mode::Begin;
  std::string stack_;
  const char* literal_ = "";
  int more_ = 0;  // bytes of a character, digits of an escape
  int spaces_ = 0;
  bool key_ = false;
  char part_ = 's';
};

class JsonGrammar : public Grammar {
 public:
  explicit JsonGrammar(std::shared_ptr<const TokenBytes> tokens) : tokens_(std::move(tokens)) {}
  void allow(std::vector<uint8_t>* mask) override {
    mask->assign(tokens_->bytes.size(), 0);
    bool first[256];
    for (int byte = 0; byte < 256; ++byte) {
      JsonState next = state_;
      first[byte] = next.push(static_cast<unsigned char>(byte));
    }
    for (size_t id = 0; id < tokens_->bytes.size(); ++id) {
      const std::string& bytes = tokens_->bytes[id];
      if (!bytes.empty() && first[static_cast<unsigned char>(bytes[0])]) (*mask)[id] = goes_on(bytes);
    }
  }
  bool over() const override { return state_.done(); }
  void accept(int32_t id) override {
    if (id < 0 || static_cast<size_t>(id) >= tokens_->bytes.size()) return;
    for (const char c : tokens_->bytes[static_cast<size_t>(id)]) state_.push(static_cast<unsigned char>(c));
  }

 private:
  bool goes_on(const std::string& bytes) const {
    JsonState next = state_;
    for (const char c : bytes) {
      if (!next.push(static_cast<unsigned char>(c))) return false;
    }
    return true;
  }
  std::shared_ptr<const TokenBytes> tokens_;
  JsonState state_;
};

}  // namespace

std::unique_ptr<Grammar> json_grammar(std::shared_ptr<const TokenBytes> tokens) {
  return std::make_unique<JsonGrammar>(std::move(tokens));
}

}  // namespace llm
}  // namespace etir
