// The common dtype of the operands of an operator, by torch's rules.
//
// Tensors with dims count before tensors without, and these before Python scalars: an operand of a later group changes
// the result only when it is of a higher category (bool, integer, floating, complex).
#pragma once

#include "core/tensor.h"
#include "core/value.h"

namespace etir {

/// torch's default dtype: what integers become where a floating point result is needed.
constexpr ScalarType kDefaultFloat = ScalarType::Float;

/// 0 bool, 1 integer, 2 floating, 3 complex.
constexpr int category(ScalarType type) {
  return is_complex(type) ? 3 : is_floating(type) ? 2 : type == ScalarType::Bool ? 0 : 1;
}

/// The complex type whose parts are of this floating type.
constexpr ScalarType complex_of(ScalarType type) {
  return type == ScalarType::Double ? ScalarType::ComplexDouble
         : type == ScalarType::Half ? ScalarType::ComplexHalf
                                    : ScalarType::ComplexFloat;
}
/// The type of the parts of a complex type; any other type itself.
constexpr ScalarType part_of(ScalarType type) {
  return type == ScalarType::ComplexDouble  ? ScalarType::Double
         : type == ScalarType::ComplexFloat ? ScalarType::Float
         : type == ScalarType::ComplexHalf  ? ScalarType::Half
                                            : type;
}

/// torch.promote_types. For pairs with uint16, uint32 or uint64 that torch does not promote it is the larger type.
constexpr ScalarType promote_types(ScalarType a, ScalarType b) {
  if (a == b) return a;
  if (category(a) < category(b)) {
    const ScalarType swap = a;
    a = b;
    b = swap;
  }
  if (category(a) == 3) return category(b) < 2 ? a : complex_of(promote_types(part_of(a), part_of(b)));
  if (category(a) != category(b)) return a;
  if (category(a) == 2) {
    if (a == ScalarType::Double || b == ScalarType::Double) return ScalarType::Double;
    return ScalarType::Float;  // two different ones of Half, BFloat16, Float
  }
  if (a == ScalarType::Byte || b == ScalarType::Byte) {
    const ScalarType other = a == ScalarType::Byte ? b : a;
    return other == ScalarType::Char ? ScalarType::Short : other;
  }
  return element_size(a) >= element_size(b) ? a : b;
}

/// torch.can_cast: never to a lower category, except among complex, floating and integer types themselves.
constexpr bool can_cast(ScalarType from, ScalarType to) { return category(from) <= category(to); }

/// Collects operands, then says their common dtype.
class ResultType {
 public:
  void add(const Tensor& tensor) { add_to(tensor.rank > 0 ? with_dims_ : without_dims_, tensor.dtype); }
  /// A Python scalar of the kind that `dtype` (Bool, Long or Double) stands for.
  void add_number(ScalarType dtype) { add_to(numbers_, category(dtype) >= 2 ? kDefaultFloat : dtype); }
  void add(const Scalar& number) { add_number(number.dtype()); }
  /// Only after an operand was added.
  ScalarType get() const { return combine(with_dims_, combine(without_dims_, numbers_)).type; }

 private:
  struct Group {
    bool any = false;
    ScalarType type = ScalarType::Bool;
  };
  static void add_to(Group& group, ScalarType type) {
    group.type = group.any ? promote_types(group.type, type) : type;
    group.any = true;
  }
  static Group combine(const Group& high, const Group& low) {
    if (!high.any) return low;
    if (!low.any || category(high.type) >= category(low.type)) return high;
    Group result = high;
    // A complex number among tensors of floats takes on the floats' precision.
    result.type = category(high.type) == 2 ? complex_of(high.type) : promote_types(high.type, low.type);
    return result;
  }

  Group with_dims_, without_dims_, numbers_;
};

/// The type that functions of real numbers are computed in: the default one for integers and bools.
constexpr ScalarType floating_type(ScalarType type) { return category(type) < 2 ? kDefaultFloat : type; }

}  // namespace etir
