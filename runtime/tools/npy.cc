#include "tools/npy.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>

#include "platform/describe.h"

namespace etir {

namespace {

/// NumPy's names of the types of little-endian data.
struct Name {
  ScalarType dtype;
  const char* descr;
};
constexpr Name kNames[] = {
    {ScalarType::Byte, "|u1"},         {ScalarType::Char, "|i1"},
    {ScalarType::Short, "<i2"},        {ScalarType::Int, "<i4"},
    {ScalarType::Long, "<i8"},         {ScalarType::Half, "<f2"},
    {ScalarType::Float, "<f4"},        {ScalarType::Double, "<f8"},
    {ScalarType::ComplexFloat, "<c8"}, {ScalarType::ComplexDouble, "<c16"},
    {ScalarType::Bool, "|b1"},         {ScalarType::UInt16, "<u2"},
    {ScalarType::UInt32, "<u4"},       {ScalarType::UInt64, "<u8"},
};

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;

/// The text of a header's entry: what stands between `'key':` and the comma or brace after it.
std::string entry(const std::string& header, const std::string& key) {
  const size_t at = header.find("'" + key + "'");
  if (at == std::string::npos) return "";
  size_t begin = header.find(':', at);
  if (begin == std::string::npos) return "";
  begin = header.find_first_not_of(" ", begin + 1);
  if (begin == std::string::npos) return "";
  const char close = header[begin] == '(' ? ')' : header[begin] == '\'' ? '\'' : ',';
  const size_t end = header.find(close, begin + 1);
  return end == std::string::npos ? "" : header.substr(begin, end - begin);
}

}  // namespace

std::string read_npy(const std::string& path, Array* array) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "cannot read '" + path + "'";
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.size() < 12 || std::memcmp(bytes.data(), kMagic, kMagicSize) != 0) return "'" + path + "' is no .npy file";
  const bool long_header = bytes[kMagicSize] >= 2;
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t start = long_header ? 12 : 10;
  const size_t size = byte(8) | byte(9) << 8 | (long_header ? byte(10) << 16 | byte(11) << 24 : 0);
  if (size > bytes.size() - start) return "the header of '" + path + "' is truncated";
  const std::string header(bytes.data() + start, size);
  const std::string descr = entry(header, "descr");
  const Name* found = nullptr;
  for (const Name& name : kNames) {
    if (descr.size() > 1 && descr.substr(1) == name.descr) found = &name;
  }
  if (found == nullptr) return "'" + path + "' has elements of a type that no tensor has";
  array->dtype = found->dtype;
  array->sizes.clear();
  std::istringstream shape(entry(header, "shape"));
  uint64_t count = 1;
  shape.ignore(1);
  for (int64_t size_of_dim; shape >> size_of_dim; shape.ignore(2, ',')) {
    if (size_of_dim < 0 || size_of_dim > INT32_MAX || __builtin_mul_overflow(count, size_of_dim, &count)) {
      return "'" + path + "' has a size that no tensor has";
    }
    array->sizes.push_back(static_cast<int32_t>(size_of_dim));
  }
  uint64_t expected;
  if (__builtin_mul_overflow(count, element_size(array->dtype), &expected) || expected > bytes.size() - start - size) {
    return "'" + path + "' is truncated";
  }
  array->order.resize(array->sizes.size());
  std::iota(array->order.begin(), array->order.end(), uint8_t{0});
  if (entry(header, "fortran_order") == "True") std::reverse(array->order.begin(), array->order.end());
  array->bytes.assign(bytes.begin() + static_cast<ptrdiff_t>(start + size),
                      bytes.begin() + static_cast<ptrdiff_t>(start + size + expected));
  return "";
}

std::string write_npy(const std::string& path, const Array& array) {
  const size_t rank = array.sizes.size();
  const size_t width = element_size(array.dtype);
  size_t count = 1;
  for (const int32_t size : array.sizes) count *= static_cast<size_t>(size);
  // Row-major, whatever the order in memory.
  std::vector<size_t> strides(rank);
  size_t stride = width;
  for (size_t position = rank; position-- > 0;) {
    strides[array.order[position]] = stride;
    stride *= static_cast<size_t>(array.sizes[array.order[position]]);
  }
  std::vector<char> data(count * width);
  std::vector<int32_t> index(rank, 0);
  for (size_t i = 0; i < count; ++i) {
    size_t offset = 0;
    for (size_t d = 0; d < rank; ++d) offset += static_cast<size_t>(index[d]) * strides[d];
    std::memcpy(&data[i * width], &array.bytes[offset], width);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < array.sizes[d]) break;
      index[d] = 0;
    }
  }
  const char* descr = nullptr;
  for (const Name& name : kNames) {
    if (name.dtype == array.dtype) descr = name.descr;
  }
  if (array.dtype == ScalarType::BFloat16) {
    std::vector<char> wide(count * sizeof(float));
    for (size_t i = 0; i < count; ++i) {
      uint16_t bits;
      std::memcpy(&bits, &data[i * width], sizeof(bits));
      const float value = detail::bfloat16_to_float(bits);
      std::memcpy(&wide[i * sizeof(float)], &value, sizeof(float));
    }
    data = std::move(wide);
    descr = "<f4";
  }
  if (descr == nullptr) return std::string("NumPy has no type for ") + dtype_name(array.dtype);
  std::string shape;
  for (const int32_t size : array.sizes) shape += std::to_string(size) + ", ";
  std::string header = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write(kMagic, kMagicSize);
  const char rest[] = {1, 0, static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  file.write(rest, sizeof(rest));
  file << header;
  file.write(data.data(), static_cast<std::streamsize>(data.size()));
  file.close();
  return file ? "" : "cannot write '" + path + "'";
}

}  // namespace etir
