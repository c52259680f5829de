// Products of sizes that do not overflow, in code that is small where registers have 32 bits.
#pragma once

#include <cstdint>

namespace etir {

/// No count of elements or bytes is as large.
constexpr uint64_t kCountLimit = uint64_t{1} << 59;

/// count *= size, where `count` is below kCountLimit and `size` below 2^31. False, with `count` as it was, when the
/// product is not below the limit.
inline bool multiply_count(uint64_t& count, uint32_t size) {
  // The high bits alone are at the limit, or the product has at most 61 bits.
  if ((count >> 29) * size >= kCountLimit >> 29) return false;
  const uint64_t product = count * size;
  if (product >= kCountLimit) return false;
  count = product;
  return true;
}

}  // namespace etir
