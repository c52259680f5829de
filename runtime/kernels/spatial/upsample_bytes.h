// Resizing of 8-bit images as torch does it on x86-64: weights in fixed point, along rows first, with a rounded and
// saturated byte in between. Bit for bit the same results; no floating point inside the loops.
#pragma once

#include "kernels/spatial/upsample.h"

namespace etir::spatial {

/// Sums of bytes with integer weights that have `precision` bits after the binary point.
struct FixedPoint {
  int precision = 0;

  /// As many bits as signed 16-bit weights have room for when the largest is `most`.
  void set_precision(double most) {
    while (precision < 21 && 0.5 + most * static_cast<double>(1 << (precision + 1)) < 32768.0) ++precision;
  }
  int32_t fixed(double weight) const {
    // The bound only matters for scales that contradict the sizes.
    double scaled = weight * static_cast<double>(1 << precision);
    scaled = scaled > -32767.0 ? scaled : -32767.0;
    scaled = scaled < 32767.0 ? scaled : 32767.0;
    return static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  }
  /// sum + weight * byte; wraps around rather than overflow.
  static int32_t add(int32_t sum, int32_t weight, int32_t byte) {
    return static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(weight * byte));
  }
  /// What a sum begins with, so that finish() rounds.
  int32_t half() const { return precision > 0 ? 1 << (precision - 1) : 0; }
  int32_t finish(int32_t sum) const {
    if (sum < 0) return 0;
    const int32_t value = sum >> precision;
    return value < 255 ? value : 255;
  }
};

/// Neighbors along one axis, with integer weights.
struct ByteAxis : FixedPoint {
  const Axis<double>& axis;

  explicit ByteAxis(const Axis<double>& from) : axis(from) {
    double most = 0;
    for (int64_t o = 0; o < axis.out; ++o) {
      int64_t index[kMaxTaps];
      double weight[kMaxTaps];
      const int count = merged(o, index, weight);
      for (int t = 0; t < count; ++t) most = weight[t] > most ? weight[t] : most;
    }
    set_precision(most);
  }

  /// Neighbors with their weights, each once.
  int merged(int64_t o, int64_t* index, double* weight) const {
    if (axis.in == axis.out) {
      index[0] = o;
      weight[0] = 1;
      return 1;
    }
    const int count = axis.taps(o, index, weight);
    for (int t = 1; t < count; ++t) {
      for (int k = 0; k < t; ++k) {
        if (index[k] != index[t]) continue;
        weight[k] += weight[t];
        weight[t] = 0;
        break;
      }
    }
    return count;
  }
  int taps(int64_t o, int64_t* index, int32_t* fixed_weight) const {
    double weight[kMaxTaps];
    const int count = merged(o, index, weight);
    for (int t = 0; t < count; ++t) fixed_weight[t] = fixed(weight[t]);
    return count;
  }
};

/// Rows of results. Positions and weights along the row are computed once for kRows rows.
inline void upsample_bytes(KernelContext& ctx, const Axis<double>* axes, const Frame& in, const Frame& out,
                           const uint8_t* from, uint8_t* to) {
  const ByteAxis vertical(axes[1]), horizontal(axes[2]);
  const int64_t rows = out.numel() / out.size[kW];
  ctx.parallel_for(rows, max64(1, 2048 / out.size[kW]), [&](int64_t part, int64_t part_end) {
    for (int64_t begin = part; begin < part_end; begin += kRows) {
      const int64_t end = min64(part_end, begin + kRows);
      for (int64_t start = 0; start < out.size[kW]; start += kLanes) {
        const int64_t count = min64(kLanes, out.size[kW] - start);
        int64_t source[kMaxTaps][kLanes];
        int32_t weight[kMaxTaps][kLanes];
        int taps = 0;
        for (int64_t i = 0; i < count; ++i) {
          int64_t index[kMaxTaps];
          int32_t weights[kMaxTaps];
          taps = horizontal.taps(start + i, index, weights);
          for (int t = 0; t < taps; ++t) {
            source[t][i] = index[t] * in.stride[kW];
            weight[t][i] = weights[t];
          }
        }
        for (int64_t row = begin; row < end; ++row) {
          int64_t at[4], index[kMaxTaps];
          int32_t weights[kMaxTaps], sum[kLanes], line_sum[kLanes];
          unravel(row, out.size, 4, at);
          const int heights = vertical.taps(at[kH], index, weights);
          for (int64_t i = 0; i < count; ++i) sum[i] = vertical.half();
          for (int h = 0; h < heights; ++h) {
            const uint8_t* line = from + in.plane(at[kN], at[kC]) + index[h] * in.stride[kH];
            for (int64_t i = 0; i < count; ++i) line_sum[i] = horizontal.half();
            for (int t = 0; t < taps; ++t) {
              for (int64_t i = 0; i < count; ++i) line_sum[i] += weight[t][i] * line[single(source[t][i])];
            }
            for (int64_t i = 0; i < count; ++i) sum[i] += weights[h] * horizontal.finish(line_sum[i]);
          }
          uint8_t* result = to + out.plane(at[kN], at[kC]) + at[kH] * out.stride[kH] + start * out.stride[kW];
          for (int64_t i = 0; i < count; ++i) {
            result[i * out.stride[kW]] = static_cast<uint8_t>(vertical.finish(sum[i]));
          }
        }
      }
    }
  });
}

}  // namespace etir::spatial
