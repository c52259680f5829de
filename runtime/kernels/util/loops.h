// Loops over several tensors at once, with broadcasting, in any dim order.
//
// Dims are put in the memory order of the first operand (the result) and merged where every operand's strides allow, so
// that most calls come down to one flat loop; the inner loop gets raw pointers and strides and has no index arithmetic.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace etir {

/// How N operands are walked together. Strides are in bytes.
template <int N>
struct Loops {
  int rank = 0;
  int64_t sizes[kMaxRank];  ///< outermost first
  int64_t strides[N][kMaxRank];
  char* data[N];

  /// Elements in all.
  int64_t numel() const {
    int64_t count = 1;
    for (int d = 0; d < rank; ++d) count *= sizes[d];
    return count;
  }
  /// Elements of the innermost loop, and how many times it runs.
  int64_t inner() const { return rank > 0 ? sizes[rank - 1] : 1; }
  int64_t rows() const {
    int64_t count = 1;
    for (int d = 0; d + 1 < rank; ++d) count *= sizes[d];
    return count;
  }

  /// Drops dims of size 1 and merges neighbors that every operand walks as one.
  void coalesce() {
    int kept = 0;
    for (int d = 0; d < rank; ++d) {
      if (sizes[d] == 1) continue;
      bool merge = kept > 0;
      for (int k = 0; merge && k < N; ++k) merge = strides[k][kept - 1] == strides[k][d] * sizes[d];
      if (merge) {
        sizes[kept - 1] *= sizes[d];
        for (int k = 0; k < N; ++k) strides[k][kept - 1] = strides[k][d];
        continue;
      }
      sizes[kept] = sizes[d];
      for (int k = 0; k < N; ++k) strides[k][kept] = strides[k][d];
      ++kept;
    }
    rank = kept;
  }

  /// Calls `body(char* const* data, const int64_t* strides, int64_t n)` for the rows in [begin, end).
  template <typename Body>
  void run(int64_t begin, int64_t end, Body&& body) const {
    char* at[N];
    int64_t steps[N];
    for (int k = 0; k < N; ++k) {
      at[k] = data[k];
      steps[k] = rank > 0 ? strides[k][rank - 1] : 0;
    }
    const int outer = rank > 0 ? rank - 1 : 0;
    int64_t index[kMaxRank];
    int64_t rest = begin;
    for (int d = outer - 1; d >= 0; --d) {
      index[d] = rest % sizes[d];
      rest /= sizes[d];
      for (int k = 0; k < N; ++k) at[k] += index[d] * strides[k][d];
    }
    const int64_t n = inner();
    for (int64_t row = begin; row < end; ++row) {
      body(at, steps, n);
      for (int d = outer - 1; d >= 0; --d) {
        for (int k = 0; k < N; ++k) at[k] += strides[k][d];
        if (++index[d] < sizes[d]) break;
        for (int k = 0; k < N; ++k) at[k] -= strides[k][d] * sizes[d];
        index[d] = 0;
      }
    }
  }
  /// All rows; nothing when there are no elements.
  template <typename Body>
  void run(Body&& body) const {
    if (numel() > 0) run(0, rows(), body);
  }
};

/// The loops that walk `operands[1..]`, broadcast, into `operands[0]`, whose shape they must broadcast to.
template <int N>
Loops<N> make_loops(const Tensor* const (&operands)[N]) {
  const Tensor& out = *operands[0];
  Loops<N> loops;
  loops.rank = out.rank;
  for (int k = 0; k < N; ++k) {
    const Tensor& tensor = *operands[k];
    loops.data[k] = static_cast<char*>(tensor.data);
    int64_t strides[kMaxRank];
    tensor.strides(strides);
    const int missing = out.rank - tensor.rank;
    const int64_t bytes = static_cast<int64_t>(element_size(tensor.dtype));
    for (int position = 0; position < out.rank; ++position) {
      const int dim = out.order(position) - missing;
      loops.strides[k][position] = dim < 0 || tensor.sizes[dim] == 1 ? 0 : strides[dim] * bytes;
    }
  }
  for (int position = 0; position < out.rank; ++position) loops.sizes[position] = out.sizes[out.order(position)];
  loops.coalesce();
  return loops;
}

/// Broadcasts two shapes as torch does: writes the sizes and returns the rank, or -1 when they do not go together.
inline int broadcast_shapes(const Tensor& a, const Tensor& b, int64_t* sizes) {
  const int rank = a.rank > b.rank ? a.rank : b.rank;
  for (int d = 0; d < rank; ++d) {
    const int from_end = rank - d;
    const int64_t x = from_end <= a.rank ? a.sizes[a.rank - from_end] : 1;
    const int64_t y = from_end <= b.rank ? b.sizes[b.rank - from_end] : 1;
    if (x != y && x != 1 && y != 1) return -1;
    sizes[d] = x == 1 ? y : x;
  }
  return rank;
}

/// Dim wrapped into [0, rank), or -1. A rank of 0 counts as 1, as in torch.
inline int wrap_dim(int64_t dim, int rank) {
  const int64_t bound = rank > 0 ? rank : 1;
  if (dim < -bound || dim >= bound) return -1;
  return static_cast<int>(dim < 0 ? dim + bound : dim);
}

}  // namespace etir
