// Elements that change places inside of their own memory, for copies whose source dies: no second tensor is needed.
//
// A permutation of dims moves pieces, the runs of bytes that stay together, along cycles: the piece at each place comes
// from the place that the one before in the cycle left (Windley 1959, "Transposing matrices in a digital computer").
// Outer dims that stay where they are repeat it. Which pieces have been moved is remembered in bits on the stack.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/util/strided_copy.h"

namespace etir {

/// Pieces that can be told apart. The plan of a program knows it, too (passes/analysis/moves.py).
constexpr int64_t kMostPieces = int64_t{1} << 14;

/// Moves the elements of dense memory from where the source strides have them to where the destination strides do.
/// False where there are too many pieces; nothing has moved then.
inline bool rearrange(const CopyDims& dims, char* data, size_t element) {
  struct Dim {
    int64_t size, from, to;
  };
  Dim all[kMaxCopyRank];
  int rank = 0;
  int64_t total = 1;
  for (int d = 0; d < dims.rank; ++d) {
    // Sorted by the strides of the destination, the largest first.
    int at = rank++;
    for (; at > 0 && all[at - 1].to < dims.to[d]; --at) all[at] = all[at - 1];
    all[at] = {dims.sizes[d], dims.from[d], dims.to[d]};
    total *= dims.sizes[d];
  }
  if (dims.empty) return true;
  int64_t piece = 1, repeats = 1;
  while (rank > 0 && all[rank - 1].from == piece && all[rank - 1].to == piece) piece *= all[--rank].size;
  int first = 0;
  while (first < rank && all[first].from == all[first].to) {
    total /= all[first].size;
    repeats *= all[first++].size;
  }
  const int64_t pieces = total / piece;
  if (pieces > kMostPieces) return false;
  if (pieces <= 1) return true;
  // In pieces, of which there are few: division is what finding their places takes.
  struct Step {
    uint32_t from, to;
  };
  Step steps[kMaxCopyRank];
  for (int d = first; d < rank; ++d) {
    steps[d] = {static_cast<uint32_t>(all[d].from / piece), static_cast<uint32_t>(all[d].to / piece)};
  }
  // The place that a piece comes from.
  const auto source = [&](uint32_t place) {
    uint32_t from = 0;
    for (int d = first; d < rank; ++d) {
      const uint32_t index = place / steps[d].to;
      place -= index * steps[d].to;
      from += index * steps[d].from;
    }
    return from;
  };
  constexpr size_t kRoom = 256;
  const size_t bytes = static_cast<size_t>(piece) * element;
  for (; repeats > 0; --repeats, data += total * static_cast<int64_t>(element)) {
    uint32_t moved[kMostPieces / 32] = {};
    for (uint32_t start = 0; start < pieces; ++start) {
      if ((moved[start / 32] >> (start % 32) & 1) != 0 || source(start) == start) continue;
      for (size_t done = 0; done < bytes; done += kRoom) {
        const size_t count = bytes - done < kRoom ? bytes - done : kRoom;
        char kept[kRoom];
        std::memcpy(kept, data + size_t{start} * bytes + done, count);
        uint32_t place = start;
        while (true) {
          moved[place / 32] |= uint32_t{1} << (place % 32);
          const uint32_t from = source(place);
          char* const to = data + size_t{place} * bytes + done;
          if (from == start) {
            std::memcpy(to, kept, count);
            break;
          }
          std::memcpy(to, data + size_t{from} * bytes + done, count);
          place = from;
        }
      }
    }
  }
  return true;
}

}  // namespace etir
