// Rows times weights in groups, as kernels call it: rows become integers, tile by tile, and are multiplied by one panel
// after the other with whatever the processor has.
#pragma once

#include <utility>

#include "kernels/integer/group_fixed_amx.h"
#include "kernels/integer/group_tile.h"
#include "kernels/integer/row_scale.h"
#include "kernels/util/tasks.h"

namespace etir::integer {

constexpr int kMostTile = 8;                ///< rows of a tile at most
constexpr int kBlockGroups = 32;            ///< groups whose scales are made float32 at once
constexpr int64_t kStripBytes = 128 << 10;  ///< of left numbers that are multiplied by a panel while it is near
constexpr int64_t kStripBytesAmx = 512 << 10;
constexpr int64_t kTaskBytes = 16 << 10;  ///< of weights that are worth a task of their own

/// Rows of a tile that the registers of a variant hold the sums of.
template <int kBits>
int tile_rows(GroupVariant variant) {
  if (variant == GroupVariant::Vnni) return kMostTile;
  return kBits == 8 && variant == GroupVariant::Avx2 ? 2 : 4;
}

/// The rows of the input as integers, tile by tile: `most` rows each, then halves of that, as the rows are left. With
/// AMX each row is one, and there are some more, of zeros, up to whole registers.
struct Left {
  int64_t rows, depth, groups;
  int64_t stride;  ///< bytes of a row: more than the depth with AMX
  int most;
  bool by_row, amx;
  bool fixed;            ///< weights are multiplied as fixed-point numbers
  int8_t* numbers;       ///< [tile][four of the depth][row of the tile][4]
  int32_t* offsets;      ///< [tile][group][row of the tile]
  float* sums;           ///< the same; null: no minimums
  float* scales;         ///< the same; null: by row
  RowScale* row_scales;  ///< null: by group

  /// Rows of the tile that begins with `row`: a power of two, which the later ones are less than or equal to.
  int tile(int64_t row) const {
    int size = most;
    while (size > rows - row) size /= 2;
    return size;
  }

  /// A tile of `size` rows from `row` on, from a group on.
  GroupRows rows_from(int64_t row, int size, int64_t group) const {
    const int64_t at = row * groups + group * size;
    return {numbers + row * depth + group * (depth / groups) * size, offsets + at,
            sums == nullptr ? nullptr : sums + at, scales == nullptr ? nullptr : scales + at};
  }
};

/// Quantizes a row that is a tile of its own and has one scale, all of whose groups are whole.
inline void quantize_whole_row(const Left& left, const float* from, int64_t row, int zero) {
  constexpr int64_t kSome = 64;  // chunks at a time
  const RowScale scale = left.row_scales[row] = choose_scale(from, left.depth);
  const float inverse = inverse_of(scale);
  const int64_t chunks = left.depth / groups::kChunk, of_group = chunks / left.groups;
  int32_t sums[kSome], sum = 0;
  for (int64_t first = 0, group = row * left.groups, left_of_group = of_group; first < chunks; first += kSome) {
    const int64_t count = std::min(kSome, chunks - first);
    quantize_chunks(from + first * groups::kChunk, count, inverse, static_cast<float>(scale.zero_point),
                    left.numbers + row * left.stride + first * groups::kChunk, sums);
    for (int64_t c = 0; c < count; ++c) {
      sum += sums[c];
      if (--left_of_group > 0) continue;
      left.offsets[group] = -zero * sum;
      if (left.sums != nullptr) left.sums[group] = static_cast<float>(sum);
      ++group, left_of_group = of_group, sum = 0;
    }
  }
}

/// Quantizes rows [row, row + size), which are a tile. `zero` is what the weight's numbers have for 0.
inline void quantize_tile(const Left& left, const float* input, int64_t width, int64_t row, int size, int zero) {
  constexpr int64_t kPiece = 256;  // a multiple of a chunk
  const int64_t group = left.depth / left.groups;
  if (size == 1 && left.by_row && width == left.depth && has_chunks()) {
    return quantize_whole_row(left, input + row * width, row, zero);
  }
  for (int r = 0; r < size; ++r) {
    const float* from = input + (row + r) * width;
    RowScale scale = {};
    if (left.by_row) scale = left.row_scales[row + r] = choose_scale(from, width);
    for (int64_t g = 0; g < left.groups; ++g) {
      const int64_t begin = g * group, end = std::min(width, begin + group), at = row * left.groups + g * size + r;
      if (!left.by_row) left.scales[at] = scale.scale = choose_symmetric_scale(from + begin, end - begin);
      const float inverse = left.by_row ? inverse_of(scale) : 1.0f / scale.scale;
      int32_t sum = 0;
      for (int64_t k = begin; k < begin + group; k += kPiece) {
        const int64_t stored = std::min(kPiece, begin + group - k), count = std::min(stored, end - k);
        int8_t* to = left.numbers + row * left.stride + (k * size) + r * kQuad;
        int8_t buffer[kPiece];
        int8_t* numbers = size == 1 ? to : buffer;  // a row alone lies in one piece
        sum += quantize_and_sum(from + k, count, inverse, static_cast<float>(scale.zero_point), numbers);
        std::fill(numbers + count, numbers + stored, static_cast<int8_t>(0));
        if (size == 1) continue;
        for (int64_t i = 0; i < stored; i += kQuad) std::memcpy(to + i * size, numbers + i, kQuad);
      }
      left.offsets[at] = -zero * sum;
      if (left.sums != nullptr) left.sums[at] = (left.by_row ? 1.0f : scale.scale) * static_cast<float>(sum);
    }
  }
}

/// Panels of a part: one part for each thread, since memory gives as much to each, and a stream that is begun anew
/// waits for it.
inline int64_t grain_of(const KernelContext& ctx, int64_t panels, int64_t panel_bytes) {
  const int64_t share = (panels + ctx.parallel.threads - 1) / ctx.parallel.threads;
  return std::max(share, kTaskBytes / panel_bytes);
}

template <int kBits>
struct GroupProduct {
  groups::Weights weights;
  Left left;
  const float* row_sums;  ///< of the weight; null: by group
  const float* bias;      ///< null: none
  float* out;             ///< of row `first_row` and of column `first_column`
  int64_t row_size;       ///< elements from a row of `out` to the next
  GroupVariant variant;
  int64_t first_row = 0, first_column = 0;

  /// Where the results of a row from a column on go.
  float* place(int64_t row, int64_t column) const {
    return out + (row - first_row) * row_size + (column - first_column);
  }

  /// A tile of `size` rows from `row` on times some groups of a panel, added to `acc`.
  void add(int64_t row, int size, int64_t group, const GroupPanel& panel, float* acc) const {
    const GroupRows x = left.rows_from(row, size, group);
    switch (size) {
      case 8:
        return add_groups<kBits, 8>(variant, x, panel, acc);
      case 4:
        return add_groups<kBits, 4>(variant, x, panel, acc);
      case 2:
        return add_groups<kBits, 2>(variant, x, panel, acc);
      default:
        return add_groups<kBits, 1>(variant, x, panel, acc);
    }
  }

  /// Sums of a row, which `of` has, and of a panel become results.
  void store(const Left& of, int64_t row, int64_t column, const float* acc) const {
    const int count = static_cast<int>(std::min<int64_t>(kPanel, weights.rows - column));
    // The number of columns that nearly all panels have as a constant: no loop is left.
    count == kPanel ? store(of, row, column, acc, std::integral_constant<int, kPanel>())
                    : store(of, row, column, acc, count);
  }

  template <typename Count>
  void store(const Left& of, int64_t row, int64_t column, const float* acc, Count count) const {
    float* __restrict to = place(row, column);
    if (row_sums == nullptr) {
      for (int c = 0; c < count; ++c) to[c] = acc[c];
    } else {
      const float scale = of.row_scales[row].scale, zero = static_cast<float>(of.row_scales[row].zero_point);
      const float* of_weight = row_sums + column;
      for (int c = 0; c < count; ++c) to[c] = (acc[c] - zero * of_weight[c]) * scale;
    }
    if (bias == nullptr) return;
    for (int c = 0; c < count; ++c) to[c] += bias[column + c];
  }

  /// Rows [begin, end), which begin with a tile, times panels [first, last).
  void multiply(int64_t begin, int64_t end, int64_t first, int64_t last) const {
    constexpr int kSums = 64;  // rows whose sums are kept while the groups of a panel go by
    float scales[kBlockGroups * kPanel], minimums[kBlockGroups * kPanel];
    float acc[kSums * kPanel];
    for (int64_t p = first; p < last; ++p) {
      if (end - begin == 1 && p + 1 < last) groups::prefetch_factors(weights, p + 1);
      for (int64_t strip = begin; strip < end; strip += kSums) {
        const int64_t strip_end = std::min(end, strip + kSums);
        std::fill(acc, acc + (strip_end - strip) * kPanel, 0.0f);
        for (int64_t g = 0; g < left.groups; g += kBlockGroups) {
          const int some = static_cast<int>(std::min<int64_t>(kBlockGroups, left.groups - g));
          const int64_t at = (p * left.groups + g) * kPanel;
          groups::read_factors(*weights.scales, at, some * kPanel, scales);
          if (weights.minimums != nullptr) groups::read_factors(*weights.minimums, at, some * kPanel, minimums);
          const int64_t chunks = weights.group() / groups::kChunk;
          const GroupPanel panel = {weights.panel<kBits>(p) + g * chunks * groups::kChunkBytes<kBits>, scales,
                                    weights.minimums == nullptr ? nullptr : minimums, some, chunks};
          for (int64_t row = strip; row < strip_end;) {
            const int size = left.tile(row);
            add(row, size, g, panel, acc + (row - strip) * kPanel);
            row += size;
          }
        }
        for (int64_t row = strip; row < strip_end; ++row) store(left, row, p * kPanel, acc + (row - strip) * kPanel);
      }
    }
  }

#if ETIR_INT8_AMX
  /// Rows [begin, end) of fixed-point products.
  FixedRowsAmx fixed_rows(int64_t begin, int64_t end) const {
    return {left.numbers + begin * left.stride,
            left.stride,
            end - begin,
            left.row_scales + begin,
            row_sums,
            bias,
            row_size};
  }

  /// Rows [begin, end) times the panels that `next` gives, -1 after the last, with AMX.
  template <typename Next>
  void multiply_amx(int64_t begin, int64_t end, const Next& next) const {
    if (!left.fixed) {
      const TileRegisters registers(tile_depth_amx(weights.group()) / kQuad);
      for (int64_t p = next(); p >= 0; p = next()) multiply_panel(begin, end, p);
      return;
    }
    const FixedRowsAmx rows = fixed_rows(begin, end);
    const auto job = [&](int64_t p) { return FixedJob{&rows, &weights, p, place(begin, p * kPanel)}; };
    for (;;) {
      int64_t failed;
      {
        const TileRegisters registers;
        failed = multiply_fixed_amx(next, job, [](int64_t) {});
      }
      if (failed < 0) return;
      const TileRegisters registers(tile_depth_amx(weights.group()) / kQuad);
      multiply_panel(begin, end, failed);
    }
  }

  /// Rows [begin, end) times a panel with AMX, group by group.
  void multiply_panel(int64_t begin, int64_t end, int64_t panel) const {
    alignas(64) float acc[kStripRowsAmx * kPanel];
    alignas(64) int32_t sums[kStripRowsAmx * kPanel];
    for (int64_t strip = begin; strip < end; strip += kStripRowsAmx) {
      const int64_t rows = std::min<int64_t>(end - strip, kStripRowsAmx), at = strip * left.groups;
      const int64_t whole = whole_registers_amx(rows);
      const GroupTileAmx x = {left.numbers + strip * left.stride, left.stride,
                              left.sums == nullptr ? nullptr : left.sums + at,
                              left.scales == nullptr ? nullptr : left.scales + at, left.groups};
      multiply_panel_amx<kBits>(x, whole, weights, panel, sums, acc);
      for (int64_t r = 0; r < rows; ++r) store(left, strip + r, panel * kPanel, acc + r * kPanel);
    }
  }
#endif

  /// The one row there is, `row`, times panels [first, last).
  void multiply_alone(const Left& row, int64_t first, int64_t last) const {
    groups::prefetch_panel<kBits>(weights, first);
    GroupProduct product = *this;
    product.left = row;
    product.multiply(0, 1, first, last);
  }

  /// Asks for what store() reads of a panel's columns.
  void prefetch_columns(int64_t panel) const {
    if (row_sums != nullptr) groups::prefetch(row_sums + panel * kPanel, sizeof(float) * kPanel);
    if (bias != nullptr) groups::prefetch(bias + panel * kPanel, sizeof(float) * kPanel);
  }

  int64_t panel_bytes() const { return std::max<int64_t>(1, left.depth * kPanel * kBits / 8); }

  /// Rows [begin, end), which begin with a tile, times a panel, with whatever the processor has.
  void multiply_rows(int64_t begin, int64_t end, int64_t panel) const {
#if ETIR_INT8_AMX
    if (left.amx) {
      int64_t next = panel;
      return multiply_amx(begin, end, [&] { return std::exchange(next, -1); });
    }
#endif
    multiply(begin, end, panel, panel + 1);
  }

  /// The product of more than one row.
  void run(KernelContext& ctx) const {
    const int64_t panels = weights.panels();
    // Strips of rows that stay in the cache while all panels go by.
    const int64_t bytes = left.amx ? kStripBytesAmx : kStripBytes, least = left.amx ? 128 : 64;
    const int64_t strip = std::max<int64_t>(least, bytes / (left.depth + 1) / least * least);
    const int64_t grain = left.rows >= 16 ? 1 : grain_of(ctx, panels, panel_bytes());
    for (int64_t begin = 0; begin < left.rows; begin += strip) {
      const int64_t end = std::min(left.rows, begin + strip);
#if ETIR_INT8_AMX
      if (left.amx) {
        Tasks tasks(panels);
        for_each_thread(ctx, [&] { multiply_amx(begin, end, [&] { return tasks.take(); }); });
        continue;
      }
#endif
      ctx.parallel_for(panels, grain, [&](int64_t first, int64_t last) { multiply(begin, end, first, last); });
    }
  }
};

}  // namespace etir::integer
