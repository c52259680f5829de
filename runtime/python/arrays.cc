#include "python/arrays.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "platform/describe.h"

namespace nb = nanobind;

namespace etir {

namespace {

using Code = nb::dlpack::dtype_code;

struct DlpackType {
  ScalarType dtype;
  Code code;
  uint8_t bits;
};
constexpr DlpackType kTypes[] = {
    {ScalarType::Byte, Code::UInt, 8},
    {ScalarType::Char, Code::Int, 8},
    {ScalarType::Short, Code::Int, 16},
    {ScalarType::Int, Code::Int, 32},
    {ScalarType::Long, Code::Int, 64},
    {ScalarType::Half, Code::Float, 16},
    {ScalarType::Float, Code::Float, 32},
    {ScalarType::Double, Code::Float, 64},
    {ScalarType::ComplexHalf, Code::Complex, 32},
    {ScalarType::ComplexFloat, Code::Complex, 64},
    {ScalarType::ComplexDouble, Code::Complex, 128},
    {ScalarType::Bool, Code::Bool, 8},
    {ScalarType::BFloat16, Code::Bfloat, 16},
    {ScalarType::UInt16, Code::UInt, 16},
    {ScalarType::UInt32, Code::UInt, 32},
    {ScalarType::UInt64, Code::UInt, 64},
    {ScalarType::Float8E5M2, Code::Float8_E5M2, 8},
    {ScalarType::Float8E4M3FN, Code::Float8_E4M3FN, 8},
    {ScalarType::Float8E5M2FNUZ, Code::Float8_E5M2FNUZ, 8},
    {ScalarType::Float8E4M3FNUZ, Code::Float8_E4M3FNUZ, 8},
};

const DlpackType* find(nb::dlpack::dtype type) {
  for (const DlpackType& row : kTypes) {
    if (static_cast<uint8_t>(row.code) == type.code && row.bits == type.bits && type.lanes == 1) return &row;
  }
  return nullptr;
}

nb::dlpack::dtype dlpack_type(Code code, size_t bits) {
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
}

std::string type_of(nb::handle object) { return Py_TYPE(object.ptr())->tp_name; }

/// Whether elements lie densely with the dims in `order`. Dims of size 1 may have any stride.
bool has_order(const int32_t* sizes, const int64_t* strides, const uint8_t* order, int rank) {
  int64_t expected = 1;
  for (int position = rank - 1; position >= 0; --position) {
    const int dim = order[position];
    if (sizes[dim] == 1) continue;
    if (strides[dim] != expected) return false;
    expected *= sizes[dim];
  }
  return true;
}

}  // namespace

std::string PythonInputs::add(nb::handle object) {
  const uint32_t index = static_cast<uint32_t>(inputs_.size());
  const bool known = index < meta_.num_inputs();
  const Tag tag = known ? meta_.input_tag(index) : Tag::Tensor;
  nb::object value = nb::borrow(object);
  if (tag != Tag::Tensor && nb::hasattr(value, "item")) value = value.attr("item")();
  host::Input input;
  if (value.is_none()) {
    input.tag = Tag::None;
  } else if (PyBool_Check(value.ptr())) {
    input.tag = Tag::Bool;
    input.number.boolean = value.ptr() == Py_True;
  } else if (PyLong_Check(value.ptr())) {
    int overflow = 0;
    input.tag = Tag::Int;
    input.number.integer = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow != 0) return "is an int of more than 64 bits";
  } else if (PyFloat_Check(value.ptr())) {
    input.tag = Tag::Double;
    input.number.real = PyFloat_AsDouble(value.ptr());
  } else {
    if (tag != Tag::Tensor) return "is a " + type_of(value) + ", the method takes " + kind_name(tag);
    TensorInfo info;
    if (known) info = meta_.input_tensor(index);
    return add_tensor(value, known ? &info : nullptr);
  }
  inputs_.push_back(input);
  return "";
}

std::string PythonInputs::add_tensor(nb::handle object, const TensorInfo* expected) {
  nb::object value = nb::borrow(object);
  if (nb::getattr(value, "requires_grad", nb::none()).ptr() == Py_True) {
    value = value.attr("detach")();
  }
  // NumPy knows bfloat16 from another package, and cannot export it.
  bool is_bfloat16 = false;
  if (nb::hasattr(value, "__array_interface__") && nb::hasattr(value, "view")) {
    is_bfloat16 = std::strcmp(nb::str(value.attr("dtype").attr("name")).c_str(), "bfloat16") == 0;
    if (is_bfloat16) value = value.attr("view")("uint16");
  }
  const bool used_in_place = expected != nullptr && !expected->planned;
  if (used_in_place) {
    nb::ndarray<> array;
    if (nb::try_cast(value, array, false)) {
      const std::string wrong = add_array(array, expected, is_bfloat16, false);
      writable_.push_back(std::move(array));
      return wrong;
    }
  }
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(value, array, false)) {
    return "is a " + type_of(value) + ", not an array or tensor (DLPack or buffer protocol) on the CPU";
  }
  // What cannot be written is copied where the program might write it.
  const std::string wrong = add_array(array, expected, is_bfloat16, used_in_place);
  read_only_.push_back(std::move(array));
  return wrong;
}

template <typename Array>
std::string PythonInputs::add_array(const Array& array, const TensorInfo* expected, bool is_bfloat16, bool must_copy) {
  if (array.device_type() != nb::device::cpu::value) return "is not on the CPU";
  const DlpackType* type = find(array.dtype());
  if (type == nullptr) return "has elements of a type that no tensor has";
  if (array.ndim() > kMaxRank) return "has " + std::to_string(array.ndim()) + " dimensions, more than 16";
  host::Input input;
  input.tag = Tag::Tensor;
  input.dtype = is_bfloat16 ? ScalarType::BFloat16 : type->dtype;
  input.rank = static_cast<uint8_t>(array.ndim());
  const int rank = input.rank;
  int64_t numel = 1;
  for (int d = 0; d < rank; ++d) {
    const size_t size = array.shape(static_cast<size_t>(d));
    if (size > INT32_MAX) return "has a dimension of size " + std::to_string(size);
    input.sizes[d] = static_cast<int32_t>(size);
    numel *= static_cast<int64_t>(size);
  }
  // The order that the program wants, if the elements lie so; else theirs, which the method then refuses by itself.
  std::iota(input.order, input.order + rank, uint8_t{0});
  const int64_t* strides = array.stride_ptr();
  if (expected != nullptr && expected->dim_order != nullptr && expected->rank == rank) {
    std::copy_n(expected->dim_order, rank, input.order);
  }
  if (numel > 0 && strides != nullptr && !has_order(input.sizes, strides, input.order, rank)) {
    std::iota(input.order, input.order + rank, uint8_t{0});
    std::stable_sort(input.order, input.order + rank, [&](uint8_t a, uint8_t b) { return strides[a] > strides[b]; });
    if (!has_order(input.sizes, strides, input.order, rank)) return "is a view whose elements do not lie side by side";
  }
  const size_t width = element_size(input.dtype);
  input.data = const_cast<void*>(static_cast<const void*>(array.data()));
  if (numel > 0 && (must_copy || reinterpret_cast<uintptr_t>(input.data) % std::min(width, size_t{8}) != 0)) {
    host::Bytes copy = host::copy_bytes(input.data, static_cast<size_t>(numel) * width);
    if (copy.data == nullptr) return "is too large to be copied";
    input.data = const_cast<void*>(copy.data);
    copies_.push_back(std::move(copy.owner));
  }
  inputs_.push_back(input);
  return "";
}

namespace {

nb::object tensor_to_python(host::Output& output, bool torch) {
  const size_t rank = output.sizes.size();
  std::vector<size_t> shape(output.sizes.begin(), output.sizes.end());
  std::vector<int64_t> strides(rank);
  int64_t stride = 1;
  for (size_t position = rank; position-- > 0;) {
    const uint8_t dim = output.order[position];
    strides[dim] = stride;
    stride *= std::max(output.sizes[dim], 1);
  }
  const size_t bits = element_size(output.dtype) * 8;
  nb::dlpack::dtype type = dlpack_type(Code::UInt, bits);
  for (const DlpackType& row : kTypes) {
    const bool numpy_has_it =
        row.code <= Code::Float || row.code == Code::Bool || (row.code == Code::Complex && bits > 32);
    if (row.dtype == output.dtype && (torch || numpy_has_it)) type = dlpack_type(row.code, row.bits);
  }
  if (output.data == nullptr) output.data = std::make_shared<int64_t>(0);
  void* data = output.data.get();
  auto* owned = new std::shared_ptr<void>(std::move(output.data));
  nb::capsule owner(owned, [](void* kept) noexcept { delete static_cast<std::shared_ptr<void>*>(kept); });
  if (torch) return nb::cast(nb::ndarray<nb::pytorch>(data, rank, shape.data(), owner, strides.data(), type));
  nb::object array = nb::cast(nb::ndarray<nb::numpy>(data, rank, shape.data(), owner, strides.data(), type));
  if (output.dtype != ScalarType::BFloat16) return array;
  const nb::object loaded = nb::module_::import_("sys").attr("modules").attr("get")("ml_dtypes");
  if (!loaded.is_none()) return array.attr("view")(loaded.attr("bfloat16"));
  // The upper half of a float.
  return array.attr("astype")("uint32").attr("__lshift__")(16).attr("view")("float32");
}

}  // namespace

nb::object to_python(host::Output& output, bool torch) {
  switch (output.tag) {
    case Tag::None:
      return nb::none();
    case Tag::Int:
      return nb::int_(output.number.integer);
    case Tag::Bool:
      return nb::bool_(output.number.boolean);
    case Tag::Double:
      return nb::float_(output.number.real);
    case Tag::String:
      return nb::steal(
          PyUnicode_DecodeUTF8(output.text.data(), static_cast<Py_ssize_t>(output.text.size()), "replace"));
    case Tag::Tensor:
      return tensor_to_python(output, torch);
    default: {
      nb::list items;
      for (host::Output& item : output.items) items.append(to_python(item, torch));
      return items;
    }
  }
}

}  // namespace etir
