// Groupwise products of many rows with AMX, where groups are small: weights as fixed-point numbers.
//
// A group of 32 numbers is half of what a register's row holds, and its sums must go through memory to be multiplied by
// the group's scale: that takes four times as long as the products (group_amx.h). Here the scale is part of the weight.
// Weights become integers of 16 bits, in units of a fraction of their column's largest; their two bytes are two planes,
// each multiplied as if there were no groups, with exact sums of 32 bits. A weight loses at most 2^-14 of its column's
// largest, far less than the 8 bits of what it is multiplied by, so that results are not the bits of group_tile.h's;
// they are the same for any number of threads.
//
// A panel is unpacked, a part of the depth at a time, and all rows are multiplied by it: two registers of rows times
// two planes are four registers of sums. Sums of the parts before lie in the result. What vectors do, unpacking the
// next part and finishing the sums of the rows before, stands between the steps of the products and takes place while
// these wait for the multiplier, which has the port for shuffles of vectors to itself. So what unpacks does without
// them.
#pragma once

#include "kernels/integer/group_amx.h"
#include "kernels/integer/row_scale.h"

#if ETIR_INT8_AMX

namespace etir::integer {

constexpr int64_t kFixedRowsAmx = 64;   ///< rows that unpacking is worth it for
constexpr int64_t kFixedGroupAmx = 64;  ///< a longer group's sums are few enough to be scaled one by one
constexpr int kFixedDepthAmx = 640;     ///< numbers of a row of a panel that are unpacked at once, at most
constexpr int kFixedPlanes = 2;
constexpr int kFixedPrefetch = 1024;  ///< bytes of packed weights that are asked for ahead

/// Whether products of rows and of groups of that size are computed here. Rows have one scale each.
inline bool is_fixed_amx(int64_t rows, int64_t group) { return rows >= kFixedRowsAmx && group <= kFixedGroupAmx; }

/// Rows [0, count) of the left side, and what makes results of their sums: (sum - zero * row_sums) * scale + bias.
struct FixedRowsAmx {
  const int8_t* numbers;  ///< in whole registers
  int64_t stride;         ///< bytes from one row to the next
  int64_t count;
  const RowScale* scales;
  const float* row_sums;  ///< of the weight
  const float* bias;      ///< null: none
  int64_t row_size;       ///< elements from a row of results to the next
};

/// What is multiplied at once: all rows and a panel. `out` is where the first row's results of the panel go.
struct FixedJob {
  const FixedRowsAmx* rows;
  const groups::Weights* weights;
  int64_t panel;
  float* out;
};

namespace detail {

constexpr int kFixedStep = kFixedPlanes * kTileWeights;  ///< bytes of one register of each plane

constexpr int kFixedBlockGroups = kFixedDepthAmx / groups::kChunk;

/// A panel, a part of its depth.
struct FixedPart {
  /// [16 fours of the depth][plane][four of the depth][16][4]
  alignas(64) int8_t bytes[kFixedDepthAmx / kTileBytes * kFixedStep];
  /// Of each group: what numbers are multiplied by and what is added, each twice, for both halves of 32 bits.
  alignas(64) uint32_t factors[kFixedBlockGroups][2][kPanel];
};

/// What 1 stands for in each column of a panel, and its inverse, 0 where all weights of a column are.
struct FixedUnits {
  __m512 unit, inverse;
};

constexpr float kFixedMost = 32760.0f;  ///< the largest integer: less than 2^15 by more than what is rounded

/// Finds the units of a panel, so that no weight and no scale, times the 8 that is the largest number, is more than
/// kFixedMost of them. False: some weights are not finite, or too small to be divided by.
ETIR_AMX inline bool find_units(const groups::Weights& weights, int64_t index, FixedUnits* units) {
  float scales[kFixedBlockGroups * kPanel], minimums[kFixedBlockGroups * kPanel];
  const __m512 huge = _mm512_set1_ps(1e30f), tiny = _mm512_set1_ps(1e-25f), zero = _mm512_setzero_ps();
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512 eight = _mm512_set1_ps(8.0f), fifteen = _mm512_set1_ps(15.0f);
  const bool low = weights.minimums != nullptr;
  __m512 most = zero;
  __mmask16 finite = 0xffff;
  const auto reach = [&](__m512 value) ETIR_AMX {
    const __m512 size = _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(value), magnitude));
    finite &= _mm512_cmp_ps_mask(size, huge, _CMP_LT_OQ);
    most = _mm512_mask_max_ps(most, 0xffff, most, size);
  };
  for (int64_t g = 0; g < weights.groups; g += kFixedBlockGroups) {
    const int some = static_cast<int>(std::min<int64_t>(kFixedBlockGroups, weights.groups - g));
    const int64_t at = (index * weights.groups + g) * kPanel;
    groups::read_factors(*weights.scales, at, some * kPanel, scales);
    if (low) groups::read_factors(*weights.minimums, at, some * kPanel, minimums);
    for (int i = 0; i < some * kPanel; i += kPanel) {
      const __m512 scale = _mm512_loadu_ps(scales + i);
      reach(_mm512_mul_ps(eight, scale));
      if (!low) continue;
      const __m512 minimum = _mm512_loadu_ps(minimums + i);
      reach(minimum);
      reach(_mm512_fmadd_ps(fifteen, scale, minimum));
    }
  }
  const __mmask16 empty = _mm512_cmp_ps_mask(most, zero, _CMP_EQ_OQ);
  if ((finite & (empty | _mm512_cmp_ps_mask(most, tiny, _CMP_GT_OQ))) != 0xffff) return false;
  units->unit = _mm512_div_ps(most, _mm512_set1_ps(kFixedMost));
  units->inverse = _mm512_maskz_div_ps(static_cast<__mmask16>(~empty), _mm512_set1_ps(kFixedMost), most);
  return true;
}

/// Unpacks numbers [begin, end) of a panel's rows, and zeros up to a whole register, some at a time.
class FixedUnpacker {
 public:
  /// Nothing is left to be unpacked.
  FixedUnpacker() = default;

  ETIR_AMX FixedUnpacker(const groups::Weights& weights, int64_t index, int64_t begin, int64_t end,
                         const FixedUnits& units, FixedPart* part)
      : from_(weights.panel<4>(index) + begin / groups::kChunk * groups::kChunkBytes<4>),
        part_(part),
        quads_(static_cast<int>((end - begin) / kQuad)),
        group_quads_(static_cast<int>(std::min(weights.group(), end - begin) / kQuad)) {
    float scales[kFixedBlockGroups * kPanel], minimums[kFixedBlockGroups * kPanel];
    const int64_t group = weights.group(), at = (index * weights.groups + begin / group) * kPanel;
    const int count = static_cast<int>((end - begin) / group);
    const bool low = weights.minimums != nullptr;
    groups::read_factors(*weights.scales, at, count * kPanel, scales);
    if (low) groups::read_factors(*weights.minimums, at, count * kPanel, minimums);
    const auto write = [&](__m512 value, uint32_t* to) ETIR_AMX {
      const __m512i whole = _mm512_maskz_cvtps_epi32(0xffff, _mm512_mul_ps(value, units.inverse));
      const __m512i lower = _mm512_and_si512(whole, _mm512_set1_epi32(0xffff));
      _mm512_store_si512(to, _mm512_or_si512(lower, _mm512_maskz_slli_epi32(0xffff, whole, 16)));
    };
    for (int g = 0; g < count; ++g) {
      // A number becomes one of -8 to 7, times 2^12; a product's upper 16 bits are that many eighths.
      const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(8.0f), _mm512_loadu_ps(scales + g * kPanel));
      write(scale, part->factors[g][0]);
      write(low ? _mm512_add_ps(scale, _mm512_loadu_ps(minimums + g * kPanel)) : _mm512_setzero_ps(),
            part->factors[g][1]);
    }
  }

  /// Unpacks what `loads` loads give, eight numbers of each column, or what is left.
  ETIR_AMX void advance(int loads) {
    for (; loads > 0 && quad_ < quads_; --loads, quad_ += 2, from_ += kPanelQuad) {
      const auto& factors = part_->factors[quad_ / group_quads_];
      __builtin_prefetch(from_ + kFixedPrefetch);
      const __m512i raw = _mm512_loadu_si512(from_);
      // The number that is to be multiplied comes to the upper end of 16 bits.
      write(_mm512_slli_epi16(raw, 12), _mm512_slli_epi16(raw, 4), factors, place(quad_));
      write(_mm512_slli_epi16(raw, 8), raw, factors, place(quad_ + 1));
    }
  }

  /// Unpacks what is left.
  ETIR_AMX void finish() {
    advance(quads_);
    if (quad_ % kTileQuads == 0) return;
    for (int p = 0; p < kFixedPlanes; ++p) {
      const int left = kTileQuads - quad_ % kTileQuads;
      std::memset(place(quad_) + p * kTileWeights, 0, static_cast<size_t>(left * kPanelQuad));
    }
  }

 private:
  /// Writes the two bytes of numbers at the upper end of 16 bits: the first and third of each column, and the others.
  ETIR_AMX static inline void write(__m512i even, __m512i odd, const uint32_t (&factors)[2][kPanel], int8_t* to) {
    constexpr int kChange = 0x78;  // of the first, but changed where both others have a bit
    constexpr int kChoose = 0xca;  // of the second where the first has a bit, of the third where not
    const __m512i upper = _mm512_set1_epi16(-0x1000), sign = _mm512_set1_epi16(-0x8000);
    const auto scaled = [&](__m512i number) ETIR_AMX {
      const __m512i signed_one = _mm512_ternarylogic_epi32(sign, number, upper, kChange);
      const __m512i product = _mm512_mulhrs_epi16(signed_one, _mm512_load_si512(factors[0]));
      return _mm512_add_epi16(product, _mm512_load_si512(factors[1]));
    };
    const __m512i first = _mm512_set1_epi16(255), a = scaled(even), b = scaled(odd);
    _mm512_store_si512(to, _mm512_ternarylogic_epi32(first, a, _mm512_slli_epi16(b, 8), kChoose));
    _mm512_store_si512(to + kTileWeights, _mm512_ternarylogic_epi32(first, _mm512_srli_epi16(a, 8), b, kChoose));
  }

  int8_t* place(int quad) const {
    return part_->bytes + quad / kTileQuads * kFixedStep + quad % kTileQuads * kPanelQuad;
  }

  const uint8_t* from_ = nullptr;
  FixedPart* part_ = nullptr;
  int quad_ = 0, quads_ = 0, group_quads_ = 1;
};

#define ETIR_TILE_LOAD(tile, from, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(static_cast<int64_t>(stride)) : "memory")
#define ETIR_TILE_STORE(tile, to, stride) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(static_cast<int64_t>(stride)) : "memory")
#define ETIR_TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile ::: "memory")
#define ETIR_TILE_MULTIPLY(form, sum, x, w) \
  asm volatile("tdpb" form "d %%tmm" #w ", %%tmm" #x ", %%tmm" #sum ::: "memory")

/// The sums of a block: [plane][32 rows][16].
using FixedSums = int32_t[kFixedPlanes][kRowsAmx * kPanel];

/// The products of one or two registers of rows and a panel, `steps` registers deep. Each step ends with a call of
/// `work`. Registers 0 to 3 are sums, 4 and 5 rows, 6 and 7 planes.
template <bool kBothRows, typename Work>
ETIR_AMX inline void multiply_fixed(const int8_t* x, int64_t stride, const int8_t* weights, int steps, FixedSums& sums,
                                    const Work& work) {
  ETIR_TILE_ZERO(0);
  ETIR_TILE_ZERO(1);
  if (kBothRows) {
    ETIR_TILE_ZERO(2);
    ETIR_TILE_ZERO(3);
  }
  for (int s = 0; s < steps; ++s, x += kTileBytes, weights += kFixedStep) {
    ETIR_TILE_LOAD(4, x, stride);
    ETIR_TILE_LOAD(6, weights, kTileBytes);
    ETIR_TILE_MULTIPLY("su", 0, 4, 6);
    ETIR_TILE_LOAD(7, weights + kTileWeights, kTileBytes);
    ETIR_TILE_MULTIPLY("ss", 1, 4, 7);
    if (kBothRows) {
      ETIR_TILE_LOAD(5, x + kTileRows * stride, stride);
      ETIR_TILE_MULTIPLY("su", 2, 5, 6);
      ETIR_TILE_MULTIPLY("ss", 3, 5, 7);
    }
    work();
  }
  constexpr int64_t kRowBytes = kPanel * sizeof(int32_t);
  ETIR_TILE_STORE(0, sums[0], kRowBytes);
  ETIR_TILE_STORE(1, sums[1], kRowBytes);
  if (kBothRows) {
    ETIR_TILE_STORE(2, sums[0] + kTileSums, kRowBytes);
    ETIR_TILE_STORE(3, sums[1] + kTileSums, kRowBytes);
  }
}

#undef ETIR_TILE_LOAD
#undef ETIR_TILE_STORE
#undef ETIR_TILE_ZERO
#undef ETIR_TILE_MULTIPLY

/// Makes results of the sums of a block, some rows at a time.
class FixedFinisher {
 public:
  /// Nothing is left to be finished.
  FixedFinisher() = default;

  /// Rows [row, row + count) of a job. At the `beginning` of the depth there are no sums yet in the result, at its
  /// `end` they become it.
  ETIR_AMX FixedFinisher(const FixedJob& job, int64_t row, int count, bool beginning, bool end, const FixedUnits& units,
                         const FixedSums& sums)
      : to_(job.out + row * job.rows->row_size),
        row_size_(job.rows->row_size),
        scales_(job.rows->scales + row),
        sums_(&sums),
        left_(count),
        has_bias_(job.rows->bias != nullptr),
        beginning_(beginning),
        end_(end) {
    const int64_t column = job.panel * kPanel, columns = job.weights->rows - column;
    mask_ = static_cast<__mmask16>(columns >= kPanel ? 0xffff : (1 << columns) - 1);
    unit_ = units.unit;
    row_sums_ = _mm512_maskz_loadu_ps(mask_, job.rows->row_sums + column);
    bias_ = has_bias_ ? _mm512_maskz_loadu_ps(mask_, job.rows->bias + column) : _mm512_setzero_ps();
  }

  /// Finishes so many rows, or what is left.
  ETIR_AMX void advance(int rows) {
    const __m512 upper = _mm512_set1_ps(256.0f);
    for (; rows > 0 && left_ > 0; --rows, --left_, at_ += kPanel, to_ += row_size_, ++scales_) {
      __m512 sum = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_load_si512((*sums_)[0] + at_));
      sum = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(0xffff, _mm512_load_si512((*sums_)[1] + at_)), upper, sum);
      sum = beginning_ ? _mm512_mul_ps(sum, unit_) : _mm512_fmadd_ps(sum, unit_, _mm512_maskz_loadu_ps(mask_, to_));
      if (end_) {
        const __m512 zero = _mm512_set1_ps(static_cast<float>(scales_->zero_point));
        sum = _mm512_mul_ps(_mm512_fnmadd_ps(zero, row_sums_, sum), _mm512_set1_ps(scales_->scale));
        if (has_bias_) sum = _mm512_add_ps(sum, bias_);
      }
      _mm512_mask_storeu_ps(to_, mask_, sum);
    }
  }

 private:
  float* to_ = nullptr;
  int64_t row_size_ = 0;
  const RowScale* scales_ = nullptr;
  const FixedSums* sums_ = nullptr;
  int at_ = 0, left_ = 0;
  bool has_bias_ = false, beginning_ = false, end_ = false;
  __mmask16 mask_ = 0;
  __m512 unit_, row_sums_, bias_;
};

}  // namespace detail

/// Works on jobs until none is left, or one has weights that cannot be fixed-point numbers: returns its number, or -1.
/// `next` gives the number of a job, -1 if there is no other, and `job` what is to be done. The next one is asked for
/// before one is finished. All have as many rows and as long groups. `done` is called for each when its results are
/// there. The registers have to be whole ones.
template <typename Next, typename Job, typename Done>
ETIR_AMX int64_t multiply_fixed_amx(const Next& next_job, const Job& job, const Done& done) {
  detail::FixedPart parts[2];
  alignas(64) detail::FixedSums sums[2];
  detail::FixedUnits units, next_units;
  FixedJob now, next;
  int64_t index = next_job(), failed = -1;
  if (index < 0 || (now = job(index), !detail::find_units(*now.weights, now.panel, &units))) return index;
  const int64_t depth = now.weights->depth, count = (depth + kFixedDepthAmx - 1) / kFixedDepthAmx;
  const int64_t length = (depth + count * kTileBytes - 1) / (count * kTileBytes) * kTileBytes;
  const auto part_end = [&](int64_t begin) { return std::min(depth, begin + length); };
  detail::FixedUnpacker(*now.weights, now.panel, 0, part_end(0), units, &parts[0]).finish();
  detail::FixedFinisher finisher;
  const int64_t rows = now.rows->count, blocks = (rows + kRowsAmx - 1) / kRowsAmx;
  int64_t finishing = -1;  // the job whose last block the finisher has
  const auto finish = [&]() ETIR_AMX {
    finisher.advance(kRowsAmx);
    if (finishing >= 0) done(finishing);
    finishing = -1;
  };
  for (int64_t begin = 0, turn = 0, side = 0; index >= 0; turn ^= 1) {
    const int64_t end = part_end(begin);
    const int steps = static_cast<int>((end - begin + kTileBytes - 1) / kTileBytes);
    // What is multiplied after this part.
    int64_t next_index = index, next_begin = end;
    next = now, next_units = units;
    if (end == depth) {
      next_begin = 0, next_index = next_job();
      if (next_index >= 0 && (next = job(next_index), !detail::find_units(*next.weights, next.panel, &next_units))) {
        failed = next_index, next_index = -1;
      }
    }
    detail::FixedUnpacker unpacker;
    if (next_index >= 0) {
      unpacker = detail::FixedUnpacker(*next.weights, next.panel, next_begin, part_end(next_begin), next_units,
                                       &parts[turn ^ 1]);
    }
    const auto loads = static_cast<int>(length / kQuad / 2 / (blocks * steps) + 1);
    const int finished = kRowsAmx / steps + 1;
    const auto work = [&]() ETIR_AMX {
      finisher.advance(finished);
      unpacker.advance(loads);
    };
    for (int64_t row = 0; row < rows; row += kRowsAmx, side ^= 1) {
      const int some = static_cast<int>(std::min<int64_t>(kRowsAmx, rows - row));
      const int64_t stride = now.rows->stride;
      const int8_t* x = now.rows->numbers + row * stride + begin;
      some > kTileRows ? detail::multiply_fixed<true>(x, stride, parts[turn].bytes, steps, sums[side], work)
                       : detail::multiply_fixed<false>(x, stride, parts[turn].bytes, steps, sums[side], work);
      finish();
      finisher = detail::FixedFinisher(now, row, some, begin == 0, end == depth, units, sums[side]);
    }
    if (end == depth) finishing = index;
    unpacker.finish();
    index = next_index, begin = next_begin, now = next, units = next_units;
  }
  finish();
  return failed;
}

}  // namespace etir::integer

#endif
