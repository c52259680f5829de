#include "llm/unicode.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "llm/text.h"

namespace etir {
namespace llm {

namespace {

#include "llm/unicode_data.inc"

template <size_t n>
uint32_t run_of(const uint32_t (&runs)[n], uint32_t point) {
  const uint32_t* after = std::upper_bound(std::begin(runs), std::end(runs), point << 8 | 0xFF);
  return after[-1] & 0xFF;
}

struct Range {
  uint32_t first, last;
};
template <size_t n>
bool in_ranges(const Range (&ranges)[n], uint32_t point) {
  for (const Range& range : ranges) {
    if (point >= range.first && point <= range.last) return true;
  }
  return false;
}

constexpr Range kChinese[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                              {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
constexpr Range kHan[] = {{0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
                          {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
                          {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
                          {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
                          {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
                          {0x30000, 0x3134A}, {0x31350, 0x323AF}};

// Hangul syllables: The Unicode Standard, 3.12.
constexpr uint32_t kSyllables = 0xAC00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11A7;
constexpr uint32_t kNumVowels = 21, kNumTrailing = 28, kNumSyllables = 19 * kNumVowels * kNumTrailing;

void decompose(uint32_t point, bool compatible, std::vector<uint32_t>* out) {
  if (point < 0x80) return out->push_back(point);
  if (point - kSyllables < kNumSyllables) {
    const uint32_t index = point - kSyllables;
    out->push_back(kLeading + index / (kNumVowels * kNumTrailing));
    out->push_back(kVowels + index / kNumTrailing % kNumVowels);
    if (index % kNumTrailing != 0) out->push_back(kTrailing + index % kNumTrailing);
    return;
  }
  for (const uint32_t flag : {1u, 0u}) {
    if (flag == 1 && !compatible) continue;
    const uint32_t key = point << 1 | flag;
    const uint32_t* found = std::lower_bound(std::begin(kDecomposed), std::end(kDecomposed), key);
    if (found == std::end(kDecomposed) || *found != key) continue;
    const uint32_t place = kDecomposedAt[found - kDecomposed];
    for (uint32_t i = 0; i < (place & 31); ++i) out->push_back(kDecomposedPool[(place >> 5) + i]);
    return;
  }
  out->push_back(point);
}

/// The composed code point of two, or 0.
uint32_t composed(uint32_t first, uint32_t second) {
  if (first - kLeading < 19 && second - kVowels < kNumVowels) {
    return kSyllables + ((first - kLeading) * kNumVowels + (second - kVowels)) * kNumTrailing;
  }
  if (first - kSyllables < kNumSyllables && (first - kSyllables) % kNumTrailing == 0 && second > kTrailing &&
      second < kTrailing + kNumTrailing) {
    return first + (second - kTrailing);
  }
  size_t low = 0, high = std::size(kComposed) / 3;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const uint32_t* row = kComposed + 3 * middle;
    if (row[0] < first || (row[0] == first && row[1] < second)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const uint32_t* row = kComposed + 3 * low;
  return low < std::size(kComposed) / 3 && row[0] == first && row[1] == second ? row[2] : 0;
}

uint32_t combining(uint32_t point) { return point < 0x300 ? 0 : run_of(kCombining, point); }

}  // namespace

Category category_of(uint32_t point) {
  return point > 0x10FFFF ? Category::Cn : static_cast<Category>(run_of(kCategories, point));
}

bool is_space(uint32_t point) {
  return (point >= 9 && point <= 13) || point == 0x20 || point == 0x85 || point == 0xA0 || point == 0x1680 ||
         (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 || point == 0x202F ||
         point == 0x205F || point == 0x3000;
}

bool is_word(uint32_t point) {
  if (point < 0x80) return (point | 32) - 'a' < 26 || point - '0' < 10 || point == '_';
  constexpr uint32_t bits =
      kLetters | kMarks | category_bit(Category::Nd) | category_bit(Category::Nl) | category_bit(Category::Pc);
  // Enclosed letters are symbols with the property Alphabetic.
  const bool framed = (point >= 0x24B6 && point <= 0x24E9) || (point >= 0x1F130 && point <= 0x1F149) ||
                      (point >= 0x1F150 && point <= 0x1F169) || (point >= 0x1F170 && point <= 0x1F189);
  return framed || has_category(point, bits);
}

bool is_chinese(uint32_t point) { return point >= 0x3400 && in_ranges(kChinese, point); }
bool is_bert_punctuation(uint32_t point) { return run_of(kBertPunctuation, point) != 0; }
bool is_bert_mark(uint32_t point) { return run_of(kBertMarks, point) != 0; }
bool is_accent(uint32_t point) { return run_of(kAccents, point) != 0; }
bool is_han(uint32_t point) { return in_ranges(kHan, point); }

uint32_t lower_case(uint32_t point) {
  if (point < 0x80) return point - 'A' < 26 ? point + 32 : point;
  size_t low = 0, high = std::size(kLower) / 2;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (kLower[2 * middle] < point) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < std::size(kLower) / 2 && kLower[2 * low] == point ? kLower[2 * low + 1] : point;
}

std::vector<uint32_t> case_variants(uint32_t point) {
  std::vector<uint32_t> found = {point};
  uint32_t lower = lower_case(point);
  if (point == 0x17F) lower = 's';  // the long s folds to s
  const auto add = [&found](uint32_t other) {
    if (std::find(found.begin(), found.end(), other) == found.end()) found.push_back(other);
  };
  add(lower);
  if (lower == 's') add(0x17F);
  for (size_t i = 0; i < std::size(kLower); i += 2) {
    if (kLower[i + 1] == lower) add(kLower[i]);
  }
  return found;
}

std::vector<uint32_t> normalize(const std::vector<uint32_t>& text, bool compatible, bool compose) {
  std::vector<uint32_t> points;
  points.reserve(text.size());
  for (const uint32_t point : text) decompose(point, compatible, &points);
  // Marks in the order of their classes, those of one class as they come.
  for (size_t i = 0; i < points.size();) {
    if (combining(points[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < points.size() && combining(points[end]) != 0) ++end;
    std::stable_sort(points.begin() + static_cast<ptrdiff_t>(i), points.begin() + static_cast<ptrdiff_t>(end),
                     [](uint32_t a, uint32_t b) { return combining(a) < combining(b); });
    i = end;
  }
  if (!compose) return points;
  std::vector<uint32_t> out;
  out.reserve(points.size());
  size_t starter = SIZE_MAX;
  uint32_t last = 0;  // class of the last mark since the starter that was kept
  for (const uint32_t point : points) {
    const uint32_t rank = combining(point);
    if (starter != SIZE_MAX) {
      const bool adjacent = out.size() == starter + 1;
      const uint32_t joined = adjacent || last < rank ? composed(out[starter], point) : 0;
      if (joined != 0) {
        out[starter] = joined;
        continue;
      }
    }
    if (rank == 0) {
      starter = out.size();
      last = 0;
    } else {
      last = rank;
    }
    out.push_back(point);
  }
  return out;
}

// --- text.h ---------------------------------------------------------------------------------------------------------

std::string repair_utf8(std::string_view text, bool* valid) {
  std::string out;
  out.reserve(text.size());
  if (valid != nullptr) *valid = true;
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    const uint32_t point = decode_utf8(text, at, &length);
    const bool wrong = point == kReplacement && (length != 3 || text.substr(at, 3) != "\xEF\xBF\xBD");
    if (wrong) {
      append_utf8(kReplacement, &out);
      if (valid != nullptr) *valid = false;
    } else {
      out.append(text, at, length);
    }
  }
  return out;
}

size_t incomplete_utf8(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const unsigned char byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    if (byte < 0xC2 || byte > 0xF4 || utf8_length(static_cast<char>(byte)) <= back) return 0;
    size_t length = 0;
    decode_utf8(text, text.size() - back, &length);
    return length == back ? back : 0;  // what is there so far is valid
  }
  return 0;
}

std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> points;
  points.reserve(text.size());
  for (size_t at = 0, length = 0; at < text.size(); at += length) points.push_back(decode_utf8(text, at, &length));
  return points;
}

std::string to_utf8(const std::vector<uint32_t>& points) {
  std::string text;
  text.reserve(points.size());
  for (const uint32_t point : points) append_utf8(point, &text);
  return text;
}

}  // namespace llm
}  // namespace etir
