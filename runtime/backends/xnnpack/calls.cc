#include "backends/xnnpack/calls.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace etir {
namespace xnnpack {

namespace {

constexpr int64_t kGrain = 16384;

// Rounds to even what is smaller than 2^22: a sum that large has no room for a fraction.
inline float round_even(float x) {
  constexpr float kShift = 12582912.0f;
  return (x + kShift) - kShift;
}

struct Scale {
  float scale, inverse, low, high;  // limits less the zero point

  Scale(float scale, float zero_point, float low, float high)
      : scale(scale), inverse(1.0f / scale), low(low - zero_point), high(high - zero_point) {}
  // The integer less the zero point. NaN becomes the lower limit.
  float integer(float x) const {
    const float scaled = x * inverse;
    return round_even(scaled > low ? (scaled < high ? scaled : high) : low);
  }
};
Scale scale_of(KernelContext& ctx) {
  return Scale(static_cast<float>(ctx.real(2)), static_cast<float>(ctx.integer(3)), static_cast<float>(ctx.integer(4)),
               static_cast<float>(ctx.integer(5)));
}

bool same_size(KernelContext& ctx, const Tensor& from, Tensor& to) {
  if (!ctx.resize_like(to, from)) return false;
  if (from.numel() == 0 || (from.data != nullptr && to.data != nullptr)) return true;
  ctx.fail(Check::KernelNoData, from);
  return false;
}

template <typename T>
void limit_all(KernelContext& ctx, const Tensor& from, const Tensor& to, float low, float high) {
  const T* x = from.ptr<T>();
  T* y = to.ptr<T>();
  ctx.parallel_for(from.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float v = static_cast<float>(x[i]);
      y[i] = static_cast<T>(v < low ? low : v > high ? high : v);
    }
  });
}

/// The taps of a window that starts at `first` which are inside of the image.
struct Taps {
  int64_t begin, end;

  Taps(int64_t first, int64_t size, int64_t kernel, int64_t dilation)
      : begin(first < 0 ? (dilation - 1 - first) / dilation : 0),
        end(first >= size ? 0 : std::min(kernel, (size - 1 - first) / dilation + 1)) {}
};

}  // namespace

void alias(KernelContext& ctx) {
  const Tensor& from = ctx.tensor(0);
  Tensor& to = ctx.tensor(1);
  int32_t sizes[kMaxRank];
  for (int d = 0; d < to.rank; ++d) sizes[d] = from.sizes[ctx.integer(2 + d)];
  int32_t* target = const_cast<int32_t*>(to.sizes);
  for (int d = 0; d < to.rank; ++d) target[d] = sizes[d];
  to.data = from.data;
  to.capacity = from.capacity;
}

void limit(KernelContext& ctx) {
  const Tensor& from = ctx.tensor(0);
  Tensor& to = ctx.tensor(1);
  const float low = static_cast<float>(ctx.real(2)), high = static_cast<float>(ctx.real(3));
  if (!same_size(ctx, from, to)) return;
  if (from.dtype == ScalarType::Float) return limit_all<float>(ctx, from, to, low, high);
  if (from.dtype == ScalarType::Half) return limit_all<Half>(ctx, from, to, low, high);
  limit_all<BFloat16>(ctx, from, to, low, high);
}

void round_to_scale(KernelContext& ctx) {
  const Tensor& from = ctx.tensor(0);
  Tensor& to = ctx.tensor(1);
  if (!same_size(ctx, from, to)) return;
  const Scale s = scale_of(ctx);
  const float* x = from.ptr<float>();
  float* y = to.ptr<float>();
  ctx.parallel_for(from.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = s.integer(x[i]) * s.scale;
  });
}

void round_by_token(KernelContext& ctx) {
  const Tensor& from = ctx.tensor(0);
  Tensor& to = ctx.tensor(1);
  const int nonbatch = static_cast<int>(ctx.integer(2));
  if (!same_size(ctx, from, to)) return;
  int64_t tokens = 1, length = 1;
  for (int d = 0; d < from.rank; ++d) (d < from.rank - nonbatch ? tokens : length) *= from.sizes[d];
  if (tokens * length == 0) return;
  const float* x = from.ptr<float>();
  float* y = to.ptr<float>();
  ctx.parallel_for(tokens, std::max<int64_t>(1, kGrain / length), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* row = x + t * length;
      float least = 0.0f, most = 0.0f;
      for (int64_t i = 0; i < length; ++i) {
        least = row[i] < least ? row[i] : least;
        most = row[i] > most ? row[i] : most;
      }
      // The zero point of the end that is represented with the smaller error.
      const float inverse = least == most ? 1.0f : 255.0f / (most - least);
      const float low = least * inverse, high = most * inverse;
      const float exact = (-128.0f + low) + (127.0f + high) > 0.0f ? -128.0f - low : 127.0f - high;
      Scale s(1.0f, std::nearbyint(std::min(127.0f, std::max(-128.0f, exact))), -128.0f, 127.0f);
      s.inverse = inverse;
      s.scale = 1.0f / inverse;
      for (int64_t i = 0; i < length; ++i) y[t * length + i] = s.integer(row[i]) * s.scale;
    }
  });
}

void to_integers(KernelContext& ctx) {
  const Tensor& from = ctx.tensor(0);
  Tensor& to = ctx.tensor(1);
  if (!same_size(ctx, from, to)) return;
  const Scale s = scale_of(ctx);
  const float zero_point = static_cast<float>(ctx.integer(3));
  const float* x = from.ptr<float>();
  // A byte holds either kind of integer: both are what is left of an int.
  uint8_t* y = to.ptr<uint8_t>();
  ctx.parallel_for(from.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      y[i] = static_cast<uint8_t>(static_cast<int32_t>(s.integer(x[i]) + zero_point) & 0xff);
    }
  });
}

void from_integers(KernelContext& ctx) {
  const Tensor& from = ctx.tensor(0);
  Tensor& to = ctx.tensor(1);
  if (!same_size(ctx, from, to)) return;
  const float scale = static_cast<float>(ctx.real(2));
  const int32_t zero_point = static_cast<int32_t>(ctx.integer(3));
  const bool is_signed = from.dtype == ScalarType::Char;
  const uint8_t* x = from.ptr<uint8_t>();
  float* y = to.ptr<float>();
  ctx.parallel_for(from.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t integer = is_signed ? static_cast<int8_t>(x[i]) : x[i];
      y[i] = static_cast<float>(integer - zero_point) * scale;
    }
  });
}

void has_room(KernelContext& ctx) {
  const Tensor& tensor = ctx.tensor(0);
  if (tensor.sizes[ctx.integer(1)] < ctx.integer(2)) ctx.fail(Check::KernelShape, tensor, ctx.integer(2));
}

void pool(KernelContext& ctx) {
  const Tensor& image = ctx.tensor(0);
  Tensor& out = ctx.tensor(1);
  Tensor* indices = ctx.optional_tensor(2);
  const int64_t mode = ctx.integer(3);
  const int64_t top = ctx.integer(4), right = ctx.integer(5), bottom = ctx.integer(6), left = ctx.integer(7);
  const int64_t kernel[] = {ctx.integer(8), ctx.integer(9)}, stride[] = {ctx.integer(10), ctx.integer(11)};
  const int64_t dilation[] = {ctx.integer(12), ctx.integer(13)};
  const int64_t height = image.sizes[1], width = image.sizes[2], channels = image.sizes[3];
  const int64_t padded[] = {height + top + bottom, width + left + right};
  int64_t sizes[] = {image.sizes[0], 0, 0, channels};
  for (int d = 0; d < 2; ++d) {
    if (mode == kArgMaxPool) {
      sizes[1 + d] = (padded[d] + kernel[d] - 1) / kernel[d];
      continue;
    }
    const int64_t room = padded[d] - (kernel[d] - 1) * dilation[d] - 1;
    if (room < 0) return ctx.fail(Check::KernelShape, image, padded[d]);
    sizes[1 + d] = room / stride[d] + 1;
  }
  if (!ctx.resize(out, sizes, 4) || (indices != nullptr && !ctx.resize(*indices, sizes, 4))) return;
  if (out.numel() == 0) return;
  if (image.data == nullptr || out.data == nullptr || (indices != nullptr && indices->data == nullptr)) {
    return ctx.fail(Check::KernelNoData, image);
  }
  const float* x = image.ptr<float>();
  float* y = out.ptr<float>();
  int32_t* at = indices == nullptr ? nullptr : indices->ptr<int32_t>();
  const int64_t rows = sizes[0] * sizes[1];
  const int64_t work = std::max<int64_t>(1, sizes[2] * channels * kernel[0] * kernel[1]);
  ctx.parallel_for(rows, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* plane = x + row / sizes[1] * height * width * channels;
      const int64_t first_h = row % sizes[1] * stride[0] - top;
      for (int64_t ow = 0; ow < sizes[2]; ++ow) {
        const int64_t first_w = ow * stride[1] - left;
        float* to = y + (row * sizes[2] + ow) * channels;
        const float start = mode == kAveragePool ? 0.0f : -std::numeric_limits<float>::infinity();
        for (int64_t c = 0; c < channels; ++c) to[c] = start;
        int32_t* index = at == nullptr ? nullptr : at + (row * sizes[2] + ow) * channels;
        if (index != nullptr) std::fill(index, index + channels, 0);
        int64_t taps = 0;
        const Taps down(first_h, height, kernel[0], dilation[0]), across(first_w, width, kernel[1], dilation[1]);
        for (int64_t kh = down.begin; kh < down.end; ++kh) {
          for (int64_t kw = across.begin; kw < across.end; ++kw) {
            const float* from = plane + ((first_h + kh * dilation[0]) * width + first_w + kw * dilation[1]) * channels;
            ++taps;
            if (mode == kAveragePool) {
              for (int64_t c = 0; c < channels; ++c) to[c] += from[c];
            } else if (index == nullptr) {
              for (int64_t c = 0; c < channels; ++c) to[c] = from[c] > to[c] || from[c] != from[c] ? from[c] : to[c];
            } else {
              for (int64_t c = 0; c < channels; ++c) {
                if (!(from[c] > to[c] || from[c] != from[c])) continue;
                to[c] = from[c];
                index[c] = static_cast<int32_t>(kh * kernel[1] + kw);
              }
            }
          }
        }
        if (mode == kAveragePool) {
          const float factor = 1.0f / static_cast<float>(taps);
          for (int64_t c = 0; c < channels; ++c) to[c] *= factor;
        }
      }
    }
  });
}

}  // namespace xnnpack
}  // namespace etir
