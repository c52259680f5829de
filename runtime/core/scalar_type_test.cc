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
