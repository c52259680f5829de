#include "core/value.h"

#include "testing/testing.h"

namespace etir {
namespace {

template <typename T>
const uint8_t* vector_of(uint8_t* bytes, uint32_t count, const T* items) {
  std::memcpy(bytes, &count, 4);
  std::memcpy(bytes + 4, items, count * sizeof(T));
  return bytes;
}

Payload integer(int64_t number) {
  Payload payload;
  payload.integer = number;
  return payload;
}

// As the format numbers what a value may hold.
ETIR_TEST(kinds_have_the_numbers_of_the_format) {
  constexpr Tag kTags[] = {Tag::None,
                           Tag::Int,
                           Tag::Bool,
                           Tag::Double,
                           Tag::Tensor,
                           Tag::String,
                           Tag::IntList,
                           Tag::DoubleList,
                           Tag::BoolList,
                           Tag::TensorList,
                           Tag::OptionalTensorList};
  for (int i = 0; i < 11; ++i) CHECK_EQ(static_cast<int>(kTags[i]), i + 1);
}

ETIR_TEST(scalars_have_the_kind_of_their_tag) {
  Payload real;
  real.real = 2.5;
  Payload yes = integer(0);
  yes.boolean = true;
  const Scalar whole{Tag::Int, integer(-3)}, fraction{Tag::Double, real}, flag{Tag::Bool, yes};
  CHECK(whole.is_integral(false) && !whole.is_boolean() && !whole.is_floating());
  CHECK(fraction.is_floating() && !fraction.is_integral(true) && !fraction.is_boolean());
  CHECK(flag.is_boolean() && flag.is_integral(true) && !flag.is_integral(false) && !flag.is_floating());
  CHECK(whole.dtype() == ScalarType::Long && fraction.dtype() == ScalarType::Double);
  CHECK(flag.dtype() == ScalarType::Bool);
  CHECK_EQ(whole.to<double>(), -3.0);
  CHECK_EQ(fraction.to<int64_t>(), 2);
  CHECK_EQ(flag.to<int32_t>(), 1);
}

ETIR_TEST(an_argument_is_a_tensor_or_a_number_or_absent) {
  Tensor tensor{};
  const TensorOrScalar one(tensor), other(Tag::Int, integer(7)), none(Tag::None, Payload{});
  CHECK(one.is_tensor() && !one.is_none() && &one.tensor() == &tensor);
  CHECK(!other.is_tensor() && !other.is_none());
  CHECK_EQ(other.scalar().to<int64_t>(), 7);
  CHECK(none.is_none() && !none.is_tensor());
}

ETIR_TEST(lists_of_ints_follow_the_values_that_they_name) {
  Payload payloads[3] = {integer(10), integer(20), integer(30)};
  uint8_t bytes[4 + 2 * 8];
  const int64_t places[2] = {2, 0};
  const IntList list(vector_of(bytes, 2, places), payloads);
  CHECK(list.size() == 2 && !list.empty() && IntList().empty());
  CHECK(list[0] == 30 && list[1] == 10);
  payloads[2].integer = -1;
  CHECK_EQ(list[0], -1);
}

ETIR_TEST(tensors_of_a_list_may_be_absent) {
  Tensor tensor{};
  Payload payloads[2] = {integer(5), Payload{}};
  payloads[1].tensor = &tensor;
  Tag tags[2] = {Tag::None, Tag::Tensor};
  const Values values{payloads, tags, 2};
  uint8_t bytes[4 + 3 * 4];
  const int32_t places[3] = {1, -1, 0};
  const TensorList list(vector_of(bytes, 3, places), values);
  CHECK(list.size() == 3 && !list.empty() && TensorList().empty());
  CHECK(list.get(0) == &tensor && &list[0] == &tensor);
  CHECK(list.get(1) == nullptr && list.get(2) == nullptr);
  tags[0] = Tag::Tensor;
  payloads[0].tensor = &tensor;
  CHECK(list.get(2) == &tensor);
}

ETIR_TEST(literals_lie_in_the_bytes) {
  uint8_t bytes[4 + 2 * 8];
  const double numbers[2] = {0.5, -2.0};
  const DoubleList doubles(vector_of(bytes, 2, numbers));
  CHECK(doubles.size() == 2 && doubles[0] == 0.5 && doubles[1] == -2.0);
  const uint8_t flags[3] = {0, 1, 2};
  const BoolList bools(vector_of(bytes, 3, flags));
  CHECK(bools.size() == 3 && !bools[0] && bools[1] && bools[2]);
  CHECK(BoolList().empty() && !bools.empty());
  const StringView text{"nonexistent", 4};
  CHECK(text == "none" && !(text == "nond") && !(text == "non") && !(text == "nonex"));
}

}  // namespace
}  // namespace etir
