// From the text of a regular expression to the instructions that Regex::run follows: one recursive descent that writes
// as it reads, so that the syntax has one place.
#include <algorithm>
#include <cstring>

#include "llm/regex.h"
#include "llm/text.h"
#include "llm/unicode.h"

namespace etir {
namespace llm {

constexpr uint32_t kMostCount = 1000;        // of {n,m}
constexpr size_t kMostInstructions = 20000;  // counted repetition of groups is written out

/// A recursive descent over the pattern that writes instructions.
class RegexCompiler {
 public:
  RegexCompiler(std::string_view pattern, Regex* regex) : points_(code_points(pattern)), regex_(*regex) {}

  bool compile(std::string* wrong) {
    bool done = alternatives(0);
    if (done && at_ < points_.size()) done = fail("')' without '('");
    if (done) emit(Regex::Op::Accept);
    for (CharSet& set : regex_.sets_) set.seal();
    if (!done) *wrong = wrong_ + " at character " + std::to_string(at_);
    return done;
  }

 private:
  using Op = Regex::Op;
  using Instruction = Regex::Instruction;

  bool fail(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
    return false;
  }
  bool more() const { return at_ < points_.size(); }
  uint32_t peek(size_t ahead = 0) const { return at_ + ahead < points_.size() ? points_[at_ + ahead] : 0; }
  bool take(uint32_t point) {
    if (!more() || peek() != point) return false;
    ++at_;
    return true;
  }
  bool take(const char* text) {
    const size_t size = std::strlen(text);
    for (size_t i = 0; i < size; ++i) {
      if (at_ + i >= points_.size() || peek(i) != static_cast<unsigned char>(text[i])) return false;
    }
    at_ += size;
    return true;
  }
  uint32_t here() const { return static_cast<uint32_t>(regex_.code_.size()); }
  uint32_t emit(Op op, uint32_t a = 0, uint32_t b = 0, uint8_t flag = 0) {
    Instruction instruction;
    instruction.op = op;
    instruction.flag = flag;
    instruction.a = a;
    instruction.b = b;
    regex_.code_.push_back(instruction);
    return here() - 1;
  }
  void emit_set(CharSet set) {
    regex_.sets_.push_back(std::move(set));
    emit(Op::Set, static_cast<uint32_t>(regex_.sets_.size() - 1));
  }

  bool alternatives(int depth) {
    if (depth > Regex::kMostDepth) return fail("groups are nested too deep");
    const bool insensitive = insensitive_;
    std::vector<uint32_t> ends;
    for (;;) {
      const uint32_t split = emit(Op::Split);  // becomes a jump to the next instruction for the last alternative
      regex_.code_[split].a = split + 1;
      if (!sequence(depth)) return false;
      if (!take('|')) {
        regex_.code_[split].op = Op::Jump;
        break;
      }
      ends.push_back(emit(Op::Jump));
      regex_.code_[split].b = here();
    }
    for (const uint32_t end : ends) regex_.code_[end].a = here();
    insensitive_ = insensitive;
    return true;
  }

  bool sequence(int depth) {
    while (more() && peek() != '|' && peek() != ')') {
      const uint32_t begin = here();
      bool repeatable = true;
      if (!element(depth, &repeatable)) return false;
      while (more() && (peek() == '*' || peek() == '+' || peek() == '?' || (peek() == '{' && counts()))) {
        if (!repeatable) return fail("nothing to repeat");
        if (!repetition(begin)) return false;
      }
      if (regex_.code_.size() > kMostInstructions) return fail("the pattern is too large");
    }
    return true;
  }

  /// Whether what follows is {n}, {n,} or {n,m}: another '{' stands for itself.
  bool counts() const {
    size_t i = 1;
    const auto digits = [&] {
      const size_t first = i;
      while (peek(i) >= '0' && peek(i) <= '9') ++i;
      return i > first;
    };
    const bool low = digits();
    if (peek(i) == ',') {
      ++i;
      const bool high = digits();
      return (low || high) && peek(i) == '}';
    }
    return low && peek(i) == '}';
  }

  bool count(uint32_t* value) {
    *value = 0;
    while (peek() >= '0' && peek() <= '9') {
      *value = *value * 10 + (points_[at_++] - '0');
      if (*value > kMostCount) return fail("a count of more than 1000");
    }
    return true;
  }

  bool repetition(uint32_t begin) {
    uint32_t min = 0, max = Regex::kNoLimit;
    const bool braces = peek() == '{';
    switch (points_[at_++]) {
      case '*':
        break;
      case '+':
        min = 1;
        break;
      case '?':
        max = 1;
        break;
      default:
        if (!count(&min)) return false;
        max = min;
        if (take(',')) {
          max = Regex::kNoLimit;
          if (peek() != '}' && !count(&max)) return false;
        }
        ++at_;
        if (min > max) return fail("a count from more to less");
    }
    uint8_t mode = 0;
    if (take('?')) {
      mode = 1;
    } else if (!(braces && regex_.multiline_) && take('+')) {
      mode = 2;  // after braces Oniguruma takes a '+' for one more repetition, around this one
    }
    const std::vector<Instruction> body(regex_.code_.begin() + begin, regex_.code_.end());
    if (body.size() == 1 && body[0].op == Op::Set) {
      regex_.code_.resize(begin);
      const uint32_t at = emit(Op::Repeat, body[0].a, 0, mode);
      regex_.code_[at].min = min;
      regex_.code_[at].max = max;
      return true;
    }
    regex_.code_.resize(begin);
    const uint32_t atomic = mode == 2 ? emit(Op::Atomic) : 0;
    const auto write = [&] {
      const uint32_t shift = here() - begin;
      for (Instruction instruction : body) {
        const bool places = instruction.op == Op::Split || instruction.op == Op::Jump || instruction.op == Op::Look ||
                            instruction.op == Op::Atomic;
        if (places) instruction.a += shift;
        if (instruction.op == Op::Split) instruction.b += shift;
        regex_.code_.push_back(instruction);
      }
      return regex_.code_.size() <= kMostInstructions;
    };
    for (uint32_t i = 0; i < min; ++i) {
      if (!write()) return fail("the pattern is too large");
    }
    const auto split = [&](uint32_t at, uint32_t inside, uint32_t after) {
      regex_.code_[at].a = mode == 1 ? after : inside;
      regex_.code_[at].b = mode == 1 ? inside : after;
    };
    if (max == Regex::kNoLimit) {
      const uint32_t loop = emit(Op::Split);
      emit(Op::Count);  // remembers where this round began: a round that takes nothing ends the loop
      if (!write()) return fail("the pattern is too large");
      emit(Op::Count, loop, 0, 1);
      emit(Op::Jump, loop);
      split(loop, loop + 1, here());
    } else {
      std::vector<uint32_t> splits;
      for (uint32_t i = min; i < max; ++i) {
        splits.push_back(emit(Op::Split));
        if (!write()) return fail("the pattern is too large");
      }
      for (const uint32_t at : splits) split(at, at + 1, here());
    }
    if (mode == 2) {
      emit(Op::Accept);
      regex_.code_[atomic].a = here();
    }
    return true;
  }

  bool group(int depth) {
    const bool insensitive = insensitive_;
    uint32_t around = 0;
    bool closed = false;
    if (take("?:")) {
    } else if (take("?>")) {
      around = emit(Op::Atomic);
      closed = true;
    } else if (take("?=") || take("?!") || take("?<=") || take("?<!")) {
      const bool behind = points_[at_ - 2] == '<';
      const uint8_t flags = static_cast<uint8_t>((points_[at_ - 1] == '!' ? 1 : 0) | (behind ? 2 : 0));
      around = emit(Op::Look, 0, 0, flags);
      closed = true;
      const uint32_t begin = here();
      if (!alternatives(depth + 1)) return false;
      if (behind) {
        for (uint32_t i = begin; i < here(); ++i) {
          const Op op = regex_.code_[i].op;
          const bool two = op == Op::Set && i + 1 < here() && regex_.code_[i + 1].op == Op::Set;
          if (two || (op != Op::Set && op != Op::Split && op != Op::Jump))
            return fail("a lookbehind of more than one character");
        }
      }
      return close(around);
    } else if (take("?i:")) {
      insensitive_ = true;
    } else if (take("?i)")) {
      insensitive_ = true;  // up to the end of the group around it
      return true;
    } else if (peek() == '?') {
      return fail("a group of a kind that is not known");
    }
    if (!alternatives(depth + 1)) return false;
    insensitive_ = insensitive;
    if (closed) return close(around);
    return take(')') || fail("')' is missing");
  }

  bool close(uint32_t around) {
    emit(Op::Accept);
    regex_.code_[around].a = here();
    return take(')') || fail("')' is missing");
  }

  CharSet of_point(uint32_t point) const {
    CharSet set;
    if (insensitive_) {
      for (const uint32_t variant : case_variants(point)) set.ranges.push_back({variant, variant});
    } else {
      set.ranges.push_back({point, point});
    }
    return set;
  }

  bool element(int depth, bool* repeatable) {
    const uint32_t point = points_[at_++];
    switch (point) {
      case '(':
        return group(depth);
      case '[': {
        CharSet set;
        if (!set_class(&set, 0)) return false;
        emit_set(std::move(set));
        return true;
      }
      case '.': {
        CharSet set;
        set.negated = true;
        set.ranges.push_back({'\n', '\n'});
        emit_set(std::move(set));
        return true;
      }
      case '^':
        *repeatable = false;
        emit(Op::Begin);
        return true;
      case '$':
        *repeatable = false;
        emit(Op::End);
        return true;
      case '*':
      case '+':
      case '?':
        return fail("nothing to repeat");
      case '\\':
        return escape(repeatable);
      default:
        emit_set(of_point(point));
        return true;
    }
  }

  bool escape(bool* repeatable) {
    *repeatable = false;
    switch (peek()) {
      case 'b':
      case 'B':
        emit(Op::WordEdge, 0, 0, points_[at_++] == 'B' ? 1 : 0);
        return true;
      case 'A':
        ++at_;
        emit(Op::TextBegin);
        return true;
      case 'z':
      case 'Z':
        emit(Op::TextEnd, 0, 0, points_[at_++] == 'Z' ? 1 : 0);
        return true;
      default:
        break;
    }
    *repeatable = true;
    CharSet set;
    uint32_t point = 0;
    bool single = false;
    if (!escaped(&set, &point, &single)) return false;
    emit_set(single ? of_point(point) : std::move(set));
    return true;
  }

  /// What follows a backslash: a set or one code point.
  bool escaped(CharSet* set, uint32_t* point, bool* single) {
    if (!more()) return fail("a backslash at the end");
    const uint32_t kind = points_[at_++];
    switch (kind) {
      case 's':
      case 'S':
        set->spaces = true;
        set->negated = kind == 'S';
        return true;
      case 'd':
      case 'D':
        set->categories = category_bit(Category::Nd);
        set->negated = kind == 'D';
        return true;
      case 'w':
      case 'W':
        set->words = true;
        set->negated = kind == 'W';
        return true;
      case 'h':
      case 'H':
        set->ranges = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}};
        set->negated = kind == 'H';
        return true;
      case 'p':
      case 'P':
        return property(set, kind == 'P');
      default:
        break;
    }
    *single = true;
    static constexpr char kFrom[] = "nrtfvae0", kTo[] = "\n\r\t\f\v\a\x1b\0";
    if (kind < 128) {
      const void* found = std::memchr(kFrom, static_cast<int>(kind), sizeof(kFrom) - 1);
      if (found != nullptr) {
        *point = static_cast<unsigned char>(kTo[static_cast<const char*>(found) - kFrom]);
        return true;
      }
    }
    if (kind == 'x' || kind == 'u') return hexadecimal(kind == 'x' ? 2 : 4, point);
    const bool letter = (kind | 32) - 'a' < 26 && kind < 128;
    if (letter || kind - '1' < 9) return fail("an escape that is not known");
    *point = kind;
    return true;
  }

  bool hexadecimal(size_t digits, uint32_t* point) {
    const bool braces = take('{');
    *point = 0;
    size_t count = 0;
    for (; more() && count < (braces ? 6 : digits); ++count, ++at_) {
      const uint32_t c = peek();
      const uint32_t digit = c - '0' < 10 ? c - '0' : (c | 32) - 'a' < 6 ? (c | 32) - 'a' + 10 : 16;
      if (digit == 16) break;
      *point = *point << 4 | digit;
    }
    if (count == 0 || (braces ? !take('}') : count != digits) || *point > 0x10FFFF)
      return fail("a code point is expected");
    return true;
  }

  bool property(CharSet* set, bool negated) {
    std::string name;
    if (take('{')) {
      if (take('^')) negated = !negated;
      while (more() && peek() != '}') append_utf8(points_[at_++], &name);
      if (!take('}')) return fail("'}' is missing");
    } else if (more()) {
      append_utf8(points_[at_++], &name);
    }
    static constexpr char kNames[] = "CnCcCfCoCsLlLmLoLtLuMcMeMnNdNlNoPcPdPePfPiPoPsScSkSmSoZlZpZs";
    struct Group {
      const char* name;
      uint32_t bits;
    };
    static constexpr Group kGroups[] = {
        {"L", kLetters},
        {"Letter", kLetters},
        {"Alphabetic", kLetters | category_bit(Category::Nl)},
        {"M", kMarks},
        {"Mark", kMarks},
        {"N", kNumbers},
        {"Number", kNumbers},
        {"P", kPunctuation},
        {"Punct", kPunctuation},
        {"Punctuation", kPunctuation},
        {"S", kSymbols},
        {"Symbol", kSymbols},
        {"Z", kSeparators},
        {"Separator", kSeparators},
        {"C", kOthers},
        {"Other", kOthers},
    };
    for (const Group& group : kGroups) {
      if (name == group.name) set->categories = group.bits;
    }
    for (size_t i = 0; name.size() == 2 && i + 1 < sizeof(kNames); i += 2) {
      if (name.compare(0, 2, kNames + i, 2) == 0) set->categories = 1u << (i / 2);
    }
    if (name == "Han" || name == "Script=Han") set->han = true;
    if (name == "White_Space") set->spaces = true;
    if (set->categories == 0 && !set->han && !set->spaces) return fail("the property '" + name + "' is not known");
    set->negated = negated;
    return true;
  }

  /// After '['.
  bool set_class(CharSet* set, int depth) {
    if (depth > Regex::kMostDepth) return fail("classes are nested too deep");
    set->negated = take('^');
    std::vector<CharSet> also;
    bool first = true;
    while (more() && (peek() != ']' || first)) {
      first = false;
      if (take("&&")) {
        // What there is so far has to be in what follows, too.
        CharSet before;
        std::swap(before.ranges, set->ranges);
        std::swap(before.parts, set->parts);
        also.push_back(std::move(before));
        continue;
      }
      if (take("[:")) return fail("a class of POSIX");
      if (take('[')) {
        CharSet part;
        if (!set_class(&part, depth + 1)) return false;
        set->parts.push_back(std::move(part));
        continue;
      }
      CharSet part;
      uint32_t low = 0;
      bool single = true;
      if (take('\\')) {
        single = false;
        if (!escaped(&part, &low, &single)) return false;
      } else {
        low = points_[at_++];
      }
      if (!single) {
        set->parts.push_back(std::move(part));
        continue;
      }
      uint32_t high = low;
      if (peek() == '-' && peek(1) != ']' && peek(1) != 0) {
        ++at_;
        if (take('[')) return fail("a range without an end");
        CharSet none;
        bool one = true;
        if (take('\\')) {
          one = false;
          if (!escaped(&none, &high, &one)) return false;
        } else {
          high = points_[at_++];
        }
        if (!one || high < low) return fail("a range from more to less");
      }
      set->ranges.push_back({low, high});
      if (insensitive_ && high - low < 256) {
        for (uint32_t point = low; point <= high; ++point) {
          for (const uint32_t variant : case_variants(point)) set->ranges.push_back({variant, variant});
        }
      }
    }
    set->also = std::move(also);
    return take(']') || fail("']' is missing");
  }

  const std::vector<uint32_t> points_;
  Regex& regex_;
  size_t at_ = 0;
  bool insensitive_ = false;
  std::string wrong_;
};

std::unique_ptr<Regex> Regex::compile(std::string_view pattern, bool multiline, Failure* failure) {
  std::unique_ptr<Regex> regex(new Regex());
  regex->pattern_ = pattern;
  regex->multiline_ = multiline;
  std::string wrong;
  if (!RegexCompiler(pattern, regex.get()).compile(&wrong)) {
    failure->set(Cause::Pattern, "the pattern '" + regex->pattern_ + "' is not understood: " + wrong);
    return nullptr;
  }
  return regex;
}

}  // namespace llm
}  // namespace etir
