// The conversions of blocks between dtypes and the types that kernels compute in (blocks.h).
#include "kernels/util/blocks.h"

namespace etir {

namespace detail {

namespace {

template <typename To, typename From>
void convert_block(To* __restrict to, const From* __restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = convert_element<To>(from[i]);
}
template <typename To, typename From>
void load_block(To* to, const void* from, int64_t n) {
  convert_block(to, static_cast<const From*>(from), n);
}
template <typename To, typename From>
void store_block(void* to, const From* from, int64_t n) {
  convert_block(static_cast<To*>(to), from, n);
}

}  // namespace

template <typename To>
LoadBlock<To> find_loader(ScalarType from) {
  LoadBlock<To> found = nullptr;
  dispatch<kLoadable<To>>(from, [&](auto tag) { found = load_block<To, typename decltype(tag)::type>; });
  return found;
}
template <typename From>
StoreBlock<From> find_storer(ScalarType to) {
  StoreBlock<From> found = nullptr;
  dispatch<kStorable<From>>(to, [&](auto tag) { found = store_block<typename decltype(tag)::type, From>; });
  return found;
}

#define ETIR_INSTANTIATE(type)                            \
  template LoadBlock<type> find_loader<type>(ScalarType); \
  template StoreBlock<type> find_storer<type>(ScalarType);
ETIR_INSTANTIATE(bool)
ETIR_INSTANTIATE(int64_t)
ETIR_INSTANTIATE(float)
ETIR_INSTANTIATE(double)
ETIR_INSTANTIATE(ComplexFloat)
ETIR_INSTANTIATE(ComplexDouble)
#undef ETIR_INSTANTIATE

}  // namespace detail

}  // namespace etir
