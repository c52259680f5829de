// Coordinates of the lower and upper triangle of a matrix.
#include "kernels/indexing/triangle_indices.gen.h"
#include "kernels/util/lines.h"

namespace etir {

using namespace lines;

namespace {

struct Range {
  int64_t first, last;
};

int64_t clamp(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : value > most ? most : value;
}

/// A triangle of a matrix: what is on one side of the diagonal `offset` columns right of the main one.
struct Triangle {
  int64_t rows, columns, offset;
  bool lower;

  Triangle(int64_t rows, int64_t columns, int64_t offset, bool lower)
      // Offsets beyond any matrix are cut, so that nothing overflows.
      : rows(rows), columns(columns), offset(clamp(offset, -(int64_t{1} << 40), int64_t{1} << 40)), lower(lower) {}

  /// The rows that have elements: what a matrix of many rows without any costs is nothing.
  Range filled_rows() const {
    if (columns == 0) return {0, 0};
    return lower ? Range{clamp(-offset, 0, rows), rows} : Range{0, clamp(columns - offset, 0, rows)};
  }
  /// The columns of one row.
  Range columns_of(int64_t row) const {
    return lower ? Range{0, clamp(row + offset + 1, 0, columns)} : Range{clamp(row + offset, 0, columns), columns};
  }
  /// How many elements it has, by the sums of the rows that are whole and of those that grow or shrink by one.
  int64_t count() const {
    const Range filled = filled_rows();
    const int64_t all = filled.last - filled.first;
    if (all == 0) return 0;
    // Rows grow in the lower triangle and shrink in the upper one, until or after they are whole.
    const Range shortest = columns_of(lower ? filled.first : filled.last - 1);
    const int64_t least = shortest.last - shortest.first;
    const int64_t partial = clamp(columns - least, 0, all);
    return (all - partial) * columns + partial * least + partial * (partial - 1) / 2;
  }
};

template <typename T>
void write_triangle(const View& out, const Triangle& triangle) {
  int64_t at = 0;
  const Range rows = triangle.filled_rows();
  for (int64_t row = rows.first; row < rows.last; ++row) {
    const Range range = triangle.columns_of(row);
    for (int64_t column = range.first; column < range.last; ++column, ++at) {
      store(out.data + at * out.strides[1], static_cast<T>(row));
      store(out.data + out.strides[0] + at * out.strides[1], static_cast<T>(column));
    }
  }
}

void write_indices(KernelContext& ctx, int64_t rows, int64_t columns, int64_t offset, Tensor& out, bool lower) {
  using arg = arguments::tril_indices_out;
  if (!contains(kIndexTypes, out.dtype)) return ctx.fail(Check::KernelDtype, out, number(out.dtype));
  if (rows < 0 || rows > INT32_MAX) return ctx.fail(Check::KernelArgument, arg::row, rows);
  if (columns < 0 || columns > INT32_MAX) return ctx.fail(Check::KernelArgument, arg::col, columns);
  const Triangle triangle(rows, columns, offset, lower);
  const int64_t shape[] = {2, triangle.count()};
  if (!ctx.resize(out, shape, 2) || !has_data(ctx, out)) return;
  const View view(out);
  if (out.dtype == ScalarType::Long) {
    write_triangle<int64_t>(view, triangle);
  } else {
    write_triangle<int32_t>(view, triangle);
  }
}

}  // namespace

void tril_indices_out(KernelContext& ctx, int64_t row, int64_t col, int64_t offset, Tensor& out) {
  write_indices(ctx, row, col, offset, out, true);
}

void triu_indices_out(KernelContext& ctx, int64_t row, int64_t col, int64_t offset, Tensor& out) {
  write_indices(ctx, row, col, offset, out, false);
}

}  // namespace etir
