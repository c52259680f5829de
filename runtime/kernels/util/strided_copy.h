// One engine for every operator that only moves elements.
//
// A caller lists the dims of the copy with the stride of each in the source and in the destination; source strides may
// be 0 (expand, fill) or negative (flip). The engine sorts the dims by destination stride, merges those that both sides
// walk as one, and is left with one of three innermost shapes: runs of bytes that memcpy moves, a transpose, which goes
// in blocks that fit the nearest cache, or a strided line. Elements are moved in units of 1 to 16 bytes, as wide as
// runs and alignment allow, so that dtypes do not matter and misaligned data is merely slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernel.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/interleave.h"

namespace etir {

/// Operators split dims of a tensor in two (repeat), and may add one.
constexpr int kMaxCopyRank = 2 * kMaxRank + 2;

/// The dims of a copy, in any order.
struct CopyDims {
  int rank = 0;
  bool empty = false;
  int64_t sizes[kMaxCopyRank];
  int64_t from[kMaxCopyRank];  ///< strides of the source, in elements
  int64_t to[kMaxCopyRank];    ///< strides of the destination, in elements

  void add(int64_t size, int64_t from_stride, int64_t to_stride) {
    empty = empty || size <= 0;
    if (size == 1) return;
    sizes[rank] = size;
    from[rank] = from_stride;
    to[rank++] = to_stride;
  }
};

namespace detail {

/// What is left of a copy when its dims are sorted and merged: two inner dims, a and b, and the dims around them.
/// Strides are in bytes.
struct CopyPlan {
  const CopyDims* dims;  ///< the outer dims; the innermost of them counts the blocks of b
  const char* source;
  char* target;
  int64_t a, a_from, a_to;
  int64_t b, b_from, b_to;
  int64_t block;  ///< how much of b is done at once
  void (*kernel)(const CopyPlan& plan, const char* source, char* target, int64_t b) = nullptr;
};

/// T as the type of any memory.
template <typename T>
struct AnyMemory {
  typedef T type __attribute__((may_alias));
};
struct __attribute__((may_alias)) AnyBytes16 {
  uint64_t low, high;
};
template <>
struct AnyMemory<Bytes16> {
  using type = AnyBytes16;
};

/// Runs of plan.a bytes.
inline void copy_runs(const CopyPlan& plan, const char* source, char* target, int64_t b) {
  for (int64_t j = 0; j < b; ++j) {
    std::memcpy(target, source, static_cast<size_t>(plan.a));
    source += plan.b_from;
    target += plan.b_to;
  }
}

template <typename T>
inline void copy_line(const char* __restrict__ source, char* __restrict__ target, int64_t n, int64_t from, int64_t to) {
  using Unit = typename AnyMemory<T>::type;
  for (int64_t i = 0; i < n; ++i) {
    *reinterpret_cast<Unit*>(target + i * to) = *reinterpret_cast<const Unit*>(source + i * from);
  }
}

/// Lines of plan.a units. The compiler makes vectors of those whose strides are constants: fills and reversals.
template <typename T>
void copy_lines(const CopyPlan& plan, const char* source, char* target, int64_t b) {
  using Unit = typename AnyMemory<T>::type;
  constexpr int64_t kUnit = sizeof(T);
  const int64_t n = plan.a, from = plan.a_from, to = plan.a_to;
  for (int64_t j = 0; j < b; ++j) {
    if (to == kUnit && from == 0) {
      const Unit value = *reinterpret_cast<const Unit*>(source);
      for (int64_t i = 0; i < n; ++i) reinterpret_cast<Unit*>(target)[i] = value;
    } else if (to == kUnit && from == -kUnit) {
      copy_line<T>(source, target, n, -kUnit, kUnit);
    } else {
      copy_line<T>(source, target, n, from, to);
    }
    source += plan.b_from;
    target += plan.b_to;
  }
}

/// How many units of each dim a block of a transpose has (a line of the cache, or two), and of the other where a dim
/// is shorter than that.
template <typename T>
constexpr int64_t kTile = sizeof(T) >= 8 ? 8 : 16;
constexpr int64_t kLongTile = 256;

// Square transposes in vector registers, where there are vectors of 16 bytes and size does not come first: for N lanes,
// log2(N) rounds of interleaving row i with row i + N/2.
#if (defined(__SSE2__) || defined(__ARM_NEON)) && !defined(__OPTIMIZE_SIZE__) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define ETIR_COPY_VECTORS 1
#endif
#endif

#ifdef ETIR_COPY_VECTORS
template <typename T>
struct CopyVector {
  typedef T type __attribute__((vector_size(16)));
};
template <typename V>
inline V interleave_low(V a, V b) {
  if constexpr (sizeof(a[0]) == 1) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  } else if constexpr (sizeof(a[0]) == 2) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  } else if constexpr (sizeof(a[0]) == 4) {
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
  } else {
    return __builtin_shufflevector(a, b, 0, 2);
  }
}
template <typename V>
inline V interleave_high(V a, V b) {
  if constexpr (sizeof(a[0]) == 1) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  } else if constexpr (sizeof(a[0]) == 2) {
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  } else if constexpr (sizeof(a[0]) == 4) {
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
  } else {
    return __builtin_shufflevector(a, b, 1, 3);
  }
}

/// Transposes N x N units: rows of the source are `from` bytes apart, those of the target `to`.
template <typename T>
inline void transpose_square(const char* source, char* target, int64_t from, int64_t to) {
  constexpr int kLanes = 16 / sizeof(T);
  using V = typename CopyVector<T>::type;
  V rows[kLanes], next[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) std::memcpy(&rows[i], source + i * from, 16);
#pragma GCC unroll 4
  for (int round = 1; round < kLanes; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = interleave_low<V>(rows[i], rows[i + kLanes / 2]);
      next[2 * i + 1] = interleave_high<V>(rows[i], rows[i + kLanes / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) std::memcpy(target + i * to, &rows[i], 16);
}
#endif

/// A transpose: the target goes along a, the source along b (b <= plan.block).
template <typename T>
void copy_tiles(const CopyPlan& plan, const char* source, char* target, int64_t b) {
  const int64_t step = b < kTile<T> ? kLongTile : kTile<T>;
  if constexpr (sizeof(T) == 1) {
    if (plan.a == 3 && plan.a_to == 1 && plan.b_from == 1 && plan.b_to == 3) {
      const int64_t some = interleave_three(source, plan.a_from, target, b);
      source += some, target += 3 * some, b -= some;
    }
  }
  for (int64_t begin = 0; begin < plan.a; begin += step) {
    const int64_t a = plan.a - begin < step ? plan.a - begin : step;
    const char* s = source + begin * plan.a_from;
    char* t = target + begin * plan.a_to;
    int64_t done = 0;  // how much of a is done in squares, for all of b that fills squares
    int64_t rest = 0;  // where the rest of b begins
#ifdef ETIR_COPY_VECTORS
    if constexpr (sizeof(T) < 16) {
      constexpr int64_t kUnit = sizeof(T), kLanes = 16 / kUnit;
      if (plan.a_to == kUnit && plan.b_from == kUnit) {
        done = a - a % kLanes;
        rest = b - b % kLanes;
        for (int64_t j = 0; j < rest; j += kLanes) {
          for (int64_t i = 0; i < done; i += kLanes) {
            transpose_square<T>(s + i * plan.a_from + j * kUnit, t + i * kUnit + j * plan.b_to, plan.a_from, plan.b_to);
          }
        }
      }
    }
#endif
    for (int64_t j = rest; j < b && done > 0; ++j) {
      copy_line<T>(s + j * plan.b_from, t + j * plan.b_to, done, plan.a_from, plan.a_to);
    }
    s += done * plan.a_from;
    t += done * plan.a_to;
    const int64_t left = a - done;
    // The longer dim is the inner loop.
    if (left < b) {
      for (int64_t i = 0; i < left; ++i) {
        copy_line<T>(s + i * plan.a_from, t + i * plan.a_to, b, plan.b_from, plan.b_to);
      }
    } else {
      for (int64_t j = 0; j < b; ++j) {
        copy_line<T>(s + j * plan.b_from, t + j * plan.b_to, left, plan.a_from, plan.a_to);
      }
    }
  }
}

inline int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/// Sorts the dims by destination stride, largest first, and merges neighbors.
inline void sort_and_merge(CopyDims& dims) {
  for (int d = 1; d < dims.rank; ++d) {
    const int64_t size = dims.sizes[d], from = dims.from[d], to = dims.to[d];
    int at = d;
    for (; at > 0; --at) {
      const int64_t other = magnitude(dims.to[at - 1]);
      if (other > magnitude(to)) break;
      if (other == magnitude(to) && magnitude(dims.from[at - 1]) >= magnitude(from)) break;
      dims.sizes[at] = dims.sizes[at - 1];
      dims.from[at] = dims.from[at - 1];
      dims.to[at] = dims.to[at - 1];
    }
    dims.sizes[at] = size;
    dims.from[at] = from;
    dims.to[at] = to;
  }
  int kept = 0;
  for (int d = 0; d < dims.rank; ++d) {
    if (kept > 0 && dims.from[kept - 1] == dims.from[d] * dims.sizes[d] &&
        dims.to[kept - 1] == dims.to[d] * dims.sizes[d]) {
      --kept;
      dims.sizes[kept] *= dims.sizes[d];
    } else {
      dims.sizes[kept] = dims.sizes[d];
    }
    dims.from[kept] = dims.from[d];
    dims.to[kept++] = dims.to[d];
  }
  dims.rank = kept;
}

/// Moves dim `d` of the outer dims into `size`, `from` and `to`; a dim of one element if there is none.
inline void take_dim(CopyDims& dims, int d, int64_t& size, int64_t& from, int64_t& to) {
  size = 1;
  from = to = 0;
  if (d < 0) return;
  size = dims.sizes[d];
  from = dims.from[d];
  to = dims.to[d];
  --dims.rank;
  for (; d < dims.rank; ++d) {
    dims.sizes[d] = dims.sizes[d + 1];
    dims.from[d] = dims.from[d + 1];
    dims.to[d] = dims.to[d + 1];
  }
}

/// Does the blocks numbered [begin, end) of a plan.
inline void run_blocks(const CopyPlan& plan, int64_t begin, int64_t end) {
  const CopyDims& dims = *plan.dims;
  const char* source = plan.source;
  char* target = plan.target;
  int64_t index[kMaxCopyRank];
  int64_t rest = begin;
  for (int d = dims.rank - 1; d >= 0; --d) {
    index[d] = rest % dims.sizes[d];
    rest /= dims.sizes[d];
    source += index[d] * dims.from[d];
    target += index[d] * dims.to[d];
  }
  const int last = dims.rank - 1;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t left = plan.b - index[last] * plan.block;
    plan.kernel(plan, source, target, left < plan.block ? left : plan.block);
    for (int d = last; d >= 0; --d) {
      source += dims.from[d];
      target += dims.to[d];
      if (++index[d] < dims.sizes[d]) break;
      source -= dims.from[d] * dims.sizes[d];
      target -= dims.to[d] * dims.sizes[d];
      index[d] = 0;
    }
  }
}

}  // namespace detail

/// Copies elements of `element` bytes from `source` to `target`, which do not overlap. The destination strides of
/// dims must not be 0. `dims` is taken to pieces.
[[gnu::noinline]] inline void strided_copy(KernelContext& ctx, CopyDims& dims, const void* source, void* target,
                                           size_t element) {
  using namespace detail;
  if (dims.empty) return;
  sort_and_merge(dims);
  CopyPlan plan;
  plan.dims = &dims;
  plan.source = static_cast<const char*>(source);
  plan.target = static_cast<char*>(target);
  int64_t run = static_cast<int64_t>(element);
  if (dims.rank > 0 && dims.from[dims.rank - 1] == 1 && dims.to[dims.rank - 1] == 1) run *= dims.sizes[--dims.rank];
  uintptr_t alignment = reinterpret_cast<uintptr_t>(source) | reinterpret_cast<uintptr_t>(target);
  for (int d = 0; d < dims.rank; ++d) {
    dims.from[d] *= static_cast<int64_t>(element);
    dims.to[d] *= static_cast<int64_t>(element);
    alignment |= static_cast<uintptr_t>(dims.from[d]) | static_cast<uintptr_t>(dims.to[d]);
  }
  // The largest power of two that divides the run and that addresses are aligned to; 8 does for units of 16.
  const uint64_t bits = static_cast<uint64_t>(run) | (alignment & 7) | 16;
  const int64_t unit = static_cast<int64_t>(bits & (~bits + 1));

  int64_t bytes;  // of a and b together
  if (run > unit) {
    plan.kernel = copy_runs;
    plan.a = bytes = run;
    plan.a_from = plan.a_to = 1;
    take_dim(dims, dims.rank - 1, plan.b, plan.b_from, plan.b_to);
    plan.block = run < 65536 ? 65536 / run : 1;
  } else {
    take_dim(dims, dims.rank - 1, plan.a, plan.a_from, plan.a_to);
    bytes = plan.a * unit;
    // The dim that the source goes along, if it is not the one that the target goes along.
    int along = -1;
    for (int d = dims.rank - 1; d >= 0; --d) {
      const int64_t stride = magnitude(dims.from[d]);
      const int64_t least = magnitude(along < 0 ? plan.a_from : dims.from[along]);
      if (stride != 0 && stride < least) along = d;
    }
    const bool transpose = along >= 0;
    take_dim(dims, transpose ? along : dims.rank - 1, plan.b, plan.b_from, plan.b_to);
    if (transpose) {
      const int64_t tile = unit >= 8 ? kTile<uint64_t> : kTile<uint8_t>;
      plan.block = plan.a < tile ? kLongTile : tile;
    } else {
      plan.block = bytes < 65536 ? 65536 / bytes : 1;
    }
    dispatch_size(static_cast<size_t>(unit), [&](auto tag) {
      using T = typename decltype(tag)::type;
      plan.kernel = transpose ? copy_tiles<T> : copy_lines<T>;
    });
  }
  if (plan.block > plan.b) plan.block = plan.b;
  dims.sizes[dims.rank] = (plan.b + plan.block - 1) / plan.block;
  dims.from[dims.rank] = plan.b_from * plan.block;
  dims.to[dims.rank++] = plan.b_to * plan.block;
  int64_t blocks = 1;
  for (int d = 0; d < dims.rank; ++d) blocks *= dims.sizes[d];
  bytes *= plan.block;
  ctx.parallel_for(blocks, bytes < 65536 ? 65536 / bytes : 1,
                   [&](int64_t begin, int64_t end) { run_blocks(plan, begin, end); });
}

}  // namespace etir
