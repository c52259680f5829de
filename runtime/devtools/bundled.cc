#include "devtools/bundled.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/flatbuffer_reader.h"
#include "core/half.h"
#include "platform/describe.h"

namespace etir {
namespace host {

namespace {

constexpr size_t kProgramAlignment = 16;

/// Reads tables of a file, each bound checked before it is used. After the first mistake everything reads as empty.
class View {
 public:
  View(const Bytes& bytes) : data_(static_cast<const uint8_t*>(bytes.data)), size_(bytes.size) {
    budget_ = 8 * uint64_t{bytes.size} + (1 << 20);
  }

  const std::string& wrong() const { return wrong_; }
  const uint8_t* data() const { return data_; }

  uint64_t fail(uint64_t at, const char* what) {
    if (wrong_.empty()) wrong_ = "at byte " + std::to_string(at) + " of the bundled program: " + what;
    return 0;
  }

  /// Where the offset at `at` leads to.
  uint64_t follow(uint64_t at) {
    if (at == 0 || !wrong_.empty()) return 0;
    const uint64_t target = at + flat::read<uint32_t>(data_ + at);
    return target % 4 == 0 && target + 4 <= size_ ? target : fail(at, "the offset leads out of the file");
  }
  uint64_t root() { return size_ < 8 ? fail(0, "the file is too short") : offset(0); }

  /// Where field `slot`, `width` bytes, of the table at `table` is; 0 when it is absent.
  uint64_t field(uint64_t table, uint32_t slot, uint32_t width) {
    if (table == 0 || !wrong_.empty()) return 0;
    const int64_t vtable = static_cast<int64_t>(table) - flat::read<int32_t>(data_ + table);
    if (vtable < 4 || vtable % 2 != 0 || static_cast<uint64_t>(vtable) + 4 > size_) {
      return fail(table, "the vtable lies outside of the file");
    }
    const uint16_t entries = flat::read<uint16_t>(data_ + vtable), bytes = flat::read<uint16_t>(data_ + vtable + 2);
    if (entries < 4 || static_cast<uint64_t>(vtable) + entries > size_ || table + bytes > size_) {
      return fail(table, "the table lies outside of the file");
    }
    if (4 + 2 * slot + 2 > entries) return 0;
    const uint16_t place = flat::read<uint16_t>(data_ + vtable + 4 + 2 * slot);
    if (place == 0) return 0;
    if (place < 4 || place + width > bytes) return fail(table, "a field lies outside of its table");
    return table + place;
  }
  uint64_t table(uint64_t from, uint32_t slot) { return follow(field(from, slot, 4)); }
  template <typename T>
  T number(uint64_t from, uint32_t slot) {
    const uint64_t at = field(from, slot, sizeof(T));
    return at == 0 ? T{} : flat::read<T>(data_ + at);
  }

  struct Items {
    uint64_t first = 0;
    uint32_t count = 0;
  };
  /// The items, `width` bytes each, of the vector in a field.
  Items vector(uint64_t from, uint32_t slot, uint32_t width) {
    const uint64_t at = table(from, slot);
    if (at == 0) return {};
    const uint32_t count = flat::read<uint32_t>(data_ + at);
    const uint64_t bytes = uint64_t{count} * width;
    if (bytes > size_ - at - 4) return {fail(at, "the vector lies outside of the file"), 0};
    return spend(at, bytes) ? Items{at + 4, count} : Items{};
  }
  /// Takes what an object of so many bytes costs from the budget, which objects that do not overlap do not use up.
  bool spend(uint64_t at, uint64_t bytes) {
    constexpr uint64_t kObject = 64;
    if (bytes + kObject > budget_) return fail(at, "objects overlap") != 0;
    budget_ -= bytes + kObject;
    return true;
  }
  uint64_t item(const Items& tables, uint32_t i) { return follow(tables.first + 4 * uint64_t{i}); }

 private:
  uint64_t offset(uint64_t at) {
    const uint64_t target = flat::read<uint32_t>(data_ + at);
    return target % 4 == 0 && target >= 4 && target + 4 <= size_ ? target
                                                                 : fail(at, "the offset leads out of the file");
  }

  const uint8_t* data_;
  uint64_t size_, budget_;
  std::string wrong_;
};

/// The tensor at `at` as an output, which has its bytes.
void read_tensor(View& view, uint64_t at, Output* out) {
  out->tag = Tag::Tensor;
  const uint8_t dtype = view.number<uint8_t>(at, 0);
  const View::Items sizes = view.vector(at, 1, 4), data = view.vector(at, 2, 1), order = view.vector(at, 3, 1);
  if (!view.wrong().empty()) return;
  out->dtype = static_cast<ScalarType>(dtype);
  const uint64_t width = dtype < kNumScalarTypes ? element_size(out->dtype) : 0;
  if (width == 0 || sizes.count > static_cast<uint32_t>(kMaxRank) || order.count != sizes.count) {
    view.fail(at, "a tensor has no dtype, too many dims, or another number of dims in its dim order");
    return;
  }
  uint64_t count = 1;
  uint32_t seen = 0;
  for (uint32_t d = 0; d < sizes.count; ++d) {
    const int32_t size = flat::read<int32_t>(view.data() + sizes.first + 4 * d);
    const uint8_t dim = view.data()[order.first + d];
    const bool is_new = dim < sizes.count && (seen >> dim & 1) == 0;
    if (size < 0 || !is_new || (size > 0 && count > UINT64_MAX / 64 / static_cast<uint64_t>(size))) {
      view.fail(at, "a tensor has an impossible shape");
      return;
    }
    seen |= 1u << dim;
    count *= static_cast<uint64_t>(size);
    out->sizes.push_back(size);
    out->order.push_back(dim);
  }
  if (count * width != data.count) {
    view.fail(at, "a tensor has more or fewer bytes than its shape");
    return;
  }
  out->nbytes = data.count;
  if (data.count == 0) return;
  out->data = allocate_aligned(out->nbytes);
  if (out->data == nullptr) {
    view.fail(at, "the machine has no memory left for a tensor");
    return;
  }
  std::memcpy(out->data.get(), view.data() + data.first, out->nbytes);
}

Output read_value(View& view, uint64_t at) {
  Output value;
  const uint8_t type = view.number<uint8_t>(at, 0);
  const uint64_t content = view.table(at, 1);
  if (!view.spend(at, 0)) return value;
  if (content == 0) {
    view.fail(at, "a value has no content");
    return value;
  }
  switch (type) {
    case 1:
      read_tensor(view, content, &value);
      break;
    case 2:
      value.tag = Tag::Int;
      value.scalar.integer = view.number<int64_t>(content, 0);
      break;
    case 3:
      value.tag = Tag::Bool;
      value.scalar.boolean = view.number<uint8_t>(content, 0) != 0;
      break;
    case 4:
      value.tag = Tag::Double;
      value.scalar.real = view.number<double>(content, 0);
      break;
    default:
      view.fail(at, "a value is of an unknown kind");
  }
  return value;
}

Input input_of(const Output& value, BundledCase* owner) {
  Input input;
  input.tag = value.tag;
  input.scalar = value.scalar;
  if (value.tag != Tag::Tensor) return input;
  input.data = value.data.get();
  input.dtype = value.dtype;
  input.rank = static_cast<uint8_t>(value.sizes.size());
  std::copy(value.sizes.begin(), value.sizes.end(), input.sizes);
  std::copy(value.order.begin(), value.order.end(), input.order);
  owner->memory.push_back(value.data);
  return input;
}

/// An element as a double; exact for all but 64-bit integers, which are compared as bytes.
double element(const Output& value, size_t i) {
  const char* at = value.values<char>() + i * element_size(value.dtype);
  switch (value.dtype) {
    case ScalarType::Half:
      return detail::half_to_float(flat::read<uint16_t>(reinterpret_cast<const uint8_t*>(at)));
    case ScalarType::BFloat16:
      return detail::bfloat16_to_float(flat::read<uint16_t>(reinterpret_cast<const uint8_t*>(at)));
    case ScalarType::Float:
      return flat::read<float>(reinterpret_cast<const uint8_t*>(at));
    default:
      return flat::read<double>(reinterpret_cast<const uint8_t*>(at));
  }
}

bool close(double a, double b, double rtol, double atol) {
  if (std::isnan(b)) return std::isnan(a);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= atol + rtol * std::fabs(b);
}

std::vector<int64_t> strides_of(const Output& value) {
  std::vector<int64_t> strides(value.sizes.size());
  int64_t stride = 1;
  for (size_t k = value.order.size(); k-- > 0;) {
    strides[value.order[k]] = stride;
    stride *= value.sizes[value.order[k]];
  }
  return strides;
}

std::string shape_text(const Output& value) {
  std::string text;
  for (const int32_t size : value.sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return std::string(dtype_name(value.dtype)) + "[" + text + "]";
}

std::string tensor_difference(const Output& expected, const Output& found, double rtol, double atol) {
  if (expected.dtype != found.dtype || expected.sizes != found.sizes) {
    return "is " + shape_text(found) + ", " + shape_text(expected) + " is expected";
  }
  const size_t width = element_size(expected.dtype);
  const size_t count = expected.nbytes / width;
  const bool real = expected.dtype == ScalarType::Half || expected.dtype == ScalarType::BFloat16 ||
                    expected.dtype == ScalarType::Float || expected.dtype == ScalarType::Double;
  const std::vector<int64_t> left = strides_of(expected), right = strides_of(found);
  std::vector<int32_t> index(expected.sizes.size(), 0);
  size_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < count; ++i) {
    int64_t a = 0, b = 0;
    for (size_t d = 0; d < index.size(); ++d) a += index[d] * left[d], b += index[d] * right[d];
    const size_t at = static_cast<size_t>(a), other = static_cast<size_t>(b);
    const bool same =
        real ? close(element(found, other), element(expected, at), rtol, atol)
             : std::memcmp(expected.values<char>() + at * width, found.values<char>() + other * width, width) == 0;
    if (!same && wrong++ == 0) {
      for (const int32_t k : index) first += (first.empty() ? "" : ", ") + std::to_string(k);
      first = ", the first at [" + first + "]";
      if (real) {
        char text[96];
        std::snprintf(text, sizeof(text), " is %.9g, %.9g is expected", element(found, other), element(expected, at));
        first += text;
      }
    }
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < expected.sizes[d]) break;
      index[d] = 0;
    }
  }
  if (wrong == 0) return "";
  return std::to_string(wrong) + " of " + std::to_string(count) + " elements differ" + first;
}

}  // namespace

bool is_bundled(const Bytes& bytes) {
  return bytes.size >= 8 && std::memcmp(static_cast<const uint8_t*>(bytes.data) + 4, "BP08", 4) == 0;
}

Status read_bundled(const Bytes& bytes, BundledProgram* bundled) {
  if (!is_bundled(bytes)) return refusal(Error::InvalidProgram, "this is no bundled program (.bpte)");
  View view(bytes);
  const uint64_t root = view.root();
  const View::Items suites = view.vector(root, 1, 4);
  for (uint32_t s = 0; s < suites.count && view.wrong().empty(); ++s) {
    const uint64_t table = view.item(suites, s);
    const View::Items name = view.vector(table, 0, 1), cases = view.vector(table, 1, 4);
    BundledSuite suite;
    if (name.count > 0) suite.method.assign(reinterpret_cast<const char*>(view.data()) + name.first, name.count);
    for (uint32_t c = 0; c < cases.count && view.wrong().empty(); ++c) {
      const uint64_t at = view.item(cases, c);
      const View::Items inputs = view.vector(at, 0, 4), expected = view.vector(at, 1, 4);
      BundledCase one;
      for (uint32_t i = 0; i < inputs.count && view.wrong().empty(); ++i) {
        one.inputs.push_back(input_of(read_value(view, view.item(inputs, i)), &one));
      }
      for (uint32_t i = 0; i < expected.count && view.wrong().empty(); ++i) {
        one.expected.push_back(read_value(view, view.item(expected, i)));
      }
      suite.cases.push_back(std::move(one));
    }
    bundled->suites.push_back(std::move(suite));
  }
  const View::Items program = view.vector(root, 2, 1);
  if (program.count == 0) view.fail(root, "there is no program");
  if (!view.wrong().empty()) return refusal(Error::InvalidProgram, view.wrong());
  const uint8_t* data = view.data() + program.first;
  bundled->program = reinterpret_cast<uintptr_t>(data) % kProgramAlignment == 0
                         ? Bytes{bytes.owner, data, program.count}
                         : copy_bytes(data, program.count);
  return {};
}

std::string difference(const std::vector<Output>& expected, const std::vector<Output>& found, double rtol,
                       double atol) {
  if (expected.empty()) return "";
  if (expected.size() != found.size()) {
    return std::to_string(expected.size()) + " outputs are expected, there are " + std::to_string(found.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const Output &a = expected[i], &b = found[i];
    std::string what;
    if (a.tag != b.tag) {
      what = std::string("is of kind ") + kind_name(b.tag) + ", " + kind_name(a.tag) + " is expected";
    } else if (a.tag == Tag::Tensor) {
      what = tensor_difference(a, b, rtol, atol);
    } else if (a.tag == Tag::Double ? !close(b.scalar.real, a.scalar.real, rtol, atol)
               : a.tag == Tag::Bool ? a.scalar.boolean != b.scalar.boolean
                                    : a.scalar.integer != b.scalar.integer) {
      what = "is another number than is expected";
    }
    if (!what.empty()) return "output " + std::to_string(i) + " " + what;
  }
  return "";
}

}  // namespace host
}  // namespace etir
