// Matrix products: mm, bmm, addmm, baddbmm, addbmm, addmv, mv, dot, vdot, linear, matmul, addr, outer, _int_mm.
//
// All of them are one strided, batched product out = beta * addend + alpha * a @ b, described by a Product and computed
// in one place, so that there is one instance of the code for each dtype. Operands lie in any dense order: a transposed
// matrix is a matter of strides. No kernel here uses temporary memory.
#include <cstdint>

#include "kernels/kernel.h"
#include "kernels/linalg/matmul.h"
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
bool number(KernelContext& ctx, int i, C* value) {
  const Scalar scalar = ctx.scalar(i);
  if constexpr (std::is_integral_v<C>) {
    if (scalar.is_floating()) {
      if (!(scalar.payload.real > -9.2e18 && scalar.payload.real < 9.2e18)) {
        ctx.fail(Check::KernelOverflow, i, static_cast<int64_t>(ScalarType::Long));
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

/// Computes a product for which all shapes have been checked. `beta` and `alpha` are positions of arguments, or -1 for
/// 1.
template <typename T, typename Out>
void compute(KernelContext& ctx, Product p, int beta, int alpha) {
  using C = compute_t<T>;
  C beta_value(1), alpha_value(1);
  if (beta >= 0 && !number(ctx, beta, &beta_value)) return;
  if (alpha >= 0 && !number(ctx, alpha, &alpha_value)) return;
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

void compute(KernelContext& ctx, const Tensor& out, const Product& p, int beta = -1, int alpha = -1) {
  if (out.numel() == 0) return;
  dispatch<kProductDtypes>(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    compute<T, T>(ctx, p, beta, alpha);
  });
}

bool check_data(KernelContext& ctx, int i) {
  const Tensor& tensor = ctx.tensor(i);
  if (tensor.data == nullptr && tensor.numel() > 0) return ctx.fail(Check::KernelNoData, i), false;
  return true;
}

/// Whether tensors are of one dtype that products take. A negative position stands for none.
template <DtypeSet kSet = kProductDtypes, typename... Positions>
bool check_dtypes(KernelContext& ctx, int first, Positions... others) {
  const ScalarType dtype = ctx.tensor(first).dtype;
  if (!contains(kSet & kSelectedDtypes, dtype)) {
    return ctx.fail(Check::KernelDtype, first, static_cast<int64_t>(dtype)), false;
  }
  bool good = check_data(ctx, first);
  for (const int i : {others...}) {
    if (i < 0 || !good) continue;
    if (ctx.tensor(i).dtype != dtype) {
      ctx.fail(Check::KernelDtypeMismatch, i, static_cast<int64_t>(ctx.tensor(i).dtype));
      good = false;
    }
    // The result's data may be allocated by resize(): it is checked behind it.
  }
  return good;
}

bool check_rank(KernelContext& ctx, int i, int rank) {
  if (ctx.tensor(i).rank == rank) return true;
  return ctx.fail(Check::KernelRank, i, ctx.tensor(i).rank), false;
}

/// Gives the result its shape; false, with the failure recorded, if that cannot be or it has no data.
bool make_result(KernelContext& ctx, int i, const int64_t* sizes, int rank) {
  return ctx.resize(ctx.tensor(i), sizes, rank) && check_data(ctx, i);
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
bool addend_operand(KernelContext& ctx, int i, const int64_t* sizes, int rank, bool has_row, bool has_col,
                    Operand* result) {
  const Tensor& tensor = ctx.tensor(i);
  if (tensor.rank > rank) return ctx.fail(Check::KernelRank, i, tensor.rank), false;
  int64_t strides[kMaxRank] = {}, aligned[kMaxRank] = {};
  tensor.strides(strides);
  for (int d = 0; d < tensor.rank; ++d) {
    const int to = rank - tensor.rank + d;
    if (tensor.sizes[d] != sizes[to] && tensor.sizes[d] != 1) {
      return ctx.fail(Check::KernelShape, i, tensor.sizes[d]), false;
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
  return check_data(ctx, i);
}

/// mm and bmm, with or without an addend (position -1), factors at `beta` and `beta + 1`.
void product_out(KernelContext& ctx, int rank, int addend, int a_at, int out_at, int beta) {
  const int b_at = a_at + 1;
  const Tensor &a = ctx.tensor(a_at), &b = ctx.tensor(b_at), &out = ctx.tensor(out_at);
  if (!check_dtypes(ctx, a_at, b_at, out_at, addend) || !check_data(ctx, b_at)) return;
  if (!check_rank(ctx, a_at, rank) || !check_rank(ctx, b_at, rank)) return;
  if (a.sizes[rank - 1] != b.sizes[rank - 2]) return ctx.fail(Check::KernelShape, b_at, b.sizes[rank - 2]);
  if (rank == 3 && a.sizes[0] != b.sizes[0]) return ctx.fail(Check::KernelShape, b_at, b.sizes[0]);
  Product p;
  p.m = a.sizes[rank - 2], p.n = b.sizes[rank - 1], p.k = a.sizes[rank - 1];
  p.batch_rank = rank - 2;
  p.batch_sizes[0] = a.sizes[0];
  const int64_t sizes[] = {rank == 3 ? p.batch_sizes[0] : p.m, rank == 3 ? p.m : p.n, p.n};
  if (!make_result(ctx, out_at, sizes, rank)) return;
  if (addend >= 0 && !addend_operand(ctx, addend, sizes, rank, true, true, &p.addend)) return;
  p.a = operand(a, rank - 2, rank - 1, rank - 2, rank - 2);
  p.b = operand(b, rank - 2, rank - 1, rank - 2, rank - 2);
  p.out = operand(out, rank - 2, rank - 1, rank - 2, rank - 2);
  compute(ctx, out, p, beta, beta < 0 ? -1 : beta + 1);
}

/// matmul and linear: operands of any rank. A transposed right matrix has the shape [n, k].
void broadcast_product(KernelContext& ctx, bool transposed_b, int bias, int out_at) {
  const Tensor &a = ctx.tensor(0), &b = ctx.tensor(1), &out = ctx.tensor(out_at);
  if (!check_dtypes(ctx, 0, 1, out_at, bias) || !check_data(ctx, 1)) return;
  if (a.rank == 0) return ctx.fail(Check::KernelRank, 0, 0);
  if (b.rank == 0 || (transposed_b && b.rank > 2)) return ctx.fail(Check::KernelRank, 1, b.rank);
  const int a_row = a.rank >= 2 ? a.rank - 2 : -1, a_col = a.rank - 1;
  int b_row = b.rank >= 2 ? b.rank - 2 : 0, b_col = b.rank >= 2 ? b.rank - 1 : -1;
  if (transposed_b && b.rank == 2) b_row = 1, b_col = 0;
  Product p;
  p.m = a_row >= 0 ? a.sizes[a_row] : 1;
  p.n = b_col >= 0 ? b.sizes[b_col] : 1;
  p.k = a.sizes[a_col];
  if (b.sizes[b_row] != p.k) return ctx.fail(Check::KernelShape, 1, b.sizes[b_row]);
  const int a_batch = a.rank > 2 ? a.rank - 2 : 0, b_batch = b.rank > 2 ? b.rank - 2 : 0;
  p.batch_rank = std::max(a_batch, b_batch);
  int64_t sizes[kMaxRank + 1];
  for (int d = 0; d < p.batch_rank; ++d) {
    const int from_end = p.batch_rank - d;
    const int64_t x = from_end <= a_batch ? a.sizes[a_batch - from_end] : 1;
    const int64_t y = from_end <= b_batch ? b.sizes[b_batch - from_end] : 1;
    if (x != y && x != 1 && y != 1) return ctx.fail(Check::KernelShape, 1, y);
    sizes[d] = p.batch_sizes[d] = x == 1 ? y : x;
  }
  int rank = p.batch_rank;
  if (a_row >= 0) sizes[rank++] = p.m;
  if (b_col >= 0) sizes[rank++] = p.n;
  if (!make_result(ctx, out_at, sizes, rank)) return;
  if (bias >= 0 && !addend_operand(ctx, bias, sizes, rank, a_row >= 0, b_col >= 0, &p.addend)) return;
  p.a = operand(a, a_row, a_col, a_batch, p.batch_rank);
  p.b = operand(b, b_row, b_col, b_batch, p.batch_rank);
  p.out = operand(out, a_row >= 0 ? p.batch_rank : -1, b_col >= 0 ? rank - 1 : -1, p.batch_rank, p.batch_rank);
  compute(ctx, out, p);
}

/// mv and addmv: a matrix at `mat` and the vector behind it.
void matrix_vector_out(KernelContext& ctx, int addend, int mat, int out_at, int beta) {
  const Tensor &a = ctx.tensor(mat), &x = ctx.tensor(mat + 1), &out = ctx.tensor(out_at);
  if (!check_dtypes(ctx, mat, mat + 1, out_at, addend) || !check_data(ctx, mat + 1)) return;
  if (!check_rank(ctx, mat, 2) || !check_rank(ctx, mat + 1, 1)) return;
  if (a.sizes[1] != x.sizes[0]) return ctx.fail(Check::KernelShape, mat + 1, x.sizes[0]);
  Product p;
  p.m = a.sizes[0], p.k = a.sizes[1];
  if (!make_result(ctx, out_at, &p.m, 1)) return;
  if (addend >= 0 && !addend_operand(ctx, addend, &p.m, 1, true, false, &p.addend)) return;
  p.a = operand(a, 0, 1, 0, 0);
  p.b = operand(x, 0, -1, 0, 0);
  p.out = operand(out, 0, -1, 0, 0);
  compute(ctx, out, p, beta, beta < 0 ? -1 : beta + 1);
}

/// The bools of an outer product, where products are conjunctions and sums disjunctions.
void outer_of_bools(KernelContext& ctx, const Product& p, int beta) {
  const auto read = [](const Operand& o, int64_t at) { return reinterpret_cast<const uint8_t*>(o.data)[at] != 0; };
  const bool scaled = beta < 0 || ctx.scalar(beta + 1).to<double>() != 0;
  const bool added = beta >= 0 && ctx.scalar(beta).to<double>() != 0;
  bool* out = reinterpret_cast<bool*>(p.out.data);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      const bool product = scaled && read(p.a, i * p.a.row) && read(p.b, j * p.b.col);
      const bool addend = added && read(p.addend, i * p.addend.row + j * p.addend.col);
      out[i * p.out.row + j * p.out.col] = product || addend;
    }
  }
}

/// outer and addr: every product of an element of the vector at `first` and one of the vector behind it.
void outer_product(KernelContext& ctx, int addend, int first, int out_at, int beta) {
  const Tensor &x = ctx.tensor(first), &y = ctx.tensor(first + 1), &out = ctx.tensor(out_at);
  if (!check_dtypes<kProductDtypes | kBool>(ctx, first, first + 1, out_at, addend)) return;
  if (!check_data(ctx, first + 1) || !check_rank(ctx, first, 1) || !check_rank(ctx, first + 1, 1)) return;
  Product p;
  p.m = x.sizes[0], p.n = y.sizes[0];
  const int64_t sizes[] = {p.m, p.n};
  if (!make_result(ctx, out_at, sizes, 2)) return;
  if (addend >= 0 && !addend_operand(ctx, addend, sizes, 2, true, true, &p.addend)) return;
  p.a = operand(x, 0, -1, 0, 0);
  p.b = operand(y, -1, 0, 0, 0);
  p.out = operand(out, 0, 1, 0, 0);
  if (out.dtype == ScalarType::Bool) return outer_of_bools(ctx, p, beta);
  compute(ctx, out, p, beta, beta < 0 ? -1 : beta + 1);
}

/// Whether two vectors can be multiplied into the number at argument 2.
bool check_dot(KernelContext& ctx) {
  if (!check_dtypes(ctx, 0, 1, 2) || !check_data(ctx, 1) || !check_rank(ctx, 0, 1) || !check_rank(ctx, 1, 1))
    return false;
  if (ctx.tensor(0).sizes[0] != ctx.tensor(1).sizes[0]) {
    return ctx.fail(Check::KernelShape, 1, ctx.tensor(1).sizes[0]), false;
  }
  return make_result(ctx, 2, nullptr, 0);
}

}  // namespace

void mm_out(KernelContext& ctx) { product_out(ctx, 2, -1, 0, 2, -1); }
void bmm_out(KernelContext& ctx) { product_out(ctx, 3, -1, 0, 2, -1); }
void addmm_out(KernelContext& ctx) { product_out(ctx, 2, 0, 1, 5, 3); }
void baddbmm_out(KernelContext& ctx) { product_out(ctx, 3, 0, 1, 5, 3); }
void mv_out(KernelContext& ctx) { matrix_vector_out(ctx, -1, 0, 2, -1); }
void addmv_out(KernelContext& ctx) { matrix_vector_out(ctx, 0, 1, 5, 3); }
void outer_out(KernelContext& ctx) { outer_product(ctx, -1, 0, 2, -1); }
void addr_out(KernelContext& ctx) { outer_product(ctx, 0, 1, 5, 3); }
void matmul_out(KernelContext& ctx) { broadcast_product(ctx, false, -1, 2); }
void linear_out(KernelContext& ctx) { broadcast_product(ctx, true, ctx.has(2) ? 2 : -1, 3); }

void addbmm_out(KernelContext& ctx) {
  const Tensor &a = ctx.tensor(1), &b = ctx.tensor(2), &out = ctx.tensor(5);
  if (!check_dtypes(ctx, 1, 2, 0, 5) || !check_data(ctx, 2)) return;
  if (!check_rank(ctx, 1, 3) || !check_rank(ctx, 2, 3)) return;
  if (a.sizes[0] != b.sizes[0]) return ctx.fail(Check::KernelShape, 2, b.sizes[0]);
  if (a.sizes[2] != b.sizes[1]) return ctx.fail(Check::KernelShape, 2, b.sizes[1]);
  Product p;
  p.m = a.sizes[1], p.n = b.sizes[2], p.k = a.sizes[2];
  const int64_t sizes[] = {p.m, p.n};
  if (!make_result(ctx, 5, sizes, 2) || !addend_operand(ctx, 0, sizes, 2, true, true, &p.addend)) return;
  p.a = operand(a, 1, 2, 1, 1);
  p.b = operand(b, 1, 2, 1, 1);
  p.out = operand(out, 0, 1, 0, 0);
  const int64_t item = static_cast<int64_t>(element_size(out.dtype));
  const int64_t a_step = p.a.batch[0] * item, b_step = p.b.batch[0] * item;
  const int64_t batches = a.sizes[0];
  if (batches == 0) p.k = 0;
  // The first product takes the addend, the others add to the result.
  for (int64_t i = 0; i < std::max<int64_t>(1, batches) && !ctx.failed(); ++i) {
    compute(ctx, out, p, i == 0 ? 3 : -1, 4);
    p.a.data += a_step, p.b.data += b_step;
    p.addend = p.out;
  }
}

void dot_out(KernelContext& ctx) {
  if (!check_dot(ctx)) return;
  Product p;
  p.k = ctx.tensor(0).sizes[0];
  p.a = operand(ctx.tensor(0), -1, 0, 0, 0);
  p.b = operand(ctx.tensor(1), 0, -1, 0, 0);
  p.out = operand(ctx.tensor(2), -1, -1, 0, 0);
  compute(ctx, ctx.tensor(2), p);
}

void vdot_out(KernelContext& ctx) {
  const Tensor &x = ctx.tensor(0), &y = ctx.tensor(1), &out = ctx.tensor(2);
  if (!is_complex(x.dtype)) return dot_out(ctx);
  if (!check_dot(ctx)) return;
  dispatch<kFullComplex>(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T sum(0);
    for (int64_t i = 0; i < x.sizes[0]; ++i) multiply_add_scalar(sum, std::conj(x.ptr<T>()[i]), y.ptr<T>()[i]);
    *out.ptr<T>() = sum;
  });
}

void int_mm_out(KernelContext& ctx) {
  const Tensor &a = ctx.tensor(0), &b = ctx.tensor(1), &out = ctx.tensor(2);
  for (int i = 0; i < 3; ++i) {
    const ScalarType dtype = ctx.tensor(i).dtype;
    if (dtype != (i == 2 ? ScalarType::Int : ScalarType::Char) || !contains(kSelectedDtypes, dtype)) {
      return ctx.fail(Check::KernelDtype, i, static_cast<int64_t>(dtype));
    }
  }
  if (!check_rank(ctx, 0, 2) || !check_rank(ctx, 1, 2) || !check_data(ctx, 0) || !check_data(ctx, 1)) return;
  if (a.sizes[1] != b.sizes[0]) return ctx.fail(Check::KernelShape, 1, b.sizes[0]);
  Product p;
  p.m = a.sizes[0], p.n = b.sizes[1], p.k = a.sizes[1];
  const int64_t sizes[] = {p.m, p.n};
  if (!make_result(ctx, 2, sizes, 2) || out.numel() == 0) return;
  p.a = operand(a, 0, 1, 0, 0);
  p.b = operand(b, 0, 1, 0, 0);
  p.out = operand(out, 0, 1, 0, 0);
  compute<int8_t, int32_t>(ctx, p, -1, -1);
}

}  // namespace etir
