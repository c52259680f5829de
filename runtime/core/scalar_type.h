// Element types of tensors, numbered as in the .pte format and in torch.
//
// One X-macro names every type that kernels can hold in C++; everything else about dtypes (sizes, names, dispatch) is
// derived from it, so that a type is added in one place.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>

#include "core/half.h"

namespace etir {

// C++ type, enumerator, number.
#define ETIR_FORALL_DTYPES(X)         \
  X(uint8_t, Byte, 0)                 \
  X(int8_t, Char, 1)                  \
  X(int16_t, Short, 2)                \
  X(int32_t, Int, 3)                  \
  X(int64_t, Long, 4)                 \
  X(Half, Half, 5)                    \
  X(float, Float, 6)                  \
  X(double, Double, 7)                \
  X(ComplexHalf, ComplexHalf, 8)      \
  X(ComplexFloat, ComplexFloat, 9)    \
  X(ComplexDouble, ComplexDouble, 10) \
  X(bool, Bool, 11)                   \
  X(BFloat16, BFloat16, 15)           \
  X(uint16_t, UInt16, 27)             \
  X(uint32_t, UInt32, 28)             \
  X(uint64_t, UInt64, 29)

/// Two halves; std::complex is defined for the standard floating point types only.
struct ComplexHalf {
  Half real, imag;
};
using ComplexFloat = std::complex<float>;
using ComplexDouble = std::complex<double>;

enum class ScalarType : uint8_t {
#define ETIR_ENUMERATOR(type, name, number) name = number,
  ETIR_FORALL_DTYPES(ETIR_ENUMERATOR)
#undef ETIR_ENUMERATOR
  // Types that only travel: their bytes are copied, no kernel computes with them.
  QInt8 = 12,
  QUInt8 = 13,
  QInt32 = 14,
  QUInt4x2 = 16,
  QUInt2x4 = 17,
  Bits16 = 22,
  Float8E5M2 = 23,
  Float8E4M3FN = 24,
  Float8E5M2FNUZ = 25,
  Float8E4M3FNUZ = 26,
};

constexpr int kNumScalarTypes = 30;

/// Bytes of one element, or 0 for a number that is no type of the format.
constexpr size_t element_size(ScalarType type) {
  // Indexed by the number of the type.
  constexpr uint8_t kSizes[kNumScalarTypes] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4,
                                               2, 1, 1, 0, 0, 0, 0, 2, 1, 1, 1,  1, 2, 4, 8};
  return static_cast<uint8_t>(type) < kNumScalarTypes ? kSizes[static_cast<uint8_t>(type)] : 0;
}

template <typename T>
struct ScalarTypeOf;
#define ETIR_SCALAR_TYPE_OF(type, name, number)           \
  template <>                                             \
  struct ScalarTypeOf<type> {                             \
    static constexpr ScalarType value = ScalarType::name; \
  };
ETIR_FORALL_DTYPES(ETIR_SCALAR_TYPE_OF)
#undef ETIR_SCALAR_TYPE_OF

// Sets of dtypes, one bit for each number.
using DtypeSet = uint32_t;
constexpr DtypeSet dtype_bit(ScalarType type) { return DtypeSet{1} << static_cast<uint8_t>(type); }
template <typename... Types>
constexpr DtypeSet dtype_set(Types... types) {
  return (DtypeSet{0} | ... | dtype_bit(types));
}

constexpr DtypeSet kSignedInts = dtype_set(ScalarType::Char, ScalarType::Short, ScalarType::Int, ScalarType::Long);
constexpr DtypeSet kUnsignedInts =
    dtype_set(ScalarType::Byte, ScalarType::UInt16, ScalarType::UInt32, ScalarType::UInt64);
/// The integer types that torch's kernels take everywhere.
constexpr DtypeSet kInts = kSignedInts | dtype_bit(ScalarType::Byte);
constexpr DtypeSet kAllInts = kSignedInts | kUnsignedInts;
constexpr DtypeSet kBool = dtype_bit(ScalarType::Bool);
constexpr DtypeSet kFullFloats = dtype_set(ScalarType::Float, ScalarType::Double);
constexpr DtypeSet kHalfFloats = dtype_set(ScalarType::Half, ScalarType::BFloat16);
constexpr DtypeSet kFloats = kFullFloats | kHalfFloats;
constexpr DtypeSet kReal = kInts | kFloats;
constexpr DtypeSet kRealBool = kReal | kBool;
constexpr DtypeSet kFullComplex = dtype_set(ScalarType::ComplexFloat, ScalarType::ComplexDouble);
constexpr DtypeSet kComplex = kFullComplex | dtype_bit(ScalarType::ComplexHalf);

constexpr bool contains(DtypeSet set, ScalarType type) {
  return static_cast<uint8_t>(type) < 32 && (set & dtype_bit(type)) != 0;
}
constexpr bool is_integral(ScalarType type, bool with_bool) {
  return contains(kAllInts | (with_bool ? kBool : 0), type);
}
constexpr bool is_floating(ScalarType type) { return contains(kFloats, type); }
constexpr bool is_complex(ScalarType type) { return contains(kComplex, type); }

}  // namespace etir
