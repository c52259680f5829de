// What the runtime gives; the layout is fixed (runtime/backends/native/call.h).
struct etir_native_call {
  const void* const* inputs;
  void* const* outputs;
  const void* const* weights;
  uint8_t* arena;
  const int64_t* sizes;
  void* pool;
  void (*run)(void* pool, int64_t count, int64_t grain, void (*part)(void* given, int64_t begin, int64_t end),
              void* given);
};
