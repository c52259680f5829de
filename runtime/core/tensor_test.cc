#include "core/tensor.h"

#include "testing/testing.h"

namespace etir {
namespace {

const int32_t kSizes[3] = {2, 3, 4};
const uint8_t kInnermostFirst[3] = {0, 2, 1}, kRowMajor[3] = {0, 1, 2};

Tensor tensor(const int32_t* sizes, uint8_t rank, const uint8_t* dim_order = nullptr) {
  return Tensor{nullptr, sizes, dim_order, ScalarType::Short, rank, Dynamism::Static, 0, 0};
}

ETIR_TEST(elements_and_bytes) {
  CHECK_EQ(tensor(kSizes, 3).numel(), 24);
  CHECK_EQ(tensor(kSizes, 3).nbytes(), 48u);
  CHECK_EQ(tensor(nullptr, 0).numel(), 1);
  const int32_t empty[2] = {3, 0};
  CHECK_EQ(tensor(empty, 2).numel(), 0);
}

ETIR_TEST(strides_follow_the_dim_order) {
  int64_t strides[3];
  tensor(kSizes, 3).strides(strides);
  CHECK(strides[0] == 12 && strides[1] == 4 && strides[2] == 1);
  tensor(kSizes, 3, kInnermostFirst).strides(strides);
  CHECK(strides[0] == 12 && strides[1] == 1 && strides[2] == 3);
  const int32_t empty[3] = {2, 0, 4};
  tensor(empty, 3).strides(strides);
  CHECK(strides[0] == 4 && strides[1] == 4 && strides[2] == 1);
  CHECK(tensor(kSizes, 3).is_row_major() && !tensor(kSizes, 3, kInnermostFirst).is_row_major());
}

ETIR_TEST(tensors_are_compared_dim_by_dim) {
  const Tensor a = tensor(kSizes, 3);
  CHECK(same_dim_order(a, a) && same_shape(a, a));
  CHECK(same_dim_order(a, tensor(kSizes, 3, kRowMajor)));
  CHECK(!same_dim_order(a, tensor(kSizes, 3, kInnermostFirst)));
  CHECK(!same_dim_order(a, tensor(kSizes, 2)));
  CHECK(!same_shape(a, tensor(kSizes, 2)));
  for (int dim = 0; dim < 3; ++dim) {
    int32_t other[3] = {2, 3, 4};
    ++other[dim];
    CHECK(!same_shape(a, tensor(other, 3)));
  }
  CHECK(same_dim_order(tensor(nullptr, 0), tensor(nullptr, 0)) && same_shape(tensor(nullptr, 0), tensor(nullptr, 0)));
}

}  // namespace
}  // namespace etir
