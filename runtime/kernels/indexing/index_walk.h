// Advanced indexing: the one walk of index, index_put, index_select, embedding, index_add and their like.
//
// An indexed tensor falls into the dims that are indexed, together one "index space" of the indices' common shape, and
// the rest. The walk takes the index space in blocks: it turns a block of positions into byte offsets (checking every
// index), then goes over the rest with them. So an index is read once however large the rest is, the innermost loop is
// a copy of a chunk or a list of offsets, and nothing is allocated. Masks are scanned along with the walk instead of
// being turned into lists of positions.
#pragma once

#include "kernels/util/lines.h"

namespace etir::lines {

/// One tensor of indices, or one mask, and the dims of the indexed tensor that it stands for.
struct IndexSource {
  const Tensor* tensor;
  int dim;  ///< the first of these dims; a mask covers as many as its rank
  bool mask;
  bool wide;                  ///< int64, not int32
  bool moves;                 ///< whether a mask has more than one element set
  int64_t strides[kMaxRank];  ///< byte strides of indices over the dims of the index space
};

struct IndexPlan {
  int space_rank = 0;
  int64_t space[kMaxRank];  ///< the index space
  int64_t count = 1;        ///< positions of the index space
  int sources = 0;
  IndexSource source[kMaxRank];
  uint32_t indexed_dims = 0;  ///< one bit for each dim of the indexed tensor
  int before = 0;             ///< how many of the other dims come before the index space in the result
  bool negative = true;       ///< whether negative indices count from the end
  int rank = 0;               ///< rank of the result
  int64_t sizes[kMaxRank];    ///< sizes of the result
  int result_dim[kMaxRank];   ///< where a dim of the indexed tensor that is not indexed is in the result
};

inline int64_t count_set(const Tensor& mask) {
  const uint8_t* bytes = mask.ptr<const uint8_t>();
  const int64_t n = mask.numel();
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += bytes[i] != 0;
  return count;
}

/// Broadcasts `sizes` into the index space.
inline bool widen_space(IndexPlan& plan, const int64_t* sizes, int rank) {
  if (rank > plan.space_rank) {
    const int more = rank - plan.space_rank;
    for (int d = plan.space_rank - 1; d >= 0; --d) plan.space[d + more] = plan.space[d];
    for (int d = 0; d < more; ++d) plan.space[d] = 1;
    plan.space_rank = rank;
  }
  for (int d = 0; d < rank; ++d) {
    int64_t& size = plan.space[plan.space_rank - rank + d];
    if (size == 1) size = sizes[d];
    if (sizes[d] != 1 && sizes[d] != size) return false;
  }
  return true;
}

/// Adds one source, which must have data. False, with the failure recorded, when it does not fit.
__attribute__((noinline)) inline bool add_source(KernelContext& ctx, IndexPlan& plan, const Tensor& self,
                                                 const Tensor& tensor, int dim, int position) {
  const bool mask = contains(kMaskTypes, tensor.dtype);
  const int covered = mask ? tensor.rank : 1;
  if (dim + covered > self.rank) return ctx.fail(Check::KernelRank, position, tensor.rank), false;
  IndexSource& source = plan.source[plan.sources];
  source.tensor = &tensor;
  source.dim = dim;
  source.mask = mask;
  source.wide = is_wide(tensor);
  int64_t sizes[kMaxRank];
  int rank = tensor.rank;
  if (mask) {
    for (int d = 0; d < covered; ++d) {
      if (tensor.sizes[d] != self.sizes[dim + d]) {
        return ctx.fail(Check::KernelShape, position, tensor.sizes[d]), false;
      }
    }
    rank = 1;
    sizes[0] = count_set(tensor);
    source.moves = sizes[0] != 1;
  } else {
    for (int d = 0; d < rank; ++d) sizes[d] = tensor.sizes[d];
  }
  if (!widen_space(plan, sizes, rank)) return ctx.fail(Check::KernelShape, position, sizes[0]), false;
  for (int d = 0; d < covered; ++d) plan.indexed_dims |= uint32_t{1} << (dim + d);
  if (covered > 0) ++plan.sources;
  return true;
}

/// Fills in what follows from the sources. False, with the failure recorded, when the result has too many dims.
__attribute__((noinline)) inline bool finish_plan(KernelContext& ctx, IndexPlan& plan, const Tensor& self,
                                                  int position) {
  for (int s = 0; s < plan.sources; ++s) {
    IndexSource& source = plan.source[s];
    if (source.mask) continue;
    int64_t strides[kMaxRank];
    const Tensor& tensor = *source.tensor;
    tensor.strides(strides);
    const int missing = plan.space_rank - tensor.rank;
    for (int d = 0; d < plan.space_rank; ++d) {
      const bool still = d < missing || tensor.sizes[d - missing] == 1;
      source.strides[d] = still ? 0 : strides[d - missing] * static_cast<int64_t>(element_size(tensor.dtype));
    }
  }
  for (int d = 0; d < plan.space_rank; ++d) {
    if (__builtin_mul_overflow(plan.count, plan.space[d], &plan.count)) {
      return ctx.fail(Check::KernelShape, position, plan.space[d]), false;
    }
  }
  // Indexed dims side by side stay where they are; otherwise the index space comes first.
  int first = 0, indexed = 0;
  while (first < self.rank && (plan.indexed_dims >> first & 1) == 0) ++first;
  for (int d = 0; d < self.rank; ++d) indexed += plan.indexed_dims >> d & 1;
  const bool adjacent = (plan.indexed_dims >> first) == (uint32_t{1} << indexed) - 1;
  plan.before = indexed > 0 && adjacent ? first : 0;
  plan.rank = self.rank - indexed + plan.space_rank;
  if (plan.rank > kMaxRank) return ctx.fail(Check::KernelRank, position, plan.rank), false;
  int other = 0;
  for (int d = 0; d < self.rank; ++d) {
    if (plan.indexed_dims >> d & 1) continue;
    const int at = other < plan.before ? other : other + plan.space_rank;
    plan.result_dim[d] = at;
    plan.sizes[at] = self.sizes[d];
    ++other;
  }
  for (int d = 0; d < plan.space_rank; ++d) plan.sizes[plan.before + d] = plan.space[d];
  return true;
}

/// The plan of `self[indices]`, for a list of tensors that may be absent.
__attribute__((noinline)) inline bool plan_indices(KernelContext& ctx, IndexPlan& plan, const Tensor& self,
                                                   const TensorList& indices, int position) {
  int dim = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const Tensor* tensor = indices.get(i);
    if (tensor == nullptr) {
      if (++dim > self.rank) return ctx.fail(Check::KernelRank, position, dim), false;
      continue;
    }
    if (!takes(ctx, *tensor, kIndexTypes | kMaskTypes)) return false;
    if (!add_source(ctx, plan, self, *tensor, dim, position)) return false;
    dim += contains(kMaskTypes, tensor->dtype) ? tensor->rank : 1;
  }
  return finish_plan(ctx, plan, self, position);
}

/// The plan of indexing one dim with one tensor whose indices count from the start only.
inline bool plan_dim(KernelContext& ctx, IndexPlan& plan, const Tensor& self, int dim, const Tensor& index,
                     int position) {
  plan.negative = false;
  return add_source(ctx, plan, self, index, dim, position) && finish_plan(ctx, plan, self, position);
}

/// Finds the k-th set element of a mask, fast when asked for in order.
struct MaskCursor {
  int64_t ordinal = -1;
  int64_t flat = -1;

  /// The row-major position of the k-th set element, or -1.
  int64_t seek(const Tensor& mask, const int64_t* strides, int64_t k) {
    if (k < ordinal) ordinal = flat = -1;
    const uint8_t* bytes = mask.ptr<const uint8_t>();
    const int64_t n = mask.numel();
    while (ordinal < k) {
      do {
        if (++flat >= n) {
          ordinal = flat = -1;
          return -1;
        }
      } while (bytes[mask.is_row_major() ? flat : offset(mask, strides, flat)] == 0);
      ++ordinal;
    }
    return flat;
  }
  /// A row-major position with other strides.
  static int64_t offset(const Tensor& mask, const int64_t* strides, int64_t flat) {
    int64_t at = 0;
    for (int d = mask.rank - 1; d >= 0; --d) {
      at += flat % mask.sizes[d] * strides[d];
      flat /= mask.sizes[d];
    }
    return at;
  }
};

/// The walk over an indexed tensor and another one that has the result's shape, or broadcasts to it.
class IndexWalk {
 public:
  static constexpr int kBlock = 128;

  IndexWalk(const IndexPlan& plan, const Tensor& indexed, const Tensor& other) : plan_(plan), indexed_(indexed) {
    const View view(indexed);
    const View other_view(other);
    const int missing = plan.rank - other.rank;
    int64_t strides[kMaxRank];
    for (int d = 0; d < plan.rank; ++d) {
      const bool still = d < missing || other.sizes[d - missing] == 1;
      strides[d] = still ? 0 : other_view.strides[d - missing];
    }
    for (int d = 0; d < indexed.rank; ++d) strides_[d] = view.strides[d];
    for (int d = 0; d < plan.space_rank; ++d) space_strides_[d] = strides[plan.before + d];
    int dims[kMaxRank];
    rest_.rank = indexed.rank > 0 ? memory_order(indexed, plan.indexed_dims, dims) : 0;
    for (int i = 0; i < rest_.rank; ++i) {
      rest_.sizes[i] = indexed.sizes[dims[i]];
      rest_.strides[0][i] = view.strides[dims[i]];
      rest_.strides[1][i] = strides[plan.result_dim[dims[i]]];
    }
    rest_.data[0] = view.data;
    rest_.data[1] = other_view.data;
    rest_.coalesce();
  }

  int64_t rest() const { return rest_.numel(); }

  /// Handles a block of positions and a row of the rest: element i of n and position j of m are at
  /// data[k] + i * steps[k] + offsets[k][j], k = 0 in the indexed tensor and 1 in the other.
  using Body = void (*)(const void* context, char* const* data, const int64_t* steps, int64_t n,
                        const int64_t* const* offsets, int64_t m);

  /// Calls `body` for every block of the positions [begin, end) and every row of the rest. A function, not a template:
  /// what differs by dtype is small beside the walk itself.
  __attribute__((noinline)) void run(int64_t begin, int64_t end, IndexGuard& guard, Body body,
                                     const void* context = nullptr) const {
    int64_t indexed[kBlock], other[kBlock];
    const int64_t* const offsets[2] = {indexed, other};
    MaskCursor cursors[kMaxRank];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t m = end - at < kBlock ? end - at : kBlock;
      find(at, m, guard, cursors, indexed, other);
      if (guard.bad()) return;
      rest_.run([&](char* const* data, const int64_t* steps, int64_t n) { body(context, data, steps, n, offsets, m); });
    }
  }

 private:
  /// The byte offsets of `m` positions from `begin` in both tensors.
  void find(int64_t begin, int64_t m, IndexGuard& guard, MaskCursor* cursors, int64_t* indexed, int64_t* other) const {
    const int last = plan_.space_rank - 1;
    const int64_t row = last >= 0 ? plan_.space[last] : 1;
    for (int64_t j = 0; j < m;) {
      // A run along the innermost dim of the index space.
      const int64_t in_row = (begin + j) % row;
      const int64_t run = row - in_row < m - j ? row - in_row : m - j;
      int64_t coordinates[kMaxRank];
      int64_t above = (begin + j) / row;
      for (int d = last - 1; d >= 0; --d) {
        coordinates[d] = above % plan_.space[d];
        above /= plan_.space[d];
      }
      if (last >= 0) coordinates[last] = in_row;
      const int64_t start = dot(coordinates, space_strides_);
      const int64_t step = last >= 0 ? space_strides_[last] : 0;
      for (int64_t i = 0; i < run; ++i) {
        other[j + i] = start + i * step;
        indexed[j + i] = 0;
      }
      for (int s = 0; s < plan_.sources; ++s) {
        const IndexSource& source = plan_.source[s];
        if (source.mask) {
          add_mask(source, cursors[s], in_row, run, guard, indexed + j);
        } else {
          const char* at = source.tensor->ptr<const char>() + dot(coordinates, source.strides);
          add_indices(source, at, last >= 0 ? source.strides[last] : 0, run, guard, indexed + j);
        }
      }
      j += run;
    }
  }

  int64_t dot(const int64_t* coordinates, const int64_t* strides) const {
    int64_t sum = 0;
    for (int d = 0; d < plan_.space_rank; ++d) sum += coordinates[d] * strides[d];
    return sum;
  }

  void add_indices(const IndexSource& source, const char* at, int64_t step, int64_t run, IndexGuard& guard,
                   int64_t* offsets) const {
    const int64_t size = indexed_.sizes[source.dim];
    const int64_t stride = strides_[source.dim];
    const int64_t shift = plan_.negative ? size : 0;
    for (int64_t i = 0; i < run; ++i) {
      const int64_t given = load_index(at + i * step, source.wide);
      const int64_t index = given < 0 ? given + shift : given;
      if (static_cast<uint64_t>(index) < static_cast<uint64_t>(size)) {
        offsets[i] += index * stride;
      } else {
        guard.note(given, size);
      }
    }
  }

  void add_mask(const IndexSource& source, MaskCursor& cursor, int64_t first, int64_t run, IndexGuard& guard,
                int64_t* offsets) const {
    const Tensor& mask = *source.tensor;
    int64_t mask_strides[kMaxRank];
    mask.strides(mask_strides);
    for (int64_t i = 0; i < run; ++i) {
      const int64_t flat = cursor.seek(mask, mask_strides, source.moves ? first + i : 0);
      if (flat < 0) return guard.note(first + i, mask.numel());
      offsets[i] += MaskCursor::offset(mask, strides_ + source.dim, flat);
    }
  }

  const IndexPlan& plan_;
  const Tensor& indexed_;
  Loops<2> rest_;
  int64_t strides_[kMaxRank];
  int64_t space_strides_[kMaxRank];
};

/// A body for IndexWalk::run that copies elements of type T from operand `kFrom` to the other.
template <typename T, int kFrom>
void copy_block(const void*, char* const* data, const int64_t* steps, int64_t n, const int64_t* const* offsets,
                int64_t m) {
  constexpr int kTo = 1 - kFrom;
  constexpr int64_t kBytes = sizeof(T);
  if (n > 1 && steps[0] == kBytes && steps[1] == kBytes) {
    for (int64_t j = 0; j < m; ++j) {
      std::memmove(data[kTo] + offsets[kTo][j], data[kFrom] + offsets[kFrom][j], static_cast<size_t>(n) * sizeof(T));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    char* to = data[kTo] + i * steps[kTo];
    const char* from = data[kFrom] + i * steps[kFrom];
    for (int64_t j = 0; j < m; ++j) store(to + offsets[kTo][j], load<T>(from + offsets[kFrom][j]));
  }
}

/// Reads: `out` becomes the indexed elements. Only the data of `out` is written; it must have the result's shape.
inline bool read_indexed(KernelContext& ctx, const IndexPlan& plan, const Tensor& self, const Tensor& out,
                         int out_position) {
  const IndexWalk walk(plan, self, out);
  IndexGuard guard;
  const int64_t rest = walk.rest();
  const int64_t grain = 1 + 32768 / (rest > 0 ? rest : 1);
  const bool known = dispatch_size(element_size(self.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.parallel_for(plan.count, grain,
                     [&](int64_t begin, int64_t end) { walk.run(begin, end, guard, copy_block<T, 0>); });
  });
  if (!known) ctx.fail(Check::KernelDtype, out_position, number(self.dtype));
  return known && guard.report(ctx);
}

/// Whether `values` broadcasts to the shape of the result.
inline bool broadcasts_to_result(const IndexPlan& plan, const Tensor& values) {
  if (values.rank > plan.rank) return false;
  for (int d = 0; d < values.rank; ++d) {
    if (values.sizes[d] != 1 && values.sizes[d] != plan.sizes[plan.rank - values.rank + d]) return false;
  }
  return true;
}

/// Writes: the indexed elements of `out` become `values`, which broadcast, in the order of positions.
inline bool write_indexed(KernelContext& ctx, const IndexPlan& plan, const Tensor& out, const Tensor& values,
                          int out_position) {
  const IndexWalk walk(plan, out, values);
  IndexGuard guard;
  const bool known = dispatch_size(element_size(out.dtype), [&](auto tag) {
    walk.run(0, plan.count, guard, copy_block<typename decltype(tag)::type, 1>);
  });
  if (!known) ctx.fail(Check::KernelDtype, out_position, number(out.dtype));
  return known && guard.report(ctx);
}

/// A body for IndexWalk::run that combines elements of operand 0 with those of operand 1.
template <typename T, typename Combine>
void combine_block(const void* context, char* const* data, const int64_t* steps, int64_t n,
                   const int64_t* const* offsets, int64_t m) {
  const Combine& combine = *static_cast<const Combine*>(context);
  for (int64_t j = 0; j < m; ++j) {
    char* to = data[0] + offsets[0][j];
    const char* from = data[1] + offsets[1][j];
    for (int64_t i = 0; i < n; ++i) {
      store(to + i * steps[0], combine(load<T>(to + i * steps[0]), load<T>(from + i * steps[1])));
    }
  }
}

/// As write_indexed, but combines: `combine(old, value)`, for the dtypes of kSet.
template <DtypeSet kSet, typename Combine>
bool combine_indexed(KernelContext& ctx, const IndexPlan& plan, const Tensor& out, const Tensor& values,
                     int out_position, const Combine& combine) {
  const IndexWalk walk(plan, out, values);
  IndexGuard guard;
  const bool known = dispatch<kSet>(out.dtype, [&](auto tag) {
    walk.run(0, plan.count, guard, combine_block<typename decltype(tag)::type, Combine>, &combine);
  });
  if (!known) ctx.fail(Check::KernelDtype, out_position, number(out.dtype));
  return known && guard.report(ctx);
}

}  // namespace etir::lines
