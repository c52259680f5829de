// Regular expressions as they stand in tokenizer files: Oniguruma's and fancy-regex's syntax, on code points.
//
// What there is: alternation, groups (also (?:...), (?i:...), (?>...)), classes with ranges, negation, nesting and &&,
// \p{..} of general categories and a few scripts, \s \d \w \h \R \X-free escapes, counted, lazy and possessive
// repetition, lookahead and lookbehind (of one character), ^ $ \A \z \Z \b \B. No back references. The first
// alternative that matches wins, as everywhere in this field.
//
// Matching is backtracking with a stack of its own, so that no text is too long for the machine's. The steps for one
// text are counted: patterns of real tokenizers take a few for each character; one that takes more than kMostSteps for
// each is refused, so that time is linear in the text whatever the file says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/failure.h"

namespace etir {
namespace llm {

/// A set of code points.
struct CharSet {
  struct Range {
    uint32_t first, last;
  };
  uint32_t categories = 0;  ///< bits of general categories
  bool spaces = false, words = false, han = false;
  bool negated = false;
  std::vector<Range> ranges;
  std::vector<CharSet> parts;  ///< sets that belong to it
  std::vector<CharSet> also;   ///< sets that a member has to be in, too (&&)
  uint64_t ascii[2] = {0, 0};  ///< whether each of the first 128 is in, by seal()

  bool slow_contains(uint32_t point) const;
  bool contains(uint32_t point) const {
    return point < 128 ? (ascii[point >> 6] >> (point & 63) & 1) != 0 : slow_contains(point);
  }
  void seal();
};

class Regex {
 public:
  static constexpr uint64_t kMostSteps = 400;
  static constexpr int kMostDepth = 40;  ///< of groups and classes in each other
  /// Null, with a failure, for a pattern that is not understood. `multiline`: ^ and $ match at lines, as in Oniguruma.
  static std::unique_ptr<Regex> compile(std::string_view pattern, bool multiline, Failure* failure);

  struct Match {
    size_t begin, end;
  };
  /// All matches in valid UTF-8, from left to right; none of them overlap. False when it takes too many steps.
  bool find_all(std::string_view text, std::vector<Match>* matches, Failure* failure) const;

 private:
  friend class RegexCompiler;
  static constexpr uint32_t kNoLimit = UINT32_MAX;  ///< of a repetition
  enum class Op : uint8_t {
    Set,
    Split,
    Jump,
    Repeat,
    Look,
    Atomic,
    Begin,
    End,
    TextBegin,
    TextEnd,
    WordEdge,
    Count,
    Accept
  };
  struct Instruction {
    Op op = Op::Accept;
    uint8_t flag =
        0;           ///< Repeat: 0 greedy, 1 lazy, 2 possessive; Look: 1 negative | 2 lookbehind; WordEdge: 1 negative
    uint32_t a = 0;  ///< Set, Repeat: the set; Split: where first; Jump: where to; Look, Atomic: where after it
    uint32_t b = 0;  ///< Split: where second
    uint32_t min = 0, max = 0;  ///< Repeat
  };
  bool run(std::string_view text, uint32_t start, size_t at, size_t* end, uint64_t* steps, int depth) const;

  std::string pattern_;
  bool multiline_ = true;
  std::vector<CharSet> sets_;
  std::vector<Instruction> code_;
};

}  // namespace llm
}  // namespace etir
