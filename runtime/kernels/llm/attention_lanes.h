// What attention with AMX does on vectors of 512 bits while tiles are multiplied: scores become weights, and sums of
// blocks are added up. Each is a function to be called between products (multiply_parts() in bf16_parts.h), which does
// a part of it every time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/llm/bf16_parts.h"
#include "kernels/llm/powers.h"

#if ETIR_TILES

namespace etir::llm {

constexpr int kKeyBlock = 2 * kTileRows;  ///< keys at a time
constexpr int kStrip = 2 * kTileRows;     ///< queries at a time
static_assert(kKeyBlock == kTileDepth, "weights of a block are one step of the depth of the second product");

/// Scores of a strip, [16 queries][key][query], become the parts of weights, four keys of sixteen queries in a step:
/// two of each half of the block. The steps are shared out evenly to turns.
template <int kParts>
class WeightSteps {
 public:
  const float* scores = nullptr;
  uint16_t* to = nullptr;
  __m512i limit[2];    ///< keys of the block that a query may see
  bool masked = true;  ///< whether they are not all
  __m512 offset[2];    ///< what weights are relative to, times log2(e)
  __m512 sum[2][2];    ///< of the weights

  /// From now on `steps` are done in `count` turns.
  void share(int steps, int count) { share_ = steps, turns_ = count, due_ = 0; }
  int left() const { return kSteps - step_; }

  ETIR_PARTS void operator()() {
    due_ += share_;
    int now = 0;
    for (; due_ >= turns_; due_ -= turns_) ++now;
    masked ? go<true>(now) : go<false>(now);
  }
  ETIR_PARTS void finish() { masked ? go<true>(left()) : go<false>(left()); }

 private:
  static constexpr int kSteps = kKeyBlock / 2;

  template <bool kMasked>
  [[gnu::noinline]] ETIR_PARTS void go(int steps) {
    const int end = std::min(step_ + steps, kSteps);
    const __m512 log2e = _mm512_set1_ps(etir::detail::kLog2E);
    for (; step_ < end; ++step_) {
      const int tile = step_ * 2 / kTileRows, first = step_ * 2 % kTileRows;
      __m512 weight[4];
      __mmask16 seen[4];
      ETIR_UNROLL
      for (int k = 0; k < 4; ++k) {
        const int key = first + k / 2 + k % 2 * kTileRows;
        const float* const from = scores + (tile * kKeyBlock + key) * kTileRows;
        weight[k] = _mm512_fmsub_ps(_mm512_load_ps(from), log2e, offset[tile]);
        seen[k] = 0xffff;
        if constexpr (kMasked) seen[k] = _mm512_cmpgt_epi32_mask(limit[tile], _mm512_set1_epi32(key));
      }
      powers_of_two<(kParts == 1 ? 4 : 6)>(seen, weight);
      uint16_t* const parts = to + tile * Parts<kParts>::kPartsSize + first * kTileDepth;
      ETIR_UNROLL
      for (int k = 0; k < 2; ++k) {
        sum[tile][k] = _mm512_add_ps(sum[tile][k], _mm512_add_ps(weight[2 * k], weight[2 * k + 1]));
        split<kParts, false>(weight[2 * k], weight[2 * k + 1], parts + k * kTileDepth);
      }
    }
  }

  int step_ = 0, share_ = 0, turns_ = 1, due_ = 0;
};

/// Adds the sums of a block, four registers, to those of the blocks before, which are rescaled. A block is summed by
/// itself, since much is rounded off where small products are added to a large sum.
class BlockSums {
 public:
  BlockSums() = default;
  /// Two registers of sixteen queries each go to two of `left` and two of `right`. `factors` of the queries are for
  /// what is there; without them nothing is.
  BlockSums(const float* sums, float* left, float* right, const float* factors)
      : from_(sums), to_{left, right}, factors_(factors), done_(0) {}

  ETIR_PARTS void operator()() {
    if (done_ == kRegisters) return;
    float* const to = to_[done_ / 2] + done_ % 2 * kTileSums;
    const float* const from = from_ + done_ * kTileSums;
    if (factors_ == nullptr) {
      ETIR_UNROLL
      for (int i = 0; i < kTileSums; i += kTileRows) _mm512_store_ps(to + i, _mm512_load_ps(from + i));
    } else {
      const __m512 by = _mm512_loadu_ps(factors_ + done_ / 2 * kTileRows);
      ETIR_UNROLL
      for (int i = 0; i < kTileSums; i += kTileRows) {
        _mm512_store_ps(to + i, _mm512_fmadd_ps(_mm512_load_ps(to + i), by, _mm512_load_ps(from + i)));
      }
    }
    ++done_;
  }
  ETIR_PARTS void finish() {
    while (done_ < kRegisters) (*this)();
  }

 private:
  static constexpr int kRegisters = 4;

  const float* from_ = nullptr;
  float* to_[2] = {nullptr, nullptr};
  const float* factors_ = nullptr;
  int done_ = kRegisters;
};

}  // namespace etir::llm

#endif
