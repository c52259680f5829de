// Linear layers on integers with a scale for each group of the weight's rows: int4_group_dynamic_linear,
// int8_group_dynamic_linear, and int4_group_dynamic_linear_pair and _triple, layers of one input. float32 in and out;
// the weight is packed (kernels/util/group_weights.h).
//
// The input becomes int8 here, in one of two ways. With `sums`, the sum of each row of the dequantized weight, a row of
// the input has one scale s and one zero point z, by the formula of choose_qparams_per_token_asymmetric:
//
//   y = (sum over groups of scale * float(sum of q * w) - z * sums) * s + bias
//
// Without, each group of a row has a scale of its own that is symmetric around 0 (quantize_block):
//
//   y = sum over groups of scale * s * float(sum of q * w) + bias
//
// Minimums add minimum * float(sum of q) in the first form, times s in the second, after the group's product.
#include <initializer_list>

#include "kernels/integer/group_fixed_amx.h"
#include "kernels/integer/group_linear.gen.h"
#include "kernels/integer/group_row.h"
#include "kernels/integer/group_row_vnni.h"
#include "kernels/integer/row_scale.h"

namespace etir {
namespace {

using namespace integer;

constexpr int kMostTile = 8;                ///< rows of a tile at most
constexpr int kBlockGroups = 32;            ///< groups whose scales are made float32 at once
constexpr int64_t kStripBytes = 128 << 10;  ///< of left numbers that are multiplied by a panel while it is near
constexpr int64_t kStripBytesAmx = 512 << 10;
constexpr int64_t kTaskBytes = 16 << 10;  ///< of weights that are worth a task of their own

/// Rows of a tile that the registers of a variant hold the sums of.
template <int kBits>
int tile_rows(GroupVariant variant) {
  if (variant == GroupVariant::Vnni) return kMostTile;
  return kBits == 8 && variant == GroupVariant::Avx2 ? 2 : 4;
}

/// The rows of the input as integers, tile by tile: `most` rows each, then halves of that, as the rows are left. With
/// AMX each row is one, and there are some more, of zeros, up to whole registers.
struct Left {
  int64_t rows, depth, groups;
  int64_t stride;  ///< bytes of a row: more than the depth with AMX
  int most;
  bool by_row, amx;
  bool fixed;            ///< weights are multiplied as fixed-point numbers
  int8_t* numbers;       ///< [tile][four of the depth][row of the tile][4]
  int32_t* offsets;      ///< [tile][group][row of the tile]
  float* sums;           ///< the same; null: no minimums
  float* scales;         ///< the same; null: by row
  RowScale* row_scales;  ///< null: by group

  /// Rows of the tile that begins with `row`: a power of two, which the later ones are less than or equal to.
  int tile(int64_t row) const {
    int size = most;
    while (size > rows - row) size /= 2;
    return size;
  }

  /// A tile of `size` rows from `row` on, from a group on.
  GroupRows rows_from(int64_t row, int size, int64_t group) const {
    const int64_t at = row * groups + group * size;
    return {numbers + row * depth + group * (depth / groups) * size, offsets + at,
            sums == nullptr ? nullptr : sums + at, scales == nullptr ? nullptr : scales + at};
  }
};

/// Quantizes rows [row, row + size), which are a tile. `zero` is what the weight's numbers have for 0.
void quantize_tile(const Left& left, const float* input, int64_t width, int64_t row, int size, int zero) {
  constexpr int64_t kPiece = 256;  // a multiple of a chunk
  const int64_t group = left.depth / left.groups;
  for (int r = 0; r < size; ++r) {
    const float* from = input + (row + r) * width;
    RowScale scale = {};
    if (left.by_row) scale = left.row_scales[row + r] = choose_scale(from, width);
    for (int64_t g = 0; g < left.groups; ++g) {
      const int64_t begin = g * group, end = std::min(width, begin + group), at = row * left.groups + g * size + r;
      if (!left.by_row) left.scales[at] = scale.scale = choose_symmetric_scale(from + begin, end - begin);
      const float inverse = left.by_row ? inverse_of(scale) : 1.0f / scale.scale;
      int32_t sum = 0;
      for (int64_t k = begin; k < begin + group; k += kPiece) {
        const int64_t stored = std::min(kPiece, begin + group - k), count = std::min(stored, end - k);
        int8_t* to = left.numbers + row * left.stride + (k * size) + r * kQuad;
        int8_t buffer[kPiece];
        int8_t* numbers = size == 1 ? to : buffer;  // a row alone lies in one piece
        sum += quantize_and_sum(from + k, count, inverse, static_cast<float>(scale.zero_point), numbers);
        std::fill(numbers + count, numbers + stored, static_cast<int8_t>(0));
        if (size == 1) continue;
        for (int64_t i = 0; i < stored; i += kQuad) std::memcpy(to + i * size, numbers + i, kQuad);
      }
      left.offsets[at] = -zero * sum;
      if (left.sums != nullptr) left.sums[at] = (left.by_row ? 1.0f : scale.scale) * static_cast<float>(sum);
    }
  }
}

/// Panels of a part: one part for each thread, since memory gives as much to each, and a stream that is begun anew
/// waits for it.
int64_t grain_of(const KernelContext& ctx, int64_t panels, int64_t panel_bytes) {
  const int64_t share = (panels + ctx.parallel.threads - 1) / ctx.parallel.threads;
  return std::max(share, kTaskBytes / panel_bytes);
}

template <int kBits>
struct GroupProduct {
  groups::Weights weights;
  Left left;
  const float* row_sums;  ///< of the weight; null: by group
  const float* bias;      ///< null: none
  float* out;
  GroupVariant variant;

  /// A tile of `size` rows from `row` on times some groups of a panel, added to `acc`.
  void add(int64_t row, int size, int64_t group, const GroupPanel& panel, float* acc) const {
    const GroupRows x = left.rows_from(row, size, group);
    switch (size) {
      case 8:
        return add_groups<kBits, 8>(variant, x, panel, acc);
      case 4:
        return add_groups<kBits, 4>(variant, x, panel, acc);
      case 2:
        return add_groups<kBits, 2>(variant, x, panel, acc);
      default:
        return add_groups<kBits, 1>(variant, x, panel, acc);
    }
  }

  /// Sums of a row, which `of` has, and of a panel become results.
  void store(const Left& of, int64_t row, int64_t column, const float* acc) const {
    const int count = static_cast<int>(std::min<int64_t>(kPanel, weights.rows - column));
    // The number of columns that nearly all panels have as a constant: no loop is left.
    count == kPanel ? store(of, row, column, acc, std::integral_constant<int, kPanel>())
                    : store(of, row, column, acc, count);
  }

  template <typename Count>
  void store(const Left& of, int64_t row, int64_t column, const float* acc, Count count) const {
    float* __restrict to = out + row * weights.rows + column;
    if (row_sums == nullptr) {
      for (int c = 0; c < count; ++c) to[c] = acc[c];
    } else {
      const float scale = of.row_scales[row].scale, zero = static_cast<float>(of.row_scales[row].zero_point);
      const float* of_weight = row_sums + column;
      for (int c = 0; c < count; ++c) to[c] = (acc[c] - zero * of_weight[c]) * scale;
    }
    if (bias == nullptr) return;
    for (int c = 0; c < count; ++c) to[c] += bias[column + c];
  }

  /// Rows [begin, end), which begin with a tile, times panels [first, last).
  void multiply(int64_t begin, int64_t end, int64_t first, int64_t last) const {
    constexpr int kSums = 64;  // rows whose sums are kept while the groups of a panel go by
    float scales[kBlockGroups * kPanel], minimums[kBlockGroups * kPanel];
    float acc[kSums * kPanel];
    for (int64_t p = first; p < last; ++p) {
      if (end - begin == 1 && p + 1 < last) groups::prefetch_factors(weights, p + 1);
      for (int64_t strip = begin; strip < end; strip += kSums) {
        const int64_t strip_end = std::min(end, strip + kSums);
        std::fill(acc, acc + (strip_end - strip) * kPanel, 0.0f);
        for (int64_t g = 0; g < left.groups; g += kBlockGroups) {
          const int some = static_cast<int>(std::min<int64_t>(kBlockGroups, left.groups - g));
          const int64_t at = (p * left.groups + g) * kPanel;
          groups::read_factors(*weights.scales, at, some * kPanel, scales);
          if (weights.minimums != nullptr) groups::read_factors(*weights.minimums, at, some * kPanel, minimums);
          const int64_t chunks = weights.group() / groups::kChunk;
          const GroupPanel panel = {weights.panel<kBits>(p) + g * chunks * groups::kChunkBytes<kBits>, scales,
                                    weights.minimums == nullptr ? nullptr : minimums, some, chunks};
          for (int64_t row = strip; row < strip_end;) {
            const int size = left.tile(row);
            add(row, size, g, panel, acc + (row - strip) * kPanel);
            row += size;
          }
        }
        for (int64_t row = strip; row < strip_end; ++row) store(left, row, p * kPanel, acc + (row - strip) * kPanel);
      }
    }
  }

#if ETIR_INT8_AMX
  /// The same with AMX.
  void multiply_amx(int64_t begin, int64_t end, int64_t first, int64_t last) const {
    if (left.fixed) {
      const TileRegisters registers;
      const FixedRowsAmx rows = {
          left.numbers + begin * left.stride, left.stride, end - begin, left.row_scales + begin, row_sums, bias,
          out + begin * weights.rows,         weights.rows};
      first = multiply_fixed_amx(rows, weights, first, last);
    }
    alignas(64) float acc[kStripRowsAmx * kPanel];
    alignas(64) int32_t sums[kStripRowsAmx * kPanel];
    const TileRegisters registers(tile_depth_amx(weights.group()) / kQuad);
    for (int64_t p = first; p < last; ++p) {
      for (int64_t strip = begin; strip < end; strip += kStripRowsAmx) {
        const int64_t rows = std::min<int64_t>(end - strip, kStripRowsAmx), at = strip * left.groups;
        const int64_t whole = whole_registers_amx(rows);
        const GroupTileAmx x = {left.numbers + strip * left.stride, left.stride,
                                left.sums == nullptr ? nullptr : left.sums + at,
                                left.scales == nullptr ? nullptr : left.scales + at, left.groups};
        multiply_panel_amx<kBits>(x, whole, weights, p, sums, acc);
        for (int64_t r = 0; r < rows; ++r) store(left, strip + r, p * kPanel, acc + r * kPanel);
      }
    }
  }
#endif

  /// The one row there is, `row`, times panels [first, last).
  void multiply_alone(const Left& row, int64_t first, int64_t last) const {
    groups::prefetch_panel<kBits>(weights, first);
    GroupProduct product = *this;
    product.left = row;
    product.multiply(0, 1, first, last);
  }

  /// Asks for what store() reads of a panel's columns.
  void prefetch_columns(int64_t panel) const {
    if (row_sums != nullptr) groups::prefetch(row_sums + panel * kPanel, sizeof(float) * kPanel);
    if (bias != nullptr) groups::prefetch(bias + panel * kPanel, sizeof(float) * kPanel);
  }

  int64_t panel_bytes() const { return std::max<int64_t>(1, left.depth * kPanel * kBits / 8); }

  /// The product of more than one row.
  void run(KernelContext& ctx) const {
    const int64_t panels = weights.panels();
    // Strips of rows that stay in the cache while all panels go by.
    const int64_t bytes = left.amx ? kStripBytesAmx : kStripBytes, least = left.amx ? 128 : 64;
    const int64_t strip = std::max<int64_t>(least, bytes / (left.depth + 1) / least * least);
    const int64_t strips = (left.rows + strip - 1) / strip;
    const int64_t grain = left.rows >= 16 ? 1 : grain_of(ctx, panels, panel_bytes());
    for (int64_t s = 0; s < strips; ++s) {
      ctx.parallel_for(panels, grain, [&](int64_t first, int64_t last) {
        const int64_t begin = s * strip, end = std::min(left.rows, begin + strip);
#if ETIR_INT8_AMX
        if (left.amx) return multiply_amx(begin, end, first, last);
#endif
        multiply(begin, end, first, last);
      });
    }
  }
};

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
  int zero;  ///< what the weights' numbers have for 0

  struct Place {
    const GroupProduct<kBits>* product;
    int64_t panel;
  };
  Place place(int64_t panel) const {
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
    int64_t start = 0;
    for (int i = 0; i < count; ++i) {
      const int64_t own = products[i].weights.panels();
      const int64_t begin = std::max(first, start) - start, end = std::min(last, start + own) - start;
      if (begin < end) products[i].multiply_alone(left, begin, end);
      start += own;
    }
  }

  void run(KernelContext& ctx) const {
    const Left& shared = products->left;
    const bool fits = shared.depth <= RowBuffer::kDepth;
    if (!fits) quantize(shared);
    ctx.parallel_for(panels(), grain_of(ctx, panels(), products->panel_bytes()), [&](int64_t first, int64_t last) {
      if (!fits) return multiply(first, last, [&]() -> const Left& { return shared; });
      RowBuffer buffer;
      const Left own = buffer.hold(shared);
      multiply(first, last, [&]() -> const Left& { return quantize(own), own; });
    });
  }
};

/// The operands of a layer, and its result.
struct Layer {
  const Tensor *weight, *scales, *minimums, *sums, *bias;
  int64_t columns;
  Tensor* out;
};

/// Checks a layer's operands and gives its result a shape; records the failure. `position` is the argument with the
/// columns.
template <int kBits>
bool prepare(KernelContext& ctx, const Tensor& input, const Layer& layer, int position, GroupProduct<kBits>* product) {
  for (const Tensor* tensor : {static_cast<const Tensor*>(layer.out), layer.sums, layer.bias}) {
    if (tensor != nullptr && tensor->dtype != ScalarType::Float) {
      return ctx.fail(Check::KernelDtype, *tensor, static_cast<int64_t>(tensor->dtype)), false;
    }
  }
  if (!groups::read_weights<kBits>(ctx, *layer.weight, *layer.scales, layer.minimums, layer.columns, position,
                                   input.sizes[input.rank - 1], &product->weights)) {
    return false;
  }
  for (const Tensor* tensor : {layer.sums, layer.bias}) {
    if (tensor == nullptr) continue;
    if (tensor->rank != 1) return ctx.fail(Check::KernelRank, *tensor, tensor->rank), false;
    if (tensor->sizes[0] != layer.columns) return ctx.fail(Check::KernelShape, *tensor, tensor->sizes[0]), false;
    if (!groups::check_rows(ctx, *tensor)) return false;
  }
  int64_t sizes[kMaxRank];
  for (int d = 0; d + 1 < input.rank; ++d) sizes[d] = input.sizes[d];
  sizes[input.rank - 1] = layer.columns;
  if (!ctx.resize(*layer.out, sizes, input.rank) || !groups::check_rows(ctx, *layer.out)) return false;
  product->row_sums = layer.sums == nullptr ? nullptr : layer.sums->ptr<float>();
  product->bias = layer.bias == nullptr ? nullptr : layer.bias->ptr<float>();
  product->out = layer.out->ptr<float>();
  product->variant = group_variant();
  return true;
}

constexpr int kMostLayers = 3;  ///< that share an input

/// Layers of one input, which becomes integers once; all have as many groups, and minimums and sums or none.
template <int kBits>
void run_layers(KernelContext& ctx, const Tensor& input, const Layer* layers, int count, int position) {
  if (input.dtype != ScalarType::Float) {
    return ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(input.dtype));
  }
  if (input.rank < 1) return ctx.fail(Check::KernelRank, input, input.rank);
  if (!groups::check_rows(ctx, input)) return;
  GroupProduct<kBits> products[kMostLayers] = {};
  int64_t columns = 0;
  for (int i = 0; i < count; ++i) {
    if (!prepare(ctx, input, layers[i], position, &products[i])) return;
    if (products[i].weights.groups != products->weights.groups) {
      return ctx.fail(Check::KernelShape, *layers[i].scales, products[i].weights.groups);
    }
    columns += layers[i].columns;
  }
  Left left = {};
  const int64_t width = input.sizes[input.rank - 1];
  left.rows = 1;
  for (int d = 0; d + 1 < input.rank; ++d) left.rows *= input.sizes[d];
  if (left.rows == 0 || columns == 0) return;
  const bool minimums = layers->minimums != nullptr;
  left.depth = products->weights.depth, left.groups = products->weights.groups;
  left.most = tile_rows<kBits>(products->variant), left.by_row = layers->sums != nullptr;
  left.stride = left.depth;
  int64_t whole = left.rows;
#if ETIR_INT8_AMX
  left.amx = products->variant == GroupVariant::Vnni && fills_registers_amx(left.rows) && has_amx();
  if (left.amx) {
    left.fixed = kBits == 4 && left.by_row && is_fixed_amx(left.rows, products->weights.group());
    // Rows begin with a line of the cache: to load from two takes twice as long.
    left.most = 1, whole = whole_registers_amx(left.rows);
    left.stride = (left.depth + kTileBytes - 1) / kTileBytes * kTileBytes + kTileBytes;
  }
#endif
  const int64_t pairs = whole * left.groups;
  left.numbers = static_cast<int8_t*>(ctx.temp(static_cast<size_t>(whole * left.stride), left.amx ? 64 : 16));
  left.offsets = ctx.temp_array<int32_t>(pairs);
  left.sums = minimums ? ctx.temp_array<float>(pairs) : nullptr;
  left.scales = left.by_row ? nullptr : ctx.temp_array<float>(pairs);
  left.row_scales = left.by_row ? ctx.temp_array<RowScale>(left.rows) : nullptr;
  if (ctx.failed()) return;
  for (int i = 0; i < count; ++i) products[i].left = left;
  const int zero = minimums ? 0 : groups::kZero<kBits>;
  if (left.rows == 1) return RowProduct<kBits>{products, count, input.ptr<float>(), width, zero}.run(ctx);
  const int64_t tiles = (left.rows + left.most - 1) / left.most;
  ctx.parallel_for(tiles, 4096 / (left.depth + 1) + 1, [&](int64_t first, int64_t last) {
    const int64_t end = std::min(left.rows, last * left.most);
    for (int64_t row = first * left.most; row < end;) {
      const int size = left.tile(row);
      quantize_tile(left, input.ptr<float>(), width, row, size, zero);
      row += size;
    }
  });
  if (whole > left.rows) {
    const int64_t at = left.rows * left.groups;
    std::fill(left.numbers + left.rows * left.stride, left.numbers + whole * left.stride, static_cast<int8_t>(0));
    for (float* factors : {left.sums, left.scales}) {
      if (factors != nullptr) std::fill(factors + at, factors + pairs, 0.0f);
    }
  }
  for (int i = 0; i < count; ++i) {
    if (layers[i].columns > 0) products[i].run(ctx);
  }
}

/// Operands of several layers, by their lists.
struct LayerLists {
  const TensorList &weights, &scales, &minimums, &sums;
  const IntList& columns;
};

/// Layers of 4 bits, one for each result. Empty lists of minimums or sums: none of them has any.
void run_lists(KernelContext& ctx, const Tensor& input, const LayerLists& lists, std::initializer_list<Tensor*> out) {
  using arg = arguments::int4_group_dynamic_linear_pair_out;
  const struct {
    size_t size;
    int position;
    bool may_be_empty;
  } all[] = {{lists.weights.size(), arg::weights, false},
             {lists.scales.size(), arg::scales, false},
             {lists.minimums.size(), arg::minimums, true},
             {lists.sums.size(), arg::sums, true},
             {lists.columns.size(), arg::columns, false}};
  for (const auto& list : all) {
    if (list.size == out.size() || (list.may_be_empty && list.size == 0)) continue;
    return ctx.fail(Check::KernelArgument, list.position, static_cast<int64_t>(list.size));
  }
  Layer layers[kMostLayers];
  int count = 0;
  for (Tensor* result : out) {
    const auto i = static_cast<size_t>(count);
    layers[count++] = {&lists.weights[i],
                       &lists.scales[i],
                       lists.minimums.size() == 0 ? nullptr : &lists.minimums[i],
                       lists.sums.size() == 0 ? nullptr : &lists.sums[i],
                       nullptr,
                       lists.columns[i],
                       result};
  }
  run_layers<4>(ctx, input, layers, count, arg::columns);
}

}  // namespace

void int4_group_dynamic_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& scales,
                                   const Tensor* minimums, const Tensor* sums, const Tensor* bias, int64_t columns,
                                   Tensor& out) {
  const Layer layer = {&weight, &scales, minimums, sums, bias, columns, &out};
  run_layers<4>(ctx, input, &layer, 1, arguments::int4_group_dynamic_linear_out::columns);
}

void int8_group_dynamic_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& scales,
                                   const Tensor* minimums, const Tensor* sums, const Tensor* bias, int64_t columns,
                                   Tensor& out) {
  const Layer layer = {&weight, &scales, minimums, sums, bias, columns, &out};
  run_layers<8>(ctx, input, &layer, 1, arguments::int8_group_dynamic_linear_out::columns);
}

void int4_group_dynamic_linear_pair_out(KernelContext& ctx, const Tensor& input, const TensorList& weights,
                                        const TensorList& scales, const TensorList& minimums, const TensorList& sums,
                                        const IntList& columns, Tensor& out0, Tensor& out1) {
  run_lists(ctx, input, {weights, scales, minimums, sums, columns}, {&out0, &out1});
}

void int4_group_dynamic_linear_triple_out(KernelContext& ctx, const Tensor& input, const TensorList& weights,
                                          const TensorList& scales, const TensorList& minimums, const TensorList& sums,
                                          const IntList& columns, Tensor& out0, Tensor& out1, Tensor& out2) {
  run_lists(ctx, input, {weights, scales, minimums, sums, columns}, {&out0, &out1, &out2});
}

}  // namespace etir
