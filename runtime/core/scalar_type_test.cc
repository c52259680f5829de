#include "core/scalar_type.h"

#include "testing/testing.h"

namespace etir {
namespace {

ETIR_TEST(sizes_are_those_of_the_cpp_types) {
#define ETIR_SAME_SIZE(type, name, number)                \
  CHECK_EQ(element_size(ScalarType::name), sizeof(type)); \
  CHECK_EQ(static_cast<int>(ScalarType::name), number);   \
  CHECK(ScalarTypeOf<type>::value == ScalarType::name);
  ETIR_FORALL_DTYPES(ETIR_SAME_SIZE)
#undef ETIR_SAME_SIZE
}

// Types without a C++ type have the numbers of the format, too.
ETIR_TEST(numbers_of_types_that_only_travel) {
  constexpr ScalarType kTypes[] = {ScalarType::QInt8,         ScalarType::QUInt8,       ScalarType::QInt32,
                                   ScalarType::QUInt4x2,      ScalarType::QUInt2x4,     ScalarType::Bits16,
                                   ScalarType::Float8E5M2,    ScalarType::Float8E4M3FN, ScalarType::Float8E5M2FNUZ,
                                   ScalarType::Float8E4M3FNUZ};
  constexpr int kNumbers[] = {12, 13, 14, 16, 17, 22, 23, 24, 25, 26};
  constexpr size_t kBytes[] = {1, 1, 4, 1, 1, 2, 1, 1, 1, 1};
  for (int i = 0; i < 10; ++i) {
    CHECK_EQ(static_cast<int>(kTypes[i]), kNumbers[i]);
    CHECK_EQ(element_size(kTypes[i]), kBytes[i]);
  }
}

// Files hold any byte in the place of a dtype.
ETIR_TEST(numbers_that_are_no_dtype_have_no_size) {
  for (int number = 0; number < 256; ++number) {
    const bool hole = (number >= 18 && number <= 21) || number >= kNumScalarTypes;
    CHECK_EQ(element_size(static_cast<ScalarType>(number)) == 0, hole);
    if (number >= kNumScalarTypes) CHECK(!contains(~DtypeSet{0}, static_cast<ScalarType>(number)) || number < 32);
  }
}

ETIR_TEST(sets_are_disjoint_where_they_should_be) {
  CHECK_EQ(kInts & kFloats, 0u);
  CHECK_EQ(kRealBool, kInts | kFloats | kBool);
  CHECK_EQ(kAllInts & kBool, 0u);
  CHECK(is_integral(ScalarType::Bool, true) && !is_integral(ScalarType::Bool, false));
  CHECK(is_integral(ScalarType::UInt64, false) && !contains(kInts, ScalarType::UInt64));
  CHECK(is_floating(ScalarType::BFloat16) && !is_floating(ScalarType::ComplexFloat));
  CHECK(is_complex(ScalarType::ComplexHalf) && !is_complex(ScalarType::Double));
  CHECK(!contains(kReal, static_cast<ScalarType>(200)));
}

}  // namespace
}  // namespace etir
