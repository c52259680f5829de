#include <algorithm>
#include <cctype>
#include <cstdio>

#include "llm/parts.h"
#include "llm/pattern.h"
#include "llm/text.h"

namespace etir {
namespace llm {

namespace {

/// GPT-2's characters back to bytes. A token with other characters is taken as it is.
class ByteLevel : public Decoder {
 public:
  bool apply(std::vector<std::string>* tokens) const override {
    for (std::string& token : *tokens) {
      std::string bytes;
      bool all = true;
      for (size_t at = 0, length = 0; at < token.size() && all; at += length) {
        const int byte = character_byte(decode_utf8(token, at, &length));
        all = byte >= 0;
        bytes.push_back(static_cast<char>(byte));
      }
      if (all) token = std::move(bytes);
    }
    return true;
  }
  bool plain_bytes() const override { return true; }
};

class WordPiece : public Decoder {
 public:
  WordPiece(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  bool apply(std::vector<std::string>* tokens) const override {
    for (size_t i = 0; i < tokens->size(); ++i) {
      std::string& token = (*tokens)[i];
      if (i > 0) {
        if (token.compare(0, prefix_.size(), prefix_) == 0) {
          token.erase(0, prefix_.size());
        } else {
          token.insert(0, " ");
        }
      }
      if (!cleanup_) continue;
      static constexpr const char* kPairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                                  {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                                  {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
      for (const auto& pair : kPairs) replace_all(&token, pair[0], pair[1]);
    }
    return true;
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class Metaspace : public Decoder {
 public:
  Metaspace(std::string replacement, bool prepended) : replacement_(std::move(replacement)), prepended_(prepended) {}
  bool apply(std::vector<std::string>* tokens) const override {
    for (size_t i = 0; i < tokens->size(); ++i)
      replace_all(&(*tokens)[i], replacement_, i == 0 && prepended_ ? "" : " ");
    return true;
  }

 private:
  std::string replacement_;
  bool prepended_;
};

class Suffix : public Decoder {
 public:
  explicit Suffix(std::string suffix) : suffix_(std::move(suffix)) {}
  bool apply(std::vector<std::string>* tokens) const override {
    for (size_t i = 0; i < tokens->size(); ++i) replace_all(&(*tokens)[i], suffix_, i + 1 == tokens->size() ? "" : " ");
    return true;
  }

 private:
  std::string suffix_;
};

class Replace : public Decoder {
 public:
  explicit Replace(Replacement replacement) : replacement_(std::move(replacement)) {}
  bool apply(std::vector<std::string>* tokens) const override {
    Failure ignored;  // what is too slow stays as it is
    for (std::string& token : *tokens) replacement_.apply(&token, &ignored);
    return true;
  }

 private:
  Replacement replacement_;
};

/// Runs of <0xXX> become the text of their bytes, or a replacement character each.
class ByteFallback : public Decoder {
 public:
  bool apply(std::vector<std::string>* tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      bool valid = true;
      repair_utf8(bytes, &valid);
      if (valid) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        for (size_t i = 0; i < bytes.size(); ++i) out.push_back("\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& token : *tokens) {
      const int byte = token_byte(token);
      if (byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    *tokens = std::move(out);
    return true;
  }
  bool byte_fallback() const override { return true; }
};

class Fuse : public Decoder {
 public:
  bool apply(std::vector<std::string>* tokens) const override {
    std::string all;
    for (const std::string& token : *tokens) all += token;
    *tokens = {std::move(all)};
    return true;
  }
};

class Strip : public Decoder {
 public:
  Strip(std::string content, int start, int stop) : content_(std::move(content)), start_(start), stop_(stop) {}
  bool apply(std::vector<std::string>* tokens) const override {
    if (content_.empty()) return true;
    const size_t size = content_.size();
    for (std::string& token : *tokens) {
      for (int i = 0; i < start_ && token.compare(0, size, content_) == 0; ++i) token.erase(0, size);
      for (int i = 0; i < stop_ && token.size() >= size && token.compare(token.size() - size, size, content_) == 0;
           ++i) {
        token.resize(token.size() - size);
      }
    }
    return true;
  }

 private:
  std::string content_;
  int start_, stop_;
};

class Sequence : public Decoder {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Decoder>> parts) : parts_(std::move(parts)) {}
  bool apply(std::vector<std::string>* tokens) const override {
    return std::all_of(parts_.begin(), parts_.end(), [&](const auto& part) { return part->apply(tokens); });
  }
  bool plain_bytes() const override { return parts_.size() == 1 && parts_[0]->plain_bytes(); }
  bool byte_fallback() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->byte_fallback(); });
  }

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

/// byte to code point, as GPT-2 has it: printable characters are themselves, the others come from 256 on.
struct ByteTable {
  std::string characters[256];
  int bytes[512];
  ByteTable() {
    for (int& byte : bytes) byte = -1;
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      const uint32_t point = printable ? byte : next++;
      append_utf8(point, &characters[byte]);
      bytes[point] = static_cast<int>(byte);
    }
  }
};
const ByteTable& byte_table() {
  static const ByteTable kTable;
  return kTable;
}

}  // namespace

const std::string& byte_character(unsigned char byte) { return byte_table().characters[byte]; }
int character_byte(uint32_t point) { return point < 512 ? byte_table().bytes[point] : -1; }

std::string byte_token(unsigned char byte) {
  char text[8];
  std::snprintf(text, sizeof(text), "<0x%02X>", static_cast<unsigned>(byte));
  return text;
}

int token_byte(std::string_view token) {
  if (token.size() != 6 || token.compare(0, 3, "<0x") != 0 || token[5] != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return -1;
    value = value * 16 + (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  }
  return value;
}

std::unique_ptr<Decoder> make_decoder(const Json& json, Failure* failure, int depth) {
  if (json.is_null()) return nullptr;
  const std::string type = json["type"].string_or("");
  if (depth > kMostDepthOfParts) {
    failure->set(Cause::TokenizerFile, "decoders are nested too deep");
    return nullptr;
  }
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  if (type == "WordPiece") {
    return std::make_unique<WordPiece>(json["prefix"].string_or("##"), json["cleanup"].bool_or(true));
  }
  if (type == "Metaspace") {
    const bool prepended = json.has("prepend_scheme") ? json["prepend_scheme"].string_or("") != "never"
                                                      : json["add_prefix_space"].bool_or(true);
    return std::make_unique<Metaspace>(json["replacement"].string_or("\xE2\x96\x81"), prepended);
  }
  if (type == "BPEDecoder") return std::make_unique<Suffix>(json["suffix"].string_or("</w>"));
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip") {
    return std::make_unique<Strip>(json["content"].string_or(" "), json["start"].int_or(0), json["stop"].int_or(0));
  }
  if (type == "Replace") {
    Replacement replacement;
    return replacement.read(json, failure) ? std::make_unique<Replace>(std::move(replacement)) : nullptr;
  }
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Decoder>> parts;
    if (!make_parts(json["decoders"], make_decoder, "a decoder", depth, &parts, failure)) return nullptr;
    return std::make_unique<Sequence>(std::move(parts));
  }
  failure->set(Cause::TokenizerPart, "the decoder '" + type + "' is not known");
  return nullptr;
}

bool make_frame(const Json& json, Frame* frame, Failure* failure, int depth) {
  if (json.is_null()) return true;
  const std::string type = json["type"].string_or("");
  const auto wrong = [&](const char* what) { return failure->set(Cause::TokenizerFile, what); };
  if (depth > kMostDepthOfParts) return wrong("post-processors are nested too deep");
  if (type == "ByteLevel") return true;
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const Json& cls = json["cls"];
    const Json& sep = json["sep"];
    if (cls.items.size() != 2 || sep.items.size() != 2) return wrong("a post-processor has no [text, id] pairs");
    frame->before.insert(frame->before.begin(), cls.items[1].int_or(-1));
    frame->after.push_back(sep.items[1].int_or(-1));
    return true;
  }
  if (type == "TemplateProcessing") {
    std::vector<int32_t> before, after;
    bool seen = false;
    for (const Json& item : json["single"].items) {
      if (item.has("Sequence")) {
        if (seen) return wrong("a template has the text more than once");
        seen = true;
        continue;
      }
      const Json& special = json["special_tokens"][item["SpecialToken"]["id"].string_or("")];
      if (!special["ids"].is(Json::Type::Array)) return wrong("a template names a token that it does not define");
      for (const Json& id : special["ids"].items) (seen ? after : before).push_back(id.int_or(-1));
    }
    if (!seen) return wrong("a template has no place for the text");
    frame->before.insert(frame->before.begin(), before.begin(), before.end());
    frame->after.insert(frame->after.end(), after.begin(), after.end());
    return true;
  }
  if (type == "Sequence") {
    for (const Json& item : json["processors"].items) {
      if (!make_frame(item, frame, failure, depth + 1)) return false;
    }
    return true;
  }
  return failure->set(Cause::TokenizerPart, "the post-processor '" + type + "' is not known");
}

}  // namespace llm
}  // namespace etir
