// Tiles of groupwise products: the variant that this processor runs against the portable one, to the bit. Prints the
// variant's number and how many sums differ.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/integer/group_tile.h"

using namespace etir::integer;

template <int kBits, int kRows>
int differing() {
  const int groups = 3, chunks = 2;
  std::vector<uint8_t> weight(groups * chunks * etir::groups::kChunkBytes<kBits>);
  std::vector<int8_t> numbers(groups * chunks * etir::groups::kChunk * kRows);
  std::vector<int32_t> offsets(groups * kRows);
  std::vector<float> sums(groups * kRows), row_scales(groups * kRows), scales(groups * 16), minimums(groups * 16);
  int count = 0;
  for (int round = 0; round < 20; ++round) {
    // Some rounds have the ends of the ranges, where sums are as large as they get.
    for (auto& v : weight) v = static_cast<uint8_t>(round % 3 != 0 ? std::rand() : 255);
    for (auto& v : numbers) v = static_cast<int8_t>(round % 2 != 0 ? std::rand() : -128);
    for (auto& v : offsets) v = std::rand() % 10000 - 5000;
    for (auto& v : sums) v = static_cast<float>(std::rand() % 100);
    for (auto& v : row_scales) v = static_cast<float>(std::rand() % 77) * 0.01f;
    for (auto& v : scales) v = static_cast<float>(std::rand() % 1000) * 1e-4f;
    for (auto& v : minimums) v = static_cast<float>(std::rand() % 1000) * 1e-3f;
    const GroupRows x = {numbers.data(), offsets.data(), sums.data(), round % 4 < 2 ? nullptr : row_scales.data()};
    const GroupPanel w = {weight.data(), scales.data(), round % 5 != 0 ? nullptr : minimums.data(), groups, chunks};
    std::vector<float> portable(kRows * 16, 0.5f), found(kRows * 16, 0.5f);
    add_groups<kBits, kRows>(x, w, portable.data());
    add_groups<kBits, kRows>(group_variant(), x, w, found.data());
    for (int i = 0; i < kRows * 16; ++i) count += portable[i] != found[i];
  }
  return count;
}

int main() {
  std::printf("%d %d\n", static_cast<int>(group_variant()),
              differing<4, 1>() + differing<4, 2>() + differing<4, 4>() + differing<8, 1>() + differing<8, 2>() +
                  differing<8, 4>());
}
