// Depthwise filters with AVX-512 VNNI: 64 channels of four taps at a time.
//
// Numbers of four taps are interleaved, so that those of a channel lie together, and taken as x + 128 (tile.h). Vector
// v of four has channels 4 v to 4 v + 3 of each sixteen: the order in which they are interleaved, and from which
// packing them as bytes leads back.
#pragma once

#include "kernels/integer/requantize.h"

#if ETIR_INT8_X86 && ETIR_INT8_VNNI

namespace etir::integer {

constexpr int kChannelsVnni = 64;

/// The filters of up to 64 channels of up to `kMostTaps` taps, with what makes int8 numbers of their sums.
template <int kMostTaps>
class FiltersVnni {
  static constexpr int kQuads = (kMostTaps + kQuad - 1) / kQuad;
  static constexpr int kVectors = 4;

 public:
  static constexpr int kPlaces = kQuads * kQuad;

  /// `weight` is [taps, row], of which the first `channels` columns are taken.
  void take(const int8_t* weight, int64_t row, int taps, int channels, int64_t input_zero_point, const int32_t* bias,
            const float* factors, const Output& out) {
    quads_ = (taps + kQuad - 1) / kQuad, channels_ = channels, output_ = out;
    std::memset(weights_, 0, static_cast<size_t>(quads_) * sizeof(weights_[0]));
    std::memset(start_, 0, sizeof(start_));
    std::memset(factors_, 0, sizeof(factors_));
    const uint32_t shift = static_cast<uint32_t>(input_zero_point + 128);
    for (int c = 0; c < channels; ++c) {
      const int v = c / 4 % 4, at = c / 16 * 4 + c % 4;
      uint32_t sum = 0;
      for (int t = 0; t < taps; ++t) {
        const int8_t w = weight[t * row + c];
        weights_[t / kQuad][v][at * kQuad + t % kQuad] = w;
        sum += static_cast<uint32_t>(w);
      }
      start_[v][at] = static_cast<int32_t>(static_cast<uint32_t>(bias[c]) - shift * sum);
      factors_[v][at] = factors[c];
    }
  }
  /// Writes the finished numbers of `count` positions, which are `to_step` numbers apart. The taps of the first of them
  /// are at x, where there are kQuad places for each quad, and those of each further one `step` numbers further.
  ETIR_VNNI void operator()(const int8_t* const* x, int64_t step, int64_t count, int8_t* to, int64_t to_step) const {
    // Results may lie anywhere as far as the compiler knows, over all that is not a local variable, too.
    const int quads = quads_;
    const __mmask64 some = channels_ == kChannelsVnni ? ~__mmask64{0} : (__mmask64{1} << channels_) - 1;
    const __m512i shift = _mm512_set1_epi8(static_cast<char>(0x80));
    const __m512 most = _mm512_set1_ps(output_.most());
    const __m512i zero_point = _mm512_set1_epi16(static_cast<int16_t>(output_.zero_point));
    const __m512i low = _mm512_set1_epi8(static_cast<char>(output_.low));
    const __m512i high = _mm512_set1_epi8(static_cast<char>(output_.high));
    const __m512 f0 = _mm512_load_ps(factors_[0]), f1 = _mm512_load_ps(factors_[1]);
    const __m512 f2 = _mm512_load_ps(factors_[2]), f3 = _mm512_load_ps(factors_[3]);
    for (int64_t i = 0, offset = 0; i < count; ++i, offset += step, to += to_step) {
      __m512i s0 = _mm512_load_si512(start_[0]), s1 = _mm512_load_si512(start_[1]);
      __m512i s2 = _mm512_load_si512(start_[2]), s3 = _mm512_load_si512(start_[3]);
      for (int q = 0; q < quads; ++q) {
        const int8_t* const* at = x + q * kQuad;
        const __m512i a = _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, at[0] + offset), shift);
        const __m512i b = _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, at[1] + offset), shift);
        const __m512i c = _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, at[2] + offset), shift);
        const __m512i d = _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, at[3] + offset), shift);
        const __m512i ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d);
        const __m512i ab2 = _mm512_unpackhi_epi8(a, b), cd2 = _mm512_unpackhi_epi8(c, d);
        s0 = _mm512_dpbusd_epi32(s0, _mm512_unpacklo_epi16(ab, cd), _mm512_load_si512(weights_[q][0]));
        s1 = _mm512_dpbusd_epi32(s1, _mm512_unpackhi_epi16(ab, cd), _mm512_load_si512(weights_[q][1]));
        s2 = _mm512_dpbusd_epi32(s2, _mm512_unpacklo_epi16(ab2, cd2), _mm512_load_si512(weights_[q][2]));
        s3 = _mm512_dpbusd_epi32(s3, _mm512_unpackhi_epi16(ab2, cd2), _mm512_load_si512(weights_[q][3]));
      }
      const __m512i left = _mm512_packs_epi32(requantize_sixteen(s0, f0, most), requantize_sixteen(s1, f1, most));
      const __m512i right = _mm512_packs_epi32(requantize_sixteen(s2, f2, most), requantize_sixteen(s3, f3, most));
      const __m512i bytes =
          _mm512_packs_epi16(_mm512_adds_epi16(left, zero_point), _mm512_adds_epi16(right, zero_point));
      _mm512_mask_storeu_epi8(to, some, _mm512_min_epi8(_mm512_max_epi8(bytes, low), high));
    }
  }

 private:
  alignas(64) int8_t weights_[kQuads][kVectors][kPanelQuad];
  alignas(64) int32_t start_[kVectors][kPanel];
  alignas(64) float factors_[kVectors][kPanel];
  Output output_;
  int quads_, channels_;
};

}  // namespace etir::integer

#endif
