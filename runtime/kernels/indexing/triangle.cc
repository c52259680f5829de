// Coordinates of the lower and upper triangle of a matrix.
#include "kernels/indexing/common.h"

namespace etir {

using namespace indexing;

namespace {

/// The columns [first, last) of one row of a triangle.
struct Columns {
  int64_t first, last;
};

Columns columns_of(int64_t row, int64_t columns, int64_t offset, bool lower) {
  // The diagonal's column; offsets beyond any matrix are cut, so that nothing overflows.
  const int64_t bound = int64_t{1} << 40;
  const int64_t shift = offset < -bound ? -bound : offset > bound ? bound : offset;
  const int64_t diagonal = row + shift;
  if (lower) {
    const int64_t last = diagonal + 1;
    return Columns{0, last < 0 ? 0 : last > columns ? columns : last};
  }
  const int64_t first = diagonal < 0 ? 0 : diagonal > columns ? columns : diagonal;
  return Columns{first, columns};
}

template <typename T>
void write_triangle(const View& out, int64_t rows, int64_t columns, int64_t offset, bool lower) {
  int64_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const Columns range = columns_of(row, columns, offset, lower);
    for (int64_t column = range.first; column < range.last; ++column, ++at) {
      store(out.data + at * out.strides[1], static_cast<T>(row));
      store(out.data + out.strides[0] + at * out.strides[1], static_cast<T>(column));
    }
  }
}

void triangle(KernelContext& ctx, bool lower) {
  const int64_t rows = ctx.integer(0), columns = ctx.integer(1), offset = ctx.integer(2);
  Tensor& out = ctx.tensor(3);
  if (!contains(kIndexTypes, out.dtype)) return ctx.fail(Check::KernelDtype, 3, number(out.dtype));
  if (rows < 0 || rows > INT32_MAX) return ctx.fail(Check::KernelArgument, 0, rows);
  if (columns < 0 || columns > INT32_MAX) return ctx.fail(Check::KernelArgument, 1, columns);
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const Columns range = columns_of(row, columns, offset, lower);
    count += range.last - range.first;
  }
  const int64_t shape[] = {2, count};
  if (!ctx.resize(out, shape, 2) || !has_data(ctx, 3, out)) return;
  const View view(out);
  if (out.dtype == ScalarType::Long) {
    write_triangle<int64_t>(view, rows, columns, offset, lower);
  } else {
    write_triangle<int32_t>(view, rows, columns, offset, lower);
  }
}

}  // namespace

void tril_indices_out(KernelContext& ctx) { triangle(ctx, true); }

void triu_indices_out(KernelContext& ctx) { triangle(ctx, false); }

}  // namespace etir
