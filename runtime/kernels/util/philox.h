// Random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// The generator is a function of a key (the client's seed) and a counter, without state in between: any element's
// number can be computed by itself, so results depend on the seed and the calls made so far, never on threads or
// blocks. A kernel reserves as many counters as it needs and leaves the rest to those after it.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/kernel.h"

namespace etir {

/// Four random words for a key of 64 bits and a counter of 128.
inline void philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high, uint32_t* words) {
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(product0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}

/// The random words of one kernel call, four in each block.
class RandomWords {
 public:
  /// Reserves `blocks` blocks of the method's random numbers.
  RandomWords(KernelContext& ctx, int64_t blocks) {
    if (ctx.random == nullptr) return;
    seed_ = ctx.random->seed;
    offset_ = ctx.random->offset;
    ctx.random->offset += static_cast<uint64_t>(blocks);
  }
  void block(int64_t i, uint32_t* words) const { philox4x32(seed_, offset_ + static_cast<uint64_t>(i), 0, words); }

 private:
  uint64_t seed_ = 0;
  uint64_t offset_ = 0;
};

/// A number in [0, 1) of `bits` random bits (at most 32), exact in any type with a significand that long.
inline float uniform_float(uint32_t word, int bits) {
  return std::ldexp(static_cast<float>(word >> (32 - bits)), -bits);
}
/// A number in [0, 1) of 53 random bits.
inline double uniform_double(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 21) ^ (low >> 11);
  return std::ldexp(static_cast<double>(bits), -53);
}

/// Two normal numbers from two uniform ones in [0, 1) (Box and Muller).
template <typename T>
inline void normal_pair(T u, T v, T* result) {
  // log(1 - u): u may be 0, but not 1.
  const T radius = std::sqrt(T(-2) * std::log1p(-u));
  const T angle = T(6.283185307179586476925286766559) * v;
  result[0] = radius * std::cos(angle);
  result[1] = radius * std::sin(angle);
}

/// A whole number in [0, range), range > 0, from two words.
inline uint64_t uniform_below(uint64_t range, uint32_t a, uint32_t b) {
  if (range <= 0xffffffffu) {
    // The upper half of the product of 64 bits and range, in two steps.
    return (a * range + (b * range >> 32)) >> 32;
  }
  return ((static_cast<uint64_t>(a) << 32) | b) % range;
}

}  // namespace etir
