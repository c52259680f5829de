// The sum of products of two vectors.
#pragma once

#include <cstdint>

namespace etir::llm {

inline float dot(const float* __restrict a, const float* __restrict b, int64_t n) {
  // Two registers of eight: one alone would wait for itself.
  constexpr int kLanes = 16, kHalf = 8;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  for (int k = 0; k < kHalf; ++k) sums[k] += sums[k + kHalf];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

}  // namespace etir::llm
