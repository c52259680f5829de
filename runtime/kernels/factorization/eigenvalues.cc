// Eigenvalues and eigenvectors of general matrices, real and complex, in the form of LAPACK's geev.
//
// A matrix is balanced, reduced to Hessenberg form and made triangular (schur.h); eigenvectors of the triangle come by
// back substitution (Golub and Van Loan, Matrix Computations, 7.6.4) and are brought back. Conjugate eigenvalues of a
// real matrix are neighbors, the one with a positive imaginary part first; vectors have the norm 1, and if they are
// complex a largest component that is real. As in LAPACK a failure to converge gives no numbers: they are NaN.
#include <cmath>
#include <complex>
#include <limits>

#include "kernels/factorization/eigenvalues.gen.h"
#include "kernels/factorization/matrix.h"
#include "kernels/factorization/schur.h"
#include "kernels/util/promote.h"

namespace etir {

namespace {

/// The memory for one matrix. `real` is where `vectors` is, which are written when the real matrices are done with.
struct EigenMemory {
  Complex *triangle = nullptr, *basis = nullptr, *vectors = nullptr, *column = nullptr;
  double* scale = nullptr;
  double* real() const { return reinterpret_cast<double*>(vectors); }

  bool take(KernelContext& ctx, int64_t n) {
    triangle = ctx.temp_array<Complex>(n * n);
    basis = ctx.temp_array<Complex>(n * n);
    vectors = ctx.temp_array<Complex>(n * n);
    column = ctx.temp_array<Complex>(n);
    scale = ctx.temp_array<double>(n);
    return !ctx.failed();
  }
};

/// Eigenvector `k` of the triangle: [0, k] of `x`. Between equal eigenvalues stands the smallest difference that
/// counts.
void solve_for_vector(const Complex* triangle, int64_t n, int64_t k, Complex* x) {
  const Complex value = triangle[k * n + k];
  const double smallest =
      std::fmax(kUnit * magnitude(value), std::numeric_limits<double>::min() * (static_cast<double>(n) / kUnit));
  for (int64_t i = 0; i < k; ++i) x[i] = -triangle[i * n + k];
  x[k] = Complex(1);
  for (int64_t j = k - 1; j >= 0; --j) {
    Complex difference = triangle[j * n + j] - value;
    if (magnitude(difference) < smallest) difference = Complex(smallest);
    x[j] /= difference;
    const double size = magnitude(x[j]);
    if (size > 1e100) {
      for (int64_t i = 0; i <= k; ++i) x[i] /= size;
    }
    for (int64_t i = 0; i < j; ++i) x[i] -= triangle[i * n + j] * x[j];
  }
}

/// Column `k` gets the norm 1; if it is complex, its largest component becomes real.
void normalize(Complex* vectors, int64_t n, int64_t k, bool is_real) {
  double norm = 0, largest = 0;
  Complex phase(1);
  for (int64_t i = 0; i < n; ++i) {
    const double size = std::abs(vectors[i * n + k]);
    norm = std::hypot(norm, size);
    if (!(size > largest)) continue;
    largest = size;
    phase = std::conj(vectors[i * n + k]) / size;
  }
  if (norm == 0) return;
  for (int64_t i = 0; i < n; ++i) {
    Complex& x = vectors[i * n + k];
    const bool leads = std::abs(x) == largest;
    x = is_real ? Complex(x.real() / norm) : x / norm * phase;
    if (leads && !is_real) x = Complex(x.real());
    if (leads) largest = std::numeric_limits<double>::infinity();
  }
}

/// The vectors of a matrix whose triangle and basis are known.
void find_vectors(const EigenMemory& memory, const Active<Complex>& m, bool is_real) {
  const int64_t n = m.n;
  for (int64_t k = 0; k < n; ++k) {
    const double imaginary = memory.triangle[k * n + k].imag();
    if (is_real && imaginary < 0) {
      for (int64_t i = 0; i < n; ++i) memory.vectors[i * n + k] = std::conj(memory.vectors[i * n + k - 1]);
      continue;
    }
    solve_for_vector(memory.triangle, n, k, memory.column);
    for (int64_t i = 0; i < n; ++i) {
      Complex sum(0);
      for (int64_t j = 0; j <= k; ++j) sum += memory.basis[i * n + j] * memory.column[j];
      memory.vectors[i * n + k] = sum;
    }
  }
  undo_balance(n, m.low, m.high, memory.scale, memory.vectors);
  for (int64_t k = 0; k < n; ++k) {
    normalize(memory.vectors, n, k, is_real && memory.triangle[k * n + k].imag() == 0);
  }
}

/// A balanced matrix in Hessenberg form, then the QR algorithm. T is double or Complex; `a` and `z` hold n * n of them.
template <typename T>
bool find_triangle(const EigenMemory& memory, Active<T>& m, T* z, T* column) {
  balance(m, memory.scale);
  reduce_to_hessenberg(m, z, column);
  if constexpr (std::is_same_v<T, Complex>) {
    return complex_schur(m.a, z, m.n, m.low, m.high);
  } else {
    if (!real_schur(m.a, z, m.n, m.low, m.high)) return false;
    make_triangle(m.a, z, m.n, memory.triangle, memory.basis);
    return true;
  }
}

/// One matrix of elements T at `from`: eigenvalues to `values`, eigenvectors, if they are wanted, to `vectors`.
template <typename T, typename C>
void find_eigenvalues(const EigenMemory& memory, const T* from, int64_t n, C* values, C* vectors) {
  constexpr bool kReal = std::is_floating_point_v<T>;
  using Compute = std::conditional_t<kReal, double, Complex>;
  Compute* a;
  Compute* z;
  Compute* column;
  if constexpr (kReal) {
    a = memory.real(), z = a + n * n, column = reinterpret_cast<double*>(memory.column);
  } else {
    a = memory.triangle, z = memory.basis, column = memory.column;
  }
  // Squares of elements must not overflow.
  double largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < n * n; ++i) {
    a[i] = static_cast<Compute>(from[i]);
    largest = std::fmax(largest, magnitude(a[i]));
    finite = finite && std::isfinite(std::real(a[i])) && std::isfinite(std::imag(a[i]));
  }
  const bool extreme = finite && largest > 0 && (largest > 1e100 || largest < 1e-100);
  const int exponent = extreme ? std::ilogb(largest) : 0;
  for (int64_t i = 0; extreme && i < n * n; ++i) {
    if constexpr (kReal) {
      a[i] = std::ldexp(a[i], -exponent);
    } else {
      a[i] = Complex(std::ldexp(a[i].real(), -exponent), std::ldexp(a[i].imag(), -exponent));
    }
  }
  Active<Compute> m{a, n, 0, n - 1};
  if (!finite || !find_triangle(memory, m, vectors == nullptr ? nullptr : z, column)) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (int64_t i = 0; i < n; ++i) values[i] = static_cast<C>(Complex(nan, nan));
    for (int64_t i = 0; vectors != nullptr && i < n * n; ++i) vectors[i] = static_cast<C>(Complex(nan, nan));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const Complex value = memory.triangle[i * n + i];
    values[i] = static_cast<C>(Complex(std::ldexp(value.real(), exponent), std::ldexp(value.imag(), exponent)));
  }
  if (vectors == nullptr) return;
  find_vectors(memory, Active<Complex>{memory.triangle, n, m.low, m.high}, kReal);
  for (int64_t i = 0; i < n * n; ++i) vectors[i] = static_cast<C>(memory.vectors[i]);
}

/// All matrices of `self`; `vectors` may be null.
void find_all(KernelContext& ctx, const Tensor& self, const Matrices& shape, Tensor& values, Tensor* vectors) {
  const int64_t n = shape.rows;
  EigenMemory memory;
  if (!memory.take(ctx, n)) return;
  const auto run = [&](auto from, auto to) {
    using T = typename decltype(from)::type;
    using C = typename decltype(to)::type;
    for (int64_t m = 0; m < shape.count; ++m) {
      find_eigenvalues(memory, self.ptr<const T>() + m * n * n, n, values.ptr<C>() + m * n,
                       vectors == nullptr ? nullptr : vectors->ptr<C>() + m * n * n);
    }
  };
  dispatch<kFullFloats | kFullComplex>(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T>) {
      run(tag, TypeTag<std::complex<T>>());
    } else {
      run(tag, tag);
    }
  });
}

ScalarType result_dtype(ScalarType type) { return is_complex(type) ? type : complex_of(type); }

}  // namespace

/// linalg_eig(self; eigenvalues, eigenvectors). Temp: three matrices and two rows of complex doubles.
void linalg_eig_out(KernelContext& ctx, const Tensor& self, Tensor& eigenvalues, Tensor& eigenvectors) {
  Matrices shape;
  if (!square(ctx, self, &shape, kFullFloats | kFullComplex)) return;
  const int64_t n = shape.rows;
  const ScalarType dtype = result_dtype(self.dtype);
  if (!prepare(ctx, eigenvalues, self, {n}, dtype) || !prepare(ctx, eigenvectors, self, {n, n}, dtype)) return;
  find_all(ctx, self, shape, eigenvalues, &eigenvectors);
}

/// linalg_eigvals(self; out). Temp: as linalg_eig.
void linalg_eigvals_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  Matrices shape;
  if (!square(ctx, self, &shape, kFullFloats | kFullComplex)) return;
  if (!prepare(ctx, out, self, {shape.rows}, result_dtype(self.dtype))) return;
  find_all(ctx, self, shape, out, nullptr);
}

}  // namespace etir
