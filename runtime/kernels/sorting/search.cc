// Searching sorted numbers: searchsorted and bucketize.
#include "kernels/sorting/search.gen.h"
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
};

/// Whether the arguments that are no numbers to search for go together.
bool check(KernelContext& ctx, const Search& search, bool out_int32) {
  const Tensor& sorted = search.sorted;
  if (!takes(ctx, sorted, kReal)) return false;
  if (sorted.rank == 0) return ctx.fail(Check::KernelRank, sorted, 0), false;
  if (search.sorter != nullptr) {
    if (!takes(ctx, *search.sorter, dtype_set(ScalarType::Long))) return false;
    if (!same_shape(*search.sorter, sorted)) {
      return ctx.fail(Check::KernelShape, *search.sorter, search.sorter->numel()), false;
    }
  }
  if (search.out.dtype != (out_int32 ? ScalarType::Int : ScalarType::Long)) {
    return ctx.fail(Check::KernelDtype, search.out, number(search.out.dtype)), false;
  }
  if (out_int32 && sorted.sizes[sorted.rank - 1] == INT32_MAX) {
    return ctx.fail(Check::KernelShape, sorted, INT32_MAX), false;
  }
  return true;
}

/// Searches for all of `values`, whose rows belong to those of `sorted` unless that is a vector.
void run(KernelContext& ctx, const Search& search, const Tensor& values) {
  if (!takes(ctx, values, kReal)) return;
  const Tensor& sorted = search.sorted;
  const bool vector = sorted.rank == 1;
  if (!vector) {
    if (values.rank != sorted.rank) return ctx.fail(Check::KernelRank, values, values.rank);
    for (int d = 0; d + 1 < sorted.rank; ++d) {
      if (values.sizes[d] != sorted.sizes[d]) return ctx.fail(Check::KernelShape, values, values.sizes[d]);
    }
  }
  if (!ctx.resize_like(search.out, values) || !has_data(ctx, search.out)) return;
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
bool read_side(KernelContext& ctx, bool right, const std::optional<StringView>& side, bool* result) {
  *result = right || (side.has_value() && *side == "right");
  if (!side.has_value() || *side == "right" || (*side == "left" && !right)) return true;
  ctx.fail(Check::KernelArgument, arguments::searchsorted_tensor_out::side);
  return false;
}

}  // namespace

void searchsorted_tensor_out(KernelContext& ctx, const Tensor& sorted_sequence, const Tensor& self, bool out_int32,
                             bool right, std::optional<StringView> side, const Tensor* sorter, Tensor& out) {
  bool from_right;
  if (!read_side(ctx, right, side, &from_right)) return;
  const Search search{sorted_sequence, sorter, from_right, out};
  if (check(ctx, search, out_int32)) run(ctx, search, self);
}

void searchsorted_scalar_out(KernelContext& ctx, const Tensor& sorted_sequence, const Scalar& self, bool out_int32,
                             bool right, std::optional<StringView> side, const Tensor* sorter, Tensor& out) {
  bool from_right;
  if (!read_side(ctx, right, side, &from_right)) return;
  const Search search{sorted_sequence, sorter, from_right, out};
  if (search.sorted.rank != 1) return ctx.fail(Check::KernelRank, sorted_sequence, search.sorted.rank);
  const NumberTensor value(self);
  if (check(ctx, search, out_int32)) run(ctx, search, value.tensor);
}

void bucketize_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& boundaries, bool out_int32, bool right,
                          Tensor& out) {
  const Search search{boundaries, nullptr, right, out};
  if (search.sorted.rank != 1) return ctx.fail(Check::KernelRank, boundaries, search.sorted.rank);
  if (check(ctx, search, out_int32)) run(ctx, search, self);
}

void bucketize_scalar_out(KernelContext& ctx, const Scalar& self, const Tensor& boundaries, bool out_int32, bool right,
                          Tensor& out) {
  const Search search{boundaries, nullptr, right, out};
  if (search.sorted.rank != 1) return ctx.fail(Check::KernelRank, boundaries, search.sorted.rank);
  const NumberTensor value(self);
  if (check(ctx, search, out_int32)) run(ctx, search, value.tensor);
}

}  // namespace etir
