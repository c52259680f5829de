// The parts of a tokenizer, as tokenizer.json names them: normalizers, pre-tokenizers, models, post-processors,
// decoders.
//
// Each kind is an abstract class and a function that makes one from its JSON. What a part does is what the part of the
// same name does in Hugging Face's package tokenizers, whose names these are; the tests compare ids with it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/failure.h"
#include "llm/json.h"

namespace etir {
namespace llm {

/// A piece of text on its way through the pre-tokenizers.
struct Piece {
  std::string text;
  bool first = false;  ///< whether it begins where the whole text does
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Valid UTF-8 in and out.
  virtual bool apply(std::string* text, Failure* failure) const = 0;
};
/// Null for a JSON null; null with a failure for a kind that is not known. Nested up to 16 deep, as the others.
std::unique_ptr<Normalizer> make_normalizer(const Json& json, Failure* failure, int depth = 0);

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual bool apply(std::vector<Piece>* pieces, Failure* failure) const = 0;
};
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& json, Failure* failure, int depth = 0);

class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of a piece.
  virtual bool encode(std::string_view piece, std::vector<int32_t>* ids, Failure* failure) const = 0;
  /// Ids of a text in the vocabulary, or -1; and back, null for an id that it does not have.
  virtual int32_t id_of(std::string_view token) const = 0;
  virtual const std::string* token_of(int32_t id) const = 0;
  /// One more than the largest id.
  virtual int32_t size() const = 0;
};
std::unique_ptr<Model> make_model(const Json& json, Failure* failure);
std::unique_ptr<Model> make_bpe(const Json& json, Failure* failure);
std::unique_ptr<Model> make_unigram(const Json& json, Failure* failure);
std::unique_ptr<Model> make_word_piece(const Json& json, Failure* failure);
std::unique_ptr<Model> make_word_level(const Json& json, Failure* failure);

class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Changes tokens, whose concatenation is the text in the end; they may be any bytes until then.
  virtual bool apply(std::vector<std::string>* tokens) const = 0;
  /// Whether the text of a sequence of tokens is the texts of its tokens, one after the other, as bytes.
  virtual bool plain_bytes() const { return false; }
  /// Whether tokens such as <0x0A> are bytes.
  virtual bool byte_fallback() const { return false; }
};
std::unique_ptr<Decoder> make_decoder(const Json& json, Failure* failure, int depth = 0);

/// What goes before and after the ids of a text.
struct Frame {
  std::vector<int32_t> before, after;
};
bool make_frame(const Json& json, Frame* frame, Failure* failure, int depth = 0);

/// GPT-2's characters for bytes, as UTF-8 by byte; and the byte of a code point, or -1.
const std::string& byte_character(unsigned char byte);
int character_byte(uint32_t point);

/// The token of a byte in vocabularies that fall back to bytes: <0x0A>. And the byte of such a token, or -1.
std::string byte_token(unsigned char byte);
int token_byte(std::string_view token);

}  // namespace llm
}  // namespace etir
