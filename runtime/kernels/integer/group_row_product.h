// One row times the weights of several layers in groups: what a decoder spends most of a token's time on.
#pragma once

#include "kernels/integer/group_product.h"
#include "kernels/integer/group_row.h"
#include "kernels/integer/group_row_vnni.h"

namespace etir::integer {

/// Room for what a row becomes, on the stack of each thread: that takes less time than to hand it over, and weights are
/// on their way meanwhile.
struct RowBuffer {
  static constexpr int64_t kDepth = ETIR_SMALL_STACK ? groups::kChunk : 4096, kGroups = kDepth / groups::kChunk;

  int8_t numbers[kDepth];
  int32_t offsets[kGroups];
  float sums[kGroups], scales[kGroups];
  RowScale row_scale;

  /// The same row, in this room.
  Left hold(const Left& left) {
    Left own = left;
    own.numbers = numbers, own.offsets = offsets;
    own.sums = left.sums == nullptr ? nullptr : sums, own.scales = left.scales == nullptr ? nullptr : scales;
    own.row_scales = left.row_scales == nullptr ? nullptr : &row_scale;
    return own;
  }
};

/// One row times the weights of several layers, whose panels are counted on from one to the next.
template <int kBits>
struct RowProduct {
  const GroupProduct<kBits>* products;
  int count;
  const float* input;
  int64_t width;
  int zero;                           ///< what the weights' numbers have for 0
  int64_t part_end = 0, skipped = 0;  ///< from panel `part_end` on all numbers of panels are `skipped` less

  struct Place {
    const GroupProduct<kBits>* product;
    int64_t panel;
  };
  Place place(int64_t panel) const {
    if (panel >= part_end) panel += skipped;
    const GroupProduct<kBits>* product = products;
    for (; panel >= product->weights.panels(); ++product) panel -= product->weights.panels();
    return {product, panel};
  }
  int64_t panels() const {
    int64_t all = 0;
    for (int i = 0; i < count; ++i) all += products[i].weights.panels();
    return all;
  }

  /// Makes integers of the row.
  void quantize(const Left& left) const { quantize_tile(left, input, width, 0, 1, zero); }

#if ETIR_GROUP_ROW
  /// Whether scales and minimums of all layers are of one type.
  bool same_factors() const {
    bool same = true;
    for (int i = 0; i < count; ++i) {
      const groups::Weights& weights = products[i].weights;
      same = same && groups::same_factors(weights) && weights.scales->dtype == products->weights.scales->dtype;
    }
    return same;
  }

  /// Panels [first, last), kStreams at a time. `row` gives the row as integers, once weights have been asked for.
  template <int kStreams, typename Row, typename Multiply>
  void multiply_streams(int64_t first, int64_t last, const Row& row, const Multiply& multiply) const {
    groups::Streams<kStreams> streams(first, last);
    for (int64_t s = 0; s < streams.count(); ++s) {
      const Place at = place(streams.panels[s]);
      streams.template prefetch<kBits>(at.product->weights, at.panel);
      at.product->prefetch_columns(at.panel);
    }
    const Left& left = row();
    const GroupRows x = left.rows_from(0, 1, 0);
    const groups::Weights& weights = products->weights;
    streams.run([&](auto panel_count, const int64_t* indices) {
      constexpr int kCount = decltype(panel_count)::value;
      groups::PackedPanel panels[kCount];
      Place places[kCount];
      for (int s = 0; s < kCount; ++s) {
        places[s] = place(indices[s]);
        panels[s] = groups::packed_panel<kBits>(places[s].product->weights, places[s].panel);
        places[s].product->prefetch_columns(places[s].panel + 1);
      }
      float acc[kCount * kPanel];
      multiply(x, panels, weights.scales->dtype, left.groups, weights.group() / groups::kChunk, acc);
      for (int s = 0; s < kCount; ++s) {
        places[s].product->store(left, 0, places[s].panel * kPanel, acc + s * kPanel);
      }
    });
  }
#endif

  template <typename Row>
  void multiply(int64_t first, int64_t last, const Row& row) const {
#if ETIR_GROUP_ROW
    if (kBits == 4 && same_factors()) {
#if ETIR_INT8_VNNI
      if (products->variant == GroupVariant::Vnni) {
        return multiply_streams<groups::kVnniStreams>(
            first, last, row,
            [](const auto& x, const auto& panels, ScalarType type, int64_t groups, int64_t chunks, float* acc) {
              multiply_row_vnni(x, panels, type, groups, chunks, acc);
            });
      }
#endif
      return multiply_streams<groups::kStreams>(
          first, last, row,
          [](const auto& x, const auto& panels, ScalarType type, int64_t groups, int64_t chunks, float* acc) {
            multiply_row(x, panels, type, groups, chunks, acc);
          });
    }
#endif
    const Left& left = row();
    for (int64_t panel = first; panel < last;) {
      const Place at = place(panel);
      const int64_t own = at.product->weights.panels() - at.panel;
      const int64_t some = std::min(own, (panel < part_end ? std::min(part_end, last) : last) - panel);
      at.product->multiply_alone(left, at.panel, at.panel + some);
      panel += some;
    }
  }

  void run(KernelContext& ctx) const {
    const int64_t all = panels();
    run(ctx, all, grain_of(ctx, all, products->panel_bytes()),
        [&](int64_t first, int64_t last, const auto& row) { multiply(first, last, row); });
  }

  /// Of two layers, which have as many panels, each thread multiplies the same panels; `done(first, last)` is called by
  /// it for those.
  template <typename Done>
  void run_pair(KernelContext& ctx, const Done& done) const {
    const int64_t all = products->weights.panels();
    run(ctx, all, grain_of(ctx, all, 2 * products->panel_bytes()), [&](int64_t first, int64_t last, const auto& row) {
      RowProduct part = *this;
      part.part_end = last, part.skipped = all - (last - first);
      part.multiply(first, last + (last - first), row);
      done(first, last);
    });
  }

 private:
  /// Shares out panels. multiply(first, last, row) is called for each part, and row() gives the row as integers.
  template <typename Multiply>
  void run(KernelContext& ctx, int64_t all, int64_t grain, const Multiply& multiply_part) const {
    const Left& shared = products->left;
    const bool fits = shared.depth <= RowBuffer::kDepth;
    if (!fits) quantize(shared);
    ctx.parallel_for(all, grain, [&](int64_t first, int64_t last) {
      if (!fits) return multiply_part(first, last, [&]() -> const Left& { return shared; });
      RowBuffer buffer;
      const Left own = buffer.hold(shared);
      multiply_part(first, last, [&]() -> const Left& { return quantize(own), own; });
    });
  }
};

}  // namespace etir::integer
