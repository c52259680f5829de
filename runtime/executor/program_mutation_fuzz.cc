// Runs the fuzzing entry point on random mutations of some files, of their bytes and of what their tables say: a check
// that needs no libFuzzer.
//
//   program_mutation_fuzz SEED COUNT file...
//
// Each file is an input of program_fuzz.cc. Prints how many mutants ran; a sanitizer ends the process at the first
// fault.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "executor/file_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void mutate(std::vector<uint8_t>& bytes, etir::FuzzRandom& random) {
  constexpr uint32_t kWords[] = {0,  1,  2,          3,          4,          7,          8,      15,
                                 16, 17, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe, 0x10000};
  const size_t times = 1 + random.below(3);
  for (size_t k = 0; k < times && bytes.size() > 16; ++k) {
    const size_t at = 4 + random.below(bytes.size() - 8);
    switch (random.below(8)) {
      case 0:
      case 1:
        bytes[at] = static_cast<uint8_t>(random.next());
        break;
      case 2:
        bytes[at] = static_cast<uint8_t>(bytes[at] ^ (1u << random.below(8)));
        break;
      case 3:
        bytes[at] = static_cast<uint8_t>(bytes[at] + (random.below(2) != 0 ? 1 : -1));
        break;
      case 4: {
        const uint32_t word = kWords[random.below(sizeof(kWords) / sizeof(kWords[0]))];
        std::memcpy(&bytes[at / 4 * 4], &word, 4);
        break;
      }
      case 5: {
        uint32_t word;
        std::memcpy(&word, &bytes[at / 4 * 4], 4);
        word += static_cast<uint32_t>(random.below(65)) * 4 - 128;
        std::memcpy(&bytes[at / 4 * 4], &word, 4);
        break;
      }
      case 6: {
        const size_t from = 4 + random.below(bytes.size() - 8) / 4 * 4;
        std::memmove(&bytes[at / 4 * 4], &bytes[from], 4);
        break;
      }
      default:
        if (random.below(16) == 0) bytes.resize(at);
        break;
    }
  }
}

// The program, or the external data before it.
bool mutate_tables(std::vector<uint8_t>& bytes, etir::FuzzRandom& random) {
  if (bytes.size() < 24) return false;
  size_t external = 0;
  if ((bytes[0] & 1) != 0) external = bytes[1] | size_t{bytes[2]} << 8 | size_t{bytes[3]} << 16;
  if (external > bytes.size() - 4) return false;
  if (external > 0 && random.below(2) == 0) return etir::mutate_file(&bytes[4], external, random);
  return etir::mutate_file(&bytes[4] + external, bytes.size() - 4 - external, random);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 1;
  etir::FuzzRandom random{std::strtoull(argv[1], nullptr, 10)};
  const long count = std::strtol(argv[2], nullptr, 10);
  std::vector<std::vector<uint8_t>> files;
  for (int i = 3; i < argc; ++i) {
    std::FILE* file = std::fopen(argv[i], "rb");
    if (file == nullptr) return 2;
    std::vector<uint8_t> bytes;
    int c;
    while ((c = std::fgetc(file)) != EOF) bytes.push_back(static_cast<uint8_t>(c));
    std::fclose(file);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    files.push_back(bytes);
  }
  for (long i = 0; i < count; ++i) {
    std::vector<uint8_t> bytes = files[static_cast<size_t>(i) % files.size()];
    if (random.below(2) == 0 || !mutate_tables(bytes, random)) mutate(bytes, random);
    if (!bytes.empty())
      bytes[0] = static_cast<uint8_t>((bytes[0] & 3) | random.below(4) << 2);  // policy of native code
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%ld mutants of %zu files\n", count, files.size());
  return 0;
}
