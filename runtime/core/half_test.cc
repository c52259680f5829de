#include "core/half.h"

#include <cmath>

#include "testing/testing.h"

namespace etir {
namespace {

bool is_nan(uint16_t bits, uint16_t infinity) { return (bits & 0x7fff) > infinity; }

ETIR_TEST(every_half_survives_float) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float wide = static_cast<float>(Half::from_bits(half));
    if (is_nan(half, 0x7c00)) {
      CHECK(std::isnan(wide) && is_nan(Half(wide).bits, 0x7c00));
      CHECK_EQ(Half(wide).bits & 0x8000, half & 0x8000);
    } else {
      CHECK_EQ(Half(wide).bits, half);
    }
  }
}

// Halves go up with their bits; between two of them lies one float that is as far from both.
ETIR_TEST(half_rounds_to_nearest_even) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = static_cast<float>(Half::from_bits(bits));
    const float high = static_cast<float>(Half::from_bits(static_cast<uint16_t>(bits + 1)));
    CHECK(low < high);
    const float middle = (low + high) / 2;  // exact: a float has 13 more bits
    const uint16_t even = bits % 2 == 0 ? bits : static_cast<uint16_t>(bits + 1);
    CHECK_EQ(Half(middle).bits, even);
    CHECK_EQ(Half(std::nextafter(middle, 0.0f)).bits, bits);
    CHECK_EQ(Half(std::nextafter(middle, INFINITY)).bits, bits + 1);
    CHECK_EQ(Half(-middle).bits, even | 0x8000);
  }
}

ETIR_TEST(half_overflows_to_infinity) {
  CHECK_EQ(Half(65504.0f).bits, 0x7bff);
  CHECK_EQ(Half(std::nextafter(65520.0f, 0.0f)).bits, 0x7bff);
  CHECK_EQ(Half(65520.0f).bits, 0x7c00);
  CHECK_EQ(Half(3e38f).bits, 0x7c00);
  CHECK_EQ(Half(-INFINITY).bits, 0xfc00);
  CHECK_EQ(Half(1e-30f).bits, 0);
  CHECK_EQ(Half(-1e-45f).bits, 0x8000);
}

ETIR_TEST(every_bfloat16_survives_float) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t narrow = static_cast<uint16_t>(bits);
    const float wide = static_cast<float>(BFloat16::from_bits(narrow));
    if (is_nan(narrow, 0x7f80)) {
      CHECK(std::isnan(wide) && is_nan(BFloat16(wide).bits, 0x7f80));
    } else {
      CHECK_EQ(BFloat16(wide).bits, narrow);
    }
  }
}

ETIR_TEST(bfloat16_rounds_to_nearest_even) {
  const auto rounded = [](uint32_t bits) { return BFloat16(detail::bit_cast<float>(bits)).bits; };
  CHECK_EQ(rounded(0x3f808000u), 0x3f80);
  CHECK_EQ(rounded(0x3f808001u), 0x3f81);
  CHECK_EQ(rounded(0x3f818000u), 0x3f82);
  CHECK_EQ(rounded(0x3f817fffu), 0x3f81);
  CHECK_EQ(rounded(0x7f7f8000u), 0x7f80);  // the greatest float is infinity
  CHECK_EQ(rounded(0x7f800001u), 0x7fc0);  // a NaN whose lower half alone says so
}

}  // namespace
}  // namespace etir
