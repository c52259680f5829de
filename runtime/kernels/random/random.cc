// Random operators: rand, randn, randint, their _like forms, randperm, uniform, normal, bernoulli and native_dropout.
//
// An argument that is a generator is None in every program: numbers come from the method's own.
//
// Results are filled in memory order, block by block of the counter-based generator, so that a part of a result depends
// on its place alone and threads change nothing.
#include "kernels/util/line_blocks.h"
#include "kernels/util/philox.h"
#include "kernels/util/promote.h"

namespace etir {

using namespace lines;

namespace {

/// Fills `n` elements: `make(words, values)` turns a block of four words into `per` numbers of the compute type.
template <typename C, typename Make>
void fill(KernelContext& ctx, const Tensor& out, int per, const Make& make) {
  // A complex number is two numbers of its parts' dtype.
  const ScalarType dtype = part_of(out.dtype);
  const int64_t n = out.numel() * (dtype == out.dtype ? 1 : 2), bytes = static_cast<int64_t>(element_size(dtype));
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
      store_block(dtype, out.ptr<char>() + first * bytes, bytes, m, values);
    }
  });
}

/// Random bits of an element in [0, 1): what its significand holds, so that no number is rounded up to 1.
int significand(ScalarType dtype) { return dtype == ScalarType::Half ? 11 : dtype == ScalarType::BFloat16 ? 8 : 24; }

/// Numbers in [low, low + span).
void fill_uniform(KernelContext& ctx, const Tensor& out, double low = 0, double span = 1) {
  if (part_of(out.dtype) == ScalarType::Double) {
    return fill<double>(ctx, out, 2, [=](const uint32_t* words, double* values) {
      values[0] = low + span * uniform_double(words[0], words[1]);
      values[1] = low + span * uniform_double(words[2], words[3]);
    });
  }
  const int bits = significand(part_of(out.dtype));
  fill<double>(ctx, out, 4, [=](const uint32_t* words, double* values) {
    for (int i = 0; i < 4; ++i) values[i] = low + span * static_cast<double>(uniform_float(words[i], bits));
  });
}

void fill_normal(KernelContext& ctx, const Tensor& out, double mean = 0, double deviation = 1) {
  if (is_complex(out.dtype)) deviation *= 0.70710678118654752440;  // of each part
  if (part_of(out.dtype) == ScalarType::Double) {
    return fill<double>(ctx, out, 2, [=](const uint32_t* words, double* values) {
      normal_pair(uniform_double(words[0], words[1]), uniform_double(words[2], words[3]), values);
      for (int i = 0; i < 2; ++i) values[i] = mean + deviation * values[i];
    });
  }
  fill<double>(ctx, out, 4, [=](const uint32_t* words, double* values) {
    float normal[4];
    normal_pair(uniform_float(words[0], 24), uniform_float(words[1], 24), normal);
    normal_pair(uniform_float(words[2], 24), uniform_float(words[3], 24), normal + 2);
    for (int i = 0; i < 4; ++i) values[i] = mean + deviation * static_cast<double>(normal[i]);
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

bool floating(KernelContext& ctx, const Tensor& out, int out_argument, DtypeSet types = kFloats | kComplex) {
  if (contains(types, out.dtype)) return true;
  ctx.fail(Check::KernelDtype, out_argument, number(out.dtype));
  return false;
}

/// The result at `out_argument` with the shape that argument 0 asks for, if it may be filled with real numbers.
void rand_sized(KernelContext& ctx, int out_argument, bool normal) {
  Tensor& out = ctx.tensor(out_argument);
  if (!floating(ctx, out, out_argument) || !resize_to(ctx, 0, out, out_argument)) return;
  normal ? fill_normal(ctx, out) : fill_uniform(ctx, out);
}
/// The same, with the shape of argument 0.
bool resize_as_self(KernelContext& ctx, int out_argument) {
  Tensor& out = ctx.tensor(out_argument);
  return ctx.resize_like(out, ctx.tensor(0)) && has_data(ctx, out_argument, out);
}
void rand_as_self(KernelContext& ctx, int out_argument, bool normal) {
  const Tensor& out = ctx.tensor(out_argument);
  if (!floating(ctx, out, out_argument) || !resize_as_self(ctx, out_argument)) return;
  normal ? fill_normal(ctx, out) : fill_uniform(ctx, out);
}

void randint_as_self(KernelContext& ctx, bool has_low, int out_argument) {
  const int64_t low = has_low ? ctx.integer(1) : 0;
  const int high = has_low ? 2 : 1;
  if (resize_as_self(ctx, out_argument)) {
    fill_integers(ctx, ctx.tensor(out_argument), low, ctx.integer(high), high, out_argument);
  }
}

void randperm(KernelContext& ctx, int out_argument) {
  const int64_t n = ctx.integer(0);
  Tensor& out = ctx.tensor(out_argument);
  if (!contains(kReal, out.dtype)) return ctx.fail(Check::KernelDtype, out_argument, number(out.dtype));
  // Floats count exactly up to two to the digits of their significand.
  const int digits = out.dtype == ScalarType::Double ? 53 : significand(out.dtype);
  const bool too_many = is_floating(out.dtype) ? n > (int64_t{1} << digits) + 1 : n > 0 && !holds(out.dtype, n - 1);
  if (n < 0 || too_many) return ctx.fail(Check::KernelArgument, 0, n);
  if (!ctx.resize(out, &n, 1) || !has_data(ctx, out_argument, out)) return;
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

/// Ones with the probability `p`, or that of each element of a tensor, which is broadcast; zeros elsewhere.
void bernoulli(KernelContext& ctx, int p_argument, int out_argument) {
  Tensor& out = ctx.tensor(out_argument);
  if (!floating(ctx, out, out_argument, kRealBool) || !resize_as_self(ctx, out_argument)) return;
  if (ctx.tag(p_argument) != Tag::Tensor) {
    const double p = ctx.real(p_argument);
    if (!(p >= 0 && p <= 1)) return ctx.fail(Check::KernelArgument, p_argument);
    const uint64_t threshold = static_cast<uint64_t>(std::ldexp(p, 32));
    const auto make = [=](const uint32_t* words, auto* values) {
      for (int i = 0; i < 4; ++i) values[i] = words[i] < threshold;
    };
    return is_floating(out.dtype) ? fill<double>(ctx, out, 4, make) : fill<int64_t>(ctx, out, 4, make);
  }
  const Tensor& p = ctx.tensor(p_argument);
  if (!takes(ctx, p_argument, p, kFloats)) return;
  int64_t sizes[kMaxRank];
  const int rank = broadcast_shapes(out, p, sizes);
  bool fits = rank == out.rank;
  for (int d = 0; fits && d < rank; ++d) fits = sizes[d] == out.sizes[d];
  if (!fits) return ctx.fail(Check::KernelShape, p_argument, p.rank);
  const Tensor* const operands[] = {&out, &p};
  const auto loops = make_loops<2>(operands);
  const int64_t inner = loops.inner();
  if (out.numel() == 0) return;
  const RandomWords random(ctx, (out.numel() + 3) / 4);
  bool valid = true;
  ctx.parallel_for(loops.rows(), 1 + 8192 / inner, [&](int64_t begin, int64_t end) {
    int64_t position = begin * inner;  // the loops go through the result as it lies in memory
    loops.run(begin, end, [&](char* const* data, const int64_t* steps, int64_t n) {
      for (int64_t at = 0; at < n; at += kBlockSize) {
        const int64_t m = n - at < kBlockSize ? n - at : kBlockSize;
        double block[kBlockSize];
        load_block(p.dtype, data[1] + at * steps[1], steps[1], m, block);
        for (int64_t i = 0; i < m; ++i, ++position) {
          uint32_t words[4];
          random.block(position / 4, words);
          if (!(block[i] >= 0 && block[i] <= 1)) __atomic_store_n(&valid, false, __ATOMIC_RELAXED);
          block[i] = static_cast<double>(words[position % 4]) < std::ldexp(block[i], 32);
        }
        if (is_floating(out.dtype)) {
          store_block(out.dtype, data[0] + at * steps[0], steps[0], m, block);
        } else {
          int64_t whole[kBlockSize];
          for (int64_t i = 0; i < m; ++i) whole[i] = block[i] != 0;
          store_block(out.dtype, data[0] + at * steps[0], steps[0], m, whole);
        }
      }
    });
  });
  if (!valid) ctx.fail(Check::KernelArgument, p_argument);
}

/// Normal numbers with the mean and deviation of arguments 0 and 1, each a tensor or a number.
void normal(KernelContext& ctx, int out_argument) {
  Tensor& out = ctx.tensor(out_argument);
  if (!floating(ctx, out, out_argument, kFloats)) return;
  const Tensor* given[2];
  double numbers[2];
  Tensor tensors[2];
  for (int i = 0; i < 2; ++i) {
    given[i] = ctx.tag(i) == Tag::Tensor ? &ctx.tensor(i) : nullptr;
    if (given[i] != nullptr) {
      if (!takes(ctx, i, *given[i], kFloats)) return;
      continue;
    }
    numbers[i] = ctx.real(i);
    if (i == 1 && !(numbers[i] >= 0)) return ctx.fail(Check::KernelArgument, i);
    tensors[i] = Tensor{&numbers[i], nullptr, nullptr, ScalarType::Double, 0, Dynamism::Static, 0, 0};
    given[i] = &tensors[i];
  }
  int64_t sizes[kMaxRank];
  const int rank = broadcast_shapes(*given[0], *given[1], sizes);
  if (rank < 0) return ctx.fail(Check::KernelShape, 1, given[1]->rank);
  if (!ctx.resize(out, sizes, rank) || !has_data(ctx, out_argument, out) || out.numel() == 0) return;
  fill_normal(ctx, out);
  const Tensor* const operands[] = {&out, given[0], given[1]};
  const int64_t bytes = static_cast<int64_t>(element_size(out.dtype));
  bool valid = true;
  make_loops<3>(operands).run([&](char* const* data, const int64_t* steps, int64_t n) {
    for (int64_t at = 0; at < n; at += kBlockSize) {
      const int64_t m = n - at < kBlockSize ? n - at : kBlockSize;
      double values[kBlockSize], mean[kBlockSize], deviation[kBlockSize];
      load_block(out.dtype, data[0] + at * steps[0], steps[0], m, values);
      load_block(given[0]->dtype, data[1] + at * steps[1], steps[1], m, mean);
      load_block(given[1]->dtype, data[2] + at * steps[2], steps[2], m, deviation);
      for (int64_t i = 0; i < m; ++i) {
        valid = valid && deviation[i] >= 0;
        values[i] = mean[i] + deviation[i] * values[i];
      }
      store_block(out.dtype, data[0] + at * steps[0], n == 1 ? bytes : steps[0], m, values);
    }
  });
  if (!valid) ctx.fail(Check::KernelArgument, 1);
}

}  // namespace

void rand_out(KernelContext& ctx) { rand_sized(ctx, 1, false); }
void rand_generator_out(KernelContext& ctx) { rand_sized(ctx, 2, false); }
void randn_out(KernelContext& ctx) { rand_sized(ctx, 1, true); }
void randn_generator_out(KernelContext& ctx) { rand_sized(ctx, 2, true); }
void rand_like_out(KernelContext& ctx) { rand_as_self(ctx, 2, false); }
void rand_like_generator_out(KernelContext& ctx) { rand_as_self(ctx, 3, false); }
void randn_like_out(KernelContext& ctx) { rand_as_self(ctx, 2, true); }
void randn_like_generator_out(KernelContext& ctx) { rand_as_self(ctx, 3, true); }

void randint_out(KernelContext& ctx) {
  const int at = ctx.tag(2) == Tag::Tensor ? 2 : 3;  // a generator comes before the result
  Tensor& out = ctx.tensor(at);
  if (resize_to(ctx, 1, out, at)) fill_integers(ctx, out, 0, ctx.integer(0), 0, at);
}
void randint_low_out(KernelContext& ctx) {
  const int at = ctx.tag(3) == Tag::Tensor ? 3 : 4;
  Tensor& out = ctx.tensor(at);
  if (resize_to(ctx, 2, out, at)) fill_integers(ctx, out, ctx.integer(0), ctx.integer(1), 1, at);
}
void randint_like_out(KernelContext& ctx) { randint_as_self(ctx, false, 3); }
void randint_like_generator_out(KernelContext& ctx) { randint_as_self(ctx, false, 4); }
void randint_like_low_out(KernelContext& ctx) { randint_as_self(ctx, true, 4); }
void randint_like_low_generator_out(KernelContext& ctx) { randint_as_self(ctx, true, 5); }
void randperm_out(KernelContext& ctx) { randperm(ctx, 1); }
void randperm_generator_out(KernelContext& ctx) { randperm(ctx, 2); }

void bernoulli_out(KernelContext& ctx) { bernoulli(ctx, 0, 2); }
void bernoulli_p_out(KernelContext& ctx) { bernoulli(ctx, 1, 3); }

void normal_of_out(KernelContext& ctx) { normal(ctx, 3); }
void normal_sized_out(KernelContext& ctx) {
  const double deviation = ctx.real(1);
  Tensor& out = ctx.tensor(4);
  if (!floating(ctx, out, 4)) return;
  if (!(deviation >= 0)) return ctx.fail(Check::KernelArgument, 1);
  if (resize_to(ctx, 2, out, 4)) fill_normal(ctx, out, ctx.real(0), deviation);
}
void normal_as_self_out(KernelContext& ctx) {
  const double deviation = ctx.real(2);
  const Tensor& out = ctx.tensor(4);
  if (!floating(ctx, out, 4)) return;
  if (!(deviation >= 0)) return ctx.fail(Check::KernelArgument, 2);
  if (resize_as_self(ctx, 4)) fill_normal(ctx, out, ctx.real(1), deviation);
}
void uniform_out(KernelContext& ctx) {
  const double low = ctx.real(1), high = ctx.real(2);
  const Tensor& out = ctx.tensor(4);
  if (!floating(ctx, out, 4, kFloats)) return;
  if (!(low <= high && high - low <= std::numeric_limits<double>::max())) return ctx.fail(Check::KernelArgument, 2);
  if (resize_as_self(ctx, 4)) fill_uniform(ctx, out, low, high - low);
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
