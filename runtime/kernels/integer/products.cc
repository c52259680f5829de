// Products of int8 matrices that are both computed, batch by batch:
//
//   y = clamp(rint(float(sum_k (a[k] - a_zero_point) (b[k] - b_zero_point)) * factor) + zero_point, low, high)
//
// The second matrix is packed (tile.h) when the kernel runs. What the zero points add to a sum depends on its column
// and on its row alone: -(128 + a_zero_point) times the sum of b's column, and -b_zero_point times that of a's row.
#include "kernels/integer/product.h"
#include "kernels/integer/products.gen.h"
#include "kernels/integer/requantize.h"

namespace etir {
namespace {

using namespace integer;

constexpr int kMostComputedDepth = 33025;  // 255 * 255 times that is less than 2^31

#if ETIR_INT8_X86
/// Packs four rows of 16 columns, and adds them to the sums of the columns.
void pack_quad(const int8_t* from, int64_t columns, int8_t* to, int32_t* sums) {
  const auto row = [&](int64_t j) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j * columns)); };
  const __m128i a = row(0), b = row(1), c = row(2), d = row(3);
  const __m128i ab[2] = {_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)};
  const __m128i cd[2] = {_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d)};
  const __m128i ones = _mm_set1_epi8(1), wide_ones = _mm_set1_epi16(1);
  for (int v = 0; v < 4; ++v, to += 16, sums += 4) {
    const __m128i four =
        v % 2 == 0 ? _mm_unpacklo_epi16(ab[v / 2], cd[v / 2]) : _mm_unpackhi_epi16(ab[v / 2], cd[v / 2]);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), four);
    __m128i* sum = reinterpret_cast<__m128i*>(sums);
    const __m128i more = _mm_madd_epi16(_mm_maddubs_epi16(ones, four), wide_ones);
    _mm_storeu_si128(sum, _mm_add_epi32(_mm_loadu_si128(sum), more));
  }
}
#elif ETIR_NEON
void pack_quad(const int8_t* from, int64_t columns, int8_t* to, int32_t* sums) {
  int8x16x4_t rows;
  for (int j = 0; j < kQuad; ++j) rows.val[j] = vld1q_s8(from + j * columns);
  vst4q_s8(to, rows);
  const int16x8_t low = vaddq_s16(vaddl_s8(vget_low_s8(rows.val[0]), vget_low_s8(rows.val[1])),
                                  vaddl_s8(vget_low_s8(rows.val[2]), vget_low_s8(rows.val[3])));
  const int16x8_t high = vaddq_s16(vaddl_high_s8(rows.val[0], rows.val[1]), vaddl_high_s8(rows.val[2], rows.val[3]));
  vst1q_s32(sums, vaddw_s16(vld1q_s32(sums), vget_low_s16(low)));
  vst1q_s32(sums + 4, vaddw_high_s16(vld1q_s32(sums + 4), low));
  vst1q_s32(sums + 8, vaddw_s16(vld1q_s32(sums + 8), vget_low_s16(high)));
  vst1q_s32(sums + 12, vaddw_high_s16(vld1q_s32(sums + 12), high));
}
#endif

/// Packs panel `panel` of a matrix [depth, columns], and writes -scale times the sum of each of its columns.
void pack_panel(const int8_t* from, int64_t depth, int64_t columns, int64_t panel, uint32_t scale, int8_t* to,
                int32_t* more) {
  const int64_t first = panel * kPanel;
  const int count = static_cast<int>(std::min<int64_t>(kPanel, columns - first));
  int32_t sums[kPanel] = {};
  for (int64_t q = 0; q < quads_of(depth); ++q, to += kPanelQuad) {
    const int some = static_cast<int>(std::min<int64_t>(kQuad, depth - q * kQuad));
#if ETIR_INT8_X86 || ETIR_NEON
    if (some == kQuad && count == kPanel) {
      pack_quad(from + q * kQuad * columns + first, columns, to, sums);
      continue;
    }
#endif
    if (some < kQuad || count < kPanel) std::memset(to, 0, kPanelQuad);
    for (int j = 0; j < some; ++j) {
      const int8_t* row = from + (q * kQuad + j) * columns + first;
      for (int c = 0; c < count; ++c) {
        to[c * kQuad + j] = row[c];
        sums[c] += row[c];
      }
    }
  }
  for (int c = 0; c < count; ++c) more[first + c] = static_cast<int32_t>(0u - scale * static_cast<uint32_t>(sums[c]));
}

// Loops stand outside of the functions that threads run: the compiler has to know that results overlap nothing.

uint32_t sum_of(const int8_t* numbers, int64_t count) {
  uint32_t sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += static_cast<uint32_t>(numbers[k]);
  return sum;
}

void add_to_row(const int32_t* __restrict from, uint32_t term, int count, int32_t* __restrict to) {
  for (int c = 0; c < count; ++c) to[c] = static_cast<int32_t>(static_cast<uint32_t>(from[c]) + term);
}

constexpr int kMostColumns = integer::detail::kSumPanels * kPanel;  // of a block

/// Takes the blocks of a product. What rows add, and factors of all columns, are there only if there was memory.
struct StoreProducts {
  Requantized all;
  const int8_t* left;
  int64_t depth;
  uint32_t zero_a, zero_b;
  float factors[kMostColumns];
  bool vnni = use_vnni();

  uint32_t bias_of(int64_t row) const {
    return 0u - zero_b * (sum_of(left + row * depth, depth) - zero_a * static_cast<uint32_t>(depth));
  }
  bool read_requantized(Requantized* to) const { return *to = all, all.factors != nullptr; }
  void operator()(const Block& block) const {
    int8_t* at = all.to + block.row * all.to_row + block.column;
    const int32_t* const bias = all.bias + block.column;
    if (zero_b == 0) return requantize(vnni, block, bias, factors, all.output, at, all.to_row);
    for (int r = 0; r < block.rows; ++r, at += all.to_row) {
      int32_t with_row[kMostColumns];
      const int64_t row = block.row + r;
      add_to_row(bias, all.row_bias != nullptr ? all.row_bias[row] : bias_of(row), block.columns, with_row);
      requantize(vnni, block.row_sums(r), with_row, factors, block.columns, all.output, at);
    }
  }
};

}  // namespace

void int8_bmm_out(KernelContext& ctx, const Tensor& a, const Tensor& b, int64_t a_zero_point, int64_t b_zero_point,
                  double factor, int64_t zero_point, int64_t low, int64_t high, Tensor& out) {
  using arg = arguments::int8_bmm_out;
  Output output;
  for (const Tensor* tensor : {&a, &b, static_cast<const Tensor*>(&out)}) {
    if (!check_dtype(ctx, *tensor, ScalarType::Char)) return;
  }
  for (const Tensor* tensor : {&a, &b}) {
    if (tensor->rank != 3) return ctx.fail(Check::KernelRank, *tensor, tensor->rank);
    if (!check_rows(ctx, *tensor)) return;
  }
  if (a_zero_point < -128 || a_zero_point > 127)
    return ctx.fail(Check::KernelArgument, arg::a_zero_point, a_zero_point);
  if (b_zero_point < -128 || b_zero_point > 127)
    return ctx.fail(Check::KernelArgument, arg::b_zero_point, b_zero_point);
  if (!read_output(ctx, zero_point, low, high, arg::zero_point, &output)) return;
  const int64_t batch = a.sizes[0], rows = a.sizes[1], depth = a.sizes[2], columns = b.sizes[2];
  if (depth > kMostComputedDepth) return ctx.fail(Check::KernelShape, a, depth);
  if (!check_size(ctx, b, 0, batch) || !check_size(ctx, b, 1, depth)) return;
  const int64_t sizes[3] = {batch, rows, columns};
  if (!ctx.resize(out, sizes, 3) || !check_rows(ctx, out) || !has_data(ctx, a) || !has_data(ctx, b) ||
      !has_data(ctx, out) || out.numel() == 0) {
    return;
  }
  const int64_t panels = panels_of(columns), panel_bytes = quads_of(depth) * kPanelQuad;
  int8_t* packed = ctx.temp_array<int8_t>(std::max<int64_t>(1, panels * panel_bytes));
  int32_t* more = ctx.temp_array<int32_t>(columns);
  if (packed == nullptr || more == nullptr) return;
  StoreProducts store = {};
  store.all = {more, nullptr, nullptr, columns, output, nullptr};
  store.depth = depth;
  store.zero_a = static_cast<uint32_t>(a_zero_point), store.zero_b = static_cast<uint32_t>(b_zero_point);
  std::fill_n(store.factors, kMostColumns, static_cast<float>(factor));
  uint32_t* row_bias = nullptr;
#if ETIR_INT8_X86
  // More than the operator has to have (kernels.json): of what is left, if that is enough.
  const Arena& arena = ctx.temp_memory();
  constexpr size_t kAligned = 2 * 16;
  if (arena.size - arena.used >= static_cast<size_t>(rows + columns) * sizeof(float) + kAligned) {
    row_bias = ctx.temp_array<uint32_t>(rows);
    float* const factors = ctx.temp_array<float>(columns);
    if (row_bias == nullptr || factors == nullptr) return;
    std::fill_n(factors, columns, static_cast<float>(factor));
    store.all.factors = factors;
    if (b_zero_point != 0) store.all.row_bias = row_bias;
  }
#endif
  for (int64_t i = 0; i < batch; ++i) {
    const int8_t* left = a.ptr<int8_t>() + i * rows * depth;
    const int8_t* right = b.ptr<int8_t>() + i * depth * columns;
    int8_t* to = out.ptr<int8_t>() + i * rows * columns;
    store.all.to = to, store.left = left;
    ctx.parallel_for(panels, 16384 / (depth * kPanel + 1) + 1, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        pack_panel(right, depth, columns, p, store.zero_a + 128, packed + p * panel_bytes, more);
      }
    });
    if (store.all.row_bias != nullptr) {
      ctx.parallel_for(rows, 16384 / (depth + 1) + 1, [&](int64_t first, int64_t last) {
        for (int64_t r = first; r < last; ++r) row_bias[r] = store.bias_of(r);
      });
    }
    multiply(ctx, MatrixRows{left, rows, depth}, Weights{packed, columns, depth}, store);
  }
}

}  // namespace etir
