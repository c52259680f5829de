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

template <typename To, bool kFloatsOnly>
LoadBlock<To> find_loader(ScalarType from) {
  LoadBlock<To> found = nullptr;
  dispatch<kFloatsOnly ? kFloats : kLoadable<To>>(
      from, [&](auto tag) { found = load_block<To, typename decltype(tag)::type>; });
  return found;
}
template <typename From, bool kFloatsOnly>
StoreBlock<From> find_storer(ScalarType to) {
  StoreBlock<From> found = nullptr;
  dispatch<kFloatsOnly ? kFloats : kStorable<From>>(
      to, [&](auto tag) { found = store_block<typename decltype(tag)::type, From>; });
  return found;
}

#define ETIR_INSTANTIATE(type, floats_only)                            \
  template LoadBlock<type> find_loader<type, floats_only>(ScalarType); \
  template StoreBlock<type> find_storer<type, floats_only>(ScalarType);
ETIR_INSTANTIATE(bool, false)
ETIR_INSTANTIATE(int64_t, false)
ETIR_INSTANTIATE(float, false)
ETIR_INSTANTIATE(double, false)
ETIR_INSTANTIATE(float, true)
ETIR_INSTANTIATE(double, true)
ETIR_INSTANTIATE(ComplexFloat, false)
ETIR_INSTANTIATE(ComplexDouble, false)
#undef ETIR_INSTANTIATE

}  // namespace detail

}  // namespace etir
