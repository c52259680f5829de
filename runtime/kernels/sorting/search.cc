// Searching sorted numbers: searchsorted and bucketize.
#include "kernels/util/line_blocks.h"

namespace etir {

using namespace lines;

namespace {

/// A search of one number in one sorted line.
struct Line {
  const char* data;
  int64_t step;
  const char* sorter;  ///< null, or int64 places of the line's elements in order
  int64_t sorter_step;
  int64_t n;
};

/// The first place whose element is not less than `value` (`right`: greater than it); NaNs are greater than all.
template <typename T, typename C>
int64_t find_place(const Line& line, C value, bool right, IndexGuard& guard) {
  int64_t low = 0, high = line.n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    int64_t place = middle;
    if (line.sorter != nullptr) {
      place = load<int64_t>(line.sorter + middle * line.sorter_step);
      if (!guard.check(place, line.n)) return 0;
    }
    const C element = to_compute<C>(load<T>(line.data + place * line.step));
    if (right ? !(element > value) : !(element >= value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

struct Search {
  const Tensor& sorted;
  const Tensor* sorter;
  bool right;
  Tensor& out;
  int sorted_argument;
  int out_argument;
};

/// Whether the arguments that are no numbers to search for go together.
bool check(KernelContext& ctx, const Search& search, bool out_int32) {
  const Tensor& sorted = search.sorted;
  if (!takes(ctx, search.sorted_argument, sorted, kReal)) return false;
  if (sorted.rank == 0) return ctx.fail(Check::KernelRank, search.sorted_argument, 0), false;
  if (search.sorter != nullptr) {
    if (!takes(ctx, search.out_argument - 1, *search.sorter, dtype_set(ScalarType::Long))) return false;
    if (!same_shape(*search.sorter, sorted)) {
      return ctx.fail(Check::KernelShape, search.out_argument - 1, search.sorter->numel()), false;
    }
  }
  if (search.out.dtype != (out_int32 ? ScalarType::Int : ScalarType::Long)) {
    return ctx.fail(Check::KernelDtype, search.out_argument, number(search.out.dtype)), false;
  }
  if (out_int32 && sorted.sizes[sorted.rank - 1] == INT32_MAX) {
    return ctx.fail(Check::KernelShape, search.sorted_argument, INT32_MAX), false;
  }
  return true;
}

/// Searches for all of `values`, whose rows belong to those of `sorted` unless that is a vector.
void run(KernelContext& ctx, const Search& search, const Tensor& values, int values_argument) {
  if (!takes(ctx, values_argument, values, kReal)) return;
  const Tensor& sorted = search.sorted;
  const bool vector = sorted.rank == 1;
  if (!vector) {
    if (values.rank != sorted.rank) return ctx.fail(Check::KernelRank, values_argument, values.rank);
    for (int d = 0; d + 1 < sorted.rank; ++d) {
      if (values.sizes[d] != sorted.sizes[d]) return ctx.fail(Check::KernelShape, values_argument, values.sizes[d]);
    }
  }
  if (!ctx.resize_like(search.out, values) || !has_data(ctx, search.out_argument, search.out)) return;
  if (values.numel() == 0) return;
  const View sorted_view(sorted), values_view(values), out_view(search.out);
  View sorter_view = search.sorter != nullptr ? View(*search.sorter) : sorted_view;
  const int last = sorted.rank - 1;
  // The line of a value: that of its row, or the only one.
  View line_view = sorted_view;
  if (vector) {
    line_view.rank = values_view.rank;
    for (int d = 0; d < kMaxRank; ++d) line_view.strides[d] = sorter_view.strides[d] = 0;
  } else {
    line_view.strides[last] = sorter_view.strides[last] = 0;
  }
  const int64_t sorter_step = search.sorter != nullptr ? View(*search.sorter).strides[last] : 0;
  int dims[kMaxRank];
  const int count = memory_order(values, 0, dims);
  const View* const views[] = {&values_view, &out_view, &line_view, &sorter_view};
  const int fixed[] = {-1, -1, -1, -1};
  const auto loops = loops_over<4>(values_view.sizes, dims, count, views, fixed);
  const bool exact = is_integral(sorted.dtype, true) && is_integral(values.dtype, true);
  const bool wide = search.out.dtype == ScalarType::Long;
  IndexGuard guard;
  const auto one_type = [&](auto tag, auto compute) {
    using T = typename decltype(tag)::type;
    using C = decltype(compute);
    for_each_line(ctx, loops, 32, [&](char* const* data) {
      C value;
      load_block(values.dtype, data[0], 0, 1, &value);
      const char* sorter = search.sorter != nullptr ? data[3] : nullptr;
      const Line line{data[2], sorted_view.strides[last], sorter, sorter_step, sorted_view.sizes[last]};
      const int64_t place = find_place<T>(line, value, search.right, guard);
      wide ? store(data[1], place) : store(data[1], static_cast<int32_t>(place));
    });
  };
  if (exact) {
    dispatch<kInts>(sorted.dtype, [&](auto tag) { one_type(tag, int64_t{0}); });
  } else {
    dispatch<kReal>(sorted.dtype, [&](auto tag) { one_type(tag, 0.0); });
  }
  guard.report(ctx);
}

/// A number argument as a tensor of no dims.
struct NumberTensor {
  Tensor tensor{};
  Payload payload;

  explicit NumberTensor(const Scalar& scalar) : payload(scalar.payload) {
    if (scalar.is_boolean()) payload.integer = scalar.to<int64_t>();
    tensor.dtype = scalar.is_floating() ? ScalarType::Double : ScalarType::Long;
    tensor.data = &payload;
  }
  NumberTensor(const NumberTensor&) = delete;
  NumberTensor& operator=(const NumberTensor&) = delete;
};

/// The side that `right` and `side` ask for; false, with the failure recorded, when they contradict each other.
bool side_argument(KernelContext& ctx, int right_argument, bool* right) {
  *right = ctx.boolean(right_argument);
  if (!ctx.has(right_argument + 1)) return true;
  const StringView side = ctx.string(right_argument + 1);
  if (side == "right" || (side == "left" && !*right)) {
    *right = side == "right";
    return true;
  }
  ctx.fail(Check::KernelArgument, right_argument + 1);
  return false;
}

}  // namespace

void searchsorted_tensor_out(KernelContext& ctx) {
  bool right;
  if (!side_argument(ctx, 3, &right)) return;
  const Search search{ctx.tensor(0), ctx.optional_tensor(5), right, ctx.tensor(6), 0, 6};
  if (check(ctx, search, ctx.boolean(2))) run(ctx, search, ctx.tensor(1), 1);
}

void searchsorted_scalar_out(KernelContext& ctx) {
  bool right;
  if (!side_argument(ctx, 3, &right)) return;
  const Search search{ctx.tensor(0), ctx.optional_tensor(5), right, ctx.tensor(6), 0, 6};
  if (search.sorted.rank != 1) return ctx.fail(Check::KernelRank, 0, search.sorted.rank);
  const NumberTensor value(ctx.scalar(1));
  if (check(ctx, search, ctx.boolean(2))) run(ctx, search, value.tensor, 1);
}

void bucketize_tensor_out(KernelContext& ctx) {
  const Search search{ctx.tensor(1), nullptr, ctx.boolean(3), ctx.tensor(4), 1, 4};
  if (search.sorted.rank != 1) return ctx.fail(Check::KernelRank, 1, search.sorted.rank);
  if (check(ctx, search, ctx.boolean(2))) run(ctx, search, ctx.tensor(0), 0);
}

void bucketize_scalar_out(KernelContext& ctx) {
  const Search search{ctx.tensor(1), nullptr, ctx.boolean(3), ctx.tensor(4), 1, 4};
  if (search.sorted.rank != 1) return ctx.fail(Check::KernelRank, 1, search.sorted.rank);
  const NumberTensor value(ctx.scalar(0));
  if (check(ctx, search, ctx.boolean(2))) run(ctx, search, value.tensor, 0);
}

}  // namespace etir
