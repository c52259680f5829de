// DLPack's exchange of tensors between libraries through plain functions (its C header, version 1.3).
//
// A tensor type that has the attribute __dlpack_c_exchange_api__ gives a table of functions with it. They do in a few
// nanoseconds what the methods __dlpack__ and from_dlpack do in microseconds, which is more than a small program runs.
// Objects of other types go the slow way (arrays.cc).
#pragma once

#include <Python.h>

#include <cstdint>

namespace etir {
namespace dlpack {

struct Version {
  uint32_t major;
  uint32_t minor;
};

struct Device {
  int32_t type;
  int32_t id;
};
constexpr int32_t kCpu = 1;

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct TensorView {
  void* data;
  Device device;
  int32_t rank;
  DataType dtype;
  int64_t* sizes;
  int64_t* strides;  ///< strides in elements
  uint64_t byte_offset;
};

struct ManagedTensor {
  Version version;
  void* context;
  void (*deleter)(ManagedTensor*);
  uint64_t flags;
  TensorView tensor;
};
constexpr uint64_t kReadOnly = 1;

struct ExchangeApi {
  struct Header {
    Version version;
    Header* previous;
  };
  Header header;
  int (*allocate)(TensorView* prototype, ManagedTensor** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedTensor** out);
  int (*managed_to_object)(ManagedTensor* tensor, void** out);
  int (*view_from_object)(void* object, TensorView* out);  ///< may be null
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
};

/// The functions for objects of exactly this type, or null when it has none of version 1. A subclass may hide what its
/// tensors really are, so it does not count. Call with the GIL held; the table lives as long as the process.
inline const ExchangeApi* exchange_api(PyTypeObject* type) {
  struct Known {
    PyTypeObject* type;
    const ExchangeApi* api;
  };
  static Known known[4] = {};
  Known* free = nullptr;
  for (Known& row : known) {
    if (row.type == type) return row.api;
    if (row.type == nullptr && free == nullptr) free = &row;
  }
  // Its own attributes, as a mapping: an attribute that is not there costs no exception.
  PyObject* attributes = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dict__");
  static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  PyObject* capsule = nullptr;
  if (attributes != nullptr && name != nullptr && PySequence_Contains(attributes, name) == 1) {
    capsule = PyObject_GetItem(attributes, name);
    Py_XDECREF(capsule);  // the type has it
  }
  Py_XDECREF(attributes);
  PyErr_Clear();
  if (free == nullptr || capsule == nullptr || !PyCapsule_IsValid(capsule, "dlpack_exchange_api")) return nullptr;
  const auto* header = static_cast<const ExchangeApi::Header*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  while (header != nullptr && header->version.major != 1) header = header->previous;
  if (header == nullptr) return nullptr;
  // The type has to live on for its address to stand for it.
  Py_INCREF(reinterpret_cast<PyObject*>(type));
  *free = {type, reinterpret_cast<const ExchangeApi*>(header)};
  return free->api;
}

}  // namespace dlpack
}  // namespace etir
