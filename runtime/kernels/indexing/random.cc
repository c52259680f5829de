// Random operators: rand, randn, randint, their _like forms, randperm and native_dropout.
//
// Results are filled in memory order, block by block of the counter-based generator, so that a part of a result depends
// on its place alone and threads change nothing.
#include "kernels/indexing/blocks.h"
#include "kernels/util/philox.h"

namespace etir {

using namespace indexing;

namespace {

/// Fills `n` elements: `make(words, values)` turns a block of four words into `per` numbers of the compute type.
template <typename C, typename Make>
void fill(KernelContext& ctx, Tensor& out, int per, const Make& make) {
  const int64_t n = out.numel(), bytes = static_cast<int64_t>(element_size(out.dtype));
  const int64_t blocks = (n + per - 1) / per;
  const RandomWords random(ctx, blocks);
  constexpr int64_t kAtOnce = 16;
  ctx.parallel_for(blocks, 2048, [&](int64_t begin, int64_t end) {
    C values[kAtOnce * 4];
    for (int64_t at = begin; at < end; at += kAtOnce) {
      const int64_t count = end - at < kAtOnce ? end - at : kAtOnce;
      for (int64_t i = 0; i < count; ++i) {
        uint32_t words[4];
        random.block(at + i, words);
        make(words, values + i * per);
      }
      const int64_t first = at * per;
      const int64_t m = n - first < count * per ? n - first : count * per;
      store_block(out.dtype, out.ptr<char>() + first * bytes, bytes, m, values);
    }
  });
}

/// Random bits of an element in [0, 1): what its significand holds, so that no number is rounded up to 1.
int significand(ScalarType dtype) { return dtype == ScalarType::Half ? 11 : dtype == ScalarType::BFloat16 ? 8 : 24; }

void fill_uniform(KernelContext& ctx, Tensor& out) {
  if (out.dtype == ScalarType::Double) {
    return fill<double>(ctx, out, 2, [](const uint32_t* words, double* values) {
      values[0] = uniform_double(words[0], words[1]);
      values[1] = uniform_double(words[2], words[3]);
    });
  }
  const int bits = significand(out.dtype);
  fill<double>(ctx, out, 4, [=](const uint32_t* words, double* values) {
    for (int i = 0; i < 4; ++i) values[i] = static_cast<double>(uniform_float(words[i], bits));
  });
}

void fill_normal(KernelContext& ctx, Tensor& out) {
  if (out.dtype == ScalarType::Double) {
    return fill<double>(ctx, out, 2, [](const uint32_t* words, double* values) {
      normal_pair(uniform_double(words[0], words[1]), uniform_double(words[2], words[3]), values);
    });
  }
  fill<double>(ctx, out, 4, [](const uint32_t* words, double* values) {
    float normal[4];
    normal_pair(uniform_float(words[0], 24), uniform_float(words[1], 24), normal);
    normal_pair(uniform_float(words[2], 24), uniform_float(words[3], 24), normal + 2);
    for (int i = 0; i < 4; ++i) values[i] = static_cast<double>(normal[i]);
  });
}

/// Whether a whole number is exact in a dtype, or close enough for torch (floats).
bool holds(ScalarType dtype, int64_t value) {
  bool result = false;
  const Scalar scalar{Tag::Int, [&] {
                        Payload payload;
                        payload.integer = value;
                        return payload;
                      }()};
  dispatch<kReal>(dtype, [&](auto tag) {
    typename decltype(tag)::type element;
    result = (value >= 0 || dtype != ScalarType::Byte) && scalar_as(scalar, &element);
  });
  return dtype == ScalarType::Bool ? value == 0 || value == 1 : result;
}

void fill_integers(KernelContext& ctx, Tensor& out, int64_t low, int64_t high, int high_argument, int out_argument) {
  if (!contains(kRealBool, out.dtype)) return ctx.fail(Check::KernelDtype, out_argument, number(out.dtype));
  if (low >= high || !holds(out.dtype, low) || !holds(out.dtype, high - 1)) {
    return ctx.fail(Check::KernelArgument, high_argument, high);
  }
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const auto make = [=](const uint32_t* words, auto* values) {
    using C = std::decay_t<decltype(values[0])>;
    for (int i = 0; i < 2; ++i) {
      const uint64_t value = static_cast<uint64_t>(low) + uniform_below(range, words[2 * i], words[2 * i + 1]);
      values[i] = static_cast<C>(static_cast<int64_t>(value));
    }
  };
  if (is_floating(out.dtype)) {
    fill<double>(ctx, out, 2, make);
  } else {
    fill<int64_t>(ctx, out, 2, make);
  }
}

/// Gives a result the shape of an int list argument.
bool resize_to(KernelContext& ctx, int argument, Tensor& out, int out_argument) {
  const IntList list = ctx.int_list(argument);
  if (list.size() > kMaxRank) return ctx.fail(Check::KernelRank, argument, static_cast<int64_t>(list.size())), false;
  int64_t shape[kMaxRank];
  for (size_t d = 0; d < list.size(); ++d) {
    shape[d] = list[d];
    if (shape[d] < 0) return ctx.fail(Check::KernelArgument, argument, shape[d]), false;
  }
  return ctx.resize(out, shape, static_cast<int>(list.size())) && has_data(ctx, out_argument, out);
}

bool floating(KernelContext& ctx, const Tensor& out, int out_argument) {
  if (contains(kFloats, out.dtype)) return true;
  ctx.fail(Check::KernelDtype, out_argument, number(out.dtype));
  return false;
}

}  // namespace

void rand_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(1);
  if (floating(ctx, out, 1) && resize_to(ctx, 0, out, 1)) fill_uniform(ctx, out);
}

void randn_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(1);
  if (floating(ctx, out, 1) && resize_to(ctx, 0, out, 1)) fill_normal(ctx, out);
}

void rand_like_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(2);
  if (!floating(ctx, out, 2) || !ctx.resize_like(out, ctx.tensor(0)) || !has_data(ctx, 2, out)) return;
  fill_uniform(ctx, out);
}

void randn_like_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(2);
  if (!floating(ctx, out, 2) || !ctx.resize_like(out, ctx.tensor(0)) || !has_data(ctx, 2, out)) return;
  fill_normal(ctx, out);
}

void randint_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(2);
  if (resize_to(ctx, 1, out, 2)) fill_integers(ctx, out, 0, ctx.integer(0), 0, 2);
}

void randint_low_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(3);
  if (resize_to(ctx, 2, out, 3)) fill_integers(ctx, out, ctx.integer(0), ctx.integer(1), 1, 3);
}

void randint_like_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(3);
  if (!ctx.resize_like(out, ctx.tensor(0)) || !has_data(ctx, 3, out)) return;
  fill_integers(ctx, out, 0, ctx.integer(1), 1, 3);
}

void randint_like_low_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(4);
  if (!ctx.resize_like(out, ctx.tensor(0)) || !has_data(ctx, 4, out)) return;
  fill_integers(ctx, out, ctx.integer(1), ctx.integer(2), 2, 4);
}

void randperm_out(KernelContext& ctx) {
  const int64_t n = ctx.integer(0);
  Tensor& out = ctx.tensor(1);
  if (!contains(kReal, out.dtype)) return ctx.fail(Check::KernelDtype, 1, number(out.dtype));
  // Floats count exactly up to two to the digits of their significand.
  const int digits = out.dtype == ScalarType::Double ? 53 : significand(out.dtype);
  const bool too_many = is_floating(out.dtype) ? n > (int64_t{1} << digits) + 1 : n > 0 && !holds(out.dtype, n - 1);
  if (n < 0 || too_many) return ctx.fail(Check::KernelArgument, 0, n);
  if (!ctx.resize(out, &n, 1) || !has_data(ctx, 1, out)) return;
  const int64_t bytes = static_cast<int64_t>(element_size(out.dtype));
  for (int64_t begin = 0; begin < n; begin += kBlockSize) {
    const int64_t m = n - begin < kBlockSize ? n - begin : kBlockSize;
    if (is_floating(out.dtype)) {
      double block[kBlockSize];
      for (int64_t i = 0; i < m; ++i) block[i] = static_cast<double>(begin + i);
      store_block(out.dtype, out.ptr<char>() + begin * bytes, bytes, m, block);
    } else {
      int64_t block[kBlockSize];
      for (int64_t i = 0; i < m; ++i) block[i] = begin + i;
      store_block(out.dtype, out.ptr<char>() + begin * bytes, bytes, m, block);
    }
  }
  // Fisher and Yates: two places for each block.
  const RandomWords random(ctx, (n + 1) / 2);
  dispatch_size(element_size(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* elements = out.ptr<T>();
    uint32_t words[4];
    for (int64_t i = 0; i + 1 < n; ++i) {
      if (i % 2 == 0) random.block(i / 2, words);
      const uint32_t* pair = words + i % 2 * 2;
      const int64_t j = i + static_cast<int64_t>(uniform_below(static_cast<uint64_t>(n - i), pair[0], pair[1]));
      const T moved = elements[i];
      elements[i] = elements[j];
      elements[j] = moved;
    }
  });
}

void native_dropout_out(KernelContext& ctx) {
  const Tensor& input = ctx.tensor(0);
  const double p = ctx.real(1);
  const bool train = !ctx.has(2) || ctx.boolean(2);
  Tensor& out = ctx.tensor(3);
  Tensor& mask = ctx.tensor(4);
  if (!takes(ctx, 0, input, kFloats)) return;
  if (out.dtype != input.dtype) return ctx.fail(Check::KernelDtypeMismatch, 3, number(out.dtype));
  if (mask.dtype != ScalarType::Bool) return ctx.fail(Check::KernelDtype, 4, number(mask.dtype));
  if (train && !(p >= 0 && p <= 1)) return ctx.fail(Check::KernelArgument, 1);
  if (!ctx.resize_like(out, input) || !ctx.resize_like(mask, input)) return;
  if (!has_data(ctx, 3, out) || !has_data(ctx, 4, mask)) return;
  if (!train) {
    if (mask.numel() > 0) std::memset(mask.data, 1, mask.nbytes());
    copy_to_out(ctx, input, 3, out);
    return;
  }
  const double kept = 1 - p;
  const uint64_t threshold = static_cast<uint64_t>(std::ldexp(kept, 32));
  fill<int64_t>(ctx, mask, 4, [=](const uint32_t* words, int64_t* values) {
    for (int i = 0; i < 4; ++i) values[i] = words[i] < threshold;
  });
  const double scale = kept == 0 ? 0 : 1 / kept;
  const Tensor* const operands[] = {&out, &input, &mask};
  const auto loops = make_loops<3>(operands);
  dispatch<kFloats>(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    const A factor = static_cast<A>(scale);
    loops.run([&](char* const* data, const int64_t* steps, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const A keep = load<bool>(data[2] + i * steps[2]) ? A(1) : A(0);
        // Not a choice: what is dropped stays a NaN if it was one (or infinite), as in torch.
        store(data[0] + i * steps[0], T(static_cast<A>(load<T>(data[1] + i * steps[1])) * keep * factor));
      }
    });
  });
}

}  // namespace etir
