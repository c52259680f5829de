// Products with matrices of 4 or 8 bit weights in the packed format that torchao calls "universal": that of its linear
// kernels with 8-bit activations, which ExecuTorch's mixture of experts takes (pytorch/ao, torchao/csrc/cpu:
// shared_kernels/internal/packed_weights_header.h, torch_free_kernels/weight_packing/weight_packing.h and bitpacking/).
//
// A matrix has n rows of k weights; each row's weights come in groups of the same size, a multiple of 16 that divides
// k, and a group has one scale: a weight is its integer times the scale. Bytes are in little-endian order.
//
//   header    16 int32: 6712, the type 1, bits of a weight, whether there are zero points, whether there is a bias,
//             then 8, 16 and 2 (the panel's rows, the chunk's columns, and its parts), and 8 that say nothing
//   panels    for every 8 rows, one after the other; rows after the n-th are zeros
//   groups    of a panel, in the order of the columns, each with
//     chunks  of 16 columns, in order: 128 integers, which are columns 0 to 7 of the first row, of the second, ... of
//             the eighth, then columns 8 to 15 of all rows likewise. Of 8 bits they are stored as they are. Of 4 bits 8
//             is added, and 32 of them make 16 bytes: number i is in the low half of byte i, number 16 + i in the high
//     scales  8 float, one for each row
//     sums    8 int32 of the group's integers, which this code has no use for
//
// With zero points and a bias, which the operator does not use, there would be more after the sums and at the end of a
// panel.
//
// Weights are unpacked in blocks on the stack, once for a few vectors: there is never more of the matrix. 16 bytes of
// integers belong to two rows, and are taken as four words, from which shifts and masks give a column c and the column
// c + 4 of each of the two rows: no lanes are exchanged. The vectors are put into that order instead (arrange()), once
// for all rows.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/util/vectors.h"

namespace etir::llm {

constexpr int kPanel = 8;
constexpr int kChunk = 16;
constexpr int64_t kPackedHeaderBytes = 64;
/// Vectors that a panel is multiplied with at once.
constexpr int kVectors = 8;
/// Bytes of scales and sums.
constexpr int kGroupEnd = kPanel * 8;
/// Pairs of rows of a panel.
constexpr int kPairs = kPanel / 2;

/// How a packed matrix lies in memory. Sizes are below 2^31; a group's is a multiple of 16 that divides `depth`.
struct PackedLayout {
  int64_t rows, depth, group;
  int bits;  ///< 4 or 8

  int64_t values_bytes() const { return group * bits; }
  int64_t group_bytes() const { return values_bytes() + kGroupEnd; }
  int64_t panel_bytes() const { return depth / group * group_bytes(); }
  /// Of a whole matrix, header included: below 2^63.
  int64_t bytes() const { return kPackedHeaderBytes + (rows + kPanel - 1) / kPanel * panel_bytes(); }
};

/// The first of the header's numbers that is not what it has to be, or -1. `found` is what it is.
inline int wrong_in_header(const uint8_t* blob, int bits, int32_t* found) {
  const int32_t expected[8] = {6712, 1, bits, 0, 0, kPanel, kChunk, 2};
  for (int i = 0; i < 8; ++i) {
    std::memcpy(found, blob + 4 * i, 4);
    if (*found != expected[i]) return i;
  }
  return -1;
}

/// Writes the arranged form of n numbers, a multiple of 8, which has 2 * n: of 8 elements 0 and 4 come first, twice,
/// then 1 and 5, twice, and so on.
inline void arrange(const float* __restrict from, int64_t n, float* __restrict to) {
  for (int64_t i = 0; i < n; i += 8, from += 8, to += 16) {
    for (int c = 0; c < 4; ++c) {
      const float four[4] = {from[c], from[c + 4], from[c], from[c + 4]};
      std::memcpy(to + 4 * c, four, sizeof(four));
    }
  }
}

/// Four numbers: of columns c and c + 4 of a row, and of those of the next row.
struct Four {
  typedef uint32_t Words __attribute__((vector_size(16)));
  typedef int32_t Integers __attribute__((vector_size(16)));
  typedef float Numbers __attribute__((vector_size(16)));
};

/// Writes the weights of a chunk for each pair of rows, 32 numbers in arranged order; pairs are `stride` apart.
/// `scales` has two of each row's.
template <int kBits>
inline void unpack_chunk(const uint8_t* __restrict from, const float* __restrict scales, float* __restrict to,
                         int stride) {
  // 4 bits: bytes 16 * q to 16 * q + 15 have half a chunk's columns of rows 0 and 1 of four, and of rows 2 and 3 in the
  // high bits. 8 bits: of two rows.
  constexpr int kSixteens = kPanel * kBits / 8;
  ETIR_NO_UNROLL
  for (int q = 0; q < kSixteens; ++q) {
    const int half = q / (kSixteens / 2), in_half = q % (kSixteens / 2);
    Four::Words words;
    std::memcpy(&words, from + 16 * q, 16);
    ETIR_UNROLL
    for (int part = 0; part < 32 / kBits; ++part) {
      const int pair = kBits == 4 ? in_half * 2 + part % 2 : in_half;
      const int column = kBits == 4 ? part / 2 : part;
      Four::Integers integers;
      if constexpr (kBits == 4) {
        integers = reinterpret_cast<Four::Integers>(words >> (4 * part) & 15) - 8;
      } else {
        integers = reinterpret_cast<Four::Integers>(words << (24 - 8 * part)) >> 24;
      }
      Four::Numbers factors;
      std::memcpy(&factors, scales + 4 * pair, 16);
      const Four::Numbers numbers = __builtin_convertvector(integers, Four::Numbers) * factors;
      std::memcpy(to + pair * stride + 16 * half + 4 * column, &numbers, 16);
    }
  }
}

/// Products of the panel at `panel` with `count` arranged vectors: sums[v][row].
template <int kBits>
inline void multiply_panel(const PackedLayout& layout, const uint8_t* panel, const float* const* vectors, int count,
                           float (*sums)[kPanel]) {
  using V = Vector<float>::type;
  constexpr int kLanes = Vector<float>::kLanes;
  // Enough of them for the latency of an addition; a multiple of four lanes, so that a lane belongs to one row.
  constexpr int kSteps = kLanes == 1 ? 4 : 2, kWide = kSteps * kLanes;
  constexpr int kBlock = 8 * kChunk;  // columns
  static_assert(2 * kChunk % kWide == 0 && kWide % 4 == 0, "a chunk is whole steps, a step whole fours");
  float lanes[kVectors][kPairs][kWide], block[kPairs * 2 * kBlock], scales[2 * kPanel];
  std::memset(lanes, 0, sizeof(lanes));
  int64_t left_in_group = 0;
  for (int64_t first = 0; first < layout.depth; first += kBlock) {
    const int64_t left = layout.depth - first;
    const int columns = left < kBlock ? static_cast<int>(left) : kBlock;
    for (int column = 0; column < columns; column += kChunk) {
      if (left_in_group == 0) {
        left_in_group = layout.group;
        for (int row = 0; row < kPanel; ++row) {
          std::memcpy(&scales[2 * row], panel + layout.values_bytes() + 4 * row, 4);
          scales[2 * row + 1] = scales[2 * row];
        }
      }
      unpack_chunk<kBits>(panel, scales, block + 2 * column, 2 * kBlock);
      panel += kChunk * kBits;
      left_in_group -= kChunk;
      if (left_in_group == 0) panel += kGroupEnd;
    }
    for (int v = 0; v < count; ++v) {
      const float* vector = vectors[v] + 2 * first;
      V sum[kPairs][kSteps];
      ETIR_UNROLL
      for (int i = 0; i < kPairs * kSteps; ++i) {
        sum[i / kSteps][i % kSteps] = load_vector<float>(lanes[v][i / kSteps] + i % kSteps * kLanes);
      }
      for (int at = 0; at < 2 * columns; at += kWide) {
        ETIR_UNROLL
        for (int i = 0; i < kPairs * kSteps; ++i) {
          const int pair = i % kPairs, step = i / kPairs;
          sum[pair][step] += load_vector<float>(vector + at + step * kLanes) *
                             load_vector<float>(block + pair * 2 * kBlock + at + step * kLanes);
        }
      }
      ETIR_UNROLL
      for (int i = 0; i < kPairs * kSteps; ++i) {
        store_vector<float>(lanes[v][i / kSteps] + i % kSteps * kLanes, sum[i / kSteps][i % kSteps]);
      }
    }
  }
  for (int v = 0; v < count; ++v) {
    for (int row = 0; row < kPanel; ++row) {
      float total = 0;
      for (int i = row % 2 * 2; i < kWide; i += 4) total += lanes[v][row / 2][i] + lanes[v][row / 2][i + 1];
      sums[v][row] = total;
    }
  }
}

/// Products of panel `number` of the matrix at `blob`, whose header and size have been checked, with arranged vectors.
inline void multiply_panel(const PackedLayout& layout, const uint8_t* blob, int64_t number, const float* const* vectors,
                           int count, float (*sums)[kPanel]) {
  const uint8_t* panel = blob + kPackedHeaderBytes + number * layout.panel_bytes();
  if (layout.bits == 4) {
    multiply_panel<4>(layout, panel, vectors, count, sums);
  } else {
    multiply_panel<8>(layout, panel, vectors, count, sums);
  }
}

}  // namespace etir::llm
