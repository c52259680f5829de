// How a row of float32 numbers becomes int8 where a product reads it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace etir::integer {

/// What a row is quantized with.
struct RowScale {
  float scale;
  int32_t zero_point;
};

/// Chooses scale and zero point of `n` numbers. A row with a number that is not finite has the scale NaN, so that its
/// results are NaN, as those of the separate operators are; other rows have their own.
inline RowScale choose_scale(const float* x, int64_t n) {
  // Several chains of comparisons.
  constexpr int kLanes = 16;
  float low[kLanes] = {}, high[kLanes] = {}, odd[kLanes] = {};  // odd: 0, or NaN where something is not finite
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) {
      odd[k] += x[i + k] * 0.0f;
      low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
      high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
    }
  }
  for (; i < n; ++i) {
    odd[0] += x[i] * 0.0f;
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = x[i] > high[0] ? x[i] : high[0];
  }
  float least = low[0], most = high[0];
  for (int k = 1; k < kLanes; ++k) {
    odd[0] += odd[k];
    least = low[k] < least ? low[k] : least;
    most = high[k] > most ? high[k] : most;
  }
  constexpr float kLow = -128, kHigh = 127, kEps = std::numeric_limits<float>::epsilon();
  float scale = (most - least) / (kHigh - kLow);
  scale = scale < kEps ? kEps : scale;
  const float down = least / scale, up = most / scale;
  // The end of the range whose rounding error is larger is kept exact.
  float point = (kLow + down) + (kHigh + up) > 0 ? kLow - down : kHigh - up;
  point = !(point > kLow) ? kLow : point < kHigh ? point : kHigh;
  const float zero = std::nearbyint(point);
  return {scale + odd[0], static_cast<int32_t>(zero)};
}

/// clamp(rint(x * inverse + zero)), half to even; NaN becomes the least number.
inline void quantize(const float* x, int64_t n, float inverse, float zero, int8_t* to) {
  constexpr float kLow = -128, kHigh = 127;
  // Adding 1.5 * 2^23 rounds a number of this size to an integer.
  constexpr float kShift = 12582912.0f;
  for (int64_t k = 0; k < n; ++k) {
    const float product = x[k] * inverse;
    float value = product + zero;
    value = value > kLow ? value : kLow;
    value = value < kHigh ? value : kHigh;
    const float shifted = value + kShift;
    to[k] = static_cast<int8_t>(static_cast<int32_t>(shifted - kShift));
  }
}

inline float inverse_of(const RowScale& row) { return static_cast<float>(1.0 / static_cast<double>(row.scale)); }

/// Quantizes `n` numbers with a scale and a zero point of their own.
inline RowScale quantize_row(const float* x, int64_t n, int8_t* to) {
  const RowScale row = choose_scale(x, n);
  quantize(x, n, inverse_of(row), static_cast<float>(row.zero_point), to);
  return row;
}

/// A scale for `n` numbers that is symmetric around 0: the largest magnitude is 127.5 steps, as torchao's SYMMETRIC
/// mapping of int8 has it. NaN where a number is not finite.
inline float choose_symmetric_scale(const float* x, int64_t n) {
  constexpr int kLanes = 16;
  float most[kLanes] = {}, odd[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) {
      const float magnitude = x[i + k] < 0 ? -x[i + k] : x[i + k];
      odd[k] += x[i + k] * 0.0f;
      most[k] = magnitude > most[k] ? magnitude : most[k];
    }
  }
  for (; i < n; ++i) {
    const float magnitude = x[i] < 0 ? -x[i] : x[i];
    odd[0] += x[i] * 0.0f;
    most[0] = magnitude > most[0] ? magnitude : most[0];
  }
  for (int k = 1; k < kLanes; ++k) {
    odd[0] += odd[k];
    most[0] = most[k] > most[0] ? most[k] : most[0];
  }
  constexpr float kEps = std::numeric_limits<float>::epsilon();
  float scale = most[0] / 127.5f;
  scale = scale < kEps ? kEps : scale;
  return scale + odd[0];
}

}  // namespace etir::integer
