// tril, triu: part of each matrix copied, the rest zero.
#include "kernels/copy/fill.h"
#include "kernels/copy/triangle.gen.h"

namespace etir {

/// Columns [begin, end) of row `row` are copied: those up to (lower) or from (upper) the diagonal on.
struct KeptColumns {
  bool lower;
  int64_t diagonal, columns;
  int64_t split(int64_t row) const {
    const int64_t at = row + diagonal + (lower ? 1 : 0);
    return at < 0 ? 0 : at > columns ? columns : at;
  }
  int64_t begin(int64_t row) const { return lower ? 0 : split(row); }
  int64_t end(int64_t row) const { return lower ? split(row) : columns; }
};

[[gnu::noinline]] static void triangle(KernelContext& ctx, const Tensor& self, int64_t diagonal, Tensor& out,
                                       bool lower) {
  if (!check_dtype(ctx, self, out)) return;
  if (self.rank < 2) return ctx.fail(Check::KernelRank, self, self.rank);
  if (!ctx.resize_like(out, self) || !check_memory(ctx, self, out) || out.numel() == 0) return;
  const int row_dim = self.rank - 2, column_dim = self.rank - 1;
  const int64_t rows = self.sizes[row_dim], columns = self.sizes[column_dim];
  diagonal = diagonal < -rows ? -rows : diagonal > columns ? columns : diagonal;
  const KeptColumns kept{lower, diagonal, columns};
  const View from = view_of(self), to = view_of(out);
  if (self.is_row_major() && out.is_row_major()) {
    const size_t element = to.element, row_bytes = static_cast<size_t>(columns) * element;
    ctx.parallel_for(out.numel() / columns, 16384 / columns + 1, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        const char* const source = from.data + static_cast<size_t>(r) * row_bytes;
        char* const target = to.data + static_cast<size_t>(r) * row_bytes;
        const size_t begin = static_cast<size_t>(kept.begin(r % rows)) * element;
        const size_t end = static_cast<size_t>(kept.end(r % rows)) * element;
        std::memset(target, 0, begin);
        std::memcpy(target + begin, source + begin, end - begin);
        std::memset(target + end, 0, row_bytes - end);
      }
    });
    return;
  }
  // One row of all matrices at a time.
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = kept.begin(r), end = kept.end(r);
    const View target = part_of_dim(to, row_dim, r, 1);
    fill_zero(ctx, part_of_dim(target, column_dim, 0, begin));
    copy_elements(ctx, part_of_dim(part_of_dim(from, row_dim, r, 1), column_dim, begin, end - begin),
                  part_of_dim(target, column_dim, begin, end - begin));
    fill_zero(ctx, part_of_dim(target, column_dim, end, columns - end));
  }
}

void tril_out(KernelContext& ctx, const Tensor& self, int64_t diagonal, Tensor& out) {
  triangle(ctx, self, diagonal, out, true);
}
void triu_out(KernelContext& ctx, const Tensor& self, int64_t diagonal, Tensor& out) {
  triangle(ctx, self, diagonal, out, false);
}

}  // namespace etir
