// Mutations of program and external data files that know where things are: for the fuzzers, not part of the runtime.
#pragma once

#include <cstddef>
#include <cstdint>

namespace etir {

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct FuzzRandom {
  uint64_t state;
  uint64_t next() {
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  size_t below(size_t bound) { return static_cast<size_t>(next() % bound); }
};

/// Changes some numbers, counts, indices, offsets or types of unions in a file in place: what the tables of the format
/// say is there, found by walking them as far as they can be walked. The file is a .pte, or a .ptd, by its identifier.
/// Where it has delegates of XNNPACK or of native code, most changes are to these. False when no table was found.
bool mutate_file(uint8_t* data, size_t size, FuzzRandom& random);

}  // namespace etir
