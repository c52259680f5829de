// Linear layers on integers with a scale for each group of the weight's rows: int4_group_dynamic_linear and
// int8_group_dynamic_linear. float32 in and out; the weight is packed (kernels/util/group_weights.h).
//
// The input becomes int8 here, in one of two ways. With `sums`, the sum of each row of the dequantized weight, a row of
// the input has one scale s and one zero point z, by the formula of choose_qparams_per_token_asymmetric:
//
//   y = (sum over groups of scale * float(sum of q * w) - z * sums) * s + bias
//
// Without, each group of a row has a scale of its own that is symmetric around 0 (quantize_block):
//
//   y = sum over groups of scale * s * float(sum of q * w) + bias
//
// Minimums add minimum * float(sum of q) in the first form, times s in the second, after the group's product.
#include "kernels/integer/group_linear.gen.h"
#include "kernels/integer/group_row.h"
#include "kernels/integer/group_row_vnni.h"
#include "kernels/integer/row_scale.h"

namespace etir {
namespace {

using namespace integer;

constexpr int kMostTile = 8;                ///< rows of a tile at most
constexpr int kBlockGroups = 32;            ///< groups whose scales are made float32 at once
constexpr int64_t kStripBytes = 128 << 10;  ///< of left numbers that are multiplied by a panel while it is near
constexpr int64_t kTaskBytes = 16 << 10;    ///< of weights that are worth a task of their own

/// Rows of a tile that the registers of a variant hold the sums of.
template <int kBits>
int tile_rows(GroupVariant variant) {
  if (variant == GroupVariant::Vnni) return kMostTile;
  return kBits == 8 && variant == GroupVariant::Avx2 ? 2 : 4;
}

/// The rows of the input as integers, tile by tile: `most` rows each, then halves of that, as the rows are left.
struct Left {
  int64_t rows, depth, groups;
  int most;
  bool by_row;
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
};

/// Quantizes rows [row, row + size), which are a tile. `zero` is what the weight's numbers have for 0.
void quantize_tile(const Left& left, const float* input, int64_t width, int64_t row, int size, int zero) {
  constexpr int64_t kPiece = 256;  // a multiple of a chunk
  const int64_t group = left.depth / left.groups;
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
        int8_t numbers[kPiece];
        const int64_t stored = std::min(kPiece, begin + group - k), count = std::min(stored, end - k);
        quantize(from + k, count, inverse, static_cast<float>(scale.zero_point), numbers);
        std::fill(numbers + count, numbers + stored, static_cast<int8_t>(0));
        for (int64_t i = 0; i < count; ++i) sum += numbers[i];
        int8_t* to = left.numbers + row * left.depth + (k * size) + r * kQuad;
        for (int64_t i = 0; i < stored; i += kQuad) std::memcpy(to + i * size, numbers + i, kQuad);
      }
      left.offsets[at] = -zero * sum;
      if (left.sums != nullptr) left.sums[at] = (left.by_row ? 1.0f : scale.scale) * static_cast<float>(sum);
    }
  }
}

template <int kBits>
struct GroupProduct {
  groups::Weights weights;
  Left left;
  const float* row_sums;  ///< of the weight; null: by group
  const float* bias;      ///< null: none
  float* out;
  GroupVariant variant;

  /// A tile of `size` rows from `row` on, from a group on.
  GroupRows rows_from(int64_t row, int size, int64_t group) const {
    const int64_t at = row * left.groups + group * size;
    return {left.numbers + row * left.depth + group * weights.group() * size, left.offsets + at,
            left.sums == nullptr ? nullptr : left.sums + at, left.scales == nullptr ? nullptr : left.scales + at};
  }

  /// A tile of `size` rows from `row` on times some groups of a panel, added to `acc`.
  void add(int64_t row, int size, int64_t group, const GroupPanel& panel, float* acc) const {
    const GroupRows x = rows_from(row, size, group);
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

  void store(int64_t row, int64_t column, const float* acc) const {
    const int count = static_cast<int>(std::min<int64_t>(kPanel, weights.rows - column));
    float* to = out + row * weights.rows + column;
    if (row_sums == nullptr) {
      for (int c = 0; c < count; ++c) to[c] = acc[c];
    } else {
      const float scale = left.row_scales[row].scale, zero = static_cast<float>(left.row_scales[row].zero_point);
      for (int c = 0; c < count; ++c) to[c] = (acc[c] - zero * row_sums[column + c]) * scale;
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
        for (int64_t row = strip; row < strip_end; ++row) store(row, p * kPanel, acc + (row - strip) * kPanel);
      }
    }
  }

#if ETIR_GROUP_ROW
  /// The one row there is times panels [first, last), kStreams at a time.
  template <int kStreams, typename Multiply>
  void multiply_streams(int64_t first, int64_t last, const Multiply& multiply) const {
    groups::for_streams<kBits, kStreams>(weights, first, last, [&](auto count, int64_t p, int64_t step) {
      constexpr int kCount = decltype(count)::value;
      groups::PackedPanel panels[kCount];
      groups::read_panels<kBits>(weights, p, step, panels);
      float acc[kCount * kPanel];
      multiply(rows_from(0, 1, 0), panels, weights.scales->dtype, left.groups, weights.group() / groups::kChunk, acc);
      for (int s = 0; s < kCount; ++s) store(0, (p + s * step) * kPanel, acc + s * kPanel);
    });
  }
#endif

  /// The one row there is times panels [first, last), which are asked for first.
  void multiply_one_row(int64_t first, int64_t last) const {
#if ETIR_GROUP_ROW
    if (kBits == 4 && groups::same_factors(weights)) {
#if ETIR_INT8_VNNI
      if (variant == GroupVariant::Vnni) {
        return multiply_streams<groups::kVnniStreams>(
            first, last,
            [](const auto& x, const auto& panels, ScalarType type, int64_t count, int64_t chunks, float* acc) {
              multiply_row_vnni(x, panels, type, count, chunks, acc);
            });
      }
#endif
      return multiply_streams<groups::kStreams>(
          first, last,
          [](const auto& x, const auto& panels, ScalarType type, int64_t count, int64_t chunks, float* acc) {
            multiply_row(x, panels, type, count, chunks, acc);
          });
    }
#endif
    groups::prefetch_panel<kBits>(weights, first);
    multiply(0, 1, first, last);
  }

  void run(KernelContext& ctx) const {
    const int64_t panels = weights.panels();
    const int64_t panel_bytes = std::max<int64_t>(1, left.depth * kPanel * kBits / 8);
    // Strips of rows that stay in the cache while all panels go by; for one row, the panels are shared out.
    const int64_t strip = std::max<int64_t>(64, kStripBytes / (left.depth + 1) / 64 * 64);
    const int64_t strips = (left.rows + strip - 1) / strip;
    // A part for each thread then: memory gives as much to each, and a stream that is begun anew waits for it.
    const int64_t share = (panels + ctx.parallel.threads - 1) / ctx.parallel.threads;
    const int64_t grain = left.rows >= 16 ? 1 : std::max(share, kTaskBytes / panel_bytes);
    for (int64_t s = 0; s < strips; ++s) {
      ctx.parallel_for(panels, grain, [&](int64_t first, int64_t last) {
        if (left.rows == 1) return multiply_one_row(first, last);
        multiply(s * strip, std::min(left.rows, (s + 1) * strip), first, last);
      });
    }
  }
};

template <int kBits>
void group_dynamic_linear(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& scales,
                          const Tensor* minimums, const Tensor* sums, const Tensor* bias, int64_t columns, int position,
                          Tensor& out) {
  for (const Tensor* tensor : {&input, static_cast<const Tensor*>(&out), sums, bias}) {
    if (tensor != nullptr && tensor->dtype != ScalarType::Float) {
      return ctx.fail(Check::KernelDtype, *tensor, static_cast<int64_t>(tensor->dtype));
    }
  }
  if (input.rank < 1) return ctx.fail(Check::KernelRank, input, input.rank);
  GroupProduct<kBits> product = {};
  const int64_t width = input.sizes[input.rank - 1];
  if (!groups::check_rows(ctx, input) ||
      !groups::read_weights<kBits>(ctx, weight, scales, minimums, columns, position, width, &product.weights)) {
    return;
  }
  for (const Tensor* tensor : {sums, bias}) {
    if (tensor == nullptr) continue;
    if (tensor->rank != 1) return ctx.fail(Check::KernelRank, *tensor, tensor->rank);
    if (tensor->sizes[0] != columns) return ctx.fail(Check::KernelShape, *tensor, tensor->sizes[0]);
    if (!groups::check_rows(ctx, *tensor)) return;
  }
  Left& left = product.left;
  int64_t sizes[kMaxRank];
  left.rows = 1;
  for (int d = 0; d + 1 < input.rank; ++d) left.rows *= sizes[d] = input.sizes[d];
  sizes[input.rank - 1] = columns;
  if (!ctx.resize(out, sizes, input.rank) || !groups::check_rows(ctx, out)) return;
  if (left.rows == 0 || columns == 0) return;
  product.variant = group_variant();
  left.depth = product.weights.depth, left.groups = product.weights.groups;
  left.most = tile_rows<kBits>(product.variant), left.by_row = sums != nullptr;
  const int64_t pairs = left.rows * left.groups;
  left.numbers = ctx.temp_array<int8_t>(left.rows * left.depth);
  left.offsets = ctx.temp_array<int32_t>(pairs);
  left.sums = minimums == nullptr ? nullptr : ctx.temp_array<float>(pairs);
  left.scales = left.by_row ? nullptr : ctx.temp_array<float>(pairs);
  left.row_scales = left.by_row ? ctx.temp_array<RowScale>(left.rows) : nullptr;
  if (ctx.failed()) return;
  // Memory is read while the numbers of the row are found.
  if (left.rows == 1) groups::prefetch_panel<kBits>(product.weights, 0);
  const int zero = minimums == nullptr ? groups::kZero<kBits> : 0;
  const int64_t tiles = (left.rows + left.most - 1) / left.most;
  ctx.parallel_for(tiles, 4096 / (left.depth + 1) + 1, [&](int64_t first, int64_t last) {
    const int64_t end = std::min(left.rows, last * left.most);
    for (int64_t row = first * left.most; row < end;) {
      const int size = left.tile(row);
      quantize_tile(left, input.ptr<float>(), width, row, size, zero);
      row += size;
    }
  });
  product.row_sums = sums == nullptr ? nullptr : sums->ptr<float>();
  product.bias = bias == nullptr ? nullptr : bias->ptr<float>();
  product.out = out.ptr<float>();
  product.run(ctx);
}

}  // namespace

void int4_group_dynamic_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& scales,
                                   const Tensor* minimums, const Tensor* sums, const Tensor* bias, int64_t columns,
                                   Tensor& out) {
  group_dynamic_linear<4>(ctx, input, weight, scales, minimums, sums, bias, columns,
                          arguments::int4_group_dynamic_linear_out::columns, out);
}

void int8_group_dynamic_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& scales,
                                   const Tensor* minimums, const Tensor* sums, const Tensor* bias, int64_t columns,
                                   Tensor& out) {
  group_dynamic_linear<8>(ctx, input, weight, scales, minimums, sums, bias, columns,
                          arguments::int8_group_dynamic_linear_out::columns, out);
}

}  // namespace etir
