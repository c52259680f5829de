#include "python/arrays.h"

#include <nanobind/stl/string.h>

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

const DlpackType* find(dlpack::DataType type) {
  for (const DlpackType& row : kTypes) {
    if (static_cast<uint8_t>(row.code) == type.code && row.bits == type.bits && type.lanes == 1) return &row;
  }
  return nullptr;
}

nb::dlpack::dtype dlpack_type(Code code, size_t bits) {
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
}

std::string type_of(nb::handle object) { return nb::str(object.type().attr("__qualname__")).c_str(); }

/// Whether elements lie densely with the dims in `input.order`, given strides in bytes. Dims of size 1 may have any.
bool has_order(const host::Input& input, const int64_t* strides) {
  int64_t expected = static_cast<int64_t>(element_size(input.dtype));
  for (int position = input.rank - 1; position >= 0; --position) {
    const int dim = input.order[position];
    if (input.sizes[dim] == 1) continue;
    if (strides[dim] != expected) return false;
    expected *= input.sizes[dim];
  }
  return true;
}

/// Whether a method that expects a tensor like `expected` might take one of these sizes; it refuses others by itself.
bool may_fit(const host::Input& input, const TensorInfo& expected) {
  if (input.dtype != expected.dtype || input.rank != expected.rank) return false;
  for (int d = 0; d < input.rank; ++d) {
    if (expected.dynamism != Dynamism::Unbound && input.sizes[d] > expected.sizes[d]) return false;
  }
  return true;
}

/// Calls `each(dense, strided)` for every element: where it is in dense memory in the input's order of dims, and where
/// it is with `strides`, both in bytes from the first. There must be an element.
template <typename Each>
void for_each_element(const host::Input& input, const int64_t* strides, Each each) {
  const int64_t width = static_cast<int64_t>(element_size(input.dtype));
  const int last = input.rank - 1;
  const int64_t count = input.rank == 0 ? 1 : input.sizes[input.order[last]];
  const int64_t step = input.rank == 0 ? 0 : strides[input.order[last]];
  int32_t index[kMaxRank] = {};
  int64_t dense = 0, strided = 0;
  for (;;) {
    for (int64_t i = 0; i < count; ++i, dense += width) each(dense, strided + i * step);
    int position = last - 1;
    for (; position >= 0; --position) {
      const int dim = input.order[position];
      strided += strides[dim];
      if (++index[dim] < input.sizes[dim]) break;
      strided -= strides[dim] * input.sizes[dim];
      index[dim] = 0;
    }
    if (position < 0) return;
  }
}

/// The same with the width of an element as a constant, so that copying one is an instruction.
template <typename Width>
void with_width(size_t width, Width body) {
  switch (width) {
    case 1:
      return body(std::integral_constant<size_t, 1>());
    case 2:
      return body(std::integral_constant<size_t, 2>());
    case 4:
      return body(std::integral_constant<size_t, 4>());
    case 8:
      return body(std::integral_constant<size_t, 8>());
    default:
      return body(std::integral_constant<size_t, 16>());
  }
}

/// The type of a buffer's elements; bits 0 when it is not a plain one of this machine.
dlpack::DataType buffer_type(const Py_buffer& buffer) {
  const char* format = buffer.format == nullptr ? "B" : buffer.format;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  const bool complex = *format == 'Z';
  if (complex) ++format;
  if (format[0] == 0 || format[1] != 0) return {};
  Code code = Code::Float;
  if (std::strchr("efd", *format) != nullptr) {
    code = complex ? Code::Complex : Code::Float;
  } else if (complex) {
    return {};
  } else if (std::strchr("bhilqn", *format) != nullptr) {
    code = Code::Int;
  } else if (std::strchr("BHILQN", *format) != nullptr) {
    code = Code::UInt;
  } else if (*format == '?') {
    code = Code::Bool;
  } else {
    return {};
  }
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(buffer.itemsize * 8), 1};
}

/// Sets one size of an input. An empty text, or what is wrong with it.
std::string set_size(host::Input* input, int dim, int64_t size) {
  if (size > INT32_MAX) return "has a dimension of size " + std::to_string(size);
  input->sizes[dim] = static_cast<int32_t>(size);
  return "";
}

/// Whether a tensor says that its elements are to be read with the other sign.
bool is_negated(nb::handle tensor) {
  PyObject* answer = PyObject_CallMethod(tensor.ptr(), "is_neg", nullptr);
  if (answer == nullptr) PyErr_Clear();
  const bool negated = answer == Py_True;
  Py_XDECREF(answer);
  return negated;
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
    input.scalar.boolean = value.ptr() == Py_True;
  } else if (PyLong_Check(value.ptr())) {
    int overflow = 0;
    input.tag = Tag::Int;
    input.scalar.integer = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow != 0) return "is an int of more than 64 bits";
  } else if (PyFloat_Check(value.ptr())) {
    input.tag = Tag::Double;
    input.scalar.real = PyFloat_AsDouble(value.ptr());
  } else if (PyUnicode_Check(value.ptr()) && tag == Tag::String) {
    input.tag = Tag::String;
    input.text = nb::cast<std::string>(value);
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
  const dlpack::ExchangeApi* exchange = dlpack::exchange_api(Py_TYPE(object.ptr()));
  if (exchange != nullptr && exchange->view_from_object != nullptr) {
    dlpack::TensorView view = {};
    if (exchange->view_from_object(object.ptr(), &view) != 0) {
      PyErr_Clear();
    } else if (view.dtype.code != static_cast<uint8_t>(Code::Complex) && !is_negated(object)) {
      exchange_ = exchange;
      return add_view(view, expected, false, false);
    }
  }
  std::string wrong_buffer;
  if (PyObject_CheckBuffer(object.ptr()) && add_buffer(object, expected, &wrong_buffer)) return wrong_buffer;
  nb::object value = nb::borrow(object);
  if (nb::getattr(value, "requires_grad", nb::none()).ptr() == Py_True) {
    value = value.attr("detach")();
  }
  // A view that only says that its elements are to be read conjugated, or with the other sign.
  if (nb::hasattr(value, "resolve_conj")) value = value.attr("resolve_conj")().attr("resolve_neg")();
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

/// False when the object does not give its memory so, or not in a form that this understands.
bool PythonInputs::add_buffer(nb::handle object, const TensorInfo* expected, std::string* wrong) {
  const bool used_in_place = expected != nullptr && !expected->planned;
  Py_buffer buffer;
  bool writable = true;
  if (!used_in_place || PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_RECORDS) != 0) {
    PyErr_Clear();
    writable = false;
    if (PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_RECORDS_RO) != 0) {
      PyErr_Clear();
      return false;
    }
  }
  buffers_.push_back(buffer);
  const dlpack::DataType type = buffer_type(buffer);
  if (type.bits == 0 || buffer.ndim > static_cast<int>(kMaxRank)) return false;
  const DlpackType* known = find(type);
  if (known == nullptr) return false;
  host::Input input;
  input.tag = Tag::Tensor;
  input.dtype = known->dtype;
  input.rank = static_cast<uint8_t>(buffer.ndim);
  input.data = buffer.buf;
  int64_t strides[kMaxRank];
  for (int d = 0; d < buffer.ndim; ++d) {
    *wrong = set_size(&input, d, buffer.shape[d]);
    if (!wrong->empty()) return true;
    strides[d] = buffer.strides[d];
  }
  // What cannot be written is copied where the program might write it.
  *wrong = add_elements(std::move(input), strides, expected, used_in_place && !writable);
  return true;
}

template <typename Array>
std::string PythonInputs::add_array(const Array& array, const TensorInfo* expected, bool is_bfloat16, bool must_copy) {
  const nb::dlpack::dtype type = array.dtype();
  int64_t sizes[kMaxRank];
  for (size_t d = 0; d < std::min<size_t>(array.ndim(), kMaxRank); ++d) sizes[d] = static_cast<int64_t>(array.shape(d));
  const dlpack::TensorView view = {const_cast<void*>(static_cast<const void*>(array.data())),
                                   {array.device_type(), array.device_id()},
                                   static_cast<int32_t>(array.ndim()),
                                   {type.code, type.bits, type.lanes},
                                   sizes,
                                   const_cast<int64_t*>(array.stride_ptr()),
                                   0};
  return add_view(view, expected, is_bfloat16, must_copy);
}

std::string PythonInputs::add_view(const dlpack::TensorView& view, const TensorInfo* expected, bool is_bfloat16,
                                   bool must_copy) {
  if (view.device.type != dlpack::kCpu) return "is not on the CPU";
  const DlpackType* type = find(view.dtype);
  if (type == nullptr) return "has elements of a type that no tensor has";
  if (view.rank > static_cast<int32_t>(kMaxRank)) {
    return "has " + std::to_string(view.rank) + " dimensions, more than 16";
  }
  host::Input input;
  input.tag = Tag::Tensor;
  input.dtype = is_bfloat16 ? ScalarType::BFloat16 : type->dtype;
  input.rank = static_cast<uint8_t>(view.rank);
  input.data = static_cast<uint8_t*>(view.data) + view.byte_offset;
  const int64_t width = static_cast<int64_t>(element_size(input.dtype));
  int64_t strides[kMaxRank];
  int64_t dense = width;
  for (int d = view.rank - 1; d >= 0; --d) {
    const std::string wrong = set_size(&input, d, view.sizes[d]);
    if (!wrong.empty()) return wrong;
    strides[d] = view.strides == nullptr ? dense : view.strides[d] * width;
    if (view.strides == nullptr) dense *= view.sizes[d];
  }
  return add_elements(std::move(input), strides, expected, must_copy);
}

/// Adds a tensor whose elements lie `strides` bytes apart, as it is when they lie as the method takes them, else a
/// copy.
std::string PythonInputs::add_elements(host::Input input, const int64_t* strides, const TensorInfo* expected,
                                       bool must_copy) {
  int64_t numel = 1;
  for (int d = 0; d < input.rank; ++d) numel *= input.sizes[d];
  std::iota(input.order, input.order + input.rank, uint8_t{0});
  if (expected != nullptr && expected->dim_order != nullptr && expected->rank == input.rank) {
    std::copy_n(expected->dim_order, input.rank, input.order);
  }
  const size_t width = element_size(input.dtype);
  const bool aligned = reinterpret_cast<uintptr_t>(input.data) % std::min(width, size_t{8}) == 0;
  const bool takes_part = numel > 0 && expected != nullptr && may_fit(input, *expected);
  if (takes_part && (must_copy || !aligned || !has_order(input, strides))) {
    const std::shared_ptr<void> copy = host::allocate_aligned(static_cast<size_t>(numel) * width);
    if (copy == nullptr) return "is too large to be copied";
    uint8_t* to = static_cast<uint8_t*>(copy.get());
    uint8_t* from = static_cast<uint8_t*>(input.data);
    if (has_order(input, strides)) {
      std::memcpy(to, from, static_cast<size_t>(numel) * width);
    } else {
      with_width(width, [&](auto size) {
        for_each_element(input, strides,
                         [&](int64_t dense, int64_t strided) { std::memcpy(to + dense, from + strided, size()); });
      });
    }
    if (!expected->planned && !must_copy) {
      Gathered gathered = {inputs_.size(), from, {}};
      std::copy_n(strides, input.rank, gathered.strides);
      to_return_.push_back(gathered);
    }
    input.data = to;
    copies_.push_back(copy);
  }
  inputs_.push_back(std::move(input));
  return "";
}

void PythonInputs::return_written() const {
  for (const Gathered& gathered : to_return_) {
    const host::Input& input = inputs_[gathered.input];
    const uint8_t* from = static_cast<const uint8_t*>(input.data);
    with_width(element_size(input.dtype), [&](auto size) {
      // What is as it was is not touched: others may be reading it.
      for_each_element(input, gathered.strides, [&](int64_t dense, int64_t strided) {
        uint8_t* to = gathered.source + strided;
        if (std::memcmp(to, from + dense, size()) != 0) std::memcpy(to, from + dense, size());
      });
    });
  }
}

namespace {

/// A tensor for another library, with the memory that it keeps.
struct Shared {
  dlpack::ManagedTensor managed;
  std::shared_ptr<void> data;
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxRank];
};

nb::object exchange_tensor(host::Output& output, const dlpack::ExchangeApi& exchange, const DlpackType& type) {
  auto shared = std::make_unique<Shared>();
  const size_t rank = output.sizes.size();
  int64_t stride = 1;
  for (size_t position = rank; position-- > 0;) {
    const uint8_t dim = output.order[position];
    shared->sizes[dim] = output.sizes[dim];
    shared->strides[dim] = stride;
    stride *= std::max(output.sizes[dim], 1);
  }
  shared->data = std::move(output.data);
  shared->managed = {exchange.header.version,
                     shared.get(),
                     [](dlpack::ManagedTensor* managed) { delete static_cast<Shared*>(managed->context); },
                     0,
                     {shared->data.get(),
                      {dlpack::kCpu, 0},
                      static_cast<int32_t>(rank),
                      {static_cast<uint8_t>(type.code), type.bits, 1},
                      shared->sizes,
                      shared->strides,
                      0}};
  void* object = nullptr;
  // It owns the tensor from here on, whether it succeeds or not.
  if (exchange.managed_to_object(&shared.release()->managed, &object) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

nb::object tensor_to_python(host::Output& output, bool torch, const dlpack::ExchangeApi* exchange) {
  if (torch && exchange != nullptr && output.data != nullptr) {
    for (const DlpackType& row : kTypes) {
      if (row.dtype == output.dtype) return exchange_tensor(output, *exchange, row);
    }
  }
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

nb::object to_python(host::Output& output, bool torch, const dlpack::ExchangeApi* exchange) {
  switch (output.tag) {
    case Tag::None:
      return nb::none();
    case Tag::Int:
      return nb::int_(output.scalar.integer);
    case Tag::Bool:
      return nb::bool_(output.scalar.boolean);
    case Tag::Double:
      return nb::float_(output.scalar.real);
    case Tag::String:
      return nb::steal(
          PyUnicode_DecodeUTF8(output.text.data(), static_cast<Py_ssize_t>(output.text.size()), "replace"));
    case Tag::Tensor:
      return tensor_to_python(output, torch, exchange);
    default: {
      nb::list items;
      for (host::Output& item : output.items) items.append(to_python(item, torch, exchange));
      return items;
    }
  }
}

}  // namespace etir
