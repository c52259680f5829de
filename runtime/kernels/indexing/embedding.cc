// The gradient of embedding, and embedding_bag.
#include "kernels/indexing/embedding.gen.h"
#include "kernels/indexing/index_walk.h"

namespace etir {

using namespace lines;

// Temporary memory, with scale_grad_by_freq: 4 bytes for every row of the weight.
void embedding_dense_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& indices,
                                  int64_t num_weights, int64_t padding_idx, bool scale_grad_by_freq, Tensor& out) {
  using arg = arguments::embedding_dense_backward_out;
  const Tensor& grad = grad_output;
  const int64_t rows = num_weights, padding = padding_idx;
  const bool by_frequency = scale_grad_by_freq;
  if (!takes(ctx, grad, kFloats) || !takes(ctx, indices, kIndexTypes)) return;
  if (out.dtype != grad.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  if (grad.rank != indices.rank + 1) return ctx.fail(Check::KernelRank, grad_output, grad.rank);
  for (int d = 0; d < indices.rank; ++d) {
    if (grad.sizes[d] != indices.sizes[d]) return ctx.fail(Check::KernelShape, grad_output, grad.sizes[d]);
  }
  if (rows < 0) return ctx.fail(Check::KernelArgument, arg::num_weights, rows);
  const int64_t columns = grad.sizes[grad.rank - 1];
  const int64_t shape[] = {rows, columns};
  if (!ctx.resize(out, shape, 2) || !has_data(ctx, out)) return;
  if (out.numel() > 0) std::memset(out.data, 0, out.nbytes());
  IndexPlan plan;
  if (!plan_dim(ctx, plan, out, 0, indices, arg::indices)) return;
  const bool added =
      combine_indexed<kFloats>(ctx, plan, out, grad, arg::out, [](auto a, auto b) { return wrapping_add(a, b); });
  if (!added || out.numel() == 0) return;
  uint32_t* counts = nullptr;
  if (by_frequency) {
    counts = temp_for<uint32_t>(ctx, rows);
    if (counts == nullptr) return;
    for (int64_t i = 0; i < rows; ++i) counts[i] = 0;
    const bool wide = is_wide(indices);
    const int64_t n = indices.numel();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t index = load_index(indices.ptr<const char>() + i * (wide ? 8 : 4), wide);
      if (index < 0 || index >= rows) return ctx.fail(Check::KernelIndex, index, rows);
      ++counts[index];
    }
  }
  const View view(out);
  dispatch<kFloats>(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    for (int64_t row = 0; row < rows; ++row) {
      const bool scaled = counts != nullptr && counts[row] > 1;
      if (row != padding && !scaled) continue;
      const A factor = row == padding ? A(0) : A(1) / static_cast<A>(counts[row]);
      for (int64_t column = 0; column < columns; ++column) {
        char* at = view.data + row * view.strides[0] + column * view.strides[1];
        store(at, row == padding ? T(factor) : T(static_cast<A>(load<T>(at)) * factor));
      }
    }
  });
}

namespace {

enum Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

/// The arguments and the four results.
struct Bags {
  const Tensor& weight;
  const Tensor& indices;
  const Tensor& offsets;
  const Tensor* scales;  ///< per_sample_weights
  Mode mode;
  int64_t padding;
  int64_t count;
  const Tensor& out;
  const Tensor& offset2bag;  ///< the bag of each index
  const Tensor& bag_size;
  const Tensor& max_indices;  ///< indices of the maxima for kMax, sizes of bags for kMean
};

/// Results but the first are there for the gradient. Programs say other sizes than torch computes with for some of
/// them; those of a static result are kept, and what there is room for is written.
bool resize_auxiliary(KernelContext& ctx, Tensor& out, const int64_t* shape, int rank) {
  if (!contains(kIndexTypes, out.dtype)) return ctx.fail(Check::KernelDtype, out, number(out.dtype)), false;
  const bool keeps = out.dynamism == Dynamism::Static && out.rank == rank;
  if (!keeps && !ctx.resize(out, shape, rank)) return false;
  if (!has_data(ctx, out)) return false;
  if (out.numel() > 0) std::memset(out.data, 0, out.nbytes());
  return true;
}

/// Writes an element of an auxiliary result, if it has that element.
void put_auxiliary(const Tensor& out, int64_t row, int64_t column, int64_t value) {
  if (row >= out.sizes[0] || (out.rank > 1 && column >= out.sizes[1])) return;
  const View view(out);
  char* at = view.data + row * view.strides[0] + (out.rank > 1 ? column * view.strides[1] : 0);
  is_wide(out) ? store(at, value) : store(at, static_cast<int32_t>(value));
}

/// Computes one bag, the indices [begin, end), of which those from `rest` on are counted only.
template <typename T>
void reduce_bag(const Bags& bags, int64_t bag, int64_t begin, int64_t end, int64_t rest, IndexGuard& guard) {
  using A = accumulate_t<T>;
  constexpr int64_t kColumns = 64;
  const View weight(bags.weight), out(bags.out);
  const int64_t rows = weight.sizes[0], columns = weight.sizes[1];
  const bool wide = is_wide(bags.indices);
  for (int64_t first = 0; first < columns || first == 0; first += kColumns) {
    const int64_t m = columns - first < kColumns ? columns - first : kColumns;
    A sums[kColumns] = {};
    int32_t places[kColumns] = {};
    int64_t used = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = load_index(bags.indices.ptr<const char>() + i * (wide ? 8 : 4), wide);
      if (!guard.check(index, rows)) return;
      if (first == 0) put_auxiliary(bags.offset2bag, i, 0, bag);
      if (index == bags.padding) continue;
      if (i >= rest) {
        ++used;
        continue;
      }
      const char* row = weight.data + index * weight.strides[0] + first * weight.strides[1];
      if (bags.mode == kMax) {
        for (int64_t c = 0; c < m; ++c) {
          const A value = static_cast<A>(load<T>(row + c * weight.strides[1]));
          if (used > 0 && !(value > sums[c])) continue;
          sums[c] = value;
          places[c] = static_cast<int32_t>(index);
        }
      } else {
        const A scale = bags.scales != nullptr ? static_cast<A>(bags.scales->ptr<T>()[i]) : A(1);
        for (int64_t c = 0; c < m; ++c) sums[c] += static_cast<A>(load<T>(row + c * weight.strides[1])) * scale;
      }
      ++used;
    }
    if (first == 0 && bags.mode != kSum) {
      put_auxiliary(bags.bag_size, bag, 0, used);
      if (bags.mode == kMean) put_auxiliary(bags.max_indices, bag, 0, used);
    }
    const A divisor = bags.mode == kMean && used > 0 ? static_cast<A>(used) : A(1);
    for (int64_t c = 0; c < m; ++c) {
      store(out.data + bag * out.strides[0] + (first + c) * out.strides[1], T(sums[c] / divisor));
      if (bags.mode == kMax) put_auxiliary(bags.max_indices, bag, first + c, places[c]);
    }
  }
}

void embedding_bag(KernelContext& ctx, const Tensor& weight, const Tensor& indices, const Tensor& offsets, int64_t mode,
                   const Tensor* scales, bool last_is_end, int64_t padding, Tensor& out, Tensor& offset2bag,
                   Tensor& bag_size, Tensor& max_indices, bool forward_only) {
  if (!takes(ctx, weight, kFloats)) return;
  if (weight.rank != 2) return ctx.fail(Check::KernelRank, weight, weight.rank);
  for (const Tensor* tensor : {&indices, &offsets}) {
    if (!takes(ctx, *tensor, kIndexTypes)) return;
    if (tensor->rank != 1) return ctx.fail(Check::KernelRank, *tensor, tensor->rank);
  }
  if (mode < kSum || mode > kMax) return ctx.fail(Check::KernelArgument, arguments::embedding_bag_out::mode, mode);
  if (scales != nullptr) {
    if (!takes_same(ctx, *scales, weight)) return;
    if (mode != kSum || scales->rank != 1 || scales->sizes[0] != indices.sizes[0]) {
      return ctx.fail(Check::KernelShape, *scales, scales->numel());
    }
  }
  if (out.dtype != weight.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  const int64_t given = offsets.sizes[0];
  if (last_is_end && given == 0) return ctx.fail(Check::KernelShape, offsets, given);
  const Bags bags{
      weight, indices,    offsets,  scales,     static_cast<Mode>(mode), padding, last_is_end ? given - 1 : given,
      out,    offset2bag, bag_size, max_indices};
  const int64_t shape[] = {bags.count, weight.sizes[1]};
  if (!ctx.resize(out, shape, 2) || !has_data(ctx, out)) return;
  // What torch's shortest way through a sum leaves out, its results leave out too.
  const bool sum = mode == kSum;
  const bool shortest = sum && weight.dtype != ScalarType::Double && bags.padding < 0;
  const int64_t places[] = {shortest ? 0 : indices.sizes[0]};
  const int64_t sizes[] = {sum && forward_only ? given : bags.count, weight.sizes[1]};
  if (!resize_auxiliary(ctx, offset2bag, places, 1) || !resize_auxiliary(ctx, bag_size, sizes, 1)) return;
  if (!resize_auxiliary(ctx, max_indices, sizes, mode == kMax ? 2 : 1)) return;
  const int64_t n = indices.sizes[0];
  const bool wide = is_wide(offsets);
  const auto offset = [&](int64_t i) { return load_index(offsets.ptr<const char>() + i * (wide ? 8 : 4), wide); };
  const bool leaves_rest = last_is_end && padding < 0 && mode != kMax && weight.dtype != ScalarType::Double;
  IndexGuard guard;
  dispatch<kFloats>(weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t bag = 0; bag < bags.count && !guard.bad(); ++bag) {
      const int64_t begin = offset(bag), next = bag + 1 < given ? offset(bag + 1) : n;
      if (begin < 0 || begin > next || next > n || (bag == 0 && begin != 0)) return guard.note(begin, n);
      // Indices after the end that the offsets name are part of the last bag, or, where torch has kernels of their own,
      // of its size alone.
      const int64_t end = bag + 1 < bags.count ? next : n;
      reduce_bag<T>(bags, bag, begin, end, leaves_rest ? next : n, guard);
    }
  });
  guard.report(ctx);
}

}  // namespace

void embedding_bag_out(KernelContext& ctx, const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                       bool /*scale_grad_by_freq*/, int64_t mode, bool /*sparse*/, const Tensor* per_sample_weights,
                       bool include_last_offset, int64_t padding_idx, Tensor& out0, Tensor& out1, Tensor& out2,
                       Tensor& out3) {
  embedding_bag(ctx, weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx, out0, out1,
                out2, out3, false);
}

void embedding_bag_forward_only_out(KernelContext& ctx, const Tensor& weight, const Tensor& indices,
                                    const Tensor& offsets, bool /*scale_grad_by_freq*/, int64_t mode, bool /*sparse*/,
                                    const Tensor* per_sample_weights, bool include_last_offset, int64_t padding_idx,
                                    Tensor& out0, Tensor& out1, Tensor& out2, Tensor& out3) {
  embedding_bag(ctx, weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx, out0, out1,
                out2, out3, true);
}

}  // namespace etir
