// Convolutions of int8 images with windows of 3 x 3 by minimal filtering, with AVX2, to the same bits as products of
// patches: F(2 x 2, 3 x 3) of A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
//
// A tile of 2 x 2 results takes 16 multiplications for each channel and column instead of 36. Without VNNI products of
// bytes are no faster than those of 16-bit numbers, and in 16 bits the transforms are exact: twice G makes them
// integers, inputs x + 128 become at most 1020 and weights 1152, and results are four times the sums, which wrap modulo
// 2^32 as long as they like on the way, since four times the true sum fits into 32 bits (kMostChannels).
//
// Tiles go by in blocks whose inputs are transformed once and stay in the second-level cache; the weights of each panel
// are transformed for each block, which is few operations beside its products. Scratch memory is temp(); if there is
// not enough, products of patches do it.
#pragma once

#include <atomic>

#include "kernels/integer/image.h"
#include "kernels/integer/operands.h"
#include "kernels/integer/tile_avx2.h"

#if ETIR_INT8_X86

namespace etir::integer {

namespace detail {

constexpr int kPoints = 16;             ///< of a tile of 4 x 4 inputs
constexpr int kPointTiles = 6;          ///< tiles whose sums are in registers
constexpr int kLineTiles = 16;          ///< tiles side by side whose results are stored at once
constexpr int64_t kLeastChannels = 32;  ///< with fewer, and fewer columns, transforms take what products save
constexpr int64_t kMostChannels = 512;  ///< 4 * 9 * 512 * 255 * 128 is less than 2^31; more do not stay in the cache
constexpr int64_t kLeastTiles = 12;     ///< with fewer, weights take longer than products
constexpr int64_t kPartChannels = 128;  ///< whose weights are transformed at once: those and their inputs are near
constexpr int64_t kApart = 32;  ///< numbers between points, which would fall on the same places of the cache without
constexpr int64_t kTransformedBytes = 256 * 1024;  ///< of inputs in a block

/// Where the tiles of an image are.
struct Tiles {
  const Window& window;
  const int8_t* input;
  const int8_t* padding;  ///< a pixel of it
  int64_t lines, columns;

  int64_t count() const { return window.batch * lines * columns; }

  /// The 16 pixels that tile number `tile` reads.
  void locate(int64_t tile, const int8_t** pixels) const {
    const int64_t line = tile / columns, image = line / lines;
    const int64_t y0 = (line - image * lines) * 2 - window.padding[0];
    const int64_t x0 = (tile - line * columns) * 2 - window.padding[1];
    for (int i = 0; i < 4; ++i) {
      const int64_t y = y0 + i;
      for (int j = 0; j < 4; ++j) {
        const int64_t x = x0 + j;
        const bool inside = y >= 0 && y < window.in[0] && x >= 0 && x < window.in[1];
        pixels[4 * i + j] =
            inside ? input + ((image * window.in[0] + y) * window.in[1] + x) * window.channels : padding;
      }
    }
  }
};

/// d0 - d2, d1 + d2, d2 - d1, d1 - d3
inline void transform_line(__m256i d0, __m256i d1, __m256i d2, __m256i d3, __m256i* to, int step) {
  to[0] = _mm256_sub_epi16(d0, d2);
  to[step] = _mm256_add_epi16(d1, d2);
  to[2 * step] = _mm256_sub_epi16(d2, d1);
  to[3 * step] = _mm256_sub_epi16(d1, d3);
}

/// The 16 points of a tile for all channels, a multiple of 16; points are `point` numbers apart.
inline void transform_inputs(const int8_t* const* pixels, int64_t channels, int16_t* to, int64_t point) {
  const __m128i sign = _mm_set1_epi8(static_cast<char>(0x80));
  for (int64_t c = 0; c < channels; c += 16) {
    const auto read = [&](int n) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels[n] + c));
      return _mm256_cvtepu8_epi16(_mm_xor_si128(bytes, sign));
    };
    __m256i lines[kPoints], points[kPoints];
    ETIR_UNROLL
    for (int i = 0; i < 4; ++i) {
      transform_line(read(4 * i), read(4 * i + 1), read(4 * i + 2), read(4 * i + 3), lines + 4 * i, 1);
    }
    ETIR_UNROLL
    for (int j = 0; j < 4; ++j) transform_line(lines[j], lines[4 + j], lines[8 + j], lines[12 + j], points + j, 4);
    ETIR_UNROLL
    for (int p = 0; p < kPoints; ++p) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + p * point + c), points[p]);
    }
  }
}

/// 2 g0, g0 + g1 + g2, g0 - g1 + g2, 2 g2
inline void transform_taps(__m256i g0, __m256i g1, __m256i g2, __m256i* to, int step) {
  const __m256i ends = _mm256_add_epi16(g0, g2);
  to[0] = _mm256_add_epi16(g0, g0);
  to[step] = _mm256_add_epi16(ends, g1);
  to[2 * step] = _mm256_sub_epi16(ends, g1);
  to[3 * step] = _mm256_add_epi16(g2, g2);
}

/// The points of four numbers of the depth of four columns, from nine taps `tap` bytes apart.
inline void transform_quad(const int8_t* w, int64_t tap, __m256i* points) {
  const auto read = [&](int t) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w + t * tap)));
  };
  __m256i lines[12];
  ETIR_UNROLL
  for (int j = 0; j < 3; ++j) transform_taps(read(j), read(3 + j), read(6 + j), lines + j, 3);
  ETIR_UNROLL
  for (int i = 0; i < 4; ++i) transform_taps(lines[3 * i], lines[3 * i + 1], lines[3 * i + 2], points + 4 * i, 1);
}

/// The points of some channels of a panel, [16][channels / 2][16][2], from taps `tap` bytes apart: columns in the order
/// 0, 1, 4, 5, 2, 3, 6, 7, as halves of vectors go by: results are put in order.
inline void transform_weights(const int8_t* panel, int64_t tap, int64_t channels, int16_t* to) {
  const int64_t point = channels * kPanel + kApart;
  for (int64_t q = 0; q < channels / kQuad; ++q) {
    for (int half = 0; half < 2; ++half) {
      const int8_t* w = panel + q * kPanelQuad + half * 32;
      __m256i left[kPoints], right[kPoints];
      transform_quad(w, tap, left);
      transform_quad(w + 16, tap, right);
      int16_t* at = to + q * 2 * kPanel * 2 + half * 16;
      for (int p = 0; p < kPoints; ++p, at += point) {
        const __m256 a = _mm256_castsi256_ps(left[p]), b = _mm256_castsi256_ps(right[p]);
        _mm256_storeu_ps(reinterpret_cast<float*>(at), _mm256_shuffle_ps(a, b, 0x88));
        _mm256_storeu_ps(reinterpret_cast<float*>(at + 2 * kPanel), _mm256_shuffle_ps(a, b, 0xdd));
      }
    }
  }
}

/// The products of one point: sums[t][c] is the sum over the channels of x[t] * w, plus what it was unless `is_first`,
/// of one to six tiles, whose inputs are `stride` numbers apart. Sums have names, since GCC keeps arrays of this size
/// in memory.
template <int kTiles>
[[gnu::noinline]] void multiply_point(const int16_t* x, int64_t stride, const int16_t* w, int64_t pairs, int32_t* sums,
                                      bool is_first) {
  __m256i a0 = _mm256_setzero_si256(), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0;
  __m256i d0 = a0, d1 = a0, e0 = a0, e1 = a0, f0 = a0, f1 = a0;
  if (!is_first) {
    const auto load = [&](int t, __m256i& sum0, __m256i& sum1) {
      const __m256i* from = reinterpret_cast<const __m256i*>(sums + t * kPanel);
      sum0 = _mm256_loadu_si256(from);
      sum1 = _mm256_loadu_si256(from + 1);
    };
    load(0, a0, a1);
    if (kTiles > 1) load(1, b0, b1);
    if (kTiles > 2) load(2, c0, c1);
    if (kTiles > 3) load(3, d0, d1);
    if (kTiles > 4) load(4, e0, e1);
    if (kTiles > 5) load(5, f0, f1);
  }
  for (int64_t i = 0; i < pairs; ++i, x += 2, w += 2 * kPanel) {
    const __m256i left = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i right = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 16));
    const auto add = [&](int t, __m256i& sum0, __m256i& sum1) {
      int two;
      std::memcpy(&two, x + t * stride, sizeof(two));
      const __m256i numbers = _mm256_set1_epi32(two);
      add_in_place(sum0, _mm256_madd_epi16(numbers, left));
      add_in_place(sum1, _mm256_madd_epi16(numbers, right));
    };
    add(0, a0, a1);
    if (kTiles > 1) add(1, b0, b1);
    if (kTiles > 2) add(2, c0, c1);
    if (kTiles > 3) add(3, d0, d1);
    if (kTiles > 4) add(4, e0, e1);
    if (kTiles > 5) add(5, f0, f1);
  }
  const auto store = [&](int t, __m256i sum0, __m256i sum1) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + t * kPanel), sum0);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + t * kPanel + 8), sum1);
  };
  store(0, a0, a1);
  if (kTiles > 1) store(1, b0, b1);
  if (kTiles > 2) store(2, c0, c1);
  if (kTiles > 3) store(3, d0, d1);
  if (kTiles > 4) store(4, e0, e1);
  if (kTiles > 5) store(5, f0, f1);
}

inline void multiply_points(const int16_t* x, int64_t stride, int tiles, const int16_t* w, int64_t pairs, int32_t* sums,
                            bool is_first) {
  switch (tiles) {
    case 1:
      return multiply_point<1>(x, stride, w, pairs, sums, is_first);
    case 2:
      return multiply_point<2>(x, stride, w, pairs, sums, is_first);
    case 3:
      return multiply_point<3>(x, stride, w, pairs, sums, is_first);
    case 4:
      return multiply_point<4>(x, stride, w, pairs, sums, is_first);
    case 5:
      return multiply_point<5>(x, stride, w, pairs, sums, is_first);
    default:
      return multiply_point<kPointTiles>(x, stride, w, pairs, sums, is_first);
  }
}

/// The four results of a tile for a panel: `upper` and `lower` are lines of pixels of 16 sums.
inline void transform_results(const int32_t* sums, int64_t point, int32_t* upper, int32_t* lower) {
  for (int half = 0; half < 2; ++half) {
    const auto read = [&](int p) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + p * point + half * 8));
    };
    __m256i first[4], second[4];
    ETIR_UNROLL
    for (int j = 0; j < 4; ++j) {
      const __m256i m1 = read(4 + j), m2 = read(8 + j);
      first[j] = _mm256_add_epi32(read(j), _mm256_add_epi32(m1, m2));
      second[j] = _mm256_sub_epi32(_mm256_sub_epi32(m1, m2), read(12 + j));
    }
    const auto store = [&](const __m256i* m, int32_t* to) {
      const __m256i a = _mm256_add_epi32(m[0], _mm256_add_epi32(m[1], m[2]));
      const __m256i b = _mm256_sub_epi32(_mm256_sub_epi32(m[1], m[2]), m[3]);
      const auto put = [](int32_t* at, __m256i value) {
        const __m256i ordered = _mm256_permute4x64_epi64(_mm256_srai_epi32(value, 2), 0xd8);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), ordered);
      };
      put(to + half * 8, a);
      put(to + kPanel + half * 8, b);
    };
    store(first, upper);
    store(second, lower);
  }
}

/// Stores the results of tiles [begin, end) for a panel.
template <typename Store>
void store_tiles(const Tiles& tiles, int64_t begin, int64_t end, const int32_t* sums, int64_t column, int columns,
                 const Store& store) {
  const Window& w = tiles.window;
  const int64_t point = (end - begin) * kPanel;
  alignas(32) int32_t upper[2 * kLineTiles * kPanel], lower[2 * kLineTiles * kPanel];
  for (int64_t tile = begin, some; tile < end; tile += some) {
    const int64_t line = tile / tiles.columns, first = tile - line * tiles.columns;
    some = std::min(std::min<int64_t>(kLineTiles, end - tile), tiles.columns - first);
    for (int64_t t = 0; t < some; ++t) {
      transform_results(sums + (tile - begin + t) * kPanel, point, upper + t * 2 * kPanel, lower + t * 2 * kPanel);
    }
    const int64_t image = line / tiles.lines, y = (line - image * tiles.lines) * 2;
    const int64_t row = (image * w.out[0] + y) * w.out[1] + first * 2;
    const int rows = static_cast<int>(std::min(2 * some, w.out[1] - first * 2));
    store(Block{row, column, rows, columns, upper, kPanel});
    if (y + 1 < w.out[0]) store(Block{row + w.out[1], column, rows, columns, lower, kPanel});
  }
}

}  // namespace detail

/// The convolution of an image whose pixels have all channels of the group, if it is one that this is made for and
/// there is memory; see multiply() for `store`.
template <typename Store>
bool multiply_winograd(KernelContext& ctx, const Window& w, const int8_t* input, int8_t padding, const Weights& weights,
                       const Store& store) {
  const int64_t channels = w.channels, panels = weights.panels();
  for (int d = 0; d < 2; ++d) {
    if (w.kernel[d] != 3 || w.stride[d] != 1 || w.dilation[d] != 1) return false;
  }
  if (channels < detail::kLeastChannels || channels > detail::kMostChannels || channels % 16 != 0) return false;
  if (weights.columns < detail::kLeastChannels) return false;
  int8_t pixel[detail::kMostChannels];
  std::memset(pixel, padding, sizeof(pixel));
  const detail::Tiles tiles = {w, input, pixel, (w.out[0] + 1) / 2, (w.out[1] + 1) / 2};
  // Of the four results of a tile at the edge nobody may want two or three: a third of all at most.
  if (tiles.count() < detail::kLeastTiles || tiles.count() * 3 > w.positions()) return false;

  const int64_t inputs = channels * detail::kPoints,
                most = detail::kTransformedBytes / (inputs * int64_t{sizeof(int16_t)});
  const int64_t blocks = (tiles.count() + most - 1) / most, block = (tiles.count() + blocks - 1) / blocks;
  const int64_t workers = ctx.parallel.run == nullptr ? 1 : std::max(1, ctx.parallel.threads);
  const int64_t parts = workers == 1 ? 1 : std::min(panels, (2 * workers + blocks - 1) / blocks);
  const int64_t panel_inputs = std::min(channels, detail::kPartChannels) * detail::kPoints * kPanel,
                sums = block * detail::kPoints * kPanel;
  const int64_t apart = 2 * detail::kPoints * detail::kApart;
  const int64_t bytes =
      (block * inputs + panel_inputs + apart) * int64_t{sizeof(int16_t)} + sums * int64_t{sizeof(int32_t)};
  const Arena& arena = ctx.temp_memory();
  constexpr size_t kAlignment = 64;
  if (arena.size - arena.used < static_cast<size_t>(workers * bytes) + kAlignment) return false;
  char* const scratch = static_cast<char*>(ctx.temp(static_cast<size_t>(workers * bytes), kAlignment));
  if (scratch == nullptr) return false;

  const auto run = [&](int64_t task, char* memory) {
    int16_t* const transformed = reinterpret_cast<int16_t*>(memory);
    int16_t* const panel_weights = transformed + block * inputs + detail::kPoints * detail::kApart;
    int32_t* const points = reinterpret_cast<int32_t*>(panel_weights + panel_inputs + detail::kPoints * detail::kApart);
    const int64_t begin = task / parts * block, end = std::min(tiles.count(), begin + block), some = end - begin;
    const int64_t part = task % parts, panel_begin = panels * part / parts, panel_end = panels * (part + 1) / parts;
    for (int64_t t = 0; t < some; ++t) {
      const int8_t* pixels[detail::kPoints];
      tiles.locate(begin + t, pixels);
      detail::transform_inputs(pixels, channels, transformed + t * channels, some * channels + detail::kApart);
    }
    for (int64_t p = panel_begin; p < panel_end; ++p) {
      const int8_t* const panel = weights.data + p * weights.panel_bytes();
      for (int64_t c = 0; c < channels; c += detail::kPartChannels) {
        const int64_t part_channels = std::min(detail::kPartChannels, channels - c);
        detail::transform_weights(panel + c * kPanel, channels * kPanel, part_channels, panel_weights);
        for (int64_t i = 0; i < detail::kPoints; ++i) {
          const int16_t* const w = panel_weights + i * (part_channels * kPanel + detail::kApart);
          for (int64_t t = 0; t < some; t += detail::kPointTiles) {
            const int tiles_at_once = static_cast<int>(std::min<int64_t>(detail::kPointTiles, some - t));
            detail::multiply_points(transformed + i * (some * channels + detail::kApart) + t * channels + c, channels,
                                    tiles_at_once, w, part_channels / 2, points + (i * some + t) * kPanel, c == 0);
          }
        }
      }
      const int columns = static_cast<int>(std::min<int64_t>(kPanel, weights.columns - p * kPanel));
      detail::store_tiles(tiles, begin, end, points, p * kPanel, columns, store);
    }
  };
  // A worker takes the next task as long as there is one: memory is for each worker, not for each task.
  std::atomic<int64_t> next{0};
  ctx.parallel_for(workers, 1, [&](int64_t first, int64_t last) {
    for (int64_t worker = first; worker < last; ++worker) {
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < blocks * parts;) {
        run(task, scratch + worker * bytes);
      }
    }
  });
  return true;
}

}  // namespace etir::integer

#endif
