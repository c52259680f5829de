// The fast Hadamard transform of the last dim, whose size is a power of two, or 28 times one.
//
// The part that is a power of two is normalized (divided by its square root), that of size 28 is not: ExecuTorch's
// operator, whose matrix of size 28 this is, does the same.
#include <cmath>
#include <cstring>

#include "kernels/llm/cache.h"
#include "kernels/llm/hadamard.gen.h"
#include "kernels/util/dispatch.h"

namespace etir {
namespace {

using namespace llm;

constexpr int64_t kSpecial = 28;
/// Rows of the Hadamard matrix of size 28; bit j is set where element j is -1.
constexpr uint32_t kRows[kSpecial] = {0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df, 0x66b4f3f,
                                      0xb467f43, 0x6acbe87, 0xd593d8e, 0xab27b9c, 0x564f7b8, 0xac9aff0, 0x5b31fe1,
                                      0x87fb325, 0x0ff66ca, 0x1decd95, 0x39ddb2a, 0x71bf654, 0xe17eca9, 0xc2fd9d2,
                                      0xfcf1299, 0xfbe2532, 0xf7c4ae4, 0xef8d549, 0xdf1ea13, 0xbe3d4a6, 0x7e7a94c};

template <typename A>
void transform_power_of_two(A* x, int64_t n) {
  for (int64_t half = 1; half < n; half *= 2) {
    for (int64_t start = 0; start < n; start += 2 * half) {
      A* __restrict low = x + start;
      A* __restrict high = x + start + half;
      for (int64_t i = 0; i < half; ++i) {
        const A a = low[i], b = high[i];
        low[i] = a + b;
        high[i] = a - b;
      }
    }
  }
  const A by = A(1) / std::sqrt(static_cast<A>(n));
  for (int64_t i = 0; i < n; ++i) x[i] *= by;
}

template <typename A>
void transform_28(A* x, int64_t stride) {
  A values[kSpecial];
  for (int64_t j = 0; j < kSpecial; ++j) values[j] = x[j * stride];
  for (int64_t i = 0; i < kSpecial; ++i) {
    A sum(0);
    for (int64_t j = 0; j < kSpecial; ++j) sum += (kRows[i] >> j & 1) != 0 ? -values[j] : values[j];
    x[i * stride] = sum;
  }
}

template <typename A>
void transform(A* x, int64_t n, int64_t power) {
  for (int64_t start = 0; start < n; start += power) transform_power_of_two(x + start, power);
  if (n != power) {
    for (int64_t i = 0; i < power; ++i) transform_28(x + i, power);
  }
}

}  // namespace

void fast_hadamard_transform_out(KernelContext& ctx, const Tensor& mat, Tensor& out) {
  if (mat.rank == 0) return ctx.fail(Check::KernelRank, mat, 0);
  if (!check_tensor(ctx, mat, -1) || !check_dtype(ctx, out, mat.dtype)) return;
  const int64_t n = mat.sizes[mat.rank - 1];
  const int64_t power = n > 0 && (n & (n - 1)) != 0 && n % kSpecial == 0 ? n / kSpecial : n;
  if (n < 1 || (power & (power - 1)) != 0) return ctx.fail(Check::KernelShape, mat, n);
  if (!ctx.resize_like(out, mat) || !check_tensor(ctx, out, -1)) return;
  if (out.numel() == 0) return;
  const int64_t rows = out.numel() / n;
  const bool known = dispatch<kFloats>(mat.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    if constexpr (std::is_same_v<T, A>) {
      if (out.data != mat.data) std::memmove(out.data, mat.data, out.nbytes());
      ctx.parallel_for(rows, 4096 / n + 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) transform(out.ptr<T>() + row * n, n, power);
      });
    } else {
      // 16-bit types are transformed in a row of floats: n * 4 bytes of temporary memory.
      A* buffer = ctx.temp_array<A>(n);
      if (buffer == nullptr) return;
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < n; ++i) buffer[i] = convert<A>(mat.ptr<T>()[row * n + i]);
        transform(buffer, n, power);
        for (int64_t i = 0; i < n; ++i) out.ptr<T>()[row * n + i] = convert<T>(buffer[i]);
      }
    }
  });
  if (!known) ctx.fail(Check::KernelDtype, mat, static_cast<int64_t>(mat.dtype));
}

}  // namespace etir
