// Fourier transforms over any dims: _fft_c2c, _fft_r2c, _fft_c2r.
//
// Each dim is a pass over the lines along it: a line is copied into temporary memory, transformed there, scaled by the
// last pass and written. Passes but the first work on the result in place. A transform to real numbers over several
// dims has no result that could hold what comes between: it takes temporary memory for all of its input.
//
// Temporary memory, in complex numbers of the dtype, for lines of n elements: 3 n when no prime factor of n exceeds 31,
// otherwise less than 17 n, for the longest; a c2r over several dims takes numel(self) more.
#include "kernels/linalg/fft.h"

#include <algorithm>

#include "kernels/kernel.h"
#include "kernels/linalg/fft.gen.h"
#include "kernels/util/checks.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/loops.h"

namespace etir {
namespace {

/// A dim's worth of a tensor: strides in elements, and the dim along which lines run.
struct Lines {
  int rank;
  int axis;
  int64_t sizes[kMaxRank];  ///< sizes of the dims other than `axis`
  int64_t from[kMaxRank], to[kMaxRank];
};

/// Calls `body(from, to)` with the offsets of every line.
template <typename Body>
void for_each_line(const Lines& lines, const Body& body) {
  int64_t index[kMaxRank] = {};
  int64_t from = 0, to = 0;
  for (;;) {
    body(from, to);
    int d = lines.rank - 1;
    for (; d >= 0; --d) {
      if (d == lines.axis) continue;
      from += lines.from[d], to += lines.to[d];
      if (++index[d] < lines.sizes[d]) break;
      from -= lines.from[d] * lines.sizes[d], to -= lines.to[d] * lines.sizes[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

/// What a line of the input is made of.
enum class Kind { Complex, Real, Half };

/// Transforms all lines along `axis`: `n` elements each, of which `written` are written.
template <typename R, Kind kKind, typename Out>
void transform(std::complex<R>* memory, const Lines& lines, int64_t n, int64_t written, bool forward, R scale,
               const void* from_data, Out* to_data) {
  using C = std::complex<R>;
  Fourier<R> fourier(memory, n);
  const int64_t from_step = lines.from[lines.axis], to_step = lines.to[lines.axis];
  for_each_line(lines, [&](int64_t from_offset, int64_t to_offset) {
    C* line = fourier.line();
    if constexpr (kKind == Kind::Real) {
      const R* from = static_cast<const R*>(from_data) + from_offset;
      for (int64_t i = 0; i < n; ++i) line[i] = C(from[i * from_step]);
    } else if constexpr (kKind == Kind::Half) {
      // The other half is the conjugate; what must be real counts as such.
      const C* from = static_cast<const C*>(from_data) + from_offset;
      line[0] = C(from->real());
      for (int64_t i = 1; 2 * i <= n; ++i) {
        const C value = from[i * from_step];
        line[i] = 2 * i == n ? C(value.real()) : std::conj(value);
        line[n - i] = 2 * i == n ? C(value.real()) : value;
      }
    } else {
      const C* from = static_cast<const C*>(from_data) + from_offset;
      for (int64_t i = 0; i < n; ++i) line[i] = forward ? from[i * from_step] : std::conj(from[i * from_step]);
    }
    const C* result = fourier.run();
    Out* to = to_data + to_offset;
    for (int64_t i = 0; i < written; ++i) {
      if constexpr (kKind == Kind::Half) {
        to[i * to_step] = result[i].real() * scale;
      } else {
        to[i * to_step] = (forward ? result[i] : std::conj(result[i])) * scale;
      }
    }
  });
}

/// The dims and the factor, checked.
struct Dims {
  int count = 0;
  int at[kMaxRank];
  double scale = 1;
};
bool read_dims(KernelContext& ctx, const Tensor& self, const IntList& list, int64_t kind, bool some, Dims* dims) {
  using arg = arguments::fft_c2c_out;
  if (list.size() > static_cast<size_t>(self.rank) || (some && list.empty())) {
    return ctx.fail(Check::KernelArgument, arg::dim, static_cast<int64_t>(list.size())), false;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const int dim = wrap_dim(list[i], self.rank);
    if (dim < 0) return ctx.fail(Check::KernelDim, list[i], self.rank), false;
    for (int j = 0; j < dims->count; ++j) {
      if (dims->at[j] == dim) return ctx.fail(Check::KernelArgument, arg::dim, dim), false;
    }
    dims->at[dims->count++] = dim;
  }
  if (kind < 0 || kind > 2) return ctx.fail(Check::KernelArgument, arg::normalization, kind), false;
  return has_data(ctx, self);
}
/// The factor of normalization `kind` (none, 1 / sqrt(n), 1 / n) for transforms over the dims of `tensor`.
double factor(int64_t kind, const Tensor& tensor, const Dims& dims) {
  double count = 1;
  for (int i = 0; i < dims.count; ++i) count *= tensor.sizes[dims.at[i]];
  return kind == 0 ? 1 : kind == 1 ? 1 / std::sqrt(count) : 1 / count;
}

/// Lines of `shape` along `axis`. `from` and `to` may differ in size in that dim alone.
Lines make_lines(const Tensor& shape, const Tensor& from, const Tensor& to, int axis) {
  Lines lines;
  lines.rank = shape.rank, lines.axis = axis;
  for (int d = 0; d < shape.rank; ++d) lines.sizes[d] = shape.sizes[d];
  from.strides(lines.from);
  to.strides(lines.to);
  return lines;
}

/// Memory for transforms over dims of `tensor`, the last of which has `last` elements; null, with the failure recorded.
template <typename R>
std::complex<R>* line_memory(KernelContext& ctx, const Tensor& tensor, const Dims& dims, int64_t last) {
  int64_t count = Fourier<R>::room(last);
  for (int i = 0; i + 1 < dims.count; ++i) count = std::max(count, Fourier<R>::room(tensor.sizes[dims.at[i]]));
  const int64_t bytes = count * static_cast<int64_t>(sizeof(std::complex<R>));
  if (static_cast<uint64_t>(bytes) > SIZE_MAX / 2) return ctx.fail(Check::KernelTemp, bytes, 0), nullptr;
  return ctx.temp_array<std::complex<R>>(count);
}

/// Complex transforms over the first `count` of dims, from `self` to `to`, whose layouts are those of the tensors.
/// `scale` belongs to the last of them.
template <typename R>
void complex_passes(std::complex<R>* memory, const Dims& dims, int count, bool forward, double scale,
                    const Tensor& self, const Tensor& to) {
  using C = std::complex<R>;
  for (int i = 0; i < count; ++i) {
    const Tensor& from = i == 0 ? self : to;
    const int64_t n = to.sizes[dims.at[i]];
    const R factor = static_cast<R>(i == count - 1 ? scale : 1);
    const Lines lines = make_lines(to, from, to, dims.at[i]);
    transform<R, Kind::Complex, C>(memory, lines, n, n, forward, factor, from.data, to.ptr<C>());
  }
}

/// Whether the result at `out` has the dtype `wanted`, gets its shape, and has data.
bool make_result(KernelContext& ctx, Tensor& out, ScalarType wanted, const int64_t* sizes, int rank) {
  if (out.dtype != wanted) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype)), false;
  return ctx.resize(out, sizes, rank) && has_data(ctx, out);
}

}  // namespace

void fft_c2c_out(KernelContext& ctx, const Tensor& self, const IntList& dim, int64_t normalization, bool forward,
                 Tensor& out) {
  Dims dims;
  if (!contains(kFullComplex & kSelectedDtypes, self.dtype)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  int64_t sizes[kMaxRank];
  for (int d = 0; d < self.rank; ++d) sizes[d] = self.sizes[d];
  if (!read_dims(ctx, self, dim, normalization, false, &dims) || !make_result(ctx, out, self.dtype, sizes, self.rank) ||
      out.numel() == 0)
    return;
  const double scale = factor(normalization, self, dims);
  dispatch<kFullComplex>(self.dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    if (dims.count > 0) {
      using R = typename C::value_type;
      C* memory = line_memory<R>(ctx, self, dims, self.sizes[dims.at[dims.count - 1]]);
      if (memory != nullptr) complex_passes<R>(memory, dims, dims.count, forward, scale, self, out);
      return;
    }
    const Tensor* const operands[] = {&out, &self};
    make_loops<2>(operands).run([](char* const* data, const int64_t* steps, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        *reinterpret_cast<C*>(data[0] + i * steps[0]) = *reinterpret_cast<const C*>(data[1] + i * steps[1]);
      }
    });
  });
}

void fft_r2c_out(KernelContext& ctx, const Tensor& self, const IntList& dim, int64_t normalization, bool onesided,
                 Tensor& out) {
  const bool one_sided = onesided;
  Dims dims;
  if (!contains(kFullFloats & kSelectedDtypes, self.dtype)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  if (self.rank == 0) return ctx.fail(Check::KernelRank, self, 0);
  if (!read_dims(ctx, self, dim, normalization, true, &dims)) return;
  // The last dim is transformed first, from real to complex.
  const int last = dims.at[dims.count - 1];
  int64_t sizes[kMaxRank];
  for (int d = 0; d < self.rank; ++d) sizes[d] = self.sizes[d];
  const int64_t n = sizes[last];
  if (n < 1) return ctx.fail(Check::KernelShape, self, n);
  if (one_sided) sizes[last] = n / 2 + 1;
  const ScalarType wanted = self.dtype == ScalarType::Float ? ScalarType::ComplexFloat : ScalarType::ComplexDouble;
  if (!make_result(ctx, out, wanted, sizes, self.rank) || out.numel() == 0) return;
  const double scale = factor(normalization, self, dims);
  dispatch<kFullFloats>(self.dtype, [&](auto tag) {
    using R = typename decltype(tag)::type;
    using C = std::complex<R>;
    const Lines lines = make_lines(out, self, out, last);
    const int rest = dims.count - 1;
    const R factor = static_cast<R>(rest == 0 ? scale : 1);
    C* memory = line_memory<R>(ctx, self, dims, n);
    if (memory == nullptr) return;
    transform<R, Kind::Real, C>(memory, lines, n, sizes[last], true, factor, self.data, out.ptr<C>());
    complex_passes<R>(memory, dims, rest, true, scale, out, out);
  });
}

void fft_c2r_out(KernelContext& ctx, const Tensor& self, const IntList& dim, int64_t normalization,
                 int64_t last_dim_size, Tensor& out) {
  using arg = arguments::fft_c2r_out;
  const int64_t n = last_dim_size;
  Dims dims;
  if (!contains(kFullComplex & kSelectedDtypes, self.dtype)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  if (self.rank == 0) return ctx.fail(Check::KernelRank, self, 0);
  if (!read_dims(ctx, self, dim, normalization, true, &dims)) return;
  const int last = dims.at[dims.count - 1], rest = dims.count - 1;
  if (n < 1 || n > INT32_MAX) return ctx.fail(Check::KernelArgument, arg::last_dim_size, n);
  if (self.sizes[last] < n / 2 + 1) return ctx.fail(Check::KernelShape, self, self.sizes[last]);
  int64_t sizes[kMaxRank];
  for (int d = 0; d < self.rank; ++d) sizes[d] = self.sizes[d];
  sizes[last] = n;
  const ScalarType wanted = self.dtype == ScalarType::ComplexFloat ? ScalarType::Float : ScalarType::Double;
  if (!make_result(ctx, out, wanted, sizes, self.rank) || out.numel() == 0) return;
  const double scale = factor(normalization, out, dims);
  dispatch<kFullComplex>(self.dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    using R = typename C::value_type;
    Tensor between = self;
    C* memory = line_memory<R>(ctx, self, dims, n);
    if (memory == nullptr) return;
    if (rest > 0) {
      between.data = ctx.temp(self.nbytes());
      if (between.data == nullptr) return;
      complex_passes<R>(memory, dims, rest, false, 1, self, between);
    }
    const Lines lines = make_lines(out, between, out, last);
    transform<R, Kind::Half, R>(memory, lines, n, n, false, static_cast<R>(scale), between.data, out.ptr<R>());
  });
}

}  // namespace etir
