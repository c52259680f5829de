// Operators of ExecuTorch's library for Cortex-M that leave int8 numbers as they are: which of two, and where.
#include "kernels/cortex_m/moves.gen.h"
#include "kernels/kernel.h"
#include "kernels/util/checks.h"
#include "kernels/util/elementwise.h"
#include "kernels/util/strided_copy.h"

namespace etir {
namespace {

constexpr int kMostRank = 4;

bool check_int8(KernelContext& ctx, const Tensor& tensor) {
  if (tensor.dtype == ScalarType::Char) return true;
  return ctx.fail(Check::KernelDtype, tensor, static_cast<int64_t>(tensor.dtype)), false;
}

template <typename F>
void choose(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out, const F& f) {
  if (!check_int8(ctx, self) || !check_int8(ctx, other) || !check_int8(ctx, out)) return;
  elementwise<int64_t, int64_t, int64_t>(ctx, out, {&self, &other}, ScalarType::Char, f);
}

/// Whether padding of a tensor is given in the order of its memory, channels innermost. ExecuTorch also says so of
/// images of one channel or one pixel, wherever their channels are.
bool is_channels_last(const Tensor& tensor) {
  if (tensor.rank != 4) return false;
  if (tensor.sizes[1] == 1 || (tensor.sizes[2] == 1 && tensor.sizes[3] == 1)) return true;
  int64_t strides[kMaxRank];
  tensor.strides(strides);
  return tensor.dim_order != nullptr && tensor.dim_order[0] == 0 && tensor.dim_order[1] == 2;
}

}  // namespace

void cortex_m_minimum_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  choose(ctx, self, other, out, [](int64_t a, int64_t b) { return a < b ? a : b; });
}
void cortex_m_maximum_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  choose(ctx, self, other, out, [](int64_t a, int64_t b) { return a > b ? a : b; });
}

void cortex_m_transpose_out(KernelContext& ctx, const Tensor& input, const IntList& perm, Tensor& out) {
  using arg = arguments::cortex_m_transpose_out;
  if (!check_int8(ctx, input) || !check_int8(ctx, out)) return;
  const int rank = input.rank;
  if (perm.size() != static_cast<size_t>(rank)) return ctx.fail(Check::KernelArgument, arg::perm, perm.size());
  int64_t sizes[kMaxRank], from[kMaxRank], to[kMaxRank], strides[kMaxRank];
  input.strides(strides);
  uint32_t taken = 0;
  for (int d = 0; d < rank; ++d) {
    const int64_t given = perm[d], dim = given < 0 ? given + rank : given;
    if (dim < 0 || dim >= rank || (taken >> dim & 1) != 0) return ctx.fail(Check::KernelArgument, arg::perm, given);
    taken |= 1u << dim;
    sizes[d] = input.sizes[dim], from[d] = strides[dim];
  }
  if (!ctx.resize(out, sizes, rank) || !has_data(ctx, input) || !has_data(ctx, out)) return;
  out.strides(to);
  CopyDims dims;
  for (int d = 0; d < rank; ++d) dims.add(sizes[d], from[d], to[d]);
  strided_copy(ctx, dims, input.data, out.data, 1);
}

void cortex_m_pad_out(KernelContext& ctx, const Tensor& input, const IntList& pre_pad, const IntList& post_pad,
                      int64_t pad_value, Tensor& out) {
  using arg = arguments::cortex_m_pad_out;
  if (!check_int8(ctx, input) || !check_int8(ctx, out)) return;
  const int rank = input.rank, offset = kMostRank - rank;
  if (rank > kMostRank) return ctx.fail(Check::KernelRank, input, rank);
  if (pre_pad.size() != kMostRank) return ctx.fail(Check::KernelArgument, arg::pre_pad, pre_pad.size());
  if (post_pad.size() != kMostRank) return ctx.fail(Check::KernelArgument, arg::post_pad, post_pad.size());
  if (pad_value < -128 || pad_value > 127) return ctx.fail(Check::KernelArgument, arg::pad_value, pad_value);
  constexpr int kInMemory[kMostRank] = {0, 3, 1, 2};
  constexpr int64_t kMost = int64_t{1} << 31;
  const bool last = is_channels_last(input);
  int64_t sizes[kMostRank] = {}, before[kMostRank] = {};
  for (int d = 0; d < rank; ++d) {
    const int at = last ? kInMemory[d] : offset + d;
    if (pre_pad[at] < 0 || pre_pad[at] > kMost) return ctx.fail(Check::KernelArgument, arg::pre_pad, pre_pad[at]);
    if (post_pad[at] < 0 || post_pad[at] > kMost) return ctx.fail(Check::KernelArgument, arg::post_pad, post_pad[at]);
    before[d] = pre_pad[at];
    sizes[d] = input.sizes[d] + pre_pad[at] + post_pad[at];
  }
  if (!ctx.resize(out, sizes, rank) || !has_data(ctx, input) || !has_data(ctx, out)) return;
  int64_t from[kMaxRank], to[kMaxRank], first = 0;
  input.strides(from), out.strides(to);
  CopyDims dims;
  for (int d = 0; d < rank; ++d) {
    dims.add(input.sizes[d], from[d], to[d]);
    first += before[d] * to[d];
  }
  std::memset(out.data, static_cast<int>(pad_value), static_cast<size_t>(out.numel()));
  strided_copy(ctx, dims, input.data, out.ptr<int8_t>() + first, 1);
}

}  // namespace etir
