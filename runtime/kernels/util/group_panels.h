// Panels of weights in groups (group_weights.h) as the x86 loops for one row take them: several at once, from places
// that lie apart, with scales that are converted where they are used.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/util/group_weights.h"
#include "kernels/util/vectors.h"
#include "kernels/util/vnni.h"

#if defined(__x86_64__) && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define ETIR_GROUP_ROW 1
#else
#define ETIR_GROUP_ROW 0
#endif

#if ETIR_GROUP_ROW

namespace etir::groups {

/// Places that one row's product reads side by side, each with numbers, scales and minimums of its own. A core that
/// reads in one line gets less than memory has, as its prefetcher begins anew at the end of each page. On Zen 3 one
/// place is 1.1 times slower than two, and so are four: numbers alone would be faster from four. Processors with VNNI
/// (measured: Xeon with AMX) take four of each: one place is 1.18 times slower, two 1.03 times.
constexpr int kStreams = 2, kVnniStreams = 4;
constexpr int64_t kStreamPrefetchBytes = 1024;  ///< how far ahead numbers of a stream are asked for
/// The same with VNNI, for the second level of the cache, which may wait for three times as many lines as the first: a
/// token's products take 3.1 ms instead of 3.3 on one thread, and 1.61 instead of 1.70 on two.
constexpr int64_t kVnniPrefetchBytes = 2048;

/// Asks for what a stream with VNNI reads next but a few.
inline void prefetch_vnni(const uint8_t* at) { __builtin_prefetch(at, 0, 2); }

/// A panel as it lies in the file.
struct PackedPanel {
  const uint8_t* data;
  const uint8_t* scales;
  const uint8_t* minimums;  ///< null: none
};

/// Whether scales and minimums are of one type, as in what etir packs.
inline bool same_factors(const Weights& weights) {
  return weights.minimums == nullptr || weights.minimums->dtype == weights.scales->dtype;
}

/// Places that share out panels [first, last) and are read side by side; the first `more` have one panel more.
template <int kStreams>
struct Streams {
  int64_t length, more;
  int64_t panels[kStreams];  ///< the next one of each

  Streams(int64_t first, int64_t last) : length((last - first) / kStreams), more((last - first) % kStreams) {
    for (int64_t s = 0; s < kStreams; ++s) panels[s] = first + s * length + std::min(s, more);
  }

  /// Places that have panels.
  int64_t count() const { return length > 0 ? kStreams : more; }

  /// Asks for what is read first of a place: `panel` of some weights.
  template <int kBits>
  static void prefetch(const Weights& weights, int64_t panel) {
    if constexpr (kStreams == kVnniStreams) {
      prefetch_panel<kBits, 2>(weights, panel, kVnniPrefetchBytes);
    } else {
      prefetch_panel<kBits>(weights, panel, kStreamPrefetchBytes);
    }
  }

  /// Calls run(std::integral_constant<int, count>, panels) for `count` panels that are to be multiplied at once.
  template <typename Run>
  void run(const Run& run) {
    for (int64_t i = 0; i < length; ++i) {
      run(std::integral_constant<int, kStreams>(), panels);
      for (int64_t& panel : panels) ++panel;
    }
    int64_t done = 0;
    if constexpr (kStreams > 2) {
      for (; more - done >= 2; done += 2) run(std::integral_constant<int, 2>(), panels + done);
    }
    for (; done < more; ++done) run(std::integral_constant<int, 1>(), panels + done);
  }
};

/// Bytes of a panel's scales.
inline int64_t factor_bytes(const Weights& weights) {
  return weights.groups * kLanes * static_cast<int64_t>(element_size(weights.scales->dtype));
}

template <int kBits>
PackedPanel packed_panel(const Weights& weights, int64_t panel) {
  const int64_t bytes = factor_bytes(weights);
  return {weights.panel<kBits>(panel), weights.scales->ptr<uint8_t>() + panel * bytes,
          weights.minimums == nullptr ? nullptr : weights.minimums->ptr<uint8_t>() + panel * bytes};
}

/// Eight scales or minimums as float32.
template <ScalarType kType>
inline __m256 load_factors(const uint8_t* from) {
  if constexpr (kType == ScalarType::Half) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  } else if constexpr (kType == ScalarType::BFloat16) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  } else {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
  }
}

#if ETIR_INT8_VNNI
/// Sixteen scales or minimums as float32. Masked forms of the instructions, all lanes kept, are those that GCC 12 does
/// not warn of.
template <ScalarType kType>
ETIR_VNNI inline __m512 load_sixteen_factors(const uint8_t* from) {
  if constexpr (kType == ScalarType::Half) {
    return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  } else if constexpr (kType == ScalarType::BFloat16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, halves), 16));
  } else {
    return _mm512_loadu_ps(from);
  }
}
#endif

/// Bytes of a group's scales.
template <ScalarType kType>
constexpr int64_t kFactorBytes = kLanes * (kType == ScalarType::Float ? 4 : 2);

/// Calls run(std::bool_constant<with minimums>, std::integral_constant<ScalarType, type>).
template <typename Run>
void dispatch_factors(ScalarType type, bool minimums, const Run& run) {
  const auto typed = [&](auto with) {
    switch (type) {
      case ScalarType::Half:
        return run(with, std::integral_constant<ScalarType, ScalarType::Half>());
      case ScalarType::BFloat16:
        return run(with, std::integral_constant<ScalarType, ScalarType::BFloat16>());
      default:
        return run(with, std::integral_constant<ScalarType, ScalarType::Float>());
    }
  };
  minimums ? typed(std::true_type()) : typed(std::false_type());
}

}  // namespace etir::groups

#endif
