// Padding: with a constant, by reflection, by replication of the border.
#include "kernels/copy/fill.h"
#include "kernels/copy/pad.gen.h"

namespace etir {

/// The size of a dim with padding on both sides; -1, with the failure recorded, if there is none.
static int64_t padded_size(KernelContext& ctx, int64_t size, int64_t before, int64_t after) {
  int64_t sum;
  if (__builtin_add_overflow(before, after, &sum) || __builtin_add_overflow(sum, size, &sum) || sum < 0) {
    ctx.fail(Check::KernelArgument, arguments::constant_pad_nd_out::pad, before);
    return -1;
  }
  return sum;
}

void constant_pad_nd_out(KernelContext& ctx, const Tensor& self, const IntList& pad, const Scalar& value, Tensor& out) {
  using arg = arguments::constant_pad_nd_out;
  if (!check_dtype(ctx, self, out)) return;
  if (pad.size() % 2 != 0 || pad.size() > 2 * static_cast<size_t>(self.rank)) {
    return ctx.fail(Check::KernelArgument, arg::pad, static_cast<int64_t>(pad.size()));
  }
  alignas(16) char element[16];
  if (!scalar_element(ctx, value, arg::value, out, element)) return;
  View from = view_of(self);
  int64_t sizes[kMaxRank], start[kMaxRank];  // start: where the input begins in the result
  for (int d = 0; d < self.rank; ++d) {
    const size_t at = 2 * static_cast<size_t>(self.rank - 1 - d);
    const int64_t before = at < pad.size() ? pad[at] : 0, after = at < pad.size() ? pad[at + 1] : 0;
    sizes[d] = padded_size(ctx, self.sizes[d], before, after);
    if (sizes[d] < 0) return;
    // Negative padding crops.
    const int64_t size = self.sizes[d], crop_before = before < 0 ? before : 0, crop_after = after < 0 ? after : 0;
    if (crop_before < -size || crop_after < -size || size + crop_before + crop_after < 0) {
      return ctx.fail(Check::KernelArgument, arg::pad, crop_before < crop_after ? before : after);
    }
    from = part_of_dim(from, d, -crop_before, size + crop_before + crop_after);
    start[d] = before > 0 ? before : 0;
  }
  if (!ctx.resize(out, sizes, self.rank) || !check_memory(ctx, self, out)) return;
  View inner = view_of(out);
  for (int d = 0; d < self.rank; ++d) {
    const int64_t end = start[d] + from.sizes[d];
    fill_elements(ctx, part_of_dim(inner, d, 0, start[d]), element);
    fill_elements(ctx, part_of_dim(inner, d, end, sizes[d] - end), element);
    inner = part_of_dim(inner, d, start[d], from.sizes[d]);
  }
  copy_elements(ctx, from, inner);
}

/// One of the three pieces of a padded dim: where it lies in the result, and where its elements come from.
struct Piece {
  int64_t start, size;   ///< range in the result
  int64_t source, step;  ///< the first element of the input, and 1, -1 or 0
};

/// The piece `kind` (0 before, 1 the input, 2 after) of a dim of `size` elements, `padded` long with its padding.
static Piece pad_piece(int kind, int64_t size, int64_t before, int64_t padded, bool reflect) {
  const int64_t input_end = before + size;
  int64_t begin = kind == 0 ? 0 : kind == 1 ? before : input_end;
  int64_t end = kind == 0 ? before : kind == 1 ? input_end : padded;
  Piece piece;
  piece.step = kind == 1 ? 1 : reflect ? -1 : 0;
  piece.source = kind == 1 ? 0 : reflect ? (kind == 0 ? before : size - 2) : (kind == 0 ? 0 : size - 1);
  // Negative padding moves the pieces across the edges of the result.
  if (begin < 0) {
    piece.source += piece.step * -begin;
    begin = 0;
  }
  if (end > padded) end = padded;
  piece.start = begin;
  piece.size = end > begin ? end - begin : 0;
  return piece;
}

/// Pads the last `dims` dims; tensors have those, channels, and maybe a batch.
[[gnu::noinline]] static void border_pad(KernelContext& ctx, const Tensor& self, const IntList& pad, Tensor& out,
                                         int dims, bool reflect) {
  using arg = arguments::reflection_pad1d_out;
  if (!check_dtype(ctx, self, out)) return;
  if (self.rank != dims + 1 && self.rank != dims + 2) return ctx.fail(Check::KernelRank, self, self.rank);
  if (pad.size() != 2 * static_cast<size_t>(dims)) {
    return ctx.fail(Check::KernelArgument, arg::padding, static_cast<int64_t>(pad.size()));
  }
  const int outer = self.rank - dims;
  int64_t sizes[kMaxRank];
  for (int d = 0; d < self.rank; ++d) {
    sizes[d] = self.sizes[d];
    // Only a batch may be empty.
    if (sizes[d] == 0 && d >= outer - 1) return ctx.fail(Check::KernelShape, self, 0);
  }
  Piece pieces[3][3];
  for (int d = 0; d < dims; ++d) {
    const size_t at = 2 * static_cast<size_t>(dims - 1 - d);
    const int64_t size = self.sizes[outer + d], before = pad[at], after = pad[at + 1];
    if (reflect && (before >= size || after >= size)) {
      return ctx.fail(Check::KernelArgument, arg::padding, before >= size ? before : after);
    }
    const int64_t padded = padded_size(ctx, size, before, after);
    if (padded < 1 || padded > INT32_MAX || before < -INT32_MAX || after < -INT32_MAX) {
      return ctx.fail(Check::KernelArgument, arg::padding, before);
    }
    sizes[outer + d] = padded;
    for (int kind = 0; kind < 3; ++kind) {
      const Piece piece = pad_piece(kind, size, before, padded, reflect);
      const int64_t last = piece.source + piece.step * (piece.size - 1);
      if (piece.size > 0 && (piece.source < 0 || piece.source >= size || last < 0 || last >= size)) {
        return ctx.fail(Check::KernelIndex, last, size);
      }
      pieces[d][kind] = piece;
    }
  }
  if (!ctx.resize(out, sizes, self.rank) || !check_memory(ctx, self, out)) return;
  if (out.numel() == 0) return;
  // Every combination of pieces is one strided copy.
  const View from = view_of(self), to = view_of(out);
  const int combinations = dims == 1 ? 3 : dims == 2 ? 9 : 27;
  for (int combination = 0; combination < combinations; ++combination) {
    View source = from, target = to;
    int rest = combination;
    for (int d = 0; d < dims; ++d, rest /= 3) {
      const Piece& piece = pieces[d][rest % 3];
      const int dim = outer + d;
      if (piece.size > 0) source.shift(piece.source * source.strides[dim]);
      source.strides[dim] *= piece.step;
      target = part_of_dim(target, dim, piece.start, piece.size);
    }
    copy_elements(ctx, source, target);
  }
}

void reflection_pad1d_out(KernelContext& ctx, const Tensor& self, const IntList& padding, Tensor& out) {
  border_pad(ctx, self, padding, out, 1, true);
}
void reflection_pad2d_out(KernelContext& ctx, const Tensor& self, const IntList& padding, Tensor& out) {
  border_pad(ctx, self, padding, out, 2, true);
}
void reflection_pad3d_out(KernelContext& ctx, const Tensor& self, const IntList& padding, Tensor& out) {
  border_pad(ctx, self, padding, out, 3, true);
}
void replication_pad1d_out(KernelContext& ctx, const Tensor& self, const IntList& padding, Tensor& out) {
  border_pad(ctx, self, padding, out, 1, false);
}
void replication_pad2d_out(KernelContext& ctx, const Tensor& self, const IntList& padding, Tensor& out) {
  border_pad(ctx, self, padding, out, 2, false);
}
void replication_pad3d_out(KernelContext& ctx, const Tensor& self, const IntList& padding, Tensor& out) {
  border_pad(ctx, self, padding, out, 3, false);
}

}  // namespace etir
