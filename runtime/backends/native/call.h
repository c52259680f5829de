// What native code is called with. The layout is fixed: generated C declares the same struct (print_c.py).
#pragma once

#include <cstdint>

namespace etir {

struct NativeCall {
  const void* const* inputs;
  void* const* outputs;
  const void* const* weights;
  uint8_t* arena;  ///< at a multiple of 64
  /// Dims of inputs and then of outputs that are not known before, in order; null where there are none. Called without
  /// outputs, code only writes those of outputs: what it is given can be written.
  const int64_t* sizes;
  void* pool;
  /// Runs `part(given, begin, end)` over parts of [0, count), maybe on several threads; null where there are none.
  void (*run)(void* pool, int64_t count, int64_t grain, void (*part)(void* given, int64_t begin, int64_t end),
              void* given);
};

}  // namespace etir
