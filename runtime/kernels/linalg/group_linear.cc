// Linear layers of float32 with a weight of integers in groups, packed (kernels/util/group_weights.h):
// int4_group_linear and int8_group_linear; and of rows that have a matrix each, int4_group_expert_linear and
// int8_group_expert_linear. Numbers become float32 while they are read.
//
// A few rows of the input are multiplied panel by panel, so that the weight is read once and in order (one row with
// AVX2: group_row.h, with VNNI: group_row_vnni.h); more rows are a product of matrices whose right one is multiplied
// out block by block.
#include "kernels/linalg/group_linear.gen.h"
#include "kernels/linalg/group_row.h"
#include "kernels/linalg/group_row_vnni.h"
#include "kernels/linalg/matmul.h"
#include "kernels/util/group_experts.h"

#if defined(__x86_64__) && defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define ETIR_GROUP_X86 1
#else
#define ETIR_GROUP_X86 0
#endif

namespace etir {
namespace {

using groups::kFour;
using groups::kLanes;

constexpr int kFewLeft = 4;               ///< rows of the input for which nothing is packed
constexpr int kReadGroups = 32;           ///< groups whose scales are made float32 at once
constexpr int64_t kReadBytes = 16 << 10;  ///< of weights that are worth a task of their own

/// Some groups of a panel, of which the last may end before its numbers do.
struct GroupBlock {
  const uint8_t* data;
  const float* scales;    ///< [group][16]
  const float* minimums;  ///< null: none
  const float* sums;      ///< [row][kReadGroups] of the input's groups; used with minimums only
  int64_t groups, group, end;
};

/// acc[row][16] += x * w. Each group is summed up in four parts, by the place in a four, and then scaled.
template <int kBits, int kRows>
void add_block(const GroupBlock& w, const float* x, int64_t x_row, float* acc) {
  const uint8_t* from = w.data;
  const int zero = w.minimums == nullptr ? groups::kZero<kBits> : 0;
  for (int64_t g = 0; g < w.groups; ++g) {
    float parts[kRows][kFour][kLanes] = {};
    const int64_t end = std::min(w.end, (g + 1) * w.group);
    for (int64_t k = g * w.group; k < (g + 1) * w.group; k += kFour) {
      uint32_t fours[kLanes];
      std::memcpy(fours, from, sizeof(fours));
      const int shift = kBits == 4 && k % 8 != 0 ? 4 : 0;
      if (kBits == 8 || shift != 0) from += kLanes * kFour;
      for (int j = 0; j < kFour && k + j < end; ++j) {
        float values[kLanes];
        for (int c = 0; c < kLanes; ++c) {
          values[c] =
              static_cast<float>(static_cast<int>(fours[c] >> (8 * j + shift) & (kBits == 4 ? 15 : 255)) - zero);
        }
        for (int r = 0; r < kRows; ++r) {
          const float left = x[r * x_row + k + j];
          for (int c = 0; c < kLanes; ++c) parts[r][j][c] += left * values[c];
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      float* to = acc + r * kLanes;
      for (int c = 0; c < kLanes; ++c) {
        const float sum = (parts[r][0][c] + parts[r][1][c]) + (parts[r][2][c] + parts[r][3][c]);
        to[c] += w.scales[g * kLanes + c] * sum;
      }
      if (w.minimums == nullptr) continue;
      for (int c = 0; c < kLanes; ++c) to[c] += w.minimums[g * kLanes + c] * w.sums[r * kReadGroups + g];
    }
  }
}

#if ETIR_GROUP_X86
/// The same with AVX2. kSigned: numbers are moved to the top of their 32 bits and back, which keeps their sign.
template <int kBits, int kRows, bool kSigned>
void add_block_avx2(const GroupBlock& w, const float* x, int64_t x_row, float* acc) {
  constexpr int kParts = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;  // sums that do not wait for each other
  constexpr int kStep = 32 / kBits, kHigh = 32 - kBits;        // numbers of a row in a load; bits above a number
  const __m256i sign = _mm256_set1_epi8(static_cast<char>(!kSigned ? 0 : kBits == 4 ? 0x88 : 0x80));
  for (int64_t g = 0; g < w.groups; ++g) {
    __m256 parts[kRows][kParts][2];
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ETIR_UNROLL
      for (int p = 0; p < kParts; ++p) parts[r][p][0] = parts[r][p][1] = _mm256_setzero_ps();
    }
    const int64_t end = std::min(w.end, (g + 1) * w.group);
    const uint8_t* from = w.data + g * w.group / kStep * kLanes * kFour;
    const auto quad = [&](const __m256i* fours, int64_t at, int shift, int count) {
      ETIR_UNROLL
      for (int j = 0; j < kFour; ++j) {
        if (j >= count) break;
        __m256 values[2];
        ETIR_UNROLL
        for (int v = 0; v < 2; ++v) {
          const __m256i top = _mm256_slli_epi32(fours[v], kHigh - 8 * j - shift);
          values[v] = _mm256_cvtepi32_ps(kSigned ? _mm256_srai_epi32(top, kHigh) : _mm256_srli_epi32(top, kHigh));
        }
        ETIR_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const __m256 left = _mm256_set1_ps(x[r * x_row + at + j]);
          ETIR_UNROLL
          for (int v = 0; v < 2; ++v) {
            parts[r][j % kParts][v] = _mm256_fmadd_ps(left, values[v], parts[r][j % kParts][v]);
          }
        }
      }
    };
    for (int64_t k = g * w.group; k < end; k += kStep, from += kLanes * kFour) {
      groups::prefetch_weights(from);
      __m256i fours[2];
      ETIR_UNROLL
      for (int v = 0; v < 2; ++v) {
        fours[v] = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + v * 32)), sign);
      }
      if (k + kStep <= end) {
        quad(fours, k, 0, kFour);
        if constexpr (kBits == 4) quad(fours, k + kFour, 4, kFour);
      } else {
        quad(fours, k, 0, static_cast<int>(end - k));
        if (kBits == 4 && k + kFour < end) quad(fours, k + kFour, 4, static_cast<int>(end - k - kFour));
      }
    }
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ETIR_UNROLL
      for (int v = 0; v < 2; ++v) {
        __m256 sum = parts[r][0][v];
        ETIR_UNROLL
        for (int p = 1; p < kParts; ++p) sum = _mm256_add_ps(sum, parts[r][p][v]);
        float* to = acc + r * kLanes + v * 8;
        __m256 total = _mm256_fmadd_ps(_mm256_loadu_ps(w.scales + g * kLanes + v * 8), sum, _mm256_loadu_ps(to));
        if constexpr (!kSigned) {
          const __m256 inputs = _mm256_set1_ps(w.sums[r * kReadGroups + g]);
          total = _mm256_fmadd_ps(_mm256_loadu_ps(w.minimums + g * kLanes + v * 8), inputs, total);
        }
        _mm256_storeu_ps(to, total);
      }
    }
  }
}

#define ETIR_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

/// The same with AVX-512: numbers of 4 bits are looked up in a table of sixteen.
template <int kBits, int kRows>
ETIR_AVX512 void add_block_avx512(const GroupBlock& w, const float* x, int64_t x_row, float* acc) {
  const uint8_t* from = w.data;
  const float zero = w.minimums == nullptr ? groups::kZero<kBits> : 0;
  const __m512 zeros = _mm512_set1_ps(zero);
  const __m512 table = _mm512_sub_ps(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), zeros);
  for (int64_t g = 0; g < w.groups; ++g) {
    __m512 parts[kRows][kFour];
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ETIR_UNROLL
      for (int j = 0; j < kFour; ++j) parts[r][j] = _mm512_setzero_ps();
    }
    const int64_t end = std::min(w.end, (g + 1) * w.group);
    int64_t k = g * w.group;
    const auto quad = [&](const __m512i fours, int64_t at, int shift, int count) ETIR_AVX512 {
      ETIR_UNROLL
      for (int j = 0; j < kFour; ++j) {
        if (j >= count) break;
        const __m512i shifted = _mm512_maskz_srli_epi32(0xffff, fours, static_cast<unsigned>(8 * j + shift));
        const __m512 values =
            kBits == 4
                ? _mm512_maskz_permutexvar_ps(0xffff, shifted, table)
                : _mm512_sub_ps(_mm512_maskz_cvtepi32_ps(0xffff, _mm512_and_si512(shifted, _mm512_set1_epi32(255))),
                                zeros);
        ETIR_UNROLL
        for (int r = 0; r < kRows; ++r) {
          parts[r][j] = _mm512_fmadd_ps(_mm512_set1_ps(x[r * x_row + at + j]), values, parts[r][j]);
        }
      }
    };
    constexpr int kStep = 32 / kBits;  // numbers of a row in a load
    for (; k + kStep <= end; k += kStep, from += kLanes * kFour) {
      const __m512i fours = _mm512_loadu_si512(from);
      quad(fours, k, 0, kFour);
      if constexpr (kBits == 4) quad(fours, k + kFour, 4, kFour);
    }
    for (int64_t at = k; at < end; at += kFour) {
      const __m512i fours = _mm512_loadu_si512(from + (at - k) / kStep * kLanes * kFour);
      quad(fours, at, kBits == 4 && at % 8 != 0 ? 4 : 0, static_cast<int>(std::min<int64_t>(kFour, end - at)));
    }
    from = w.data + (g + 1) * w.group / kStep * kLanes * kFour;
    const __m512 scales = _mm512_loadu_ps(w.scales + g * kLanes);
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512 sum =
          _mm512_add_ps(_mm512_add_ps(parts[r][0], parts[r][1]), _mm512_add_ps(parts[r][2], parts[r][3]));
      __m512 to = _mm512_fmadd_ps(scales, sum, _mm512_loadu_ps(acc + r * kLanes));
      if (w.minimums != nullptr) {
        const __m512 inputs = _mm512_set1_ps(w.sums[r * kReadGroups + g]);
        to = _mm512_fmadd_ps(_mm512_loadu_ps(w.minimums + g * kLanes), inputs, to);
      }
      _mm512_storeu_ps(acc + r * kLanes, to);
    }
  }
}
#endif

template <int kBits>
struct GroupProduct {
  groups::Weights weights;
  const float* input;
  const float* bias;  ///< null: none
  float* out;
  int64_t rows, depth;

  template <int kRows>
  void add(const GroupBlock& block, const float* x, float* acc) const {
#if ETIR_GROUP_X86
    if (has_avx512()) return add_block_avx512<kBits, kRows>(block, x, depth, acc);
    if (block.minimums == nullptr) return add_block_avx2<kBits, kRows, true>(block, x, depth, acc);
    add_block_avx2<kBits, kRows, false>(block, x, depth, acc);
#else
    add_block<kBits, kRows>(block, x, depth, acc);
#endif
  }

  /// Sums of `count` groups of each row, from group `first` on.
  void sum_groups(int64_t first, int count, float* sums) const {
    const int64_t group = weights.group();
    for (int64_t r = 0; r < rows; ++r) {
      for (int g = 0; g < count; ++g) {
        const int64_t begin = (first + g) * group, end = std::min(depth, begin + group);
        float sum = 0;
        for (int64_t k = begin; k < end; ++k) sum += input[r * depth + k];
        sums[r * kReadGroups + g] = sum;
      }
    }
  }

  /// Panels [first, last) for all of a few rows.
  void dot(int64_t first, int64_t last) const {
    float scales[kReadGroups * kLanes], minimums[kReadGroups * kLanes], sums[kFewLeft * kReadGroups];
    const int64_t group = weights.group();
    groups::prefetch_panel<kBits>(weights, first);
    for (int64_t p = first; p < last; ++p) {
      if (p + 1 < last) groups::prefetch_factors(weights, p + 1);
      float acc[kFewLeft * kLanes] = {};
      for (int64_t g = 0; g < weights.groups; g += kReadGroups) {
        const int some = static_cast<int>(std::min<int64_t>(kReadGroups, weights.groups - g));
        const int64_t at = (p * weights.groups + g) * kLanes;
        groups::read_factors(*weights.scales, at, some * kLanes, scales);
        if (weights.minimums != nullptr) {
          groups::read_factors(*weights.minimums, at, some * kLanes, minimums);
          // They are those of the panel before where all groups are read at once.
          if (p == first || weights.groups > kReadGroups) sum_groups(g, some, sums);
        }
        const GroupBlock block = {weights.panel<kBits>(p) + g * group * kLanes * kBits / 8,
                                  scales,
                                  weights.minimums == nullptr ? nullptr : minimums,
                                  sums,
                                  some,
                                  group,
                                  depth - g * group};
        const float* x = input + g * group;
        switch (rows) {
          case 1:
            add<1>(block, x, acc);
            break;
          case 2:
            add<2>(block, x, acc);
            break;
          case 3:
            add<3>(block, x, acc);
            break;
          default:
            add<4>(block, x, acc);
        }
      }
      for (int64_t r = 0; r < rows; ++r) store_row(p, acc + r * kLanes, false, out + r * weights.rows);
    }
  }

  /// The sums of a panel to a row of the result, or added to it.
  void store_row(int64_t panel, const float* acc, bool adds, float* to) const {
    const int64_t column = panel * kLanes;
    const int count = static_cast<int>(std::min<int64_t>(kLanes, weights.rows - column));
    for (int c = 0; c < count; ++c) {
      const float before = adds ? to[column + c] : bias == nullptr ? 0.0f : bias[column + c];
      to[column + c] = acc[c] + before;
    }
  }

#if ETIR_GROUP_ROW
  /// Groups [group, group + count) of panels [first, last) for the one row there is: kVnni, with bytes of the row.
  template <bool kVnni>
  void dot_fixed(const groups::FixedRow& row, int64_t group, int64_t count, int64_t first, int64_t last) const {
    const int64_t bytes = groups::factor_bytes(weights);
    constexpr int kStreams = kVnni ? groups::kVnniStreams : groups::kStreams;
    groups::Streams<kStreams> streams(first, last);
    for (int64_t s = 0; s < streams.count(); ++s) streams.template prefetch<kBits>(weights, streams.panels[s]);
    streams.run([&](auto panel_count, const int64_t* at) {
      constexpr int kCount = decltype(panel_count)::value;
      groups::PackedPanel panels[kCount];
      for (int s = 0; s < kCount; ++s) panels[s] = groups::packed_panel<kBits>(weights, at[s]);
      float acc[kCount * kLanes];
      groups::dispatch_factors(weights.scales->dtype, weights.minimums != nullptr, [&](auto with, auto type) {
        constexpr bool kMinimums = decltype(with)::value;
        constexpr ScalarType kType = decltype(type)::value;
        for (groups::PackedPanel& panel : panels) {
          panel.data += group * weights.group() * kLanes * kBits / 8;
          panel.scales += group * groups::kFactorBytes<kType>;
          if (kMinimums) panel.minimums += group * groups::kFactorBytes<kType>;
        }
#if ETIR_INT8_VNNI
        if constexpr (kVnni) {
          return groups::multiply_fixed_vnni<kBits, kCount, kMinimums, kType>(row, panels, count, weights.group(),
                                                                              bytes, acc);
        }
#endif
        groups::multiply_fixed<kBits, kCount, kMinimums, kType>(row, panels, count, weights.group(), bytes, acc);
      });
      for (int s = 0; s < kCount; ++s) store_row(at[s], acc + s * kLanes, group > 0, out);
    });
  }

  template <bool kVnni>
  void run_fixed(KernelContext& ctx, int64_t grain) const {
    groups::FixedRow row;
    const int64_t most = groups::FixedRow::kMost / weights.group();
    for (int64_t g = 0; g < weights.groups; g += most) {
      const int64_t count = std::min(most, weights.groups - g);
      row.fill<kVnni>(input, depth, weights.group(), g, g + count);
      ctx.parallel_for(weights.panels(), grain,
                       [&](int64_t first, int64_t last) { dot_fixed<kVnni>(row, g, count, first, last); });
    }
  }

  /// The one row there is as integers. False: its numbers, or the weights, are not of the kind for that.
  bool run_fixed(KernelContext& ctx, int64_t grain) const {
    if (weights.group() > groups::kMostFixedGroup || !groups::same_factors(weights) ||
        !groups::FixedRow::fits(input, depth, weights.group())) {
      return false;
    }
#if ETIR_INT8_VNNI
    if (has_vnni()) return run_fixed<true>(ctx, grain), true;
#endif
    return run_fixed<false>(ctx, grain), true;
  }
#endif

  /// Numbers [p, p + depth_of_panel) of rows [j, j + cols) of the weight, as gemm() packs its right matrix.
  void pack(int64_t p, int depth_of_panel, int64_t j, int cols, float* to) const {
    constexpr int kTo = GemmBlocks<float>::kPanel;
    const int64_t group = weights.group();
    const int zero = weights.minimums == nullptr ? groups::kZero<kBits> : 0;
    for (int c = 0; c < cols;) {
      const int64_t lane = (j + c) % kLanes, panel = (j + c) / kLanes;
      const int count = static_cast<int>(std::min<int64_t>(kLanes - lane, cols - c));
      float scales[kLanes], minimums[kLanes] = {};
      int64_t known = -1;
      for (int i = 0; i < depth_of_panel; ++i) {
        const int64_t k = p + i;
        if (k / group != known) {
          known = k / group;
          const int64_t at = (panel * weights.groups + known) * kLanes + lane;
          groups::read_factors(*weights.scales, at, count, scales);
          if (weights.minimums != nullptr) groups::read_factors(*weights.minimums, at, count, minimums);
        }
        const uint8_t* from =
            weights.panel<kBits>(panel) + (kBits == 4 ? k / 8 : k / 4) * kLanes * kFour + lane * kFour + k % kFour;
        const int shift = kBits == 4 && k % 8 >= kFour ? 4 : 0, mask = kBits == 4 ? 15 : 255;
        float* line = to + i * kTo + c;
        for (int n = 0; n < count; ++n) {
          line[n] = static_cast<float>(((from[n * kFour] >> shift) & mask) - zero) * scales[n] + minimums[n];
        }
      }
      c += count;
    }
    for (int i = 0; i < depth_of_panel && cols < kTo; ++i) std::fill(to + i * kTo + cols, to + (i + 1) * kTo, 0.0f);
  }

  void store(const float* sums, int stride, int64_t i, int some, int64_t j, int cols, bool first) const {
    for (int r = 0; r < some; ++r) {
      float* to = out + (i + r) * weights.rows + j;
      for (int c = 0; c < cols; ++c) {
        const float before = !first ? to[c] : bias == nullptr ? 0.0f : bias[j + c];
        to[c] = before + sums[r * stride + c];
      }
    }
  }

  void run(KernelContext& ctx) const {
    if (rows == 0 || weights.rows == 0) return;
    if (rows <= kFewLeft) {
      const int64_t panel_bytes = std::max<int64_t>(1, weights.depth * kLanes * kBits / 8);
      const int64_t grain = std::max<int64_t>(1, kReadBytes / panel_bytes);
#if ETIR_GROUP_ROW
      if (rows == 1 && run_fixed(ctx, grain)) return;
#endif
      return ctx.parallel_for(weights.panels(), grain, [&](int64_t first, int64_t last) { dot(first, last); });
    }
    Gemm<float> g;
    g.m = rows, g.n = weights.rows, g.k = depth;
    g.context = this;
    g.a = input, g.a_row = depth, g.a_col = 1;
    g.out = out, g.out_row = weights.rows;
    g.addend = bias, g.addend_row = 0, g.addend_col = 1;
    g.pack_b = [](const void* context, int64_t p, int depth_of_panel, int64_t j, int cols, float* to) {
      static_cast<const GroupProduct*>(context)->pack(p, depth_of_panel, j, cols, to);
    };
    g.store = [](const void* context, const float* sums, int stride, int64_t i, int some, int64_t j, int cols,
                 bool first) {
      static_cast<const GroupProduct*>(context)->store(sums, stride, i, some, j, cols, first);
    };
    gemm(ctx, g);
  }
};

template <int kBits>
void group_linear(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& scales,
                  const Tensor* minimums, const Tensor* bias, int64_t columns, int position, Tensor& out) {
  for (const Tensor* tensor : {&input, static_cast<const Tensor*>(&out), bias}) {
    if (tensor != nullptr && tensor->dtype != ScalarType::Float) {
      return ctx.fail(Check::KernelDtype, *tensor, static_cast<int64_t>(tensor->dtype));
    }
  }
  if (input.rank < 1) return ctx.fail(Check::KernelRank, input, input.rank);
  GroupProduct<kBits> product = {};
  product.depth = input.sizes[input.rank - 1];
  if (!groups::check_rows(ctx, input) ||
      !groups::read_weights<kBits>(ctx, weight, scales, minimums, columns, position, product.depth, &product.weights)) {
    return;
  }
  if (bias != nullptr) {
    if (bias->rank != 1) return ctx.fail(Check::KernelRank, *bias, bias->rank);
    if (bias->sizes[0] != columns) return ctx.fail(Check::KernelShape, *bias, bias->sizes[0]);
    if (!groups::check_rows(ctx, *bias)) return;
  }
  int64_t sizes[kMaxRank];
  product.rows = 1;
  for (int d = 0; d + 1 < input.rank; ++d) product.rows *= sizes[d] = input.sizes[d];
  sizes[input.rank - 1] = columns;
  if (!ctx.resize(out, sizes, input.rank) || !groups::check_rows(ctx, out)) return;
  product.input = input.ptr<float>(), product.out = out.ptr<float>();
  product.bias = bias == nullptr ? nullptr : bias->ptr<float>();
  product.run(ctx);
}

/// Each row times the matrix whose number it has.
template <int kBits>
void expert_linear(KernelContext& ctx, const Tensor& input, const Tensor& numbers, const groups::Experts& experts,
                   Tensor& out) {
  groups::for_each_expert<kBits>(ctx, input, numbers, experts, out, [&](const groups::ExpertRun& rows) {
    group_linear<kBits>(ctx, rows.input, rows.weight, rows.scales, rows.minimums, nullptr, experts.columns,
                        experts.position, rows.out);
  });
}

}  // namespace

void int4_group_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& scales,
                           const Tensor* minimums, const Tensor* bias, int64_t columns, Tensor& out) {
  group_linear<4>(ctx, input, weight, scales, minimums, bias, columns, arguments::int4_group_linear_out::columns, out);
}

void int8_group_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& scales,
                           const Tensor* minimums, const Tensor* bias, int64_t columns, Tensor& out) {
  group_linear<8>(ctx, input, weight, scales, minimums, bias, columns, arguments::int8_group_linear_out::columns, out);
}

void int4_group_expert_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& experts, const Tensor& weight,
                                  const Tensor& scales, const Tensor* minimums, int64_t columns, Tensor& out) {
  using arg = arguments::int4_group_expert_linear_out;
  expert_linear<4>(ctx, input, experts, {&weight, &scales, minimums, nullptr, columns, arg::columns}, out);
}

void int8_group_expert_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& experts, const Tensor& weight,
                                  const Tensor& scales, const Tensor* minimums, int64_t columns, Tensor& out) {
  using arg = arguments::int8_group_expert_linear_out;
  expert_linear<8>(ctx, input, experts, {&weight, &scales, minimums, nullptr, columns, arg::columns}, out);
}

}  // namespace etir
