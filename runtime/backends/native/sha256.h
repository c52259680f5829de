// SHA-256 (FIPS 180-4), for comparing images of code with a list.
#pragma once

#include <cstddef>
#include <cstdint>

namespace etir {

/// A digest of bytes that are given in several pieces.
class Sha256 {
 public:
  void add(const void* data, size_t size);
  /// The digest of all pieces; nothing may be added afterwards.
  void end(uint8_t digest[32]);

 private:
  // The first 32 bits of the fractions of the square roots of the first eight primes.
  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t block_[64];
  uint64_t size_ = 0;
};

/// The digest of `size` bytes.
void sha256(const uint8_t* data, size_t size, uint8_t digest[32]);

}  // namespace etir
