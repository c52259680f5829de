// The flat table of a method's values, and views of the lists in it.
//
// A value is eight bytes and a tag, kept in two arrays: a table of n values takes 9 n bytes. Lists stay in the
// program's bytes: a list of ints holds indices of values, which are read when the kernel asks, so that lists follow
// runtime sizes without being rebuilt. The loader checks every index and tag once; nothing here does again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/tensor.h"

namespace etir {

/// Kinds of values, numbered as the KernelTypes union of the format.
enum class Tag : uint8_t {
  None = 1,
  Int = 2,
  Bool = 3,
  Double = 4,
  Tensor = 5,
  String = 6,
  IntList = 7,
  DoubleList = 8,
  BoolList = 9,
  TensorList = 10,
  OptionalTensorList = 11,
};

/// What a value holds. Lists and strings point at the vector in the program's bytes: u32 count, then the items.
union Payload {
  int64_t integer;
  double real;
  bool boolean;
  Tensor* tensor;
  const uint8_t* vector;
};
static_assert(sizeof(Payload) == 8, "a value is eight bytes");

namespace detail {
inline uint32_t vector_count(const uint8_t* vector) {
  uint32_t count;
  std::memcpy(&count, vector, sizeof(count));
  return count;
}
}  // namespace detail

struct Values {
  Payload* payloads;
  Tag* tags;
  uint32_t count;
};

/// A number whose kind is known at run time only, as torch's Scalar.
struct Scalar {
  Tag tag;  ///< Int, Bool or Double
  Payload payload;

  bool is_integral(bool with_bool) const { return tag == Tag::Int || (with_bool && tag == Tag::Bool); }
  bool is_boolean() const { return tag == Tag::Bool; }
  bool is_floating() const { return tag == Tag::Double; }
  /// The dtype that torch gives a Python scalar of this kind: Bool, Long or Double.
  ScalarType dtype() const {
    return tag == Tag::Bool ? ScalarType::Bool : tag == Tag::Int ? ScalarType::Long : ScalarType::Double;
  }
  /// The number as an arithmetic type, converted as C++ does.
  template <typename T>
  T to() const {
    return tag == Tag::Double ? static_cast<T>(payload.real)
           : tag == Tag::Int  ? static_cast<T>(payload.integer)
                              : static_cast<T>(payload.boolean);
  }
};

/// An argument that is a tensor in some overloads of an operator and a number in others, maybe absent.
struct TensorOrScalar {
  Tag tag;  ///< Tensor, Int, Bool, Double or None
  Payload payload;

  TensorOrScalar(Tag tag, const Payload& payload) : tag(tag), payload(payload) {}
  explicit TensorOrScalar(const Tensor& tensor) : tag(Tag::Tensor) { payload.tensor = const_cast<Tensor*>(&tensor); }
  bool is_none() const { return tag == Tag::None; }
  bool is_tensor() const { return tag == Tag::Tensor; }
  const Tensor& tensor() const { return *payload.tensor; }
  Scalar scalar() const { return Scalar{tag, payload}; }
};

/// A list of ints, each read from the value that it refers to.
class IntList {
 public:
  IntList() = default;
  IntList(const uint8_t* vector, const Payload* payloads)
      : items_(vector + 4), payloads_(payloads), count_(detail::vector_count(vector)) {}
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  int64_t operator[](size_t i) const {
    int64_t index;
    std::memcpy(&index, items_ + 8 * i, sizeof(index));
    return payloads_[index].integer;
  }

 private:
  const uint8_t* items_ = nullptr;
  const Payload* payloads_ = nullptr;
  size_t count_ = 0;
};

/// A list of tensors, some of which may be absent.
class TensorList {
 public:
  TensorList() = default;
  TensorList(const uint8_t* vector, const Values& values)
      : items_(vector + 4), values_(&values), count_(detail::vector_count(vector)) {}
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  /// Null where the item is absent.
  Tensor* get(size_t i) const {
    int32_t index;
    std::memcpy(&index, items_ + 4 * i, sizeof(index));
    if (index < 0 || values_->tags[index] != Tag::Tensor) return nullptr;
    return values_->payloads[index].tensor;
  }
  /// Only for lists without absent items.
  Tensor& operator[](size_t i) const { return *get(i); }

 private:
  const uint8_t* items_ = nullptr;
  const Values* values_ = nullptr;
  size_t count_ = 0;
};

/// Literal doubles or bools in the program's bytes.
template <typename T>
class LiteralList {
 public:
  LiteralList() = default;
  explicit LiteralList(const uint8_t* vector) : items_(vector + 4), count_(detail::vector_count(vector)) {}
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  T operator[](size_t i) const {
    if constexpr (sizeof(T) == 1) {
      return items_[i] != 0;
    } else {
      T value;
      std::memcpy(&value, items_ + sizeof(T) * i, sizeof(T));
      return value;
    }
  }

 private:
  const uint8_t* items_ = nullptr;
  size_t count_ = 0;
};
using DoubleList = LiteralList<double>;
using BoolList = LiteralList<bool>;

/// Characters in the program's bytes; not necessarily ended by a zero.
struct StringView {
  const char* data = nullptr;
  size_t size = 0;
  bool operator==(const char* other) const { return std::strlen(other) == size && std::memcmp(data, other, size) == 0; }
};

}  // namespace etir
