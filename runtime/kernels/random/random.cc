// Random operators: rand, randn, randint, their _like forms, randperm, uniform, normal, bernoulli and native_dropout.
//
// No kernel is given a generator, which is None in every program: numbers come from the method's own.
//
// Results are filled in memory order, block by block of the counter-based generator, so that a part of a result depends
// on its place alone and threads change nothing.
#include "kernels/random/random.gen.h"
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

void fill_integers(KernelContext& ctx, Tensor& out, int64_t low, int64_t high, int high_position) {
  if (!contains(kRealBool, out.dtype)) return ctx.fail(Check::KernelDtype, out, number(out.dtype));
  if (low >= high || !holds(out.dtype, low) || !holds(out.dtype, high - 1)) {
    return ctx.fail(Check::KernelArgument, high_position, high);
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

/// Gives a result the shape of an int list, the argument at `position`.
bool resize_to(KernelContext& ctx, const IntList& list, int position, Tensor& out) {
  if (list.size() > kMaxRank) return ctx.fail(Check::KernelRank, position, static_cast<int64_t>(list.size())), false;
  int64_t shape[kMaxRank];
  for (size_t d = 0; d < list.size(); ++d) {
    shape[d] = list[d];
    if (shape[d] < 0) return ctx.fail(Check::KernelArgument, position, shape[d]), false;
  }
  return ctx.resize(out, shape, static_cast<int>(list.size())) && has_data(ctx, out);
}

bool floating(KernelContext& ctx, const Tensor& out, DtypeSet types = kFloats | kComplex) {
  if (contains(types, out.dtype)) return true;
  ctx.fail(Check::KernelDtype, out, number(out.dtype));
  return false;
}

/// The result with the shape asked for, if it may be filled with real numbers.
void rand_sized(KernelContext& ctx, const IntList& size, Tensor& out, bool normal) {
  if (!floating(ctx, out) || !resize_to(ctx, size, arguments::rand_out::size, out)) return;
  normal ? fill_normal(ctx, out) : fill_uniform(ctx, out);
}
bool resize_as(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return ctx.resize_like(out, self) && has_data(ctx, out);
}
/// The same, with the shape of self.
void rand_as_self(KernelContext& ctx, const Tensor& self, Tensor& out, bool normal) {
  if (!floating(ctx, out) || !resize_as(ctx, self, out)) return;
  normal ? fill_normal(ctx, out) : fill_uniform(ctx, out);
}

void randperm(KernelContext& ctx, int64_t n, Tensor& out) {
  if (!contains(kReal, out.dtype)) return ctx.fail(Check::KernelDtype, out, number(out.dtype));
  // Floats count exactly up to two to the digits of their significand.
  const int digits = out.dtype == ScalarType::Double ? 53 : significand(out.dtype);
  const bool too_many = is_floating(out.dtype) ? n > (int64_t{1} << digits) + 1 : n > 0 && !holds(out.dtype, n - 1);
  if (n < 0 || too_many) return ctx.fail(Check::KernelArgument, arguments::randperm_out::n, n);
  if (!ctx.resize(out, &n, 1) || !has_data(ctx, out)) return;
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
void bernoulli(KernelContext& ctx, const Tensor& self, const TensorOrScalar& probability, Tensor& out) {
  if (!floating(ctx, out, kRealBool) || !resize_as(ctx, self, out)) return;
  if (!probability.is_tensor()) {
    const double p = probability.scalar().to<double>();
    if (!(p >= 0 && p <= 1)) return ctx.fail(Check::KernelArgument, arguments::bernoulli_p_out::p);
    const uint64_t threshold = static_cast<uint64_t>(std::ldexp(p, 32));
    const auto make = [=](const uint32_t* words, auto* values) {
      for (int i = 0; i < 4; ++i) values[i] = words[i] < threshold;
    };
    return is_floating(out.dtype) ? fill<double>(ctx, out, 4, make) : fill<int64_t>(ctx, out, 4, make);
  }
  const Tensor& p = probability.tensor();
  if (!takes(ctx, p, kFloats)) return;
  int64_t sizes[kMaxRank];
  const int rank = broadcast_shapes(out, p, sizes);
  bool fits = rank == out.rank;
  for (int d = 0; fits && d < rank; ++d) fits = sizes[d] == out.sizes[d];
  if (!fits) return ctx.fail(Check::KernelShape, p, p.rank);
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
  if (!valid) ctx.fail(Check::KernelArgument, p);
}

/// Normal numbers with a mean and a deviation, each a tensor or a number.
void normal(KernelContext& ctx, const TensorOrScalar& mean_given, const TensorOrScalar& deviation_given, Tensor& out) {
  using arg = arguments::normal_of_out;
  if (!floating(ctx, out, kFloats)) return;
  const Tensor* given[2];
  double numbers[2];
  Tensor tensors[2];
  for (int i = 0; i < 2; ++i) {
    const TensorOrScalar& value = i == 0 ? mean_given : deviation_given;
    if (value.is_tensor()) {
      given[i] = &value.tensor();
      if (!takes(ctx, *given[i], kFloats)) return;
      continue;
    }
    numbers[i] = value.scalar().to<double>();
    if (i == 1 && !(numbers[i] >= 0)) return ctx.fail(Check::KernelArgument, arg::std);
    tensors[i] = Tensor{&numbers[i], nullptr, nullptr, ScalarType::Double, 0, Dynamism::Static, 0, 0};
    given[i] = &tensors[i];
  }
  int64_t sizes[kMaxRank];
  const int rank = broadcast_shapes(*given[0], *given[1], sizes);
  if (rank < 0) return ctx.fail(Check::KernelShape, arg::std, given[1]->rank);
  if (!ctx.resize(out, sizes, rank) || !has_data(ctx, out) || out.numel() == 0) return;
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
  if (!valid) ctx.fail(Check::KernelArgument, arg::std);
}

}  // namespace

void rand_out(KernelContext& ctx, const IntList& size, Tensor& out) { rand_sized(ctx, size, out, false); }
void randn_out(KernelContext& ctx, const IntList& size, Tensor& out) { rand_sized(ctx, size, out, true); }
void rand_like_out(KernelContext& ctx, const Tensor& self, std::optional<int64_t> /*memory_format*/, Tensor& out) {
  rand_as_self(ctx, self, out, false);
}
void randn_like_out(KernelContext& ctx, const Tensor& self, std::optional<int64_t> /*memory_format*/, Tensor& out) {
  rand_as_self(ctx, self, out, true);
}

void randint_out(KernelContext& ctx, int64_t high, const IntList& size, Tensor& out) {
  using arg = arguments::randint_out;
  if (resize_to(ctx, size, arg::size, out)) fill_integers(ctx, out, 0, high, arg::high);
}
void randint_low_out(KernelContext& ctx, int64_t low, int64_t high, const IntList& size, Tensor& out) {
  using arg = arguments::randint_low_out;
  if (resize_to(ctx, size, arg::size, out)) fill_integers(ctx, out, low, high, arg::high);
}
void randint_like_out(KernelContext& ctx, const Tensor& self, int64_t high, std::optional<int64_t> /*memory_format*/,
                      Tensor& out) {
  if (resize_as(ctx, self, out)) fill_integers(ctx, out, 0, high, arguments::randint_like_out::high);
}
void randint_like_low_out(KernelContext& ctx, const Tensor& self, int64_t low, int64_t high,
                          std::optional<int64_t> /*memory_format*/, Tensor& out) {
  if (resize_as(ctx, self, out)) fill_integers(ctx, out, low, high, arguments::randint_like_low_out::high);
}
void randperm_out(KernelContext& ctx, int64_t n, Tensor& out) { randperm(ctx, n, out); }

void bernoulli_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  bernoulli(ctx, self, TensorOrScalar(self), out);
}
void bernoulli_p_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& p, Tensor& out) {
  bernoulli(ctx, self, p, out);
}

void normal_of_out(KernelContext& ctx, const TensorOrScalar& mean, const TensorOrScalar& std, Tensor& out) {
  normal(ctx, mean, std, out);
}
void normal_sized_out(KernelContext& ctx, double mean, double std, const IntList& size, Tensor& out) {
  using arg = arguments::normal_sized_out;
  if (!floating(ctx, out)) return;
  if (!(std >= 0)) return ctx.fail(Check::KernelArgument, arg::std);
  if (resize_to(ctx, size, arguments::normal_sized_out::size, out)) fill_normal(ctx, out, mean, std);
}
void normal_as_self_out(KernelContext& ctx, const Tensor& self, double mean, double std, Tensor& out) {
  using arg = arguments::normal_as_self_out;
  if (!floating(ctx, out)) return;
  if (!(std >= 0)) return ctx.fail(Check::KernelArgument, arg::std);
  if (resize_as(ctx, self, out)) fill_normal(ctx, out, mean, std);
}
void uniform_out(KernelContext& ctx, const Tensor& self, double from, double to, Tensor& out) {
  using arg = arguments::uniform_out;
  const double low = from, high = to;
  if (!floating(ctx, out, kFloats)) return;
  if (!(low <= high && high - low <= std::numeric_limits<double>::max()))
    return ctx.fail(Check::KernelArgument, arg::to);
  if (resize_as(ctx, self, out)) fill_uniform(ctx, out, low, high - low);
}

void native_dropout_out(KernelContext& ctx, const Tensor& input, double p, std::optional<bool> train, Tensor& out0,
                        Tensor& out1) {
  using arg = arguments::native_dropout_out;
  const bool train_value = !train.has_value() || *train;
  Tensor& out = out0;
  Tensor& mask = out1;
  if (!takes(ctx, input, kFloats)) return;
  if (out.dtype != input.dtype) return ctx.fail(Check::KernelDtypeMismatch, out0, number(out.dtype));
  if (mask.dtype != ScalarType::Bool) return ctx.fail(Check::KernelDtype, out1, number(mask.dtype));
  if (train_value && !(p >= 0 && p <= 1)) return ctx.fail(Check::KernelArgument, arg::p);
  if (!ctx.resize_like(out, input) || !ctx.resize_like(mask, input)) return;
  if (!has_data(ctx, out) || !has_data(ctx, mask)) return;
  if (!train_value) {
    if (mask.numel() > 0) std::memset(mask.data, 1, mask.nbytes());
    copy_to_out(ctx, input, out);
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
