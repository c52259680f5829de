// Convolutions as blocked matrix products (util/gemm.h) whose right or left matrix, the patches of the image, is made
// block by block while it is packed.
//
// With the result's channels outermost the product is weights x patches, and with them innermost (channels last) it is
// patches x weights, so that results are written in the order of memory. Images and weights may lie in any order.
#pragma once

#include <cstring>

#include "kernels/convolution/geometry.h"
#include "kernels/linalg/matmul.h"

namespace etir {

/// Reads element `i` of data of any real dtype as the type that is computed in.
template <typename C>
C read_as(const void* data, ScalarType dtype, int64_t i) {
  C value(0);
  dispatch<kReal>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    value = convert<C>(static_cast<const T*>(data)[i]);
  });
  return value;
}

/// One group of one image on one grid. Pointers are at the group's first channels.
template <typename T>
struct Patches {
  using C = compute_t<T>;
  GridDim grid[kSpatial];
  int64_t in_channels, out_channels;
  const T* input;
  Strides in;
  const T* weight;
  Strides w;  ///< outer: output channels; channel: input channels; spatial: of the grid's taps
  T* output;
  Strides out;       ///< spatial: of the grid's positions
  const void* bias;  ///< null: none; `bias_first` is the group's first
  ScalarType bias_dtype;
  int64_t bias_first;
  // Where channel c and tap t are along the depth of the product: at c * channel_step + t * tap_step.
  int64_t channel_step, tap_step;
  bool packed_weight;  ///< a row of weights lies along the depth
  bool linear_output;  ///< positions are out.spatial[2] apart throughout
  const T* added;      ///< what the convolution is added to, as the output lies; null: nothing

  int64_t taps() const { return grid[0].taps * grid[1].taps * grid[2].taps; }
  int64_t positions() const { return grid[0].count * grid[1].count * grid[2].count; }

  /// Chooses the order of the depth. Weights decide, unless patches are to be copied in runs of channels.
  void plan(bool channels_inside) {
    const int64_t count = taps();
    const auto contiguous = [&](int64_t innermost) {
      for (int d = kSpatial - 1; d >= 0; --d) {
        if (grid[d].taps != 1 && w.spatial[d] != innermost) return false;
        innermost *= grid[d].taps;
      }
      return true;
    };
    const bool outside = (in_channels == 1 || w.channel == count) && contiguous(1);
    const bool inside = (in_channels == 1 || w.channel == 1) && contiguous(in_channels);
    const bool last = channels_inside || (inside && !outside);
    channel_step = last ? 1 : count;
    tap_step = last ? in_channels : 1;
    packed_weight = last ? inside : outside;
    linear_output = (grid[1].count == 1 || out.spatial[1] == out.spatial[2] * grid[2].count) &&
                    (grid[0].count == 1 || out.spatial[0] == out.spatial[2] * grid[2].count * grid[1].count);
  }

  /// Calls `body(tap, c_begin, c_end, at)` for the taps of depth [p, p + depth): of channels [c_begin, c_end), which
  /// are at `at`, `at + channel_step`, ... from p.
  template <typename Body>
  void for_each_tap(int64_t p, int64_t depth, const Body& body) const {
    if (depth <= 0) return;
    const bool last = channel_step == 1 && tap_step == in_channels;
    int64_t begin = 0, end = taps();
    if (last) begin = p / in_channels, end = (p + depth - 1) / in_channels + 1;
    int64_t tap[kSpatial] = {begin / (grid[2].taps * grid[1].taps), begin / grid[2].taps % grid[1].taps,
                             begin % grid[2].taps};
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = p - t * tap_step;
      const int64_t c_begin = first > 0 ? (first + channel_step - 1) / channel_step : 0;
      const int64_t stop = first + depth;
      const int64_t c_end = stop > 0 ? std::min(in_channels, (stop + channel_step - 1) / channel_step) : 0;
      if (c_begin < c_end) body(tap, c_begin, c_end, c_begin * channel_step - first);
      for (int d = kSpatial - 1; d >= 0; --d) {
        if (++tap[d] < grid[d].taps) break;
        tap[d] = 0;
      }
    }
  }
  void position(int64_t j, int64_t* at) const {
    at[2] = j % grid[2].count;
    at[1] = j / grid[2].count % grid[1].count;
    at[0] = j / grid[2].count / grid[1].count;
  }
  /// Input offset of a position and a tap, without the channel; only where in range.
  int64_t offset(int d, int64_t at, int64_t tap) const {
    return (at * grid[d].scale + grid[d].base + tap * grid[d].tap_step) * in.spatial[d];
  }

  /// `count` elements that are `step` apart, at most a panel.
  static void copy_positions(const T* from, int64_t step, int count, C* to) {
    constexpr int kLanes = Vector<C>::kLanes;
    if constexpr (is_own_compute_v<T> && kLanes > 1) {
      const C* source = reinterpret_cast<const C*>(from);
      if (step == 1) return copy_run(to, source, count);
      if (step == 2 && count >= kLanes) {
        for (int i = 0; i + kLanes < count; i += kLanes) store_vector<C>(to + i, load_every_second<C>(source + 2 * i));
        const int last = count - kLanes;
        return store_vector<C>(to + last, load_every_second<C>(source + 2 * last));
      }
    }
    for (int i = 0; i < count; ++i) to[i] = to_compute(from[i * step]);
  }

  /// A panel of patches: positions [j, j + cols) are columns.
  void pack_columns(int64_t p, int depth, int64_t j, int cols, C* to) const {
    constexpr int kPanel = GemmBlocks<C>::kPanel;
    if (cols < kPanel) std::memset(static_cast<void*>(to), 0, sizeof(C) * kPanel * static_cast<size_t>(depth));
    int64_t at[kSpatial];
    position(j, at);
    const GridDim& gx = grid[2];
    const int64_t step = gx.scale * in.spatial[2];
    const int64_t row_step = channel_step * kPanel;
    for (int done = 0; done < cols;) {
      // A run of columns in one row of the grid.
      const int run = static_cast<int>(std::min<int64_t>(cols - done, gx.count - at[2]));
      for_each_tap(p, depth, [&](const int64_t* tap, int64_t c_begin, int64_t c_end, int64_t row) {
        C* target = to + row * kPanel + done;
        int begin = 0, end = 0;
        if (grid[0].meets(at[0], tap[0]) && grid[1].meets(at[1], tap[1])) {
          const int64_t x = at[2] * gx.scale + gx.base + tap[2] * gx.tap_step;
          if (x < 0) begin = static_cast<int>(std::min<int64_t>(run, (-x + gx.scale - 1) / gx.scale));
          if (x < gx.in_size) end = static_cast<int>(std::min<int64_t>(run, (gx.in_size - 1 - x) / gx.scale + 1));
          end = std::max(begin, end);
        }
        const T* from = input + c_begin * in.channel;
        if (begin < end) from += offset(0, at[0], tap[0]) + offset(1, at[1], tap[1]) + offset(2, at[2] + begin, tap[2]);
        const int count = end - begin;
        for (int64_t c = c_begin; c < c_end; ++c, from += in.channel, target += row_step) {
          if (step == 1 && count == kPanel) {
            for (int i = 0; i < kPanel; ++i) target[i] = to_compute(from[i]);
            continue;
          }
          for (int i = 0; i < begin; ++i) target[i] = C(0);
          copy_positions(from, step, count, target + begin);
          for (int i = end; i < run; ++i) target[i] = C(0);
        }
      });
      done += run;
      at[2] = 0;
      if (++at[1] == grid[1].count) at[1] = 0, ++at[0];
    }
  }

  /// Patches as rows, for positions [i, i + rows).
  void pack_rows(int64_t i, int rows, int64_t p, int depth, C* to) const {
    for (int r = 0; r < rows; ++r, to += depth) {
      int64_t at[kSpatial];
      position(i + r, at);
      for_each_tap(p, depth, [&](const int64_t* tap, int64_t c_begin, int64_t c_end, int64_t row) {
        bool meets = true;
        int64_t from = c_begin * in.channel;
        for (int d = 0; d < kSpatial; ++d) {
          meets = meets && grid[d].meets(at[d], tap[d]);
          from += meets ? offset(d, at[d], tap[d]) : 0;
        }
        C* target = to + row;
        const int64_t count = c_end - c_begin;
        if (!meets) {
          for (int64_t c = 0; c < count; ++c) target[c * channel_step] = C(0);
        } else if (channel_step == 1) {
          read_elements(input + from, in.channel, count, target);
        } else {
          for (int64_t c = 0; c < count; ++c) target[c * channel_step] = to_compute(input[from + c * in.channel]);
        }
      });
    }
  }

  /// Weights of output channels [o, o + count): element (o, p) is written at to[o * outer_step + p * depth_step].
  void pack_weights(int64_t o, int count, int64_t p, int depth, C* to, int64_t outer_step, int64_t depth_step) const {
    for (int r = 0; r < count; ++r, to += outer_step) {
      for_each_tap(p, depth, [&](const int64_t* tap, int64_t c_begin, int64_t c_end, int64_t row) {
        const T* from = weight + (o + r) * w.outer + c_begin * w.channel;
        for (int d = 0; d < kSpatial; ++d) from += tap[d] * w.spatial[d];
        C* target = to + row * depth_step;
        for (int64_t c = c_begin; c < c_end; ++c, from += w.channel, target += channel_step * depth_step) {
          *target = to_compute(*from);
        }
      });
    }
  }
  void pack_weight_panel(int64_t p, int depth, int64_t o, int cols, C* to) const {
    constexpr int kPanel = GemmBlocks<C>::kPanel;
    if (packed_weight) return pack_transposed(weight + o * w.outer + p, w.outer, depth, cols, to);
    if (cols < kPanel) std::memset(static_cast<void*>(to), 0, sizeof(C) * kPanel * static_cast<size_t>(depth));
    pack_weights(o, cols, p, depth, to, 1, kPanel);
  }

  C bias_of(int64_t channel) const {
    if (bias == nullptr) return C(0);
    if (bias_dtype == ScalarTypeOf<T>::value) return to_compute(static_cast<const T*>(bias)[bias_first + channel]);
    return read_as<C>(bias, bias_dtype, bias_first + channel);
  }
  /// A row of finished sums plus `more(column)`, and what they are added to.
  template <typename More>
  void store_sum(T* to, const C* sums, int cols, const More& more) const {
    if constexpr (std::is_floating_point_v<C>) store_sum_row<C>(to, added + (to - output), sums, cols, more);
  }
  static void put(T& to, C sum, bool first) { to = from_compute<T>(first ? sum : static_cast<C>(to) + sum); }

  /// Sums of channels (rows) and positions (columns).
  void store_channels(const C* sums, int stride, int64_t i, int rows, int64_t j, int cols, bool first) const {
    for (int r = 0; r < rows; ++r, sums += stride) {
      const C more = first ? bias_of(i + r) : C(0);
      T* row = output + (i + r) * out.channel;
      if (linear_output && out.spatial[2] == 1) {
        T* to = row + j;
        if (added != nullptr) {
          store_sum(to, sums, cols, [&](int) { return more; });
        } else if (first) {
          store_row<C>(to, sums, cols, [&](int) { return more; });
        } else {
          store_row<C>(to, sums, cols, [&](int c) { return to_compute(to[c]); });
        }
        continue;
      }
      int64_t at[kSpatial];
      position(j, at);
      for (int c = 0; c < cols; ++c) {
        T* to = row + at[0] * out.spatial[0] + at[1] * out.spatial[1] + at[2] * out.spatial[2];
        if (added != nullptr) {
          store_sum(to, sums + c, 1, [&](int) { return more; });
        } else {
          put(*to, sums[c] + more, first);
        }
        if (++at[2] == grid[2].count) {
          at[2] = 0;
          if (++at[1] == grid[1].count) at[1] = 0, ++at[0];
        }
      }
    }
  }
  /// Sums of positions (rows) and channels (columns), which are neighbors in memory.
  void store_positions(const C* sums, int stride, int64_t i, int rows, int64_t j, int cols, bool first) const {
    for (int r = 0; r < rows; ++r) {
      int64_t at[kSpatial];
      position(i + r, at);
      T* to = output + at[0] * out.spatial[0] + at[1] * out.spatial[1] + at[2] * out.spatial[2] + j;
      const C* from = sums + r * stride;
      if (added != nullptr) {
        store_sum(to, from, cols, [&](int c) { return first ? bias_of(j + c) : C(0); });
      } else if (!first) {
        store_row<C>(to, from, cols, [&](int c) { return to_compute(to[c]); });
      } else if (bias == nullptr) {
        store_row<C>(to, from, cols, [](int) { return C(0); });
      } else if (bias_dtype == ScalarTypeOf<T>::value) {
        const T* more = static_cast<const T*>(bias) + bias_first + j;
        store_row<C>(to, from, cols, [&](int c) { return to_compute(more[c]); });
      } else {
        store_row<C>(to, from, cols, [&](int c) { return bias_of(j + c); });
      }
    }
  }
};

/// Computes one grid of one group of one image.
template <typename T>
void convolve_grid(KernelContext& ctx, Patches<T>& q, bool channels_last) {
  using C = compute_t<T>;
  using Q = Patches<T>;
  q.plan(channels_last && q.in.channel == 1);
  Gemm<C> g;
  g.k = q.in_channels * q.taps();
  g.context = &q;
  g.accumulates = is_own_compute_v<T>;
  g.waits = q.added != nullptr;
  if constexpr (is_own_compute_v<T>) {
    const bool own_bias = q.bias == nullptr || q.bias_dtype == ScalarTypeOf<T>::value;
    if (q.linear_output && own_bias && (channels_last || q.out.spatial[2] == 1)) {
      g.out = reinterpret_cast<C*>(q.output);
      g.out_row = channels_last ? q.out.spatial[2] : q.out.channel;
      g.added = reinterpret_cast<const C*>(q.added);
    }
    if (own_bias) {
      g.addend = q.bias == nullptr ? nullptr : static_cast<const C*>(q.bias) + q.bias_first;
      g.addend_row = channels_last ? 0 : 1, g.addend_col = channels_last ? 1 : 0;
    }
  }
  if (channels_last) {
    g.m = q.positions(), g.n = q.out_channels;
    g.pack_a = [](const void* q, int64_t i, int rows, int64_t p, int depth, C* to) {
      static_cast<const Q*>(q)->pack_rows(i, rows, p, depth, to);
    };
    g.pack_b = [](const void* q, int64_t p, int depth, int64_t j, int cols, C* to) {
      static_cast<const Q*>(q)->pack_weight_panel(p, depth, j, cols, to);
    };
    g.store = [](const void* q, const C* sums, int stride, int64_t i, int rows, int64_t j, int cols, bool first) {
      static_cast<const Q*>(q)->store_positions(sums, stride, i, rows, j, cols, first);
    };
  } else {
    g.m = q.out_channels, g.n = q.positions();
    if constexpr (is_own_compute_v<T>) {
      if (q.packed_weight) g.a = reinterpret_cast<const C*>(q.weight), g.a_row = q.w.outer;
    }
    g.pack_a = [](const void* q, int64_t i, int rows, int64_t p, int depth, C* to) {
      static_cast<const Q*>(q)->pack_weights(i, rows, p, depth, to, depth, 1);
    };
    g.pack_b = [](const void* q, int64_t p, int depth, int64_t j, int cols, C* to) {
      static_cast<const Q*>(q)->pack_columns(p, depth, j, cols, to);
    };
    g.store = [](const void* q, const C* sums, int stride, int64_t i, int rows, int64_t j, int cols, bool first) {
      static_cast<const Q*>(q)->store_channels(sums, stride, i, rows, j, cols, first);
    };
  }
  gemm(ctx, g);
}

/// A kernel of size 1 that moves by 1: a product of the matrices as they lie.
template <typename T>
bool convolve_pointwise(KernelContext& ctx, const Shape& s, const Patches<T>& q) {
  if (s.transposed || s.taps() != 1 || (q.bias != nullptr && q.bias_dtype != ScalarTypeOf<T>::value)) return false;
  int64_t expected_in = q.in.spatial[2];
  for (int d = kSpatial - 1; d >= 0; --d) {
    if (s.stride[d] != 1 || s.padding[d] != 0) return false;
    if (s.in[d] != 1 && q.in.spatial[d] != expected_in) return false;
    expected_in *= s.in[d];
  }
  int64_t expected_out = q.out.spatial[2];
  for (int d = kSpatial - 1; d >= 0; --d) {
    if (s.out[d] != 1 && q.out.spatial[d] != expected_out) return false;
    expected_out *= s.out[d];
  }
  Matmul<T, T> m;
  m.m = q.out_channels, m.n = s.out_positions(), m.k = q.in_channels;
  m.a = q.weight, m.a_row = q.w.outer, m.a_col = q.w.channel;
  m.b = q.input, m.b_row = q.in.channel, m.b_col = q.in.spatial[2];
  m.out = q.output, m.out_row = q.out.channel, m.out_col = q.out.spatial[2];
  m.addend = q.bias == nullptr ? nullptr : static_cast<const T*>(q.bias) + q.bias_first;
  m.addend_row = 1, m.addend_col = 0;
  m.added = q.added;
  m.alpha = m.beta = compute_t<T>(1);
  // Missing dims have stride 0; a single position may have any.
  if (m.n == 1) m.b_col = m.out_col = 1;
  if (m.out_row == 1 && m.out_col != 1) m.transpose();
  matmul(ctx, m);
  return true;
}

/// Computes a convolution whose arguments are checked. `weight_strides.outer` is the stride of output channels inside a
/// group, `.channel` that of input channels, and `group_stride` that of groups. The finished convolution, which is not
/// transposed then and has a bias of its own type, is added to what is `added` (null: nothing): it lies as the output,
/// and may be in its memory.
template <typename T>
void convolve(KernelContext& ctx, const Shape& s, const T* input, const Strides& in, const T* weight,
              const Strides& weight_strides, int64_t group_stride, const Tensor* bias, T* output, const Strides& out,
              const T* added = nullptr) {
  const bool channels_last = out.channel == 1 && s.out_channels * s.groups > 1 && s.out_positions() > 1;
  for_each_grid(s, [&](const GridDim(&grid)[kSpatial]) {
    Patches<T> q;
    int64_t output_first = 0, weight_first = 0;
    q.in_channels = s.in_channels, q.out_channels = s.out_channels;
    q.in = in, q.w = weight_strides, q.out = out;
    for (int d = 0; d < kSpatial; ++d) {
      q.grid[d] = grid[d];
      output_first += grid[d].out_first * out.spatial[d];
      weight_first += grid[d].weight_first * weight_strides.spatial[d];
      q.out.spatial[d] *= grid[d].out_step;
      q.w.spatial[d] *= grid[d].weight_step;
    }
    q.bias = bias == nullptr ? nullptr : bias->data;
    q.bias_dtype = bias == nullptr ? ScalarTypeOf<T>::value : bias->dtype;
    for (int64_t n = 0; n < s.batch; ++n) {
      for (int64_t group = 0; group < s.groups; ++group) {
        q.input = input + n * in.outer + group * s.in_channels * in.channel;
        q.weight = weight + group * group_stride + weight_first;
        q.output = output + n * out.outer + group * s.out_channels * out.channel + output_first;
        q.added = added == nullptr ? nullptr : added + (q.output - output);
        q.bias_first = group * s.out_channels;
        if (!convolve_pointwise(ctx, s, q)) convolve_grid(ctx, q, channels_last);
      }
    }
  });
}

}  // namespace etir
