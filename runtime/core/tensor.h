// A tensor as kernels see it: where its elements are and how they are laid out. It owns nothing.
//
// Sizes and dim order of a static tensor are those in the program's bytes: only tensors whose shape can change have
// sizes in RAM. Strides are not stored; dense layouts make them a function of sizes and dim order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/scalar_type.h"

namespace etir {

/// The largest rank of the format.
constexpr int kMaxRank = 16;

enum class Dynamism : uint8_t { Static = 0, Bound = 1, Unbound = 2 };

struct Tensor {
  void* data;
  const int32_t* sizes;      ///< `rank` sizes; for tensors that are not static, in RAM (see resize)
  const uint8_t* dim_order;  ///< `rank` dims from outermost to innermost; null stands for 0, 1, 2, ...
  ScalarType dtype;
  uint8_t rank;
  Dynamism dynamism;
  uint8_t flags;
  /// Elements that the buffer of a non-static tensor has room for, saturated at 2^32 - 1.
  uint32_t capacity;

  // Flags are the executor's, not the kernels'.
  /// The tensor has no memory of its own: the caller, or a view, says where its data are.
  static constexpr uint8_t kFlagUser = 1;
  /// The data are constant: no kernel may write them.
  static constexpr uint8_t kFlagConstant = 2;
  /// The data are another tensor's, for the rest of this run.
  static constexpr uint8_t kFlagView = 4;

  int64_t size(int dim) const { return sizes[dim]; }
  /// Number of elements; the loader has proved that it does not overflow.
  int64_t numel() const {
    int64_t count = 1;
    for (int d = 0; d < rank; ++d) count *= sizes[d];
    return count;
  }
  size_t nbytes() const { return static_cast<size_t>(numel()) * element_size(dtype); }
  /// Whether elements lie in row-major order (dims of size 1 included in the order as the program wrote it).
  bool is_row_major() const { return dim_order == nullptr; }
  int order(int position) const { return dim_order == nullptr ? position : dim_order[position]; }
  /// Writes `rank` strides in elements. A dim of size 0 counts as 1, as in torch.
  void strides(int64_t* out) const {
    int64_t stride = 1;
    for (int position = rank - 1; position >= 0; --position) {
      const int dim = order(position);
      out[dim] = stride;
      stride *= sizes[dim] > 0 ? sizes[dim] : 1;
    }
  }
  template <typename T>
  T* ptr() const {
    return static_cast<T*>(data);
  }
};

/// Whether two tensors of one rank have the same dim order.
inline bool same_dim_order(const Tensor& a, const Tensor& b) {
  if (a.rank != b.rank) return false;
  for (int position = 0; position < a.rank; ++position) {
    if (a.order(position) != b.order(position)) return false;
  }
  return true;
}
inline bool same_shape(const Tensor& a, const Tensor& b) {
  if (a.rank != b.rank) return false;
  for (int d = 0; d < a.rank; ++d) {
    if (a.sizes[d] != b.sizes[d]) return false;
  }
  return true;
}

}  // namespace etir
