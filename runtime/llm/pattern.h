// What parts of a tokenizer look for: {"pattern": {"String": ..}} or {"Regex": ..}, and what goes in its place. And
// what all kinds of parts share: a sequence of parts, and how deep those nest.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/failure.h"
#include "llm/json.h"
#include "llm/regex.h"

namespace etir {
namespace llm {

constexpr int kMostDepthOfParts = 16;

/// Every occurrence of `from`, from left to right; an empty one has none.
void replace_all(std::string* text, std::string_view from, std::string_view to);

/// A string or a regular expression to look for.
struct Pattern {
  std::unique_ptr<Regex> regex;  ///< null for a string
  std::string text;

  /// Of {"String": ..} or {"Regex": ..}. False, with a failure, for an expression that is not understood.
  bool read(const Json& json, Failure* failure);
};

/// Writes `content` for each match of a pattern.
class Replacement {
 public:
  /// Of {"pattern": .., "content": ..}. False, with a failure, as Pattern::read.
  bool read(const Json& json, Failure* failure);
  /// False, with a failure, when the pattern takes too many steps; the text is as it was then.
  bool apply(std::string* text, Failure* failure) const;

 private:
  Pattern pattern_;
  std::string content_;
};

/// The parts of a sequence by `make` of `item, failure, depth`. False, with a failure that calls them `what`, when one
/// of them cannot be made or is null.
template <class Part, class Make>
bool make_parts(const Json& items, Make make, const char* what, int depth, std::vector<std::unique_ptr<Part>>* parts,
                Failure* failure) {
  for (const Json& item : items.items) {
    std::unique_ptr<Part> part = make(item, failure, depth + 1);
    if (part == nullptr) return failure->set(Cause::TokenizerFile, std::string(what) + " of a sequence is missing");
    parts->push_back(std::move(part));
  }
  return true;
}

}  // namespace llm
}  // namespace etir
