// The reduction engine: one or more dims of a dense tensor folded into one value each.
//
// The dims of the input, in the order of memory, are split into kept and reduced ones and merged. A dense tensor's
// innermost dim is then either reduced (rows: a contiguous run is folded with many independent accumulators) or kept
// (columns: whole rows are folded element by element into a small block of accumulators); both loops vectorize and
// there is no third case. Elements reach the loops as the type of the accumulator, a block at a time (blocks.h), so the
// code grows with the number of operators and the number of dtypes, not with their product.
//
// An operator is a struct with
//   using Value                          the accumulator's type
//   static constexpr bool kRounds        whether the order of combining matters: sums are then taken pairwise
//   static constexpr bool kCheap         whether map is so little work that four rows are best folded at once
//   Value identity() const
//   Value map(Value x, int64_t j) const  applied to each element; j is the column in the block, 0 for rows
//   Value combine(Value a, Value b) const
// and, where it can, the same of combine and map on vectors (vectors.h): rows are then folded in registers. Those that
// several kernels use are in reduce_ops.h.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "kernels/kernel.h"
#include "kernels/util/blocks.h"
#include "kernels/util/vectors.h"

/// On a function with an inner loop: all that it calls is inlined, whatever the size, so that the loop vectorizes.
#if defined(__GNUC__)
#define ETIR_FLATTEN __attribute__((flatten))
#else
#define ETIR_FLATTEN
#endif

namespace etir {

/// How a tensor is reduced. Strides count elements; dims are outermost first in the memory order of the input.
struct ReducePlan {
  struct Dim {
    int64_t size, in, out;  ///< size, stride in the input, stride in the result (kept dims)
  };
  Dim kept[kMaxRank];
  Dim reduced[kMaxRank];
  int kept_rank = 0;
  int reduced_rank = 0;
  int64_t kept_count = 1;
  int64_t reduced_count = 1;
  bool rows = true;  ///< the innermost dim is reduced

  /// Elements of the input between neighboring rows.
  int64_t row_stride() const { return kept_rank > 0 ? kept[kept_rank - 1].in : 0; }
};

/// Splits the dims of `self`: those with a bit in `mask` are reduced. `out` has its final shape.
inline ReducePlan make_reduce_plan(const Tensor& self, uint32_t mask, const Tensor& out) {
  ReducePlan plan;
  if (self.numel() == 0) {
    // Nothing to walk: every value of the result, if there are any, is that of an empty set.
    plan.kept_count = out.numel();
    plan.reduced_count = 0;
    if (plan.kept_count > 1) plan.kept[plan.kept_rank++] = {plan.kept_count, 0, 1};
    return plan;
  }
  int64_t in_strides[kMaxRank];
  int64_t out_strides[kMaxRank];
  self.strides(in_strides);
  out.strides(out_strides);
  const bool keeps_dims = out.rank == self.rank;
  int8_t out_dim[kMaxRank];
  int next = 0;
  for (int d = 0; d < self.rank; ++d) {
    const bool reduced = (mask >> d) & 1u;
    out_dim[d] = static_cast<int8_t>(keeps_dims ? d : reduced ? -1 : next++);
  }
  for (int position = 0; position < self.rank; ++position) {
    const int d = self.order(position);
    const bool reduced = (mask >> d) & 1u;
    const int64_t size = self.sizes[d];
    (reduced ? plan.reduced_count : plan.kept_count) *= size;
    if (size == 1) continue;
    ReducePlan::Dim* dims = reduced ? plan.reduced : plan.kept;
    int& rank = reduced ? plan.reduced_rank : plan.kept_rank;
    const int64_t out_stride = reduced ? 0 : out_strides[out_dim[d]];
    plan.rows = reduced;
    if (rank > 0) {
      ReducePlan::Dim& last = dims[rank - 1];
      if (last.in == in_strides[d] * size && last.out == out_stride * size) {
        last = {last.size * size, in_strides[d], out_stride};
        continue;
      }
    }
    dims[rank++] = {size, in_strides[d], out_stride};
  }
  return plan;
}

/// Goes through some dims in row-major order, keeping the offsets in input and result.
class DimWalk {
 public:
  DimWalk(const ReducePlan::Dim* dims, int rank, int64_t start) : dims_(dims), rank_(rank) {
    for (int d = rank - 1; d >= 0; --d) {
      index_[d] = start % dims[d].size;
      start /= dims[d].size;
      in += index_[d] * dims[d].in;
      out += index_[d] * dims[d].out;
    }
  }
  void next() {
    for (int d = rank_ - 1; d >= 0; --d) {
      in += dims_[d].in;
      out += dims_[d].out;
      if (++index_[d] < dims_[d].size) return;
      in -= dims_[d].in * dims_[d].size;
      out -= dims_[d].out * dims_[d].size;
      index_[d] = 0;
    }
  }
  int64_t in = 0;
  int64_t out = 0;

 private:
  const ReducePlan::Dim* dims_;
  int rank_;
  int64_t index_[kMaxRank];
};

constexpr int64_t kRowBlock = 256;       ///< elements converted at once: the load buffer of rows
constexpr int64_t kDirectBlock = 1024;   ///< elements of a row folded at once when there is nothing to convert
constexpr int64_t kColumnBlock = 128;    ///< accumulators of columns
constexpr int64_t kReduceGrain = 32768;  ///< elements worth a thread

namespace detail {

/// Whether an operator combines vectors of its values, and whether it maps them too.
template <typename Op, typename V, typename = void>
struct CombinesVectors : std::false_type {};
template <typename Op, typename V>
struct CombinesVectors<
    Op, V,
    std::enable_if_t<
        is_vector_of_v<V, typename Op::Value> &&
        std::is_same_v<decltype(std::declval<const Op&>().combine(std::declval<V>(), std::declval<V>())), V>>>
    : std::true_type {};
template <typename Op, typename V, typename = void>
struct MapsVectors : std::false_type {};
template <typename Op, typename V>
struct MapsVectors<
    Op, V, std::enable_if_t<std::is_same_v<decltype(std::declval<const Op&>().map(std::declval<V>(), int64_t{0})), V>>>
    : std::true_type {};

/// Folds n elements in vector registers, as many as keep the adders busy.
template <typename Op>
ETIR_FLATTEN inline typename Op::Value fold_vectors(const typename Op::Value* __restrict p, int64_t n, const Op& op) {
  using T = typename Op::Value;
  using V = typename Vector<T>::type;
  constexpr int kLanes = Vector<T>::kLanes, kVectors = 8;
  const auto mapped = [&](const T* from) {
    if constexpr (MapsVectors<Op, V>::value) {
      return op.map(load_vector<T>(from), 0);
    } else {
      T lanes[kLanes];
      for (int k = 0; k < kLanes; ++k) lanes[k] = op.map(from[k], 0);
      return load_vector<T>(lanes);
    }
  };
  T result = op.identity();
  int64_t i = 0;
  if (n >= kLanes) {
    V acc[kVectors];
    if (n >= kVectors * kLanes) {
      ETIR_UNROLL
      for (int v = 0; v < kVectors; ++v) acc[v] = mapped(p + v * kLanes);
      for (i = kVectors * kLanes; i + kVectors * kLanes <= n; i += kVectors * kLanes) {
        ETIR_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[v] = op.combine(acc[v], mapped(p + i + v * kLanes));
      }
      ETIR_UNROLL
      for (int v = 0; v < 4; ++v) acc[v] = op.combine(acc[v], acc[v + 4]);
      acc[0] = op.combine(op.combine(acc[0], acc[2]), op.combine(acc[1], acc[3]));
    } else {
      acc[0] = mapped(p);
      i = kLanes;
    }
    for (; i + kLanes <= n; i += kLanes) acc[0] = op.combine(acc[0], mapped(p + i));
    result = fold_lanes<T>(acc[0], [&op](const V& a, const V& b) { return op.combine(a, b); });
  }
  for (; i < n; ++i) result = op.combine(result, op.map(p[i], 0));
  return result;
}

/// Folds n elements with as many accumulators as keep the adders busy.
template <typename Op>
ETIR_FLATTEN inline typename Op::Value fold_block(const typename Op::Value* __restrict p, int64_t n, const Op& op) {
  using T = typename Op::Value;
  if constexpr (CombinesVectors<Op, typename Vector<T>::type>::value) {
    return fold_vectors(p, n, op);
  } else {
    constexpr int kLanes = sizeof(T) == 1 ? 64 : sizeof(T) <= 4 ? 32 : sizeof(T) == 8 ? 16 : 4;
    T result = op.identity();
    int64_t i = 0;
    if (n >= kLanes) {
      T lanes[kLanes];
      for (int k = 0; k < kLanes; ++k) lanes[k] = op.map(p[k], 0);
      for (i = kLanes; i + kLanes <= n; i += kLanes) {
        for (int k = 0; k < kLanes; ++k) lanes[k] = op.combine(lanes[k], op.map(p[i + k], 0));
      }
      for (int width = kLanes / 2; width > 0; width /= 2) {
        for (int k = 0; k < width; ++k) lanes[k] = op.combine(lanes[k], lanes[k + width]);
      }
      result = lanes[0];
    }
    for (; i < n; ++i) result = op.combine(result, op.map(p[i], 0));
    return result;
  }
}

/// Combines values as a balanced tree would, holding one partial result for each level.
template <typename Op>
class Tree {
 public:
  using T = typename Op::Value;
  explicit Tree(const Op& op) : op_(op) {}
  void add(T value) {
    int level = 0;
    for (uint64_t full = count_++; full & 1u; full >>= 1) value = op_.combine(levels_[level++], value);
    levels_[level] = value;
  }
  T total() const {
    T value = op_.identity();
    int level = 0;
    for (uint64_t full = count_; full != 0; full >>= 1, ++level) {
      if (full & 1u) value = op_.combine(levels_[level], value);
    }
    return value;
  }

 private:
  const Op& op_;
  uint64_t count_ = 0;
  T levels_[48];
};

/// The same interface for operators that do not round.
template <typename Op>
class Flat {
 public:
  using T = typename Op::Value;
  explicit Flat(const Op& op) : op_(op), value_(op.identity()) {}
  void add(T value) { value_ = op_.combine(value_, value); }
  T total() const { return value_; }

 private:
  const Op& op_;
  T value_;
};

template <typename T, typename Op>
ETIR_FLATTEN inline void fold_row(const Op& op, T* __restrict acc, const T* __restrict row, int64_t n) {
  for (int64_t j = 0; j < n; ++j) acc[j] = op.combine(acc[j], op.map(row[j], j));
}
/// Four rows at once: a quarter of the traffic on the accumulators.
template <typename T, typename Op>
inline void fold_rows(const Op& op, T* __restrict acc, const T* __restrict row, int64_t stride, int64_t n) {
  const T* __restrict r1 = row + stride;
  const T* __restrict r2 = r1 + stride;
  const T* __restrict r3 = r2 + stride;
  for (int64_t j = 0; j < n; ++j) {
    const T low = op.combine(op.map(row[j], j), op.map(r1[j], j));
    const T high = op.combine(op.map(r2[j], j), op.map(r3[j], j));
    acc[j] = op.combine(acc[j], op.combine(low, high));
  }
}
template <typename T, typename Op>
inline void merge(const Op& op, T* __restrict into, T* __restrict from, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    into[j] = op.combine(into[j], from[j]);
    from[j] = op.identity();
  }
}

}  // namespace detail

/// Folds the reduced dims that start at input offset `offset` into one value.
template <typename Op>
typename Op::Value reduce_row(const ReducePlan& plan, const Source<typename Op::Value>& in, int64_t offset,
                              const Op& op) {
  using T = typename Op::Value;
  if (plan.reduced_count == 0) return op.identity();
  if (plan.reduced_rank == 1 && in.load == nullptr && plan.reduced_count <= kDirectBlock) {
    return detail::fold_block(in.get(offset, plan.reduced_count, nullptr), plan.reduced_count, op);
  }
  T buffer[kRowBlock];
  std::conditional_t<Op::kRounds, detail::Tree<Op>, detail::Flat<Op>> total(op);
  const int outer = plan.reduced_rank > 0 ? plan.reduced_rank - 1 : 0;
  const int64_t n = plan.reduced_rank > 0 ? plan.reduced[outer].size : 1;
  const int64_t runs = plan.reduced_count / n;
  DimWalk walk(plan.reduced, outer, 0);
  if (runs > 1 && n <= kRowBlock / 4) {
    // Short runs are packed, so that there is something to fold.
    int64_t filled = 0;
    for (int64_t run = 0; run < runs; ++run, walk.next()) {
      const T* from = in.get(offset + walk.in, n, buffer + filled);
      if (in.load == nullptr) {
        for (int64_t i = 0; i < n; ++i) buffer[filled + i] = from[i];
      }
      filled += n;
      if (filled + n <= kRowBlock && run + 1 < runs) continue;
      total.add(detail::fold_block(buffer, filled, op));
      filled = 0;
    }
    return total.total();
  }
  const int64_t block = in.load == nullptr ? kDirectBlock : kRowBlock;
  for (int64_t run = 0; run < runs; ++run, walk.next()) {
    for (int64_t i = 0; i < n; i += block) {
      const int64_t count = n - i < block ? n - i : block;
      total.add(detail::fold_block(in.get(offset + walk.in + i, count, buffer), count, op));
    }
  }
  return total.total();
}

/// Folds `n` <= kColumnBlock neighboring columns into `out`. The input has elements.
template <typename Op>
void reduce_columns(const ReducePlan& plan, const Source<typename Op::Value>& in, int64_t offset, int64_t n,
                    const Op& op, typename Op::Value* out) {
  using T = typename Op::Value;
  // Sums that round go through three levels, of 32 rows, 32 times that, and the rest; the others use the first level
  // alone.
  constexpr int kLevels = Op::kRounds ? 3 : 1;
  constexpr int64_t kFlush = 32;
  T buffer[kColumnBlock];
  T acc[kLevels][kColumnBlock];
  for (int level = 0; level < kLevels; ++level) {
    for (int64_t j = 0; j < n; ++j) acc[level][j] = op.identity();
  }
  const int outer = plan.reduced_rank > 0 ? plan.reduced_rank - 1 : 0;
  const int64_t rows = plan.reduced_rank > 0 ? plan.reduced[outer].size : 1;
  const int64_t stride = plan.reduced_rank > 0 ? plan.reduced[outer].in : 0;
  const int64_t runs = plan.reduced_count / rows;
  DimWalk walk(plan.reduced, outer, 0);
  int64_t done = 0, flushed = 0;
  for (int64_t run = 0; run < runs; ++run, walk.next()) {
    int64_t row = 0;
    while (row < rows) {
      const int64_t at = offset + walk.in + row * stride;
      if (Op::kCheap && in.load == nullptr && row + 4 <= rows) {
        detail::fold_rows(op, acc[0], in.get(at, n, buffer), stride, n);
        row += 4;
        done += 4;
      } else {
        detail::fold_row(op, acc[0], in.get(at, n, buffer), n);
        ++row;
        ++done;
      }
      if constexpr (Op::kRounds) {
        if (done < kFlush) continue;
        done = 0;
        detail::merge(op, acc[1], acc[0], n);
        if (++flushed < kFlush) continue;
        flushed = 0;
        detail::merge(op, acc[2], acc[1], n);
      }
    }
  }
  for (int level = kLevels - 1; level > 0; --level) detail::merge(op, acc[level - 1], acc[level], n);
  for (int64_t j = 0; j < n; ++j) out[j] = acc[0][j];
}

/// One value (rows) or up to kColumnBlock of them (columns), whichever the plan asks for.
template <typename Op>
inline void reduce_part(const ReducePlan& plan, const Source<typename Op::Value>& in, int64_t offset, int64_t n,
                        const Op& op, typename Op::Value* out) {
  if (plan.rows) {
    out[0] = reduce_row(plan, in, offset, op);
  } else {
    reduce_columns(plan, in, offset, n, op, out);
  }
}

/// Calls `body(in_offset, out_offset, out_stride, n)` for every part of the result: n <= kColumnBlock columns, or
/// n <= `most_rows` rows, which start `plan.row_stride()` elements apart.
template <typename Body>
void for_each_part(KernelContext& ctx, const ReducePlan& plan, const Body& body, int64_t most_rows = 1) {
  if (plan.kept_count == 0) return;
  const int64_t most = plan.rows ? most_rows : kColumnBlock;
  const bool in_blocks = plan.kept_rank > 0 && most > 1;
  const int outer = plan.kept_rank - (in_blocks ? 1 : 0);
  const ReducePlan::Dim inner = in_blocks ? plan.kept[outer] : ReducePlan::Dim{1, 0, 1};
  const int64_t blocks = (inner.size + most - 1) / most;
  const int64_t parts = plan.kept_count / inner.size * blocks;
  const int64_t work = plan.reduced_count * (inner.size < most ? inner.size : most);
  const int64_t grain = work >= kReduceGrain ? 1 : kReduceGrain / (work + 1) + 1;
  ctx.parallel_for(parts, grain, [&](int64_t begin, int64_t end) {
    DimWalk walk(plan.kept, outer, begin / blocks);
    int64_t block = begin % blocks;
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = block * most;
      const int64_t n = inner.size - first < most ? inner.size - first : most;
      body(walk.in + first * inner.in, walk.out + first * inner.out, inner.out, n);
      if (++block == blocks) {
        block = 0;
        walk.next();
      }
    }
  });
}

/// How many rows are one part, so that parts are worth their overhead and still enough for several threads.
inline int64_t rows_at_once(const ReducePlan& plan, int64_t elements) {
  if (elements < plan.reduced_count) return 1;
  const int64_t rows = plan.reduced_count > 0 ? elements / plan.reduced_count : elements;
  return rows < kColumnBlock ? rows : kColumnBlock;
}

/// The usual reduction: folds with `op`, then stores `finish(value)`.
template <typename Op, typename Finish>
void reduce(KernelContext& ctx, const ReducePlan& plan, const Source<typename Op::Value>& in,
            const Sink<typename Op::Value>& out, const Op& op, const Finish& finish) {
  const auto part = [&](int64_t from, int64_t to, int64_t stride, int64_t n) {
    typename Op::Value values[kColumnBlock];
    if (plan.rows) {
      for (int64_t i = 0; i < n; ++i) values[i] = reduce_row(plan, in, from + i * plan.row_stride(), op);
    } else {
      reduce_columns(plan, in, from, n, op, values);
    }
    for (int64_t j = 0; j < n; ++j) values[j] = finish(values[j]);
    out.put(to, stride, values, n);
  };
  for_each_part(ctx, plan, part, rows_at_once(plan, kReduceGrain));
}

}  // namespace etir
