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
