// Tensors from and to Python: any object with DLPack or the buffer protocol in, NumPy arrays or torch tensors out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string>
#include <vector>

#include "platform/host_module.h"
#include "python/dlpack_exchange.h"

namespace etir {

/// The inputs of a run, and what has to live as long as it.
class PythonInputs {
 public:
  explicit PythonInputs(const MethodMeta& meta) : meta_(meta) { inputs_.reserve(meta.num_inputs()); }
  PythonInputs(const PythonInputs&) = delete;
  PythonInputs& operator=(const PythonInputs&) = delete;
  ~PythonInputs() {
    for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
  }
  /// Adds the next input. An empty text, or what is wrong with the object.
  std::string add(nanobind::handle object);
  /// After a run: what the program wrote into copies of the caller's tensors, written into those.
  void return_written() const;
  const std::vector<host::Input>& inputs() const { return inputs_; }
  /// The functions of the library whose tensors came in through them, or null.
  const dlpack::ExchangeApi* exchange() const { return exchange_; }

 private:
  std::string add_tensor(nanobind::handle object, const TensorInfo* expected);
  template <typename Array>
  std::string add_array(const Array& array, const TensorInfo* expected, bool is_bfloat16, bool must_copy);
  bool add_buffer(nanobind::handle object, const TensorInfo* expected, std::string* wrong);
  std::string add_view(const dlpack::TensorView& view, const TensorInfo* expected, bool is_bfloat16, bool must_copy);
  std::string add_elements(host::Input input, const int64_t* strides, const TensorInfo* expected, bool must_copy);

  /// A dense copy of a tensor whose elements lie elsewhere, `strides` bytes apart.
  struct Gathered {
    size_t input;
    uint8_t* source;
    int64_t strides[kMaxRank];
  };

  MethodMeta meta_;
  std::vector<host::Input> inputs_;
  std::vector<Py_buffer> buffers_;
  std::vector<nanobind::ndarray<nanobind::ro>> read_only_;
  std::vector<nanobind::ndarray<>> writable_;
  std::vector<std::shared_ptr<const void>> copies_;
  std::vector<Gathered> to_return_;
  const dlpack::ExchangeApi* exchange_ = nullptr;
};

/// An output as a Python object, which takes its memory over. Types that NumPy does not have come as unsigned integers
/// of their size. `exchange`, when given, makes torch's tensors. Raises nanobind exceptions.
nanobind::object to_python(host::Output& output, bool torch, const dlpack::ExchangeApi* exchange);

}  // namespace etir
