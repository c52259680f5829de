// What tokenizers ask of Unicode: categories, case, normal forms. The tables are those of Unicode 16
// (generate_unicode.py); characters that are newer are unassigned.
#pragma once

#include <cstdint>
#include <vector>

namespace etir {
namespace llm {

/// General categories, in the order of generate_unicode.py.
enum class Category : uint8_t {
  Cn,
  Cc,
  Cf,
  Co,
  Cs,
  Ll,
  Lm,
  Lo,
  Lt,
  Lu,
  Mc,
  Me,
  Mn,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Pe,
  Pf,
  Pi,
  Po,
  Ps,
  Sc,
  Sk,
  Sm,
  So,
  Zl,
  Zp,
  Zs
};

constexpr uint32_t category_bit(Category category) { return 1u << static_cast<int>(category); }
/// The bits of the categories from `first` to `last` in the order of the list.
constexpr uint32_t category_bits(Category first, Category last) {
  return (2u << static_cast<int>(last)) - category_bit(first);
}
constexpr uint32_t kLetters = category_bits(Category::Ll, Category::Lu);
constexpr uint32_t kMarks = category_bits(Category::Mc, Category::Mn);
constexpr uint32_t kNumbers = category_bits(Category::Nd, Category::No);
constexpr uint32_t kPunctuation = category_bits(Category::Pc, Category::Ps);
constexpr uint32_t kSymbols = category_bits(Category::Sc, Category::So);
constexpr uint32_t kSeparators = category_bits(Category::Zl, Category::Zs);
constexpr uint32_t kOthers = category_bits(Category::Cn, Category::Cs);

Category category_of(uint32_t point);
inline bool has_category(uint32_t point, uint32_t bits) { return (category_bit(category_of(point)) & bits) != 0; }
/// The property White_Space.
bool is_space(uint32_t point);
/// \w of Oniguruma: letters, marks, decimal digits, connectors.
bool is_word(uint32_t point);
/// Ideographs of the blocks that BERT puts spaces around.
bool is_chinese(uint32_t point);
/// What the parts of BERT and StripAccents take for punctuation and for marks: that of an older Unicode.
bool is_bert_punctuation(uint32_t point);
bool is_bert_mark(uint32_t point);
bool is_accent(uint32_t point);
/// The script Han.
bool is_han(uint32_t point);
/// Lower case, or the code point itself. U+0130, whose lower case is two, is the caller's.
uint32_t lower_case(uint32_t point);
/// All code points that are equal to this one but for case, itself first.
std::vector<uint32_t> case_variants(uint32_t point);

/// NFC, NFD, NFKC, NFKD (UAX 15).
std::vector<uint32_t> normalize(const std::vector<uint32_t>& text, bool compatible, bool compose);

}  // namespace llm
}  // namespace etir
