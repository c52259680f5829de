#include "backends/xnnpack/packed.h"

#include <algorithm>
#include <cstring>

#include "kernels/util/vectors.h"

namespace etir {
namespace xnnpack {

namespace {

constexpr int64_t kGrain = 16384;

struct Packed {
  const uint8_t* data;
  const uint8_t* scales;
  int64_t datatype, inner, channels, last, zero_point;
  float scale;
  bool halves;

  explicit Packed(KernelContext& ctx)
      : data(ctx.tensor(0).ptr<uint8_t>()),
        scales(ctx.optional_tensor(1) == nullptr ? nullptr : ctx.tensor(1).ptr<uint8_t>()),
        datatype(ctx.integer(2)),
        inner(ctx.integer(3)),
        channels(ctx.integer(4)),
        last(ctx.integer(5)),
        zero_point(ctx.integer(6)),
        scale(static_cast<float>(ctx.real(7))),
        halves(ctx.boolean(8)) {}

  float scale_at(int64_t i) const {
    if (scales == nullptr) return scale;
    if (halves) return static_cast<float>(BFloat16::from_bits(flat::read<uint16_t>(scales + 2 * i)));
    return flat::read<float>(scales + 4 * i);
  }

  // Columns [begin, end) of a row.
  void read(int64_t row, int64_t begin, int64_t end, float* to) const {
    const bool nibbles = kDatatypes[datatype].bits == 4;
    const uint8_t* from = data + row * (nibbles ? (last + 1) / 2 : last);
    const int32_t zero = static_cast<int32_t>(zero_point);
    for (int64_t column = begin; column < end;) {
      const int64_t element = row * last + column, group = element / inner;
      const int64_t stop = std::min(end, column + (group + 1) * inner - element);
      const float factor = scale_at(group % channels);
      float* at = to + (column - begin) - column;
      if (nibbles) {
        // Two to a byte, the even column below. Pairs in a loop without branches become vector instructions.
        int64_t c = column;
        if (c % 2 != 0) at[c] = static_cast<float>((from[c / 2] >> 4) - zero) * factor, ++c;
        const int64_t pairs = (stop - c) / 2;
        const uint8_t* both = from + c / 2;
        float* two = at + c;
        for (int64_t p = 0; p < pairs; ++p) {
          two[2 * p] = static_cast<float>((both[p] & 15) - zero) * factor;
          two[2 * p + 1] = static_cast<float>((both[p] >> 4) - zero) * factor;
        }
        if (c + 2 * pairs < stop) two[2 * pairs] = static_cast<float>((both[pairs] & 15) - zero) * factor;
      } else if (datatype == kQuint8) {
        for (int64_t c = column; c < stop; ++c) at[c] = static_cast<float>(int32_t{from[c]} - zero) * factor;
      } else {
        for (int64_t c = column; c < stop; ++c) {
          at[c] = static_cast<float>(int32_t{static_cast<int8_t>(from[c])} - zero) * factor;
        }
      }
      column = stop;
    }
  }
};

// 16 bytes of a row are a step: four words, whose parts of 8 or 4 bits shifts and masks give. Part `p` of the four
// words is columns p, p + n, p + 2 n and p + 3 n of the step, where a word has n parts. No lanes are exchanged: the
// vectors are put into that order instead, once for all rows (arrange()). Processors with registers of 32 bytes take
// two parts at once.
#define ETIR_INLINE inline __attribute__((always_inline))

template <int kLanes>
struct Lanes;
template <>
struct Lanes<4> {
  typedef uint32_t Words __attribute__((vector_size(16)));
  typedef int32_t Integers __attribute__((vector_size(16)));
  typedef float Floats __attribute__((vector_size(16)));

  static ETIR_INLINE void load(const uint8_t* from, Words& words) { std::memcpy(&words, from, 16); }
  /// Part `part` of the words, of `kBits` bits.
  template <int kBits, bool kSigned>
  static ETIR_INLINE void part(const Words& words, int part, Integers& integers) {
    if constexpr (kSigned) {
      integers = reinterpret_cast<Integers>(words << (32 - kBits - kBits * part)) >> (32 - kBits);
    } else {
      integers = reinterpret_cast<Integers>(words >> (kBits * part) & ((1u << kBits) - 1));
    }
  }
};

// Vectors of 32 bytes in functions for processors that have them, in a library for those that do not: functions that
// are inlined, and whose parameters are references.
#if defined(__x86_64__) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define ETIR_WIDE 1
// Four times how far each part is from where it is needed.
template <int kBits, bool kSigned>
struct Shifts {
  uint32_t of[128 / kBits] = {};
  constexpr Shifts() {
    for (int i = 0; i < 128 / kBits; ++i)
      of[i] = static_cast<uint32_t>(kSigned ? 32 - kBits - i / 4 * kBits : i / 4 * kBits);
  }
};
template <>
struct Lanes<8> {
  typedef uint32_t Words __attribute__((vector_size(32)));
  typedef int32_t Integers __attribute__((vector_size(32)));
  typedef float Floats __attribute__((vector_size(32)));

  static ETIR_INLINE void load(const uint8_t* from, Words& words) {
    Lanes<4>::Words half;
    std::memcpy(&half, from, 16);
    words = __builtin_shufflevector(half, half, 0, 1, 2, 3, 0, 1, 2, 3);
  }
  /// Parts `part` and `part + 1`.
  template <int kBits, bool kSigned>
  static ETIR_INLINE void part(const Words& words, int part, Integers& integers) {
    static constexpr Shifts<kBits, kSigned> kShifts;
    Words shifts;
    std::memcpy(&shifts, kShifts.of + 4 * part, sizeof(shifts));
    if constexpr (kSigned) {
      integers = reinterpret_cast<Integers>(words << shifts) >> (32 - kBits);
    } else {
      integers = reinterpret_cast<Integers>(words >> shifts & ((1u << kBits) - 1));
    }
  }
};
#endif
#endif

// Vectors that are multiplied at once with weights that became floats in registers.
constexpr int kTogether = 4;

enum class Layout { Signed, Unsigned, Nibbles };

template <Layout layout>
ETIR_INLINE int32_t integer_at(const uint8_t* row, int64_t column) {
  if constexpr (layout == Layout::Nibbles) return row[column / 2] >> (column % 2 * 4) & 15;
  if constexpr (layout == Layout::Unsigned) return row[column];
  return static_cast<int8_t>(row[column]);
}

// The products of a row with `kCount` arranged vectors.
template <Layout layout, int kLanes, int kCount>
ETIR_INLINE void multiply(const Packed& packed, int64_t row, const float* x, float* sums) {
  using L = Lanes<kLanes>;
  constexpr int kBits = layout == Layout::Nibbles ? 4 : 8, kParts = 32 / kBits, kStep = 4 * kParts;
  constexpr int kAtOnce = kLanes / 4, kTimes = kParts / kAtOnce;
  // Enough sums for the latency of an addition.
  constexpr int kChains = kCount == 1 ? 4 : 2, kSteps = kTimes < kChains ? kChains / kTimes : 1;
  const int64_t last = packed.last, run = packed.inner < last ? packed.inner : last;
  const uint8_t* const start = packed.data + row * (layout == Layout::Nibbles ? (last + 1) / 2 : last);
  const int32_t zero = static_cast<int32_t>(packed.zero_point);
  // One scale for all, for a row, or for each run of it.
  int64_t scale = packed.channels == 1 || run == 0 ? 0 : row * (last / run);
  typename L::Floats totals[kCount] = {};
  for (int v = 0; v < kCount; ++v) sums[v] = 0.0f;
  for (int64_t column = 0; column < last; ++scale) {
    const int64_t end = column + run;
    const float factor = packed.scale_at(scale);
    typename L::Floats chains[kCount][kChains] = {};
    const uint8_t* from = start + column * kBits / 8;
    const auto steps = [&](int count) __attribute__((always_inline)) {
      ETIR_UNROLL
      for (int i = 0; i < count * kTimes; ++i) {
        typename L::Words words;
        typename L::Integers integers;
        L::load(from + 16 * (i / kTimes), words);
        L::template part<kBits, layout == Layout::Signed>(words, i % kTimes * kAtOnce, integers);
        const auto weights = __builtin_convertvector(integers - zero, typename L::Floats);
        ETIR_UNROLL
        for (int v = 0; v < kCount; ++v) {
          typename L::Floats numbers;
          std::memcpy(&numbers, x + v * last + column + i * kLanes, sizeof(numbers));
          chains[v][i % kChains] += numbers * weights;
        }
      }
      column += count * kStep;
      from += count * 16;
    };
    while (column + kSteps * kStep <= end) steps(kSteps);
    while (column + kStep <= end) steps(1);
    ETIR_UNROLL
    for (int v = 0; v < kCount; ++v) {
      for (int64_t c = column; c < end; ++c) {
        sums[v] += x[v * last + c] * (static_cast<float>(integer_at<layout>(start, c) - zero) * factor);
      }
      ETIR_UNROLL
      for (int chain = 1; chain < kChains; ++chain) chains[v][0] += chains[v][chain];
      totals[v] += chains[v][0] * factor;
    }
    column = end;
  }
  ETIR_UNROLL
  for (int v = 0; v < kCount; ++v) {
    ETIR_UNROLL
    for (int lane = 0; lane < kLanes; ++lane) sums[v] += totals[v][lane];
  }
}

// Some rows of a filter, and what they are multiplied with.
struct Rows {
  const Packed& packed;
  int64_t begin, end, rows;
  const float* x;
  int64_t vectors;
  const float* bias;
  float* y;
};

template <Layout layout, int kLanes>
ETIR_INLINE void multiply_rows(const Rows& r) {
  for (int64_t row = r.begin; row < r.end; ++row) {
    for (int64_t v = 0; v < r.vectors; v += kTogether) {
      float sums[kTogether];
      const int64_t count = r.vectors - v < kTogether ? r.vectors - v : kTogether;
      const float* x = r.x + v * r.packed.last;
      if (count == 1) multiply<layout, kLanes, 1>(r.packed, row, x, sums);
      if (count == 2) multiply<layout, kLanes, 2>(r.packed, row, x, sums);
      if (count == 3) multiply<layout, kLanes, 3>(r.packed, row, x, sums);
      if (count == 4) multiply<layout, kLanes, 4>(r.packed, row, x, sums);
      for (int64_t k = 0; k < count; ++k) {
        r.y[(v + k) * r.rows + row] = sums[k] + (r.bias == nullptr ? 0.0f : r.bias[row]);
      }
    }
  }
}

template <Layout layout>
void multiply_rows(const Rows& rows) {
  multiply_rows<layout, 4>(rows);
}

using MultiplyRows = void (*)(const Rows& rows);

#ifdef ETIR_WIDE
template <Layout layout>
__attribute__((target("avx2,fma"))) void multiply_rows_wide(const Rows& rows) {
  multiply_rows<layout, 8>(rows);
}

template <Layout layout>
MultiplyRows rows_function() {
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return wide ? multiply_rows_wide<layout> : MultiplyRows{multiply_rows<layout>};
}
#else
template <Layout layout>
MultiplyRows rows_function() {
  return multiply_rows<layout>;
}
#endif

}  // namespace

void unpack(KernelContext& ctx) {
  const Packed packed(ctx);
  float* to = ctx.tensor(kPackedArguments).ptr<float>();
  const int64_t count = ctx.tensor(kPackedArguments).numel(), last = packed.last;
  if (count == 0) return;
  ctx.parallel_for(count / last, std::max<int64_t>(1, kGrain / last), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) packed.read(row, 0, last, to + row * last);
  });
}

bool is_in_steps(const ValueInfo& filter) {
  if (filter.rank != 2) return false;
  if (filter.scaling() == Scaling::Block) return filter.block % packed_step(filter.datatype) == 0;
  return filter.scaling() == Scaling::Tensor || filter.channel == 0;
}

void arrange(KernelContext& ctx) {
  const Tensor& from = ctx.tensor(0);
  Tensor& to = ctx.tensor(1);
  if (!ctx.resize_like(to, from) || from.numel() == 0) return;
  if (from.data == nullptr || to.data == nullptr) return ctx.fail(Check::KernelNoData, from);
  const int64_t step = ctx.integer(2), last = from.sizes[from.rank - 1], vectors = from.numel() / last;
  for (int64_t v = 0; v < vectors; ++v) {
    const float* x = from.ptr<float>() + v * last;
    float* y = to.ptr<float>() + v * last;
    int64_t at = 0;
    for (; at + step <= last; at += step) {
      for (int64_t i = 0; i < step; ++i) y[at + i] = x[at + i / 4 + i % 4 * (step / 4)];
    }
    std::copy(x + at, x + last, y + at);
  }
}

void linear_packed(KernelContext& ctx) {
  const Packed packed(ctx);
  const Tensor& from = ctx.tensor(kPackedArguments);
  const Tensor* bias = ctx.optional_tensor(kPackedArguments + 1);
  Tensor& to = ctx.tensor(kPackedArguments + 2);
  const int64_t rows = ctx.integer(kPackedArguments + 3), last = packed.last;
  if (from.sizes[from.rank - 1] != last) return ctx.fail(Check::KernelShape, from, last);
  // A bias that is given from outside may have fewer numbers than the file says.
  if (bias != nullptr && bias->numel() != rows) return ctx.fail(Check::KernelShape, *bias, rows);
  int64_t sizes[kMaxRank], vectors = 1;
  for (int d = 0; d + 1 < from.rank; ++d) vectors *= sizes[d] = from.sizes[d];
  sizes[from.rank - 1] = rows;
  if (!ctx.resize(to, sizes, from.rank) || vectors * rows == 0) return;
  if (to.data == nullptr || (last > 0 && from.data == nullptr) || (bias != nullptr && bias->data == nullptr)) {
    return ctx.fail(Check::KernelNoData, from);
  }
  const float* x = from.ptr<float>();
  float* y = to.ptr<float>();
  const float* start = bias == nullptr ? nullptr : bias->ptr<float>();
  const int64_t work = std::max<int64_t>(1, vectors * last);
  const MultiplyRows multiply = kDatatypes[packed.datatype].bits == 4 ? rows_function<Layout::Nibbles>()
                                : packed.datatype == kQuint8          ? rows_function<Layout::Unsigned>()
                                                                      : rows_function<Layout::Signed>();
  ctx.parallel_for(rows, std::max<int64_t>(1, kGrain / work),
                   [&](int64_t begin, int64_t end) { multiply({packed, begin, end, rows, x, vectors, start, y}); });
}

}  // namespace xnnpack
}  // namespace etir
