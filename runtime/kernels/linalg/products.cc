// Matrix products: mm, bmm, addmm, baddbmm, addbmm, addmv, mv, dot, vdot, linear, matmul, addr, outer, _int_mm, and a
// linear layer and a product that are added to a tensor.
//
// All of them are one strided, batched product out = beta * addend + alpha * a @ b, described by a Product and computed
// in one place, so that there is one instance of the code for each dtype. Operands lie in any dense order: a transposed
// matrix is a matter of strides. No kernel here uses temporary memory.
#include <cstdint>

#include "kernels/kernel.h"
#include "kernels/linalg/matmul.h"
#include "kernels/linalg/products.gen.h"
#include "kernels/util/added.h"
#include "kernels/util/checks.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/loops.h"

namespace etir {
namespace {

constexpr DtypeSet kProductDtypes = kReal | kFullComplex;

/// An operand without its type. Strides are in elements; `batch` has one for each batch dim, 0 where it is broadcast.
struct Operand {
  char* data = nullptr;
  int64_t row = 0, col = 0;
  int64_t batch[kMaxRank] = {};
};

struct Product {
  int64_t m = 1, n = 1, k = 1;
  int batch_rank = 0;
  int64_t batch_sizes[kMaxRank] = {};
  Operand a, b, out, addend;
  const char* added = nullptr;  ///< what the finished product is added to, as the result lies; null: nothing

  /// Makes batch dims that the right matrix does not have part of the rows.
  void fold() {
    while (batch_rank > 0) {
      const int d = batch_rank - 1;
      const int64_t size = batch_sizes[d];
      const auto follows = [&](const Operand& o) { return o.batch[d] == o.row * m; };
      if (size != 1) {
        if (b.batch[d] != 0) return;
        if (m == 1) {
          for (Operand* o : {&a, &out, &addend}) o->row = o->batch[d];
        } else if (!follows(a) || !follows(out) || !follows(addend)) {
          return;
        }
        m *= size;
      }
      --batch_rank;
    }
  }
};

/// The number as the type that is computed in. Fails for a real number that no int64 holds when that type is integral.
template <typename C>
bool number(KernelContext& ctx, const Scalar& scalar, int position, C* value) {
  if constexpr (std::is_integral_v<C>) {
    if (scalar.is_floating()) {
      if (!(scalar.payload.real > -9.2e18 && scalar.payload.real < 9.2e18)) {
        ctx.fail(Check::KernelOverflow, position, static_cast<int64_t>(ScalarType::Long));
        return false;
      }
      *value = static_cast<C>(static_cast<int64_t>(scalar.payload.real));
      return true;
    }
  }
  if constexpr (std::is_same_v<C, std::complex<float>> || std::is_same_v<C, std::complex<double>>) {
    *value = C(scalar.to<typename C::value_type>());
  } else {
    *value = scalar.to<C>();
  }
  return true;
}

/// The factors of an addend and of a product; null stands for 1.
struct Factors {
  const Scalar* beta = nullptr;
  const Scalar* alpha = nullptr;
};

/// Computes a product for which all shapes have been checked.
template <typename T, typename Out>
void compute(KernelContext& ctx, Product p, const Factors& factors) {
  using arg = arguments::addmm_out;  // beta and alpha are in the same places everywhere
  using C = compute_t<T>;
  C beta_value(1), alpha_value(1);
  if (factors.beta != nullptr && !number(ctx, *factors.beta, arg::beta, &beta_value)) return;
  if (factors.alpha != nullptr && !number(ctx, *factors.alpha, arg::alpha, &alpha_value)) return;
  // What is multiplied by zero is not read: its NaNs do not count.
  if (beta_value == C(0)) p.addend = Operand();
  p.fold();
  int64_t batches = 1;
  for (int d = 0; d < p.batch_rank; ++d) batches *= p.batch_sizes[d];
  const auto one = [&](KernelContext& context, int64_t index) {
    int64_t a = 0, b = 0, out = 0, addend = 0;
    for (int d = p.batch_rank - 1; d >= 0; --d) {
      const int64_t at = index % p.batch_sizes[d];
      index /= p.batch_sizes[d];
      a += at * p.a.batch[d], b += at * p.b.batch[d], out += at * p.out.batch[d], addend += at * p.addend.batch[d];
    }
    Matmul<T, Out> q;
    q.m = p.m, q.n = p.n, q.k = p.k;
    q.a = reinterpret_cast<const T*>(p.a.data) + a, q.a_row = p.a.row, q.a_col = p.a.col;
    q.b = reinterpret_cast<const T*>(p.b.data) + b, q.b_row = p.b.row, q.b_col = p.b.col;
    q.out = reinterpret_cast<Out*>(p.out.data) + out, q.out_row = p.out.row, q.out_col = p.out.col;
    q.addend = p.addend.data == nullptr ? nullptr : reinterpret_cast<const Out*>(p.addend.data) + addend;
    q.addend_row = p.addend.row, q.addend_col = p.addend.col;
    q.alpha = alpha_value, q.beta = beta_value;
    if (p.added != nullptr) q.added = reinterpret_cast<const Out*>(p.added) + out;
    matmul(context, q);
  };
  if (batches == 1) return one(ctx, 0);
  const int64_t work = std::max<int64_t>(1, p.m * p.n) * std::max<int64_t>(1, p.k);
  ctx.parallel_for(batches, std::max<int64_t>(1, (int64_t{1} << 16) / work), [&](int64_t begin, int64_t end) {
    KernelContext serial = ctx;
    serial.parallel = ParallelFor();
    for (int64_t index = begin; index < end; ++index) one(serial, index);
  });
}

void compute(KernelContext& ctx, const Tensor& out, const Product& p, const Factors& factors = {}) {
  if (out.numel() == 0) return;
  dispatch<kProductDtypes>(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    compute<T, T>(ctx, p, factors);
  });
}

/// Whether tensors are of one dtype that products take. Null stands for none.
template <DtypeSet kSet = kProductDtypes>
bool check_dtypes(KernelContext& ctx, const Tensor& first, std::initializer_list<const Tensor*> others) {
  const ScalarType dtype = first.dtype;
  if (!contains(kSet & kSelectedDtypes, dtype)) {
    return ctx.fail(Check::KernelDtype, first, static_cast<int64_t>(dtype)), false;
  }
  if (!has_data(ctx, first)) return false;
  for (const Tensor* other : others) {
    if (other == nullptr || other->dtype == dtype) continue;
    return ctx.fail(Check::KernelDtypeMismatch, *other, static_cast<int64_t>(other->dtype)), false;
  }
  // The result's data may be allocated by resize(): it is checked after that.
  return true;
}

bool check_rank(KernelContext& ctx, const Tensor& tensor, int rank) {
  if (tensor.rank == rank) return true;
  return ctx.fail(Check::KernelRank, tensor, tensor.rank), false;
}

/// Gives the result its shape; false, with the failure recorded, if that cannot be or it has no data.
bool make_result(KernelContext& ctx, Tensor& out, const int64_t* sizes, int rank) {
  return ctx.resize(out, sizes, rank) && has_data(ctx, out);
}

/// An operand whose last dims are `row_dim` and `col_dim` (-1: none), with the dims before `batch_rank` as batches,
/// aligned at their end. A size of 1 where `sizes` of the result has another is broadcast.
Operand operand(const Tensor& tensor, int row_dim, int col_dim, int tensor_batch, int batch_rank) {
  Operand o;
  int64_t strides[kMaxRank] = {};
  tensor.strides(strides);
  o.data = static_cast<char*>(tensor.data);
  o.row = row_dim >= 0 ? strides[row_dim] : 0;
  o.col = col_dim >= 0 ? strides[col_dim] : 0;
  for (int d = 0; d < tensor_batch; ++d) {
    o.batch[batch_rank - tensor_batch + d] = tensor.sizes[d] == 1 ? 0 : strides[d];
  }
  return o;
}

/// The addend of a result of shape `sizes`: checks that it can be broadcast.
bool addend_operand(KernelContext& ctx, const Tensor& tensor, const int64_t* sizes, int rank, bool has_row,
                    bool has_col, Operand* result) {
  if (tensor.rank > rank) return ctx.fail(Check::KernelRank, tensor, tensor.rank), false;
  int64_t strides[kMaxRank] = {}, aligned[kMaxRank] = {};
  tensor.strides(strides);
  for (int d = 0; d < tensor.rank; ++d) {
    const int to = rank - tensor.rank + d;
    if (tensor.sizes[d] != sizes[to] && tensor.sizes[d] != 1) {
      return ctx.fail(Check::KernelShape, tensor, tensor.sizes[d]), false;
    }
    aligned[to] = tensor.sizes[d] == 1 ? 0 : strides[d];
  }
  Operand o;
  o.data = static_cast<char*>(tensor.data);
  int at = rank;
  if (has_col) o.col = aligned[--at];
  if (has_row) o.row = aligned[--at];
  for (int d = 0; d < at; ++d) o.batch[d] = aligned[d];
  *result = o;
  return has_data(ctx, tensor);
}

/// mm and bmm, with or without (null) an addend.
void product_out(KernelContext& ctx, int rank, const Tensor* addend, const Tensor& a, const Tensor& b,
                 const Factors& factors, Tensor& out) {
  if (!check_dtypes(ctx, a, {&b, &out, addend}) || !has_data(ctx, b)) return;
  if (!check_rank(ctx, a, rank) || !check_rank(ctx, b, rank)) return;
  if (a.sizes[rank - 1] != b.sizes[rank - 2]) return ctx.fail(Check::KernelShape, b, b.sizes[rank - 2]);
  if (rank == 3 && a.sizes[0] != b.sizes[0]) return ctx.fail(Check::KernelShape, b, b.sizes[0]);
  Product p;
  p.m = a.sizes[rank - 2], p.n = b.sizes[rank - 1], p.k = a.sizes[rank - 1];
  p.batch_rank = rank - 2;
  p.batch_sizes[0] = a.sizes[0];
  const int64_t sizes[] = {rank == 3 ? p.batch_sizes[0] : p.m, rank == 3 ? p.m : p.n, p.n};
  if (!make_result(ctx, out, sizes, rank)) return;
  if (addend != nullptr && !addend_operand(ctx, *addend, sizes, rank, true, true, &p.addend)) return;
  p.a = operand(a, rank - 2, rank - 1, rank - 2, rank - 2);
  p.b = operand(b, rank - 2, rank - 1, rank - 2, rank - 2);
  p.out = operand(out, rank - 2, rank - 1, rank - 2, rank - 2);
  compute(ctx, out, p, factors);
}

/// matmul and linear: operands of any rank. A transposed right matrix has the shape [n, k]. What is `added` (null:
/// nothing) has the result's shape, and may be in its memory.
void broadcast_product(KernelContext& ctx, const Tensor& a, const Tensor& b, bool transposed_b, const Tensor* bias,
                       Tensor& out, const Tensor* added = nullptr) {
  if (!check_dtypes(ctx, a, {&b, &out, bias, added}) || !has_data(ctx, b)) return;
  if (a.rank == 0) return ctx.fail(Check::KernelRank, a, 0);
  if (b.rank == 0 || (transposed_b && b.rank > 2)) return ctx.fail(Check::KernelRank, b, b.rank);
  const int a_row = a.rank >= 2 ? a.rank - 2 : -1, a_col = a.rank - 1;
  int b_row = b.rank >= 2 ? b.rank - 2 : 0, b_col = b.rank >= 2 ? b.rank - 1 : -1;
  if (transposed_b && b.rank == 2) b_row = 1, b_col = 0;
  Product p;
  p.m = a_row >= 0 ? a.sizes[a_row] : 1;
  p.n = b_col >= 0 ? b.sizes[b_col] : 1;
  p.k = a.sizes[a_col];
  if (b.sizes[b_row] != p.k) return ctx.fail(Check::KernelShape, b, b.sizes[b_row]);
  const int a_batch = a.rank > 2 ? a.rank - 2 : 0, b_batch = b.rank > 2 ? b.rank - 2 : 0;
  p.batch_rank = std::max(a_batch, b_batch);
  int64_t sizes[kMaxRank + 1];
  for (int d = 0; d < p.batch_rank; ++d) {
    const int from_end = p.batch_rank - d;
    const int64_t x = from_end <= a_batch ? a.sizes[a_batch - from_end] : 1;
    const int64_t y = from_end <= b_batch ? b.sizes[b_batch - from_end] : 1;
    if (x != y && x != 1 && y != 1) return ctx.fail(Check::KernelShape, b, y);
    sizes[d] = p.batch_sizes[d] = x == 1 ? y : x;
  }
  int rank = p.batch_rank;
  if (a_row >= 0) sizes[rank++] = p.m;
  if (b_col >= 0) sizes[rank++] = p.n;
  if (!make_result(ctx, out, sizes, rank)) return;
  if (added != nullptr && !check_added(ctx, *added, out)) return;
  if (bias != nullptr && !addend_operand(ctx, *bias, sizes, rank, a_row >= 0, b_col >= 0, &p.addend)) return;
  p.a = operand(a, a_row, a_col, a_batch, p.batch_rank);
  p.b = operand(b, b_row, b_col, b_batch, p.batch_rank);
  p.out = operand(out, a_row >= 0 ? p.batch_rank : -1, b_col >= 0 ? rank - 1 : -1, p.batch_rank, p.batch_rank);
  if (added != nullptr) p.added = static_cast<const char*>(added->data);
  compute(ctx, out, p);
}

/// mv and addmv.
void matrix_vector_out(KernelContext& ctx, const Tensor* addend, const Tensor& a, const Tensor& x,
                       const Factors& factors, Tensor& out) {
  if (!check_dtypes(ctx, a, {&x, &out, addend}) || !has_data(ctx, x)) return;
  if (!check_rank(ctx, a, 2) || !check_rank(ctx, x, 1)) return;
  if (a.sizes[1] != x.sizes[0]) return ctx.fail(Check::KernelShape, x, x.sizes[0]);
  Product p;
  p.m = a.sizes[0], p.k = a.sizes[1];
  if (!make_result(ctx, out, &p.m, 1)) return;
  if (addend != nullptr && !addend_operand(ctx, *addend, &p.m, 1, true, false, &p.addend)) return;
  p.a = operand(a, 0, 1, 0, 0);
  p.b = operand(x, 0, -1, 0, 0);
  p.out = operand(out, 0, -1, 0, 0);
  compute(ctx, out, p, factors);
}

/// The bools of an outer product, where products are conjunctions and sums disjunctions.
void outer_of_bools(const Product& p, const Factors& factors) {
  const auto read = [](const Operand& o, int64_t at) { return reinterpret_cast<const uint8_t*>(o.data)[at] != 0; };
  const bool scaled = factors.alpha == nullptr || factors.alpha->to<double>() != 0;
  const bool added = factors.beta != nullptr && factors.beta->to<double>() != 0;
  bool* out = reinterpret_cast<bool*>(p.out.data);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      const bool product = scaled && read(p.a, i * p.a.row) && read(p.b, j * p.b.col);
      const bool addend = added && read(p.addend, i * p.addend.row + j * p.addend.col);
      out[i * p.out.row + j * p.out.col] = product || addend;
    }
  }
}

/// outer and addr: every product of an element of one vector and one of another.
void outer_product(KernelContext& ctx, const Tensor* addend, const Tensor& x, const Tensor& y, const Factors& factors,
                   Tensor& out) {
  if (!check_dtypes<kProductDtypes | kBool>(ctx, x, {&y, &out, addend})) return;
  if (!has_data(ctx, y) || !check_rank(ctx, x, 1) || !check_rank(ctx, y, 1)) return;
  Product p;
  p.m = x.sizes[0], p.n = y.sizes[0];
  const int64_t sizes[] = {p.m, p.n};
  if (!make_result(ctx, out, sizes, 2)) return;
  if (addend != nullptr && !addend_operand(ctx, *addend, sizes, 2, true, true, &p.addend)) return;
  p.a = operand(x, 0, -1, 0, 0);
  p.b = operand(y, -1, 0, 0, 0);
  p.out = operand(out, 0, 1, 0, 0);
  if (out.dtype == ScalarType::Bool) return outer_of_bools(p, factors);
  compute(ctx, out, p, factors);
}

/// Whether two vectors can be multiplied into a number.
bool check_dot(KernelContext& ctx, const Tensor& x, const Tensor& y, Tensor& out) {
  if (!check_dtypes(ctx, x, {&y, &out}) || !has_data(ctx, y) || !check_rank(ctx, x, 1) || !check_rank(ctx, y, 1)) {
    return false;
  }
  if (x.sizes[0] != y.sizes[0]) return ctx.fail(Check::KernelShape, y, y.sizes[0]), false;
  return make_result(ctx, out, nullptr, 0);
}

}  // namespace

void mm_out(KernelContext& ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
  product_out(ctx, 2, nullptr, self, mat2, {}, out);
}
void bmm_out(KernelContext& ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
  product_out(ctx, 3, nullptr, self, mat2, {}, out);
}
void addmm_out(KernelContext& ctx, const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
               const Scalar& alpha, Tensor& out) {
  product_out(ctx, 2, &self, mat1, mat2, {&beta, &alpha}, out);
}
void baddbmm_out(KernelContext& ctx, const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                 const Scalar& alpha, Tensor& out) {
  product_out(ctx, 3, &self, batch1, batch2, {&beta, &alpha}, out);
}
void mv_out(KernelContext& ctx, const Tensor& self, const Tensor& vec, Tensor& out) {
  matrix_vector_out(ctx, nullptr, self, vec, {}, out);
}
void addmv_out(KernelContext& ctx, const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta,
               const Scalar& alpha, Tensor& out) {
  matrix_vector_out(ctx, &self, mat, vec, {&beta, &alpha}, out);
}
void outer_out(KernelContext& ctx, const Tensor& self, const Tensor& vec2, Tensor& out) {
  outer_product(ctx, nullptr, self, vec2, {}, out);
}
void addr_out(KernelContext& ctx, const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
              const Scalar& alpha, Tensor& out) {
  outer_product(ctx, &self, vec1, vec2, {&beta, &alpha}, out);
}
void matmul_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  broadcast_product(ctx, self, other, false, nullptr, out);
}
void linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor* bias, Tensor& out) {
  broadcast_product(ctx, input, weight, true, bias, out);
}
void linear_add_out(KernelContext& ctx, const Tensor& self, const Tensor& input, const Tensor& weight,
                    const Tensor* bias, Tensor& out) {
  if (!contains(kFloats & kSelectedDtypes, input.dtype)) {
    return ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(input.dtype));
  }
  if (weight.rank != 2) return ctx.fail(Check::KernelRank, weight, weight.rank);
  if (bias != nullptr && bias->rank != 1) return ctx.fail(Check::KernelRank, *bias, bias->rank);
  if (bias != nullptr && bias->sizes[0] != weight.sizes[0]) return ctx.fail(Check::KernelShape, *bias, bias->sizes[0]);
  broadcast_product(ctx, input, weight, true, bias, out, &self);
}
void matmul_add_out(KernelContext& ctx, const Tensor& self, const Tensor& input, const Tensor& other, Tensor& out) {
  if (!contains(kFloats & kSelectedDtypes, input.dtype)) {
    return ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(input.dtype));
  }
  broadcast_product(ctx, input, other, false, nullptr, out, &self);
}

void addbmm_out(KernelContext& ctx, const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                const Scalar& alpha, Tensor& out) {
  const Tensor &a = batch1, &b = batch2;
  if (!check_dtypes(ctx, a, {&b, &self, &out}) || !has_data(ctx, b)) return;
  if (!check_rank(ctx, a, 3) || !check_rank(ctx, b, 3)) return;
  if (a.sizes[0] != b.sizes[0]) return ctx.fail(Check::KernelShape, batch2, b.sizes[0]);
  if (a.sizes[2] != b.sizes[1]) return ctx.fail(Check::KernelShape, batch2, b.sizes[1]);
  Product p;
  p.m = a.sizes[1], p.n = b.sizes[2], p.k = a.sizes[2];
  const int64_t sizes[] = {p.m, p.n};
  if (!make_result(ctx, out, sizes, 2) || !addend_operand(ctx, self, sizes, 2, true, true, &p.addend)) return;
  p.a = operand(a, 1, 2, 1, 1);
  p.b = operand(b, 1, 2, 1, 1);
  p.out = operand(out, 0, 1, 0, 0);
  const int64_t item = static_cast<int64_t>(element_size(out.dtype));
  const int64_t a_step = p.a.batch[0] * item, b_step = p.b.batch[0] * item;
  const int64_t batches = a.sizes[0];
  if (batches == 0) p.k = 0;
  // The first product takes the addend, the others add to the result.
  for (int64_t i = 0; i < std::max<int64_t>(1, batches) && !ctx.failed(); ++i) {
    compute(ctx, out, p, {i == 0 ? &beta : nullptr, &alpha});
    p.a.data += a_step, p.b.data += b_step;
    p.addend = p.out;
  }
}

void dot_out(KernelContext& ctx, const Tensor& self, const Tensor& tensor, Tensor& out) {
  if (!check_dot(ctx, self, tensor, out)) return;
  Product p;
  p.k = self.sizes[0];
  p.a = operand(self, -1, 0, 0, 0);
  p.b = operand(tensor, 0, -1, 0, 0);
  p.out = operand(out, -1, -1, 0, 0);
  compute(ctx, out, p);
}

void vdot_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  const Tensor &x = self, &y = other;
  if (!is_complex(x.dtype)) return dot_out(ctx, self, other, out);
  if (!check_dot(ctx, x, y, out)) return;
  dispatch<kFullComplex>(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T sum(0);
    for (int64_t i = 0; i < x.sizes[0]; ++i) multiply_add_scalar(sum, std::conj(x.ptr<T>()[i]), y.ptr<T>()[i]);
    *out.ptr<T>() = sum;
  });
}

void int_mm_out(KernelContext& ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
  const Tensor &a = self, &b = mat2;
  for (const Tensor* tensor : {&a, &b, static_cast<const Tensor*>(&out)}) {
    const ScalarType wanted = tensor == &out ? ScalarType::Int : ScalarType::Char;
    if (tensor->dtype != wanted || !contains(kSelectedDtypes, wanted)) {
      return ctx.fail(Check::KernelDtype, *tensor, static_cast<int64_t>(tensor->dtype));
    }
  }
  if (!check_rank(ctx, a, 2) || !check_rank(ctx, b, 2) || !has_data(ctx, a) || !has_data(ctx, b)) return;
  if (a.sizes[1] != b.sizes[0]) return ctx.fail(Check::KernelShape, mat2, b.sizes[0]);
  Product p;
  p.m = a.sizes[0], p.n = b.sizes[1], p.k = a.sizes[1];
  const int64_t sizes[] = {p.m, p.n};
  if (!make_result(ctx, out, sizes, 2) || out.numel() == 0) return;
  p.a = operand(a, 0, 1, 0, 0);
  p.b = operand(b, 0, 1, 0, 0);
  p.out = operand(out, 0, 1, 0, 0);
  compute<int8_t, int32_t>(ctx, p, {});
}

}  // namespace etir
