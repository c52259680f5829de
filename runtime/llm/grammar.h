// Which tokens may come next: a hook for the sampler, and JSON as an example of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "llm/tokenizer.h"

namespace etir {
namespace llm {

class Grammar {
 public:
  virtual ~Grammar() = default;
  /// Sets a byte for each token: whether it may come next.
  virtual void allow(std::vector<uint8_t>* mask) = 0;
  /// Goes on with a token that allow() has allowed.
  virtual void accept(int32_t id) = 0;
  /// Whether what was accepted is whole and nothing may follow.
  virtual bool over() const = 0;
};

/// The texts of all tokens, for grammars that work on text. Made once for each model.
struct TokenBytes {
  explicit TokenBytes(const Tokenizer& tokenizer);
  std::vector<std::string> bytes;  ///< empty for special tokens
};

/// One JSON object (RFC 8259): the answer is one whenever it ends by itself.
std::unique_ptr<Grammar> json_grammar(std::shared_ptr<const TokenBytes> tokens);

}  // namespace llm
}  // namespace etir
