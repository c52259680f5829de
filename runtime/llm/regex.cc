#include "llm/regex.h"

#include <algorithm>
#include <cstring>

#include "llm/text.h"
#include "llm/unicode.h"

namespace etir {
namespace llm {

bool CharSet::slow_contains(uint32_t point) const {
  bool found = (categories != 0 && has_category(point, categories)) || (spaces && is_space(point)) ||
               (words && is_word(point)) || (han && is_han(point));
  for (size_t i = 0; i < ranges.size() && !found; ++i) found = point >= ranges[i].first && point <= ranges[i].last;
  for (size_t i = 0; i < parts.size() && !found; ++i) found = parts[i].slow_contains(point);
  for (size_t i = 0; i < also.size() && found; ++i) found = also[i].slow_contains(point);
  return found != negated;
}

void CharSet::seal() {
  for (uint32_t point = 0; point < 128; ++point) {
    if (slow_contains(point)) ascii[point >> 6] |= uint64_t{1} << (point & 63);
  }
}

// --- compiling ------------------------------------------------------------------------------------------------------

constexpr uint32_t kNoLimit = UINT32_MAX;
constexpr uint32_t kMostCount = 1000;        // of {n,m}
constexpr size_t kMostInstructions = 20000;  // counted repetition of groups is written out
constexpr int kMostDepth = 40;

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
    if (depth > kMostDepth) return fail("groups are nested too deep");
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
    uint32_t min = 0, max = kNoLimit;
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
          max = kNoLimit;
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
    if (max == kNoLimit) {
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
    if (depth > kMostDepth) return fail("classes are nested too deep");
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

// --- matching -------------------------------------------------------------------------------------------------------

bool Regex::run(std::string_view text, uint32_t start, size_t at, size_t* end, uint64_t* steps, int depth) const {
  // Where to go on when a way fails. A greedy repetition is one entry, which gives back a character at a time.
  struct Choice {
    uint32_t instruction;
    size_t at;
    size_t lowest;  // greedy: not to go below; lazy: the characters that it may still take
    uint8_t kind;   // 0: a way; 1: greedy; 2: lazy; 3: undo of a mark
  };
  std::vector<Choice> choices;
  std::vector<size_t> marks;  // where rounds of loops began
  uint32_t pc = start;
  const auto before = [&](size_t position) -> uint32_t {
    size_t length;
    return position == 0 ? 0 : decode_utf8(text, previous_utf8(text, position), &length);
  };
  for (;;) {
    if (*steps == 0) return false;
    --*steps;
    const Instruction& now = code_[pc];
    bool ok = true;
    switch (now.op) {
      case Op::Accept:
        *end = at;
        return true;
      case Op::Jump:
        pc = now.a;
        break;
      case Op::Split:
        choices.push_back({now.b, at, 0, 0});
        pc = now.a;
        break;
      case Op::Set: {
        size_t length = 0;
        ok = at < text.size() && sets_[now.a].contains(decode_utf8(text, at, &length));
        at += ok ? length : 0;
        ++pc;
        break;
      }
      case Op::Repeat: {
        const CharSet& set = sets_[now.a];
        size_t count = 0, lowest = at, position = at, length = 0;
        const uint32_t most = now.flag == 1 ? now.min : now.max;
        while (count < most && position < text.size() && set.contains(decode_utf8(text, position, &length))) {
          position += length;
          if (++count == now.min) lowest = position;
        }
        // What is looked at once for each character is not a step: it costs what reading the text costs, unless it is
        // done from every position again.
        *steps -= std::min<uint64_t>(*steps, count / 16);
        ok = count >= now.min;
        if (!ok) break;
        if (now.flag == 0 && position > lowest) choices.push_back({pc + 1, position, lowest, 1});
        if (now.flag == 1 && now.max > now.min) choices.push_back({pc, position, now.max - now.min, 2});
        at = position;
        ++pc;
        break;
      }
      case Op::Look: {
        size_t to = 0;
        bool found = false;
        if ((now.flag & 2) == 0) {
          found = depth < kMostDepth && run(text, pc + 1, at, &to, steps, depth + 1);
        } else if (at > 0) {
          found = run(text, pc + 1, previous_utf8(text, at), &to, steps, depth + 1) && to == at;
        }
        if (*steps == 0) return false;
        ok = found != ((now.flag & 1) != 0);
        pc = now.a;
        break;
      }
      case Op::Atomic: {
        size_t to = 0;
        ok = run(text, pc + 1, at, &to, steps, depth + 1);
        if (*steps == 0) return false;
        at = ok ? to : at;
        pc = now.a;
        break;
      }
      case Op::Begin:
        ok = at == 0 || (multiline_ && text[at - 1] == '\n' && at < text.size());
        ++pc;
        break;
      case Op::End:
        ok = at == text.size() || (multiline_ && text[at] == '\n');
        ++pc;
        break;
      case Op::TextBegin:
        ok = at == 0;
        ++pc;
        break;
      case Op::TextEnd:
        ok = at == text.size() || (now.flag == 1 && at + 1 == text.size() && text[at] == '\n');
        ++pc;
        break;
      case Op::WordEdge: {
        size_t length = 0;
        const bool left = at > 0 && is_word(before(at));
        const bool right = at < text.size() && is_word(decode_utf8(text, at, &length));
        ok = (left != right) != (now.flag == 1);
        ++pc;
        break;
      }
      case Op::Count:
        if (now.flag == 0) {
          marks.push_back(at);
          choices.push_back({0, 0, SIZE_MAX, 3});
        } else {
          const size_t began = marks.back();
          marks.pop_back();
          choices.push_back({0, 0, began, 3});
          ok = at > began;
        }
        ++pc;
        break;
    }
    if (ok) continue;
    for (bool resumed = false; !resumed;) {
      if (choices.empty()) return false;
      Choice& last = choices.back();
      switch (last.kind) {
        case 0:
          pc = last.instruction;
          at = last.at;
          choices.pop_back();
          resumed = true;
          break;
        case 1:
          last.at = previous_utf8(text, last.at);
          pc = last.instruction;
          at = last.at;
          if (last.at <= last.lowest) choices.pop_back();
          resumed = true;
          break;
        case 2: {
          const Instruction& repeat = code_[last.instruction];
          size_t length = 0;
          if (last.lowest == 0 || last.at >= text.size() ||
              !sets_[repeat.a].contains(decode_utf8(text, last.at, &length))) {
            choices.pop_back();
            break;
          }
          last.at += length;
          if (repeat.max != kNoLimit) --last.lowest;
          pc = last.instruction + 1;
          at = last.at;
          resumed = true;
          break;
        }
        default:
          if (last.lowest == SIZE_MAX) {
            marks.pop_back();
          } else {
            marks.push_back(last.lowest);
          }
          choices.pop_back();
      }
    }
  }
}

bool Regex::find_all(std::string_view text, std::vector<Match>* matches, Failure* failure) const {
  matches->clear();
  uint64_t steps = kMostSteps * (text.size() + 64);
  size_t at = 0;
  while (at <= text.size()) {
    size_t end = 0, length = 1;
    if (run(text, 0, at, &end, &steps, 0) && end > at) {
      matches->push_back({at, end});
      at = end;
      continue;
    }
    if (steps == 0) {
      return failure->set(Cause::PatternTooSlow, "the pattern '" + pattern_ + "' takes more than " +
                                                     std::to_string(kMostSteps) + " steps for each byte of a text");
    }
    if (at < text.size()) decode_utf8(text, at, &length);
    at += length;
  }
  return true;
}

}  // namespace llm
}  // namespace etir
