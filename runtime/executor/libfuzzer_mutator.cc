// Tells libFuzzer how to mutate an input of program_fuzz.cc: most of the time, as executor/file_mutator.h does.
#include "executor/file_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned int seed) {
  etir::FuzzRandom random{seed};
  if (size < 24 || random.below(8) == 0) return LLVMFuzzerMutate(data, size, most);
  size_t external_size = 0;
  if ((data[0] & 1) != 0) external_size = data[1] | size_t{data[2]} << 8 | size_t{data[3]} << 16;
  if (external_size > size - 4) external_size = 0;
  const bool external = external_size > 0 && random.below(3) == 0;
  uint8_t* file = data + 4 + (external ? 0 : external_size);
  if (!etir::mutate_file(file, external ? external_size : size - 4 - external_size, random)) {
    return LLVMFuzzerMutate(data, size, most);
  }
  if (random.below(32) == 0) data[0] = static_cast<uint8_t>(data[0] ^ 2);                           // the allocator
  if (random.below(16) == 0) data[0] = static_cast<uint8_t>(data[0] ^ (1 + random.below(3)) << 2);  // the policy
  return size;
}
