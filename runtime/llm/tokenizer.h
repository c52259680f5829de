// Text to token ids and back, from a Hugging Face tokenizer.json.
//
//   etir::llm::Failure failure;
//   auto tokenizer = etir::llm::Tokenizer::load("model.tokenizer.json", &failure);
//   std::vector<int32_t> ids;
//   tokenizer->encode("Hello", {}, &ids, &failure);
//   std::string text = tokenizer->decode(ids, false);
//
// The one format that this reads is also the one that other formats (GGUF, sentencepiece, tiktoken) are converted to,
// once, where a model is compiled: what a phone loads then has one reader, whose answers are compared with the package
// that defines the format. A tokenizer does not change after loading: any number of threads may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/failure.h"
#include "llm/parts.h"

namespace etir {
namespace llm {

class DecodeStream;

class Tokenizer {
 public:
  struct EncodeOptions {
    bool add_special_tokens = false;  ///< what the file's post-processor puts around a text
    bool parse_special = true;        ///< whether special tokens in the text are tokens, or letters like all others
  };

  static std::unique_ptr<Tokenizer> load(const std::string& path, Failure* failure);
  static std::unique_ptr<Tokenizer> parse(std::string_view json, Failure* failure);

  /// Appends the ids of a text. Bytes that are no UTF-8 are taken as U+FFFD.
  bool encode(std::string_view text, const EncodeOptions& options, std::vector<int32_t>* ids, Failure* failure) const;
  /// The text of ids, as valid UTF-8; ids that the vocabulary does not have are left out.
  std::string decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const;
  /// Text as ids come, see DecodeStream.
  DecodeStream stream(bool skip_special_tokens) const;

  /// One more than the largest id.
  int32_t vocabulary_size() const { return size_; }
  /// The id of a token as the vocabulary spells it, or -1.
  int32_t id_of(std::string_view token) const;
  /// The token as the vocabulary spells it; null for an id that it does not have.
  const std::string* token_of(int32_t id) const;
  bool is_special(int32_t id) const;
  /// The bytes that a token is in the middle of a text, which may be half of a character.
  std::string bytes_of(int32_t id) const;

 private:
  friend class DecodeStream;
  struct Added {
    int32_t id = -1;
    std::string content;
    bool single_word = false, left = false, right = false, normalized = false, special = false;
  };
  /// Added tokens by their first byte, the longest first.
  struct Finder {
    std::vector<std::pair<std::string, const Added*>> by_byte[256];
    bool empty = true;
  };
  /// A part of a text: a token, or text between tokens.
  struct Part {
    std::string text;
    int32_t id = -1;
    bool first = false;
  };

  bool read(const Json& json, Failure* failure);
  bool read_added(const Json& json, Failure* failure);
  std::vector<Part> find_added(const Finder& finder, const Part& part, bool parse_special) const;
  std::vector<std::string> tokens_of(const std::vector<int32_t>& ids, bool skip_special_tokens) const;
  /// Before repair: bytes.
  std::string raw(const std::vector<int32_t>& ids, bool skip_special_tokens) const;

  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Decoder> decoder_;
  Frame frame_;
  std::vector<std::unique_ptr<Added>> added_;
  std::unordered_map<int32_t, const Added*> added_by_id_;
  std::unordered_map<std::string, int32_t> added_by_text_;
  Finder raw_finder_, normalized_finder_;
  int32_t size_ = 0;
};

/// The text of a sequence of ids piece by piece: all that push() and flush() return is what decode() says of text that
/// is valid, and every piece is valid UTF-8. What may be the begin of a character waits for the rest.
class DecodeStream {
 public:
  DecodeStream(const Tokenizer* tokenizer, bool skip_special_tokens);
  std::string push(int32_t id);
  /// What waited, with U+FFFD for halves of characters. The stream begins anew.
  std::string flush();

 private:
  std::string window(int32_t id);
  /// What waits of bytes that are tokens.
  std::string end_bytes();

  const Tokenizer* tokenizer_;
  bool skip_;
  int32_t marker_ = -1;       ///< a token of a byte, where those are among the tokens: stands for text before
  bool bytes_;                ///< tokens are bytes, one after the other
  std::string waiting_;       ///< bytes of a character that is not whole
  std::vector<int32_t> ids_;  ///< of the window: those whose text is out, then those that wait
  std::string before_;        ///< the text of the first part of the window
  size_t out_ = 0;            ///< ids in the first part
};

}  // namespace llm
}  // namespace etir
