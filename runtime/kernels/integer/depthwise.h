// What depthwise convolutions on int8 images share with the variants of their inner loops: filters of a block of
// channels.
#pragma once

#include <cstdint>

#include "kernels/integer/tile.h"

namespace etir::integer::depthwise {

constexpr int kChannels = 64;                         ///< channels of a block
constexpr int kTaps = ETIR_SMALL_STACK ? 25 : 64;     ///< taps that are multiplied at once
constexpr int kPairs = (kTaps + 1) / 2;               ///< of taps
constexpr int kRun = ETIR_INT8_X86 ? 16 : kChannels;  ///< channels that are multiplied side by side

/// Filters of a block of channels: of two taps in 16 bits, in the order in which vectors interleave them.
struct Filters {
  alignas(64) int16_t pairs[ETIR_INT8_X86 ? kPairs * kChannels * 2 : 1];
  const int8_t* weight = nullptr;  ///< [taps, channels], from the first tap and channel on
  int64_t row = 0;                 ///< channels of all blocks
  int taps = 0;
  int channels = 0;    ///< of the block
  int in_vectors = 0;  ///< channels that vectors take
};

}  // namespace etir::integer::depthwise
