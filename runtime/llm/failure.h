// What can go wrong in this folder: the number of an error id of llm/errors.py, and a sentence.
//
// Nothing here throws: functions that can fail take a Failure and return null or false.
#pragma once

#include <string>
#include <utility>

namespace etir {
namespace llm {

/// Numbers of llm/errors.py (E1701 ...); docs/reference/errors.md has what to do about each.
enum class Cause : int {
  None = 0,
  TokenizerFile = 1701,       ///< no tokenizer, or a damaged one
  TokenizerPart = 1702,       ///< a kind of normalizer, model ... that is not here
  Pattern = 1703,             ///< a regular expression that is not understood
  PatternTooSlow = 1704,      ///< a regular expression takes too many steps for a text
  TokenId = 1705,             ///< an id that the vocabulary does not have
  NotEncodable = 1706,        ///< text without tokens for it
  ChatFile = 1713,            ///< the description of the chat is damaged
  Segments = 1714,            ///< a chat that the compiled template does not render
  NoLanguageModel = 1721,     ///< a program of another contract
  ContextFull = 1722,         ///< more tokens than the context has
  NanLogits = 1723,           ///< logits that are no numbers
  SamplingRange = 1724,       ///< a setting of the sampler out of its range
  SavedSession = 1725,        ///< a saved session that does not fit
  RewindTooFar = 1726,        ///< more tokens to take back than there are
  TokenOutside = 1727,        ///< a token that the model does not have
  NothingAllowed = 1728,      ///< the grammar allows no token
  Busy = 1729,                ///< two generations at once in one session
  VocabularyTooLarge = 1731,  ///< a tokenizer of another model
  Program = 1733,             ///< the runtime failed
};

struct Failure {
  Cause cause = Cause::None;
  std::string message;
  bool ok() const { return cause == Cause::None; }
  /// Notes the first failure. Returns false.
  bool set(Cause why, std::string text) {
    if (ok()) {
      cause = why;
      message = std::move(text);
    }
    return false;
  }
};

}  // namespace llm
}  // namespace etir
