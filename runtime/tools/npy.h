// NumPy's .npy files: one array each, the format that et-run reads its inputs from and writes its outputs to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/scalar_type.h"

namespace etir {

/// An array in memory. `order` lists the dims from outermost to innermost.
struct Array {
  ScalarType dtype = ScalarType::Float;
  std::vector<int32_t> sizes;
  std::vector<uint8_t> order;
  std::vector<char> bytes;
};

/// Reads a file. Returns what is wrong with it, or an empty text.
std::string read_npy(const std::string& path, Array* array);

/// Writes a file; bfloat16, which NumPy has no type for, as float32. Returns what went wrong, or an empty text.
std::string write_npy(const std::string& path, const Array& array);

}  // namespace etir
