// Products with AMX whose rows are read from an image where they lie: sixteen positions of a line are a tile, whose
// rows are as far apart as the positions, in each step of the depth a tap further. So patches are never copied.
//
// A band of lines of the image is copied, as x + 128 and with its padding. With a stride of 1, positions of all lines
// are one sequence: those between two lines, which read beyond a line's end, are computed and left out, and tiles are
// full. With other strides each line has tiles of its own. A matrix is an image of one column.
//
// A step of the depth is a part of one line of the kernel, or of one tap. Weights that are not packed for that, since
// lines are no multiple of four numbers, are packed again, as long as they are few.
#pragma once

#include "kernels/integer/image.h"
#include "kernels/integer/operands.h"
#include "kernels/integer/tile_amx.h"

#if ETIR_INT8_AMX

namespace etir::integer::detail {

constexpr int kBandBytes = 48 * 1024;      ///< of a band on the stack
constexpr int kRepackedBytes = 40 * 1024;  ///< of weights that are packed again or aligned, on the stack
constexpr int kStepsAmx = 1024;            ///< of the depth at most
constexpr int64_t kNearBytes = 24 * 1024;  ///< of weights that are in the first-level cache
constexpr int kLeastUnit = 8;              ///< numbers of a tap

/// How positions and depth become tiles.
struct ImagePlan {
  int64_t channels = 0;         ///< of the copy
  int64_t width = 0;            ///< of a line of the copy
  int64_t units = 0, unit = 0;  ///< parts of the depth that lie in memory, and their numbers
  int steps = 0, quads = 0;     ///< of a unit, and of a step
  bool joined = false;          ///< a unit is a line of the kernel, not a tap
  bool flat = false;            ///< positions of all lines are one sequence
  bool repacked = false;
  int64_t lines = 0;       ///< of the result in a band
  int64_t line_tiles = 0;  ///< if not flat

  int all_steps() const { return static_cast<int>(units) * steps; }
  int64_t line_bytes() const { return width * channels; }
  int64_t panel_bytes() const { return int64_t{all_steps()} * quads * kPanelQuad; }

  int64_t offset(const Window& w, int64_t step) const {
    const int64_t u = step / steps, within = (step - u * steps) * quads * kQuad;
    if (joined) return u * w.dilation[0] * line_bytes() + within;
    const int64_t ty = u / w.kernel[1], tx = u - ty * w.kernel[1];
    return (ty * w.dilation[0] * width + tx * w.dilation[1]) * channels + within;
  }
  int64_t tiles(const Window& w, int64_t some) const {
    if (!flat) return some * line_tiles;
    return ((some - 1) * width + w.out[1] + kTileRows - 1) / kTileRows;
  }
  /// Where the first row of a tile is.
  int64_t tile(const Window& w, int64_t number) const {
    if (flat) return number * kTileRows * channels;
    const int64_t y = number / line_tiles, x = (number - y * line_tiles) * kTileRows;
    return y * w.stride[0] * line_bytes() + x * w.stride[1] * channels;
  }
  /// Lines of the copy that `some` lines of the result read.
  int64_t copied_lines(const Window& w, int64_t some) const {
    return (some - 1) * w.stride[0] + w.dilation[0] * (w.kernel[0] - 1) + 1;
  }
  bool fits(const Window& w, int64_t some) const {
    const int64_t last = tile(w, tiles(w, some) - 1) + (kTileRows - 1) * w.stride[1] * channels;
    const int64_t read = last + offset(w, all_steps() - 1) + quads * kQuad;
    return read <= kBandBytes && copied_lines(w, some) * line_bytes() <= kBandBytes;
  }
};

/// False: the image, or the depth, is not for this.
inline bool plan_image(const Window& w, int64_t channels, const Weights& weights, ImagePlan* plan) {
  ImagePlan p;
  if (channels < 1 || weights.depth < 1 || w.positions() < 1) return false;
  p.channels = channels;
  p.joined = w.dilation[1] == 1 && channels == w.channels;
  p.unit = p.joined ? w.kernel[1] * channels : channels;
  p.units = p.joined ? w.kernel[0] : w.taps();
  p.flat = w.stride[0] == 1 && w.stride[1] == 1;
  p.width = (w.out[1] - 1) * w.stride[1] + w.dilation[1] * (w.kernel[1] - 1) + 1;
  p.line_tiles = (w.out[1] + kTileRows - 1) / kTileRows;
  if (!p.joined && p.unit < kLeastUnit) return false;
  // Lines of their own that fill few tiles, and bands of which most is not read.
  if (!p.flat && (w.taps() == 1 || 5 * w.out[1] < 3 * p.line_tiles * kTileRows)) return false;
  if (p.line_bytes() > kBandBytes || p.units > kStepsAmx || p.unit > kBandBytes) return false;
  const int64_t quads = quads_of(p.unit), least = (quads + kTileQuads - 1) / kTileQuads;
  int64_t steps = least;
  if (p.unit % kQuad == 0) {
    while (quads % steps != 0) ++steps;
  }
  p.repacked = p.unit % kQuad != 0 || 2 * steps > 3 * least;
  if (p.repacked) steps = least;
  p.steps = static_cast<int>(steps), p.quads = static_cast<int>((quads + steps - 1) / steps);
  if (p.units * p.steps > kStepsAmx) return false;
  if (p.repacked && weights.panels() * p.panel_bytes() > kRepackedBytes) return false;
  int64_t lines = std::min(w.out[0], kBandBytes / std::max<int64_t>(1, w.stride[0] * p.line_bytes()) + 1);
  while (lines > 0 && !p.fits(w, lines)) --lines;
  if (lines < 1) return false;
  // Bands of one size, and of whole pairs of tiles where a line is one position.
  const int64_t bands = (w.out[0] + lines - 1) / lines, even = (w.out[0] + bands - 1) / bands;
  const int64_t whole = (even + kRowsAmx - 1) / kRowsAmx * kRowsAmx;
  p.lines = w.out[1] == 1 && p.flat && p.width == 1 && whole <= lines ? whole : even;
  *plan = p;
  return true;
}

/// Copies the lines that `some` lines of the result from `line` on read.
inline void copy_band(const Window& w, const ImagePlan& plan, const int8_t* input, int8_t padding, int64_t image,
                      int64_t line, int64_t some, TileByte* to) {
  const int64_t count = plan.copied_lines(w, some), first = line * w.stride[0] - w.padding[0];
  const int64_t begin = std::min(plan.width, std::max<int64_t>(0, w.padding[1]));
  const int64_t end = std::max(begin, std::min(plan.width, w.in[1] + w.padding[1])), channels = plan.channels;
  const int value = static_cast<uint8_t>(padding) ^ 0x80;
  const auto pad = [&](TileByte* at, int64_t pixels) {
    std::memset(at, value, static_cast<size_t>(pixels * channels));
  };
  const auto from = [&](int64_t y) {
    return input + ((image * w.in[0] + y) * w.in[1] + begin - w.padding[1]) * w.channels;
  };
  const bool whole = channels == w.channels;
  if (whole && end - begin == plan.width && plan.width == w.in[1] && first >= 0 && first + count <= w.in[0]) {
    return copy_numbers(from(first), count * plan.line_bytes(), to);
  }
  for (int64_t l = 0; l < count; ++l, to += plan.line_bytes()) {
    const int64_t y = first + l;
    if (y < 0 || y >= w.in[0]) {
      pad(to, plan.width);
      continue;
    }
    pad(to, begin);
    if (whole) {
      copy_numbers(from(y), (end - begin) * channels, to + begin * channels);
    } else {
      for (int64_t x = begin; x < end; ++x)
        copy_numbers(from(y) + (x - begin) * w.channels, channels, to + x * channels);
    }
    pad(to + end * channels, plan.width - end);
  }
}

/// Packs a panel again, with zeros between its units.
inline void repack_panel(const Weights& weights, const ImagePlan& plan, int64_t panel, int8_t* to) {
  const int8_t* from = weights.data + panel * weights.panel_bytes();
  std::memset(to, 0, static_cast<size_t>(plan.panel_bytes()));
  for (int64_t u = 0, k = 0; u < plan.units; ++u) {
    int8_t* unit = to + u * plan.steps * plan.quads * kPanelQuad;
    for (int64_t i = 0; i < plan.unit; ++i, ++k) {
      for (int c = 0; c < kPanel; ++c) {
        unit[i / kQuad * kPanelQuad + c * kQuad + i % kQuad] = from[k / kQuad * kPanelQuad + c * kQuad + k % kQuad];
      }
    }
  }
}

/// Calls `store` with what of a pair of tiles is in the result.
template <typename Store>
void store_tiles(const Window& w, const ImagePlan& plan, int64_t first_line, int64_t lines, int64_t tile, int count,
                 Block block, const Store& store) {
  const auto give = [&](int64_t row, int64_t from, int64_t rows) {
    Block part = block;
    part.row = first_line * w.out[1] + row, part.rows = static_cast<int>(rows);
    part.sums += from * block.stride;
    store(part);
  };
  if (!plan.flat) {
    for (int t = 0; t < count; ++t) {
      const int64_t y = (tile + t) / plan.line_tiles, x = (tile + t - y * plan.line_tiles) * kTileRows;
      give(y * w.out[1] + x, int64_t{t} * kTileRows, std::min<int64_t>(kTileRows, w.out[1] - x));
    }
    return;
  }
  const int64_t begin = tile * kTileRows,
                end = std::min(begin + count * kTileRows, (lines - 1) * plan.width + w.out[1]);
  if (plan.width == w.out[1]) return give(begin, 0, end - begin);
  for (int64_t y = begin / plan.width, at = begin; at < end; ++y) {
    const int64_t x = at - y * plan.width, inside = std::min(end - at, w.out[1] - x);
    if (inside > 0) give(y * w.out[1] + x, at - begin, inside);
    at = (y + 1) * plan.width;
  }
}

/// Panels [panel, panel_end) of `lines` lines of the result from `line` on, which are in one image.
template <typename Store>
void multiply_band(const Window& w, const ImagePlan& plan, const int8_t* input, int8_t padding, const Weights& weights,
                   int64_t line, int64_t lines, int64_t panel, int64_t panel_end, const Store& store) {
  constexpr int kRow = kPanelsAmx * kPanel;
  alignas(64) TileByte band[kBandBytes];
  alignas(64) int8_t repacked[kRepackedBytes];
  alignas(64) int32_t sums[2][kRowsAmx * kRow];
  int32_t offsets[kStepsAmx];
  const int64_t image = line / w.out[0], panel_bytes = plan.repacked ? plan.panel_bytes() : weights.panel_bytes();
  copy_band(w, plan, input, padding, image, line - image * w.out[0], lines, band);
  const int8_t* packed = weights.data;
  if (plan.repacked) {
    for (int64_t p = panel; p < panel_end; ++p) repack_panel(weights, plan, p, repacked + p * panel_bytes);
    packed = repacked;
  }
  for (int s = 0; s < plan.all_steps(); ++s) offsets[s] = static_cast<int32_t>(plan.offset(w, s));
  const TileRegisters registers(plan.quads);
  const int64_t tiles = plan.tiles(w, lines);
  TileProduct product = {};
  product.stride = w.stride[1] * plan.channels;
  product.offsets = offsets, product.steps = plan.all_steps(), product.step_bytes = plan.quads * kPanelQuad;
  // Sums are taken when the products after them are under way.
  Block finished = {};
  int64_t finished_tile = 0;
  int finished_count = 0, side = 0;
  const auto finish = [&] {
    if (finished_count > 0) store_tiles(w, plan, line, lines, finished_tile, finished_count, finished, store);
  };
  // Few weights stay in the cache while positions go by; positions of a band do while many weights go by.
  const int64_t tile_pairs = (tiles + 1) / 2, panel_pairs = (panel_end - panel + 1) / kPanelsAmx;
  const bool by_tiles = panel_pairs * kPanelsAmx * panel_bytes <= kNearBytes;
  const int64_t outer = by_tiles ? tile_pairs : panel_pairs, inner = by_tiles ? panel_pairs : tile_pairs;
  // A row of a tile that lies in two lines of the cache takes twice as long to load.
  const bool align = !plan.repacked && tile_pairs > 1 && reinterpret_cast<uintptr_t>(packed) % kTileBytes != 0;
  const auto aligned = [&](int64_t p, int64_t panels, const int8_t* from) {
    if (!align || panels * panel_bytes > kRepackedBytes) return from;
    std::memcpy(repacked, packed + p * panel_bytes, static_cast<size_t>(panels * panel_bytes));
    return static_cast<const int8_t*>(repacked);
  };
  const int8_t* near = by_tiles ? aligned(panel, panel_end - panel, packed + panel * panel_bytes) : nullptr;
  const auto at = [&](int64_t tile) { return reinterpret_cast<const uint8_t*>(band) + plan.tile(w, tile); };
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i, side ^= 1) {
      const int64_t t = 2 * (by_tiles ? o : i), p = panel + kPanelsAmx * (by_tiles ? i : o);
      const int panels = static_cast<int>(std::min<int64_t>(kPanelsAmx, panel_end - p));
      const int columns = static_cast<int>(std::min<int64_t>(panels * kPanel, weights.columns - p * kPanel));
      if (!by_tiles && i == 0) near = aligned(p, panels, packed + p * panel_bytes);
      product.left = by_tiles ? near + (p - panel) * panel_bytes : near;
      product.right = panels > 1 ? product.left + panel_bytes : nullptr;
      product.above = at(t), product.below = t + 1 < tiles ? at(t + 1) : nullptr;
      multiply_tiles_amx(product, sums[side], kRow);
      finish();
      finished = {0, p * kPanel, 0, columns, sums[side], kRow};
      finished_tile = t, finished_count = t + 1 < tiles ? 2 : 1;
    }
  }
  finish();
}

/// The product of the patches of an image of int8 numbers, from the first channel of a group on, and weights; false if
/// it is not for this.
template <typename Store>
bool multiply_image(KernelContext& ctx, const Window& window, const int8_t* input, int64_t channels, int8_t padding,
                    const Weights& weights, const Store& store) {
  ImagePlan plan;
  if (!plan_image(window, channels, weights, &plan)) return false;
  const int64_t panels = weights.panels();
  int64_t group = panels;
  if (ctx.parallel.run != nullptr) {
    // Lines, then panels, until there is something to do for each thread.
    const int64_t wanted = 2 * std::max(1, ctx.parallel.threads);
    const int64_t least = std::max<int64_t>(1, (window.batch * window.out[0] + wanted - 1) / wanted);
    const int64_t worth = (4 * kTileRows + window.out[1] - 1) / window.out[1];
    plan.lines = std::min(plan.lines, std::max(least, worth));
    const int64_t bands = (window.out[0] + plan.lines - 1) / plan.lines * window.batch;
    const int64_t parts = std::max<int64_t>(1, wanted / bands);
    group = std::max<int64_t>(2 * kPanelsAmx, (panels + parts - 1) / parts + panels % 2);
  }
  const int64_t groups = (panels + group - 1) / group, bands = (window.out[0] + plan.lines - 1) / plan.lines;
  ctx.parallel_for(window.batch * bands * groups, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t band = task / groups, panel = task % groups * group, image = band / bands;
      const int64_t line = (band - image * bands) * plan.lines, lines = std::min(plan.lines, window.out[0] - line);
      multiply_band(window, plan, input, padding, weights, image * window.out[0] + line, lines, panel,
                    std::min(panels, panel + group), store);
    }
  });
  return true;
}

}  // namespace etir::integer::detail

#endif
