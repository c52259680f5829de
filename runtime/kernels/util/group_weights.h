// Weights of 4 or 8 bits in groups, as the kernels for groupwise products and lookups read them from the file.
//
// A weight is number * scale + minimum, where the numbers are unsigned, and scale and minimum those of a group of the
// row; without minimums it is (number - 8) * scale with 4 bits and (number - 128) * scale with 8. Sixteen rows make a
// panel, the last one filled up with zeros, and four numbers of each lie together, so that one load feeds sixteen sums
// and none of them has to be added up across a register:
//
//   4 bits   [panel][eight of the depth][16 rows][4]   the first four in the lower halves, the next in the upper ones
//   8 bits   [panel][four of the depth][16 rows][4]
//   scales   [panel][group][16 rows]                   float32, float16 or bfloat16; minimums the same
//
// The depth is a multiple of kChunk, and so is a group; a row that is one group may end before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/half.h"
#include "kernels/util/checks.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace etir::groups {

constexpr int kLanes = 16;  ///< rows of a panel
constexpr int kFour = 4;    ///< numbers of the depth that lie together
constexpr int kChunk = 32;  ///< numbers that a depth is a multiple of
constexpr int64_t kMostDepth = 65536;
constexpr int64_t kPrefetchBytes = 4096;  ///< how far ahead of a row's product its weights are asked for

template <int kBits>
constexpr int kZero = kBits == 4 ? 8 : 128;  ///< the number that stands for 0 where there are no minimums
template <int kBits>
constexpr int kChunkBytes = kChunk * kLanes * kBits / 8;  ///< of a panel

/// Weights `[rows, depth]`; `depth` is that of the packed numbers.
struct Weights {
  const uint8_t* data;
  const Tensor* scales;
  const Tensor* minimums;  ///< null: none
  int64_t rows, depth, groups;

  int64_t panels() const { return (rows + kLanes - 1) / kLanes; }
  int64_t group() const { return depth / groups; }
  template <int kBits>
  const uint8_t* panel(int64_t index) const {
    return data + index * (depth / kChunk) * kChunkBytes<kBits>;
  }
};

/// Asks for the weights that one row needs soon. A processor fetches ahead by itself up to the end of a page, and sees
/// no further than the numbers that it is multiplying.
inline void prefetch_weights(const uint8_t* at) {
#if defined(__GNUC__)
  __builtin_prefetch(at + kPrefetchBytes);
#else
  (void)at;
#endif
}

/// Asks for `bytes` from `at` on, which may be more than there are: for the first level of the cache (kLocality 3), or
/// for the second (2), which waits for more lines at once.
template <int kLocality = 3>
inline void prefetch(const void* at, int64_t bytes) {
#if defined(__GNUC__)
  constexpr int64_t kLine = 64;
  for (int64_t i = 0; i < bytes; i += kLine) {
    __builtin_prefetch(static_cast<const uint8_t*>(at) + i, 0, kLocality);
  }
#else
  (void)at, (void)bytes;
#endif
}

/// Asks for the scales and minimums of a panel.
template <int kLocality = 3>
inline void prefetch_factors(const Weights& weights, int64_t panel) {
  for (const Tensor* tensor : {weights.scales, weights.minimums}) {
    if (tensor == nullptr) continue;
    const int64_t bytes = weights.groups * kLanes * static_cast<int64_t>(element_size(tensor->dtype));
    prefetch<kLocality>(tensor->ptr<uint8_t>() + panel * bytes, bytes);
  }
}

/// Asks for what a product of one row reads before it is `bytes` ahead of itself, of the panels from `panel` on.
template <int kBits, int kLocality = 3>
void prefetch_panel(const Weights& weights, int64_t panel, int64_t bytes = kPrefetchBytes) {
  prefetch<kLocality>(weights.panel<kBits>(panel), bytes);
  prefetch_factors<kLocality>(weights, panel);
}

/// Items of a panel's scales or minimums as float32.
inline void read_factors(const Tensor& tensor, int64_t first, int count, float* to) {
  if (tensor.dtype == ScalarType::Half) {
    const Half* from = tensor.ptr<Half>() + first;
#if defined(__F16C__)
    // Compilers convert one at a time.
    for (; count >= 8; count -= 8, from += 8, to += 8) {
      _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
    }
#endif
    for (int i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
  } else if (tensor.dtype == ScalarType::BFloat16) {
    const BFloat16* from = tensor.ptr<BFloat16>() + first;
    for (int i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
  } else {
    std::memcpy(to, tensor.ptr<float>() + first, static_cast<size_t>(count) * sizeof(float));
  }
}

/// Whether elements of a tensor lie in row-major order and have data; records the failure.
inline bool check_rows(KernelContext& ctx, const Tensor& tensor) {
  if (tensor.numel() != 0 && !tensor.is_row_major()) return ctx.fail(Check::KernelDimOrder, tensor), false;
  return has_data(ctx, tensor);
}

inline bool check_factors(KernelContext& ctx, const Tensor& tensor, int64_t panels, int64_t groups) {
  if (tensor.dtype != ScalarType::Float && tensor.dtype != ScalarType::Half && tensor.dtype != ScalarType::BFloat16) {
    return ctx.fail(Check::KernelDtype, tensor, static_cast<int64_t>(tensor.dtype)), false;
  }
  if (tensor.rank != 3) return ctx.fail(Check::KernelRank, tensor, tensor.rank), false;
  if (tensor.sizes[0] != panels) return ctx.fail(Check::KernelShape, tensor, tensor.sizes[0]), false;
  if (groups > 0 && tensor.sizes[1] != groups) return ctx.fail(Check::KernelShape, tensor, tensor.sizes[1]), false;
  if (tensor.sizes[2] != kLanes) return ctx.fail(Check::KernelShape, tensor, tensor.sizes[2]), false;
  return check_rows(ctx, tensor);
}

/// Checks packed weights of `rows` rows (argument `position`) of `depth` numbers; records the failure.
template <int kBits>
bool read_weights(KernelContext& ctx, const Tensor& weight, const Tensor& scales, const Tensor* minimums, int64_t rows,
                  int position, int64_t depth, Weights* out) {
  if (weight.dtype != ScalarType::Byte) {
    return ctx.fail(Check::KernelDtype, weight, static_cast<int64_t>(weight.dtype)), false;
  }
  if (weight.rank != 3) return ctx.fail(Check::KernelRank, weight, weight.rank), false;
  if (rows < 0 || rows > INT32_MAX - kLanes) return ctx.fail(Check::KernelArgument, position, rows), false;
  *out = {weight.ptr<uint8_t>(), &scales, minimums, rows, weight.sizes[1] * (kBits == 4 ? 8 : 4), 0};
  if (weight.sizes[0] != out->panels() || weight.sizes[2] != kLanes * kFour || !check_rows(ctx, weight)) {
    return ctx.fail(Check::KernelShape, weight, weight.sizes[0]), false;
  }
  if (!check_factors(ctx, scales, out->panels(), 0)) return false;
  out->groups = scales.sizes[1];
  const int64_t groups = out->groups;
  if (groups < 1 || out->depth % (groups * kChunk) != 0) return ctx.fail(Check::KernelShape, scales, groups), false;
  // Only a row that is one group may be shorter than what is stored, and by less than a chunk.
  const bool fits = groups == 1 ? depth <= out->depth && out->depth - depth < kChunk : depth == out->depth;
  if (!fits || out->depth > kMostDepth) return ctx.fail(Check::KernelShape, weight, weight.sizes[1]), false;
  return minimums == nullptr || check_factors(ctx, *minimums, out->panels(), groups);
}

}  // namespace etir::groups
