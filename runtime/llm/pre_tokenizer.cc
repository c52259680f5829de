#include <algorithm>

#include "llm/parts.h"
#include "llm/pattern.h"
#include "llm/text.h"
#include "llm/unicode.h"

namespace etir {
namespace llm {

namespace {

constexpr char kWords[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// What becomes of the matches of a split.
enum class Behavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

bool make_behavior(const Json& json, Behavior otherwise, Behavior* behavior, Failure* failure) {
  struct Name {
    const char* name;
    Behavior behavior;
  };
  static constexpr Name kNames[] = {{"Removed", Behavior::Removed},
                                    {"Isolated", Behavior::Isolated},
                                    {"MergedWithPrevious", Behavior::MergedWithPrevious},
                                    {"MergedWithNext", Behavior::MergedWithNext},
                                    {"Contiguous", Behavior::Contiguous}};
  *behavior = otherwise;
  if (json.is_null()) return true;
  for (const Name& name : kNames) {
    if (json.string_or("") != name.name) continue;
    *behavior = name.behavior;
    return true;
  }
  return failure->set(Cause::TokenizerPart, "the behavior '" + json.string_or("") + "' of a split is not known");
}

/// A part of a piece, and whether it is a match.
struct Part {
  size_t begin, end;
  bool match;
};

/// Cuts a piece: matches and what is between them, in order, become new pieces.
void cut(const Piece& piece, std::vector<Part> parts, Behavior behavior, std::vector<Piece>* out) {
  std::vector<Part> merged;
  switch (behavior) {
    case Behavior::Removed:
      for (const Part& part : parts) {
        if (!part.match) merged.push_back(part);
      }
      break;
    case Behavior::Isolated:
      merged = std::move(parts);
      break;
    case Behavior::Contiguous:
      for (const Part& part : parts) {
        if (!merged.empty() && merged.back().match == part.match) {
          merged.back().end = part.end;
        } else {
          merged.push_back(part);
        }
      }
      break;
    case Behavior::MergedWithPrevious: {
      bool before = false;
      for (const Part& part : parts) {
        if (part.match && !before && !merged.empty()) {
          merged.back().end = part.end;
        } else {
          merged.push_back(part);
        }
        before = part.match;
      }
      break;
    }
    case Behavior::MergedWithNext: {
      bool before = false;
      for (size_t i = parts.size(); i-- > 0;) {
        if (parts[i].match && !before && !merged.empty()) {
          merged.back().begin = parts[i].begin;
        } else {
          merged.push_back(parts[i]);
        }
        before = parts[i].match;
      }
      std::reverse(merged.begin(), merged.end());
      break;
    }
  }
  for (const Part& part : merged) {
    if (part.end == part.begin) continue;
    out->push_back({piece.text.substr(part.begin, part.end - part.begin), piece.first && part.begin == 0});
  }
}

std::vector<Part> parts_of(const std::vector<Regex::Match>& matches, size_t size, bool invert) {
  std::vector<Part> parts;
  size_t at = 0;
  for (const Regex::Match& match : matches) {
    if (match.begin > at) parts.push_back({at, match.begin, invert});
    parts.push_back({match.begin, match.end, !invert});
    at = match.end;
  }
  if (at < size) parts.push_back({at, size, invert});
  return parts;
}

class Split : public PreTokenizer {
 public:
  Split(std::unique_ptr<Regex> pattern, std::string text, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), text_(std::move(text)), behavior_(behavior), invert_(invert) {}
  bool apply(std::vector<Piece>* pieces, Failure* failure) const override {
    std::vector<Piece> out;
    std::vector<Regex::Match> matches;
    for (const Piece& piece : *pieces) {
      if (pattern_ != nullptr) {
        if (!pattern_->find_all(piece.text, &matches, failure)) return false;
      } else {
        matches.clear();
        if (!text_.empty()) {
          for (size_t at = 0; (at = piece.text.find(text_, at)) != std::string::npos; at += text_.size()) {
            matches.push_back({at, at + text_.size()});
          }
        }
      }
      cut(piece, parts_of(matches, piece.text.size(), invert_), behavior_, &out);
    }
    *pieces = std::move(out);
    return true;
  }

 private:
  std::unique_ptr<Regex> pattern_;
  std::string text_;
  Behavior behavior_;
  bool invert_;
};

/// Cuts at characters of a kind.
class SplitPoints : public PreTokenizer {
 public:
  using Predicate = bool (*)(uint32_t point);
  SplitPoints(Predicate predicate, Behavior behavior) : predicate_(predicate), behavior_(behavior) {}
  bool apply(std::vector<Piece>* pieces, Failure*) const override {
    std::vector<Piece> out;
    for (const Piece& piece : *pieces) {
      std::vector<Regex::Match> matches;
      for (size_t at = 0, length = 0; at < piece.text.size(); at += length) {
        const uint32_t point = decode_utf8(piece.text, at, &length);
        if (predicate_(point)) matches.push_back({at, at + length});
      }
      cut(piece, parts_of(matches, piece.text.size(), false), behavior_, &out);
    }
    *pieces = std::move(out);
    return true;
  }

 private:
  Predicate predicate_;
  Behavior behavior_;
};

bool is_number(uint32_t point) { return point < 128 ? point - '0' < 10 : has_category(point, kNumbers); }

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_space, std::unique_ptr<Regex> words) : add_space_(add_space), words_(std::move(words)) {}
  bool apply(std::vector<Piece>* pieces, Failure* failure) const override {
    std::vector<Piece> out;
    std::vector<Regex::Match> matches;
    for (Piece& piece : *pieces) {
      if (add_space_ && (piece.text.empty() || piece.text[0] != ' ')) piece.text.insert(0, " ");
      if (words_ == nullptr) {
        out.push_back(std::move(piece));
        continue;
      }
      if (!words_->find_all(piece.text, &matches, failure)) return false;
      cut(piece, parts_of(matches, piece.text.size(), false), Behavior::Isolated, &out);
    }
    for (Piece& piece : out) {
      std::string text;
      for (const char c : piece.text) text += byte_character(static_cast<unsigned char>(c));
      piece.text = std::move(text);
    }
    *pieces = std::move(out);
    return true;
  }

 private:
  bool add_space_;
  std::unique_ptr<Regex> words_;
};

class Metaspace : public PreTokenizer {
 public:
  enum class Prepend { First, Never, Always };
  Metaspace(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}
  bool apply(std::vector<Piece>* pieces, Failure*) const override {
    std::vector<Piece> out;
    for (Piece& piece : *pieces) {
      std::string text;
      for (const char c : piece.text) {
        if (c == ' ') {
          text += replacement_;
        } else {
          text += c;
        }
      }
      const bool wanted = prepend_ == Prepend::Always || (prepend_ == Prepend::First && piece.first);
      if (wanted && text.compare(0, replacement_.size(), replacement_) != 0) text.insert(0, replacement_);
      piece.text = std::move(text);
      if (!split_) {
        out.push_back(std::move(piece));
        continue;
      }
      std::vector<Regex::Match> matches;
      for (size_t at = 0; (at = piece.text.find(replacement_, at)) != std::string::npos; at += replacement_.size()) {
        matches.push_back({at, at + replacement_.size()});
      }
      cut(piece, parts_of(matches, piece.text.size(), false), Behavior::MergedWithNext, &out);
    }
    *pieces = std::move(out);
    return true;
  }

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(int length) : length_(length) {}
  bool apply(std::vector<Piece>* pieces, Failure*) const override {
    std::vector<Piece> out;
    for (const Piece& piece : *pieces) {
      std::vector<Part> parts;
      size_t begin = 0, at = 0, length = 0;
      for (int count = 0; at < piece.text.size();) {
        decode_utf8(piece.text, at, &length);
        at += length;
        if (++count < length_ && at < piece.text.size()) continue;
        parts.push_back({begin, at, true});
        begin = at;
        count = 0;
      }
      cut(piece, std::move(parts), Behavior::Isolated, &out);
    }
    *pieces = std::move(out);
    return true;
  }

 private:
  int length_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> parts) : parts_(std::move(parts)) {}
  bool apply(std::vector<Piece>* pieces, Failure* failure) const override {
    return std::all_of(parts_.begin(), parts_.end(), [&](const auto& part) { return part->apply(pieces, failure); });
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

std::unique_ptr<PreTokenizer> make_split(const Json& json, Failure* failure) {
  Behavior behavior;
  if (!make_behavior(json["behavior"], Behavior::Isolated, &behavior, failure)) return nullptr;
  Pattern pattern;
  if (!pattern.read(json["pattern"], failure)) return nullptr;
  return std::make_unique<Split>(std::move(pattern.regex), std::move(pattern.text), behavior,
                                 json["invert"].bool_or(false));
}

std::unique_ptr<PreTokenizer> make_metaspace(const Json& json, Failure* failure) {
  Metaspace::Prepend prepend =
      json["add_prefix_space"].bool_or(true) ? Metaspace::Prepend::Always : Metaspace::Prepend::Never;
  if (json.has("prepend_scheme")) {
    const std::string scheme = json["prepend_scheme"].string_or("");
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      failure->set(Cause::TokenizerPart, "the prepend_scheme '" + scheme + "' is not known");
      return nullptr;
    }
    prepend = scheme == "always"  ? Metaspace::Prepend::Always
              : scheme == "first" ? Metaspace::Prepend::First
                                  : Metaspace::Prepend::Never;
  }
  const std::string replacement = json["replacement"].string_or("\xE2\x96\x81");
  if (replacement.empty()) {
    failure->set(Cause::TokenizerFile, "the replacement of Metaspace is empty");
    return nullptr;
  }
  return std::make_unique<Metaspace>(replacement, prepend, json["split"].bool_or(true));
}

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& json, Failure* failure, int depth) {
  if (json.is_null()) return nullptr;
  const std::string type = json["type"].string_or("");
  if (depth > kMostDepthOfParts) {
    failure->set(Cause::TokenizerFile, "pre-tokenizers are nested too deep");
    return nullptr;
  }
  if (type == "ByteLevel") {
    std::unique_ptr<Regex> words;
    if (json["use_regex"].bool_or(true)) words = Regex::compile(kWords, true, failure);
    return std::make_unique<ByteLevel>(json["add_prefix_space"].bool_or(true), std::move(words));
  }
  if (type == "Split") return make_split(json, failure);
  if (type == "Metaspace") return make_metaspace(json, failure);
  if (type == "Digits") {
    const bool single = json["individual_digits"].bool_or(false);
    return std::make_unique<SplitPoints>(is_number, single ? Behavior::Isolated : Behavior::Contiguous);
  }
  if (type == "Punctuation") {
    Behavior behavior;
    if (!make_behavior(json["behavior"], Behavior::Isolated, &behavior, failure)) return nullptr;
    return std::make_unique<SplitPoints>(is_bert_punctuation, behavior);
  }
  if (type == "WhitespaceSplit") return std::make_unique<SplitPoints>(is_space, Behavior::Removed);
  if (type == "Whitespace") {
    return std::make_unique<Split>(Regex::compile(R"([\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+)", true, failure),
                                   "", Behavior::Removed, true);
  }
  if (type == "CharDelimiterSplit") {
    return std::make_unique<Split>(nullptr, json["delimiter"].string_or(""), Behavior::Removed, false);
  }
  if (type == "FixedLength") return std::make_unique<FixedLength>(std::max(1, json["length"].int_or(5)));
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  if (type == "BertPreTokenizer") {
    parts.push_back(std::make_unique<SplitPoints>(is_space, Behavior::Removed));
    parts.push_back(std::make_unique<SplitPoints>(is_bert_punctuation, Behavior::Isolated));
    return std::make_unique<Sequence>(std::move(parts));
  }
  if (type == "Sequence") {
    if (!make_parts(json["pretokenizers"], make_pre_tokenizer, "a pre-tokenizer", depth, &parts, failure))
      return nullptr;
    return std::make_unique<Sequence>(std::move(parts));
  }
  failure->set(Cause::TokenizerPart, "the pre-tokenizer '" + type + "' is not known");
  return nullptr;
}

}  // namespace llm
}  // namespace etir
