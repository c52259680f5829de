// UTF-8: reading, writing, repair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace etir {
namespace llm {

constexpr uint32_t kReplacement = 0xFFFD;

/// The code point at `at` < size, and its bytes in `*length`. A byte that starts no valid character is U+FFFD; its
/// length is that of the maximal part of a character (as Unicode recommends and Rust and Python do), at least 1.
inline uint32_t decode_utf8(std::string_view text, size_t at, size_t* length) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const uint32_t first = byte(at);
  *length = 1;
  if (first < 0x80) return first;
  const size_t more = first >= 0xC2 && first < 0xE0   ? 1
                      : (first & 0xF0) == 0xE0        ? 2
                      : first >= 0xF0 && first < 0xF5 ? 3
                                                      : 0;
  if (more == 0) return kReplacement;
  uint32_t low = 0x80, high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  uint32_t point = first & (more == 1 ? 0x1F : more == 2 ? 0x0F : 0x07);
  for (size_t i = 1; i <= more; ++i) {
    const uint32_t next = byte(at + i);
    if (at + i >= text.size() || next < low || next > high) return kReplacement;
    point = point << 6 | (next & 0x3F);
    *length = i + 1;
    low = 0x80;
    high = 0xBF;
  }
  return point;
}

/// Bytes of the whole character that starts with this byte, by that byte alone.
inline size_t utf8_length(char first) {
  const unsigned char byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline void append_utf8(uint32_t point, std::string* text) {
  const auto put = [text](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | point >> 6);
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3F));
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

/// The position before the character that ends at `at` > 0 in valid text.
inline size_t previous_utf8(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

/// Text with U+FFFD for what is no UTF-8; `*valid` (optional) says whether there was any.
std::string repair_utf8(std::string_view text, bool* valid = nullptr);

/// How many bytes at the end may be the beginning of a character that is still to come: 0 to 3.
size_t incomplete_utf8(std::string_view text);

std::vector<uint32_t> code_points(std::string_view text);
std::string to_utf8(const std::vector<uint32_t>& points);

}  // namespace llm
}  // namespace etir
