// Patches of an int8 image as the rows of a product: what convolutions of all kinds multiply with packed weights.
//
// Patches are never in memory as a whole. Their depth is taps times channels of a group, taps outermost.
#pragma once

#include "kernels/integer/image.h"
#include "kernels/integer/product.h"

namespace etir::integer {

/// The length of the pieces that the channels of a tap are cut into: a divisor of them.
inline int64_t piece_of(int64_t channels) {
  for (int64_t parts = 1; parts < channels; ++parts) {
    if (channels % parts == 0 && channels / parts <= kMostPiece) return channels / parts;
  }
  return 1;
}

/// Rows whose patches are copied at once at most.
constexpr int kMostCopied = 32;

/// Patches of one group: rows are positions of the output.
struct PatchRows {
  const Window& window;
  const int8_t* input;  ///< the group's first channel
  int64_t channels;     ///< of the group
  int64_t length;       ///< of a piece
  int64_t per_tap;      ///< pieces
  const int8_t* padding;

  int64_t rows() const { return window.positions(); }
  int64_t piece() const { return length; }
  int64_t pieces() const { return window.taps() * per_tap; }
  void locate(int64_t row, int some, int64_t first, int64_t last, Piece* pieces) const {
    int64_t line[kMostRows], y0[kMostRows], x0[kMostRows];
    Position position(window, row);
    for (int r = 0; r < some; ++r, position.next(window)) {
      line[r] = position.image * window.in[0];
      y0[r] = position.at[0] * window.stride[0] - window.padding[0];
      x0[r] = position.at[1] * window.stride[1] - window.padding[1];
    }
    int64_t tap = first / per_tap, channel = (first - tap * per_tap) * length;
    int64_t tap_y = tap / window.kernel[1], tap_x = tap - tap_y * window.kernel[1];
    for (int64_t index = first; index < last; ++index, ++pieces) {
      const int64_t dy = tap_y * window.dilation[0], dx = tap_x * window.dilation[1];
      for (int r = 0; r < some; ++r) {
        const int64_t y = y0[r] + dy, x = x0[r] + dx;
        const bool inside = y >= 0 && y < window.in[0] && x >= 0 && x < window.in[1];
        pieces->rows[r] = inside ? input + ((line[r] + y) * window.in[1] + x) * window.channels + channel : padding;
      }
      channel += length;
      if (channel < channels) continue;
      channel = 0;
      if (++tap_x == window.kernel[1]) tap_x = 0, ++tap_y;
    }
  }
  /// Taps of a line of the kernel lie side by side where they are not dilated and the group has all channels. Rows go
  /// by for one line of the kernel after the other.
  template <typename T>
  void copy(int64_t row, int some, int64_t k, int64_t count, T* to, int to_row) const {
    const bool joined = window.dilation[1] == 1 && channels == window.channels;
    const int64_t taps = joined ? window.kernel[1] : 1, run = taps * channels;
    int64_t index = k / run, first = k - index * run;
    int64_t line = joined ? index : index / window.kernel[1], tap = joined ? 0 : index - line * window.kernel[1];
    int64_t image[kMostCopied], y0[kMostCopied], x0[kMostCopied];
    Position position(window, row);
    for (int r = 0; r < some; ++r, position.next(window)) {
      image[r] = position.image;
      y0[r] = position.at[0] * window.stride[0] - window.padding[0];
      x0[r] = position.at[1] * window.stride[1] - window.padding[1];
    }
    // Copies may lie anywhere as far as the compiler knows, over all that is not a local variable, too.
    const int64_t height = window.in[0], width = window.in[1], pixel = window.channels, lines = window.dilation[0];
    const int64_t columns = window.dilation[1], last_tap = window.kernel[1] - 1;
    const int8_t* const numbers = input;
    for (int64_t done = 0, size; done < count; done += size, first = 0) {
      size = std::min(count - done, run - first);
      const int64_t dy = line * lines, dx = tap * columns;
      for (int r = 0; r < some; ++r) {
        const int64_t y = y0[r] + dy, x = x0[r] + dx;
        T* at = to + int64_t{r} * to_row + done;
        if (y >= 0 && y < height && x >= 0 && x + taps <= width) {
          detail::copy_numbers(numbers + ((image[r] * height + y) * width + x) * pixel + first, size, at);
        } else {
          copy_at_edge(image[r], y, x, taps, first, size, at);
        }
      }
      if (joined || tap++ == last_tap) tap = 0, ++line;
    }
  }
#if ETIR_INT8_X86
  static bool widen(int64_t, int, int64_t, int64_t, int16_t*, int) { return false; }
#endif
  /// Numbers [first, first + size) of a run of `taps` pixels from (y, x) on, some of which are outside of the image.
  template <typename T>
  [[gnu::noinline]] void copy_at_edge(int64_t image, int64_t y, int64_t x, int64_t taps, int64_t first, int64_t size,
                                      T* to) const {
    // Numbers [begin, end) of the run are in the image.
    int64_t begin = 0, end = 0;
    if (y >= 0 && y < window.in[0]) {
      begin = std::min(std::max<int64_t>(0, -x), taps) * channels;
      end = std::max(begin, std::min(window.in[1] - x, taps) * channels);
    }
    const int64_t stop = first + size;
    const int64_t from = std::min(std::max(first, begin), stop), until = std::max(from, std::min(stop, end));
    pad(to, from - first);
    if (from < until) {
      const int64_t pixel = (image * window.in[0] + y) * window.in[1] + x;
      detail::copy_numbers(input + pixel * window.channels + from, until - from, to + from - first);
    }
    pad(to + until - first, stop - until);
  }
#if ETIR_INT8_AMX
  template <typename Store>
  bool multiply_image(KernelContext& ctx, const Weights& weights, const Store& store) const {
    return detail::multiply_image(ctx, window, input, channels, *padding, weights, store);
  }
#endif
  template <typename T>
  void pad(T* to, int64_t count) const {
    const T value = static_cast<T>(*padding + detail::kShift<T>);
    for (int64_t i = 0; i < count; ++i) to[i] = value;
  }
};

}  // namespace etir::integer
