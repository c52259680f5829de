// SHA-256 (FIPS 180-4), for comparing images of code with a list.
#pragma once

#include <cstddef>
#include <cstdint>

namespace etir {

/// The digest of `size` bytes.
void sha256(const uint8_t* data, size_t size, uint8_t digest[32]);

}  // namespace etir
