#include "backends/xnnpack/packed.h"

#include <algorithm>

namespace etir {
namespace xnnpack {

namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kPiece = 256;
constexpr int64_t kLanes = 8;

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

float product(const float* a, const float* b, int64_t count) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0.0f;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (int64_t lane = 0; lane < kLanes; ++lane) sum += sums[lane];
  return sum;
}

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

void linear_packed(KernelContext& ctx) {
  const Packed packed(ctx);
  const Tensor& from = ctx.tensor(kPackedArguments);
  const Tensor* bias = ctx.optional_tensor(kPackedArguments + 1);
  Tensor& to = ctx.tensor(kPackedArguments + 2);
  const int64_t rows = ctx.integer(kPackedArguments + 3), last = packed.last;
  if (from.sizes[from.rank - 1] != last) return ctx.fail(Check::KernelShape, from, last);
  int64_t sizes[kMaxRank], vectors = 1;
  for (int d = 0; d + 1 < from.rank; ++d) vectors *= sizes[d] = from.sizes[d];
  sizes[from.rank - 1] = rows;
  if (!ctx.resize(to, sizes, from.rank) || vectors * rows == 0) return;
  if (to.data == nullptr || (last > 0 && from.data == nullptr)) return ctx.fail(Check::KernelNoData, from);
  const float* x = from.ptr<float>();
  float* y = to.ptr<float>();
  const float* start = bias == nullptr ? nullptr : bias->ptr<float>();
  const int64_t work = std::max<int64_t>(1, vectors * last);
  ctx.parallel_for(rows, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    float piece[kPiece];
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t v = 0; v < vectors; ++v) y[v * rows + row] = start == nullptr ? 0.0f : start[row];
      for (int64_t at = 0; at < last; at += kPiece) {
        const int64_t stop = std::min(last, at + kPiece);
        packed.read(row, at, stop, piece);
        for (int64_t v = 0; v < vectors; ++v) y[v * rows + row] += product(x + v * last + at, piece, stop - at);
      }
    }
  });
}

}  // namespace xnnpack
}  // namespace etir
