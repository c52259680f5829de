#include <algorithm>
#include <cstring>

#include "llm/parts.h"
#include "llm/pattern.h"
#include "llm/text.h"
#include "llm/unicode.h"

namespace etir {
namespace llm {

namespace {

/// Normal forms: NFC, NFD, NFKC, NFKD.
class Form : public Normalizer {
 public:
  Form(bool compatible, bool compose) : compatible_(compatible), compose_(compose) {}
  bool apply(std::string* text, Failure*) const override {
    const bool ascii = std::all_of(text->begin(), text->end(), [](char c) { return static_cast<signed char>(c) >= 0; });
    if (!ascii) *text = to_utf8(normalize(code_points(*text), compatible_, compose_));
    return true;
  }

 private:
  bool compatible_, compose_;
};

/// A normalizer that is a function of code points: appends what becomes of one.
class PerPoint : public Normalizer {
 public:
  using Function = void (*)(uint32_t point, std::string* out);
  explicit PerPoint(Function function) : function_(function) {}
  bool apply(std::string* text, Failure*) const override {
    std::string out;
    out.reserve(text->size());
    for (size_t at = 0, length = 0; at < text->size(); at += length) function_(decode_utf8(*text, at, &length), &out);
    *text = std::move(out);
    return true;
  }

 private:
  Function function_;
};

void append_lower(uint32_t point, std::string* out) {
  if (point == 0x130) {
    out->append("i\xCC\x87");
  } else {
    append_utf8(lower_case(point), out);
  }
}
void append_without_mark(uint32_t point, std::string* out) {
  if (!is_accent(point)) append_utf8(point, out);
}
void append_byte_characters(uint32_t point, std::string* out) {
  std::string bytes;
  append_utf8(point, &bytes);
  for (const char c : bytes) *out += byte_character(static_cast<unsigned char>(c));
}
/// The map of the tokenizer nmt: controls go, spaces of all kinds become one.
void append_nmt(uint32_t point, std::string* out) {
  const bool control = (point >= 1 && point <= 8) || point == 0xB || (point >= 0xE && point <= 0x1F) || point == 0x7F ||
                       point == 0x8F || point == 0x9F;
  if (control) return;
  static constexpr uint32_t kSpaces[] = {0x9,    0xA,    0xC,    0xD,    0x1680, 0x200B, 0x200C, 0x200D,
                                         0x200E, 0x200F, 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD};
  const bool space = std::find(std::begin(kSpaces), std::end(kSpaces), point) != std::end(kSpaces);
  append_utf8(space ? ' ' : point, out);
}

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  bool apply(std::string* text, Failure*) const override {
    size_t begin = 0, end = text->size(), length = 0;
    while (left_ && begin < end && is_space(decode_utf8(*text, begin, &length))) begin += length;
    while (right_ && end > begin) {
      const size_t last = previous_utf8(*text, end);
      if (!is_space(decode_utf8(*text, last, &length))) break;
      end = last;
    }
    *text = text->substr(begin, end - begin);
    return true;
  }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  bool apply(std::string* text, Failure*) const override {
    if (!text->empty()) text->insert(0, text_);
    return true;
  }

 private:
  std::string text_;
};

class Replace : public Normalizer {
 public:
  explicit Replace(Replacement replacement) : replacement_(std::move(replacement)) {}
  bool apply(std::string* text, Failure* failure) const override { return replacement_.apply(text, failure); }

 private:
  Replacement replacement_;
};

/// BERT's: clean controls, spaces around ideographs, no accents, lower case.
class Bert : public Normalizer {
 public:
  explicit Bert(const Json& json)
      : clean_(json["clean_text"].bool_or(true)),
        chinese_(json["handle_chinese_chars"].bool_or(true)),
        lower_(json["lowercase"].bool_or(true)),
        strip_(json["strip_accents"].bool_or(lower_)) {}
  bool apply(std::string* text, Failure*) const override {
    std::vector<uint32_t> points;
    for (const uint32_t point : code_points(*text)) {
      if (clean_) {
        const bool space = is_space(point) && point != 0x0B && point != 0x0C && point != 0x85;
        constexpr uint32_t others = kOthers & ~category_bit(Category::Cn);
        if (!space && (point == 0 || point == kReplacement || has_category(point, others))) continue;
        if (space) {
          points.push_back(' ');
          continue;
        }
      }
      const bool spaced = chinese_ && is_chinese(point);
      if (spaced) points.push_back(' ');
      points.push_back(point);
      if (spaced) points.push_back(' ');
    }
    if (strip_) {
      points = normalize(points, false, false);
      const auto mark = [](uint32_t point) { return point >= 0x300 && is_bert_mark(point); };
      points.erase(std::remove_if(points.begin(), points.end(), mark), points.end());
    }
    text->clear();
    for (const uint32_t point : points) {
      if (lower_) {
        append_lower(point, text);
      } else {
        append_utf8(point, text);
      }
    }
    return true;
  }

 private:
  bool clean_, chinese_, lower_, strip_;
};

/// sentencepiece's compiled map of characters: a trie of the array kind (darts-clone) and the texts that its values
/// point into. As in the package, a group of a base and its marks is looked up as one when it is shorter than 6 bytes.
class Precompiled : public Normalizer {
 public:
  static std::unique_ptr<Precompiled> make(const Json& json, Failure* failure) {
    std::unique_ptr<Precompiled> made(new Precompiled());
    std::string bytes;
    const bool decoded = decode_base64(json["precompiled_charsmap"].string_or(""), &bytes);
    uint32_t size = 0;
    if (decoded && bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
    if (!decoded || size % 4 != 0 || bytes.size() < 4 || size > bytes.size() - 4 || size < 4) {
      failure->set(Cause::TokenizerFile, "the normalizer's precompiled_charsmap is damaged");
      return nullptr;
    }
    made->trie_.resize(size / 4);
    std::memcpy(made->trie_.data(), bytes.data() + 4, size);
    made->texts_ = bytes.substr(4 + size);
    return made;
  }
  bool apply(std::string* text, Failure*) const override {
    std::string out;
    size_t at = 0;
    while (at < text->size()) {
      size_t length = 0;
      decode_utf8(*text, at, &length);
      size_t end = at + length;
      for (size_t more = 0; end < text->size(); end += more) {
        const uint32_t next = decode_utf8(*text, end, &more);
        if (!has_category(next, kMarks) && next != 0x200D) break;
      }
      const std::string_view group(text->data() + at, end - at);
      std::string mapped;
      if (group.size() < 6 && look_up(group, &mapped)) {
        out += mapped;
      } else {
        for (size_t i = 0, bytes = 0; i < group.size(); i += bytes) {
          decode_utf8(group, i, &bytes);
          out += look_up(group.substr(i, bytes), &mapped) ? mapped : std::string(group.substr(i, bytes));
        }
      }
      at = end;
    }
    *text = std::move(out);
    return true;
  }

 private:
  static bool decode_base64(const std::string& text, std::string* out) {
    uint32_t bits = 0, count = 0;
    for (const char c : text) {
      if (c == '=') break;
      const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                        : c >= 'a' && c <= 'z' ? c - 'a' + 26
                        : c >= '0' && c <= '9' ? c - '0' + 52
                        : c == '+'             ? 62
                        : c == '/'             ? 63
                                               : -1;
      if (value < 0) return false;
      bits = bits << 6 | static_cast<uint32_t>(value);
      if ((count += 6) >= 8) out->push_back(static_cast<char>(bits >> (count -= 8)));
    }
    return true;
  }
  /// The text of the first prefix of `group` that the trie has.
  bool look_up(std::string_view group, std::string* mapped) const {
    const auto offset = [](uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); };
    size_t node = 0;
    uint32_t unit = trie_[0];
    node ^= offset(unit);
    for (const char c : group) {
      if (c == 0) return false;
      node ^= static_cast<unsigned char>(c);
      if (node >= trie_.size()) return false;
      unit = trie_[node];
      if ((unit & (1u << 31 | 0xFF)) != static_cast<unsigned char>(c)) return false;
      node ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= trie_.size()) return false;
      const size_t at = trie_[node] & 0x7FFFFFFF;
      if (at >= texts_.size()) return false;
      mapped->assign(texts_, at, texts_.find('\0', at) == std::string::npos ? 0 : texts_.find('\0', at) - at);
      *mapped = repair_utf8(*mapped);
      return true;
    }
    return false;
  }

  std::vector<uint32_t> trie_;
  std::string texts_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  bool apply(std::string* text, Failure* failure) const override {
    return std::all_of(parts_.begin(), parts_.end(), [&](const auto& part) { return part->apply(text, failure); });
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const Json& json, Failure* failure, int depth) {
  if (json.is_null()) return nullptr;
  const std::string type = json["type"].string_or("");
  if (depth > kMostDepthOfParts) {
    failure->set(Cause::TokenizerFile, "normalizers are nested too deep");
    return nullptr;
  }
  if (type == "NFC") return std::make_unique<Form>(false, true);
  if (type == "NFD") return std::make_unique<Form>(false, false);
  if (type == "NFKC") return std::make_unique<Form>(true, true);
  if (type == "NFKD") return std::make_unique<Form>(true, false);
  if (type == "Lowercase") return std::make_unique<PerPoint>(append_lower);
  if (type == "StripAccents") return std::make_unique<PerPoint>(append_without_mark);
  if (type == "ByteLevel") return std::make_unique<PerPoint>(append_byte_characters);
  if (type == "Nmt") return std::make_unique<PerPoint>(append_nmt);
  if (type == "Strip")
    return std::make_unique<Strip>(json["strip_left"].bool_or(true), json["strip_right"].bool_or(true));
  if (type == "Prepend") return std::make_unique<Prepend>(json["prepend"].string_or(""));
  if (type == "BertNormalizer") return std::make_unique<Bert>(json);
  if (type == "Precompiled") return Precompiled::make(json, failure);
  if (type == "Replace") {
    Replacement replacement;
    return replacement.read(json, failure) ? std::make_unique<Replace>(std::move(replacement)) : nullptr;
  }
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> parts;
    if (!make_parts(json["normalizers"], make_normalizer, "a normalizer", depth, &parts, failure)) return nullptr;
    return std::make_unique<Sequence>(std::move(parts));
  }
  failure->set(Cause::TokenizerPart, "the normalizer '" + type + "' is not known");
  return nullptr;
}

}  // namespace llm
}  // namespace etir
