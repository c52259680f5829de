#include "backends/native/blob_places.h"

#include <cstring>

namespace etir {
namespace native {

namespace {

constexpr uint64_t kHeader = 64, kTensor = 36, kWeight = 16, kConstant = 40, kVariant = 56, kDigest = 32;
constexpr uint32_t kMostRows = 256;
constexpr uint32_t kMostBytes = 16;  // of an image, a name or a key

class Walker {
 public:
  Walker(const uint8_t* file, uint64_t start, uint64_t size, std::vector<Place>& places)
      : file_(file), start_(start), size_(size), places_(places) {}

  void walk() {
    for (uint64_t at = 4; at < 40; at += 4) add(at, 4, at < 28 && at >= 8 ? PlaceKind::Count : PlaceKind::Number);
    const uint32_t tensors = number(8) + number(12), weights = number(16), variants = number(20),
                   constants = number(24);
    fallback();
    uint64_t at = kHeader;
    rows(at, tensors, kTensor, kTensor);
    // Of weights and constants, the first two numbers say where a text is; of variants, the image besides.
    texts(at, weights, kWeight, 1);
    rows(at, weights, kWeight, 12);
    texts(at, constants, kConstant, 1);
    rows(at, constants, kConstant, 36);
    texts(at, variants, kVariant, 2);
    for (uint32_t i = 0; i < variants && i < kMostRows; ++i) bytes(at + i * kVariant + 24, kDigest);
    rows(at, variants, kVariant, 20);
  }

 private:
  uint32_t number(uint64_t at) const { return at + 4 <= size_ ? flat::read<uint32_t>(file_ + start_ + at) : 0; }
  void add(uint64_t at, uint8_t width, PlaceKind kind = PlaceKind::Number) {
    if (at + width <= size_) places_.push_back({static_cast<uint32_t>(start_ + at), width, kind, flat::kNumTables});
  }
  void bytes(uint64_t at, uint64_t count) {
    for (uint64_t i = 0; i < count && i < kMostBytes; ++i) add(at + i, 1);
  }
  /// The program of the kernels: its first numbers, as those of a file that the executor reads.
  void fallback() {
    const uint64_t at = number(32), count = number(36);
    if (at > size_ || count > size_ - at) return;
    for (uint64_t i = 0; i + 4 <= count; i += 4) add(at + i, 4);
  }
  void texts(uint64_t at, uint32_t count, uint64_t row, uint32_t pairs) {
    for (uint32_t i = 0; i < count && i < kMostRows; ++i) {
      for (uint64_t pair = at + i * row; pair < at + i * row + 8u * pairs; pair += 8) {
        bytes(number(pair), number(pair + 4));
      }
    }
  }
  /// The numbers of rows, and where the next table begins.
  void rows(uint64_t& at, uint32_t count, uint64_t row, uint64_t used) {
    for (uint32_t i = 0; i < count && i < kMostRows; ++i) {
      for (uint64_t k = 0; k + 4 <= used; k += 4) add(at + i * row + k, 4);
    }
    at += row * count;
  }

  const uint8_t* file_;
  uint64_t start_, size_;
  std::vector<Place>& places_;
};

}  // namespace

void blob_places(const uint8_t* file, size_t size, std::vector<Place>& places) {
  for (uint64_t at = 0; at + kHeader <= size; at += 4) {
    if (std::memcmp(file + at, "ETNC", 4) == 0) Walker(file, at, size - at, places).walk();
  }
}

}  // namespace native
}  // namespace etir
