// Loops of the XNNPACK delegate's own: what its nodes do that no kernel does. Called as kernels are; their arguments
// are made by graph.cc and need no checks of kind.
#pragma once

#include "kernels/kernel.h"

namespace etir {
namespace xnnpack {

/// (from, to, perm...): a tensor of other dims over the same elements: `to` has the memory of `from`, and as its dim i
/// the dim perm[i].
void alias(KernelContext& ctx);
/// (from, to, low, high): limits; NaN stays. Float, Half or BFloat16; `from` may be `to`.
void limit(KernelContext& ctx);
/// (from, to, scale, zero_point, low, high): floats as integers of that scale, between low and high, stand for them;
/// halves are rounded to even. `from` may be `to`.
void round_to_scale(KernelContext& ctx);
/// (from, to, nonbatch): the same with a scale and zero point for each index of the dims before the last `nonbatch`, of
/// 8 bits, from the least and the largest number there (and zero). `from` may be `to`.
void round_by_token(KernelContext& ctx);
/// (from, to, scale, zero_point, low, high): the integers, of 8 bits, from floats.
void to_integers(KernelContext& ctx);
/// (from, to, scale, zero_point): floats from integers of 8 bits.
void from_integers(KernelContext& ctx);
/// (tensor, dim, end): fails where the dim ends before `end`.
void has_room(KernelContext& ctx);
/// (image, out, indices or none, mode, top, right, bottom, left, kernel h, w, stride h, w, dilation h, w): pools over
/// images of floats (N, H, W, C). Averages leave out what is padding.
void pool(KernelContext& ctx);
enum PoolMode : uint8_t { kMaxPool, kAveragePool, kArgMaxPool };

}  // namespace xnnpack
}  // namespace etir
