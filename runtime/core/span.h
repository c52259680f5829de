// A pointer and a count.
#pragma once

#include <cstddef>

namespace etir {

/// `size` items at `data`, owned by someone else.
template <typename T>
struct Span {
  T* data = nullptr;
  size_t size = 0;
  T& operator[](size_t i) const { return data[i]; }
  bool empty() const { return size == 0; }
  T* begin() const { return data; }
  T* end() const { return data + size; }
};

}  // namespace etir
