#include "kernels/kernel.h"

#include "core/count.h"

namespace etir {

void KernelContext::fail(Check check, int64_t a, int64_t b) {
  if (failed()) return;
  error_.check = check;
  error_.a = a;
  error_.b = b;
}

void KernelContext::fail(Check check, const Tensor& argument, int64_t b) { fail(check, position(argument), b); }

int KernelContext::position(const Tensor& argument) const {
  int list = -1;
  const int count = args_[-1];
  for (int i = 0; i < count; ++i) {
    const Tag kind = tag(i);
    if (kind == Tag::Tensor && payload(i).tensor == &argument) return i;
    if (kind >= Tag::TensorList && list < 0) list = i;
  }
  return list;
}

bool KernelContext::resize(Tensor& out, const int64_t* sizes, int rank) {
  if (rank != out.rank) {
    fail(Check::KernelResizeRank, rank, out.rank);
    return false;
  }
  int differs = -1;
  // Zeros count as ones in what must not overflow: strides are products of the other sizes.
  uint64_t count = 1;
  bool empty = false, overflow = false;
  for (int d = 0; d < rank; ++d) {
    if (sizes[d] != out.sizes[d] && differs < 0) differs = d;
    empty = empty || sizes[d] == 0;
    overflow = overflow || static_cast<uint64_t>(sizes[d]) > INT32_MAX ||  // or negative
               (sizes[d] != 0 && !multiply_count(count, static_cast<uint32_t>(sizes[d])));
  }
  if (empty) count = 0;
  if (differs < 0 && (out.dynamism != Dynamism::Unbound || out.data != nullptr || count == 0)) return true;
  if (differs >= 0 && out.dynamism == Dynamism::Static) {
    fail(Check::KernelResizeStatic, differs, sizes[differs]);
    return false;
  }
  if (overflow || count > out.capacity) {
    const uint64_t bytes = count * element_size(out.dtype);
    void* data = nullptr;
    if (!overflow && out.dynamism == Dynamism::Unbound && dynamic.allocate != nullptr && count <= UINT32_MAX &&
        bytes <= static_cast<uint64_t>(PTRDIFF_MAX)) {
      data = dynamic.allocate(dynamic.context, out.data, static_cast<size_t>(bytes));
    }
    if (data == nullptr) {
      fail(Check::KernelResize, overflow ? INT64_MAX : static_cast<int64_t>(count), out.capacity);
      return false;
    }
    out.data = data;
    out.capacity = static_cast<uint32_t>(count);
  }
  // Tensors that are not static have their sizes in the method's memory.
  int32_t* target = const_cast<int32_t*>(out.sizes);
  for (int d = 0; d < rank; ++d) target[d] = static_cast<int32_t>(sizes[d]);
  return true;
}

bool KernelContext::resize_like(Tensor& out, const Tensor& other) {
  int64_t sizes[kMaxRank];
  for (int d = 0; d < other.rank; ++d) sizes[d] = other.sizes[d];
  return resize(out, sizes, other.rank);
}

void* KernelContext::temp(size_t bytes, size_t alignment) {
  void* result = temp_.allocate(bytes, alignment);
  if (result == nullptr) {
    // What is left begins at the next multiple of the alignment.
    const size_t left = temp_.size - temp_.used;
    const size_t padding = static_cast<size_t>(-(reinterpret_cast<uintptr_t>(temp_.base) + temp_.used) % alignment);
    fail(Check::KernelTemp, static_cast<int64_t>(bytes), left > padding ? static_cast<int64_t>(left - padding) : 0);
  }
  return result;
}

namespace {

// As strcmp, for a name of `size` characters, which may contain zeros: no row's does.
int compare(const char* row, const char* name, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    const uint8_t a = static_cast<uint8_t>(row[i]), b = static_cast<uint8_t>(name[i]);
    if (a != b) return a < b ? -1 : 1;
    if (a == 0) return -1;
  }
  return row[size] == '\0' ? 0 : 1;
}

}  // namespace

const Kernel* find_kernel(const KernelTable& table, const char* name, size_t size) {
  uint32_t low = 0, high = table.count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    const int order = compare(table.rows[middle].name, name, size);
    if (order == 0) return &table.rows[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return nullptr;
}

}  // namespace etir
