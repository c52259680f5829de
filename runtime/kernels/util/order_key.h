// The order of elements as the order of unsigned integers.
//
// Sorting, selecting and searching for extremes compare keys: unsigned integers of the element's size whose order is
// torch's (NaNs are greatest and equal, -0 equals 0). One instantiation for each size then serves every dtype, and a
// flipped key turns the order around. Sorts go by key and then by index, a total order, which makes any of them stable.
#pragma once

#include "kernels/util/lines.h"

namespace etir::lines {

/// Unsigned integers of 1, 2, 4 and 8 bytes for `body(TypeTag<U>())`; false for other sizes.
template <typename Body>
inline bool dispatch_key(ScalarType dtype, DtypeSet dtypes, Body&& body) {
  if (!contains(dtypes, dtype)) return false;
  switch (element_size(dtype)) {
    case 1:
      return body(TypeTag<uint8_t>()), true;
    case 2:
      return body(TypeTag<uint16_t>()), true;
    case 4:
      return body(TypeTag<uint32_t>()), true;
    case 8:
      return body(TypeTag<uint64_t>()), true;
    default:
      return false;
  }
}

/// From elements to keys.
template <typename U>
class OrderKey {
 public:
  /// `descending`: the greatest element has the least key.
  OrderKey(ScalarType dtype, bool descending) : flip_(descending ? static_cast<U>(~U{0}) : U{0}) {
    if (contains(kSignedInts, dtype)) kind_ = Kind::Signed;
    if (is_floating(dtype)) {
      kind_ = Kind::Floating;
      const int mantissa = dtype == ScalarType::Half       ? 10
                           : dtype == ScalarType::BFloat16 ? 7
                           : dtype == ScalarType::Float    ? 23
                                                           : 52;
      infinity_ = static_cast<U>(kSign - (uint64_t{1} << mantissa));
    }
  }
  /// The key of the element with these bits.
  U operator()(U bits) const { return static_cast<U>(ascending(bits) ^ flip_); }
  U at(const char* element) const { return (*this)(load<U>(element)); }
  /// Whether the element with these bits is a NaN.
  bool is_nan(U bits) const {
    return kind_ == Kind::Floating && static_cast<U>(bits & static_cast<U>(~kSign)) > infinity_;
  }

 private:
  enum class Kind : uint8_t { Unsigned, Signed, Floating };
  static constexpr U kSign = static_cast<U>(uint64_t{1} << (sizeof(U) * 8 - 1));

  U ascending(U bits) const {
    if (kind_ == Kind::Unsigned) return bits;
    if (kind_ == Kind::Signed) return static_cast<U>(bits ^ kSign);
    if (is_nan(bits)) return static_cast<U>(~U{0});
    if (bits == kSign) return kSign;
    return static_cast<U>((bits & kSign) != 0 ? ~bits : bits | kSign);
  }

  Kind kind_ = Kind::Unsigned;
  U infinity_ = 0;
  U flip_;
};

/// Keys and indices side by side, each with a stride of its own in bytes; sorted together.
template <typename U>
struct Pairs {
  char* keys;
  int64_t key_step;
  char* indices;  ///< int64
  int64_t index_step;

  U key(int64_t i) const { return load<U>(keys + i * key_step); }
  int64_t index(int64_t i) const { return load<int64_t>(indices + i * index_step); }
  void set(int64_t i, U key, int64_t index) const {
    store(keys + i * key_step, key);
    store(indices + i * index_step, index);
  }
  void copy(int64_t to, int64_t from) const { set(to, key(from), index(from)); }
  void swap(int64_t i, int64_t j) const {
    const U key_i = key(i);
    const int64_t index_i = index(i);
    copy(i, j);
    set(j, key_i, index_i);
  }
  static bool less(U key_a, int64_t index_a, U key_b, int64_t index_b) {
    return key_a < key_b || (key_a == key_b && index_a < index_b);
  }
  bool less(int64_t i, int64_t j) const { return less(key(i), index(i), key(j), index(j)); }

  /// Lets pair `at` of the max-heap [begin, begin + n) sink to its place.
  void sift_down(int64_t begin, int64_t n, int64_t at) const {
    const U sinking = key(begin + at);
    const int64_t sinking_index = index(begin + at);
    for (;;) {
      int64_t child = 2 * at + 1;
      if (child >= n) break;
      if (child + 1 < n && less(begin + child, begin + child + 1)) ++child;
      if (!less(sinking, sinking_index, key(begin + child), index(begin + child))) break;
      copy(begin + at, begin + child);
      at = child;
    }
    set(begin + at, sinking, sinking_index);
  }
  void make_heap(int64_t begin, int64_t n) const {
    for (int64_t at = n / 2 - 1; at >= 0; --at) sift_down(begin, n, at);
  }
  /// Sorts a max-heap.
  void sort_heap(int64_t begin, int64_t n) const {
    for (int64_t last = n - 1; last > 0; --last) {
      swap(begin, begin + last);
      sift_down(begin, last, 0);
    }
  }

  /// Sorts all n pairs: quicksort with the median of three, heap sort where it does not get ahead, insertion sort for
  /// short ranges. Every scan is bounded by its range, whatever the memory holds meanwhile.
  void sort(int64_t n) const {
    struct Range {
      int64_t begin, end;
      int budget;
    };
    Range pending[64];
    int count = 0;
    int budget = 2;
    for (int64_t m = n; m > 1; m /= 2) budget += 2;
    pending[count++] = Range{0, n, budget};
    while (count > 0) {
      Range range = pending[--count];
      while (range.end - range.begin > 24) {
        if (range.budget-- == 0) {
          make_heap(range.begin, range.end - range.begin);
          sort_heap(range.begin, range.end - range.begin);
          range.end = range.begin;
          break;
        }
        const int64_t middle = partition(range.begin, range.end);
        // The longer part waits, so that at most log2(n) ranges do.
        if (middle - range.begin < range.end - middle - 1) {
          pending[count++] = Range{middle + 1, range.end, range.budget};
          range.end = middle;
        } else {
          pending[count++] = Range{range.begin, middle, range.budget};
          range.begin = middle + 1;
        }
      }
      insertion_sort(range.begin, range.end);
    }
  }

 private:
  void insertion_sort(int64_t begin, int64_t end) const {
    for (int64_t i = begin + 1; i < end; ++i) {
      const U moving = key(i);
      const int64_t moving_index = index(i);
      int64_t j = i;
      while (j > begin && less(moving, moving_index, key(j - 1), index(j - 1))) {
        copy(j, j - 1);
        --j;
      }
      set(j, moving, moving_index);
    }
  }

  /// Puts the median of three at its place and returns the place: smaller pairs before it, greater ones after.
  int64_t partition(int64_t begin, int64_t end) const {
    const int64_t last = end - 1, middle = begin + (end - begin) / 2;
    if (less(middle, begin)) swap(middle, begin);
    if (less(last, middle)) {
      swap(last, middle);
      if (less(middle, begin)) swap(middle, begin);
    }
    swap(middle, last - 1);
    const U pivot = key(last - 1);
    const int64_t pivot_index = index(last - 1);
    int64_t i = begin, j = last - 1;
    for (;;) {
      do {
        ++i;
      } while (i < last - 1 && less(key(i), index(i), pivot, pivot_index));
      do {
        --j;
      } while (j > begin && less(pivot, pivot_index, key(j), index(j)));
      if (i >= j) break;
      swap(i, j);
    }
    swap(i, last - 1);
    return i;
  }
};

}  // namespace etir::lines
