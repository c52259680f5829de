// Linear layers on integers with a scale for each group of the weight's rows: int4_group_dynamic_linear,
// int8_group_dynamic_linear, and int4_group_dynamic_linear_pair, _triple and _gated, layers of one input; and of rows
// that have a matrix each, int4_group_dynamic_expert_linear and int8_group_dynamic_expert_linear. float32 in and out;
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

#include "kernels/integer/group_gate.h"
#include "kernels/integer/group_linear.gen.h"
#include "kernels/util/group_experts.h"

namespace etir {
namespace {

using namespace integer;

/// The operands of a layer, and its result.
struct Layer {
  const Tensor *weight, *scales, *minimums, *sums, *bias;
  int64_t columns;
  Tensor* out;  ///< null: not kept
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
  product->row_sums = layer.sums == nullptr ? nullptr : layer.sums->ptr<float>();
  product->bias = layer.bias == nullptr ? nullptr : layer.bias->ptr<float>();
  product->row_size = layer.columns;
  product->variant = group_variant();
  if (layer.out == nullptr) return true;
  int64_t sizes[kMaxRank];
  for (int d = 0; d + 1 < input.rank; ++d) sizes[d] = input.sizes[d];
  sizes[input.rank - 1] = layer.columns;
  if (!ctx.resize(*layer.out, sizes, input.rank) || !groups::check_rows(ctx, *layer.out)) return false;
  product->out = layer.out->ptr<float>();
  return true;
}

constexpr int kMostLayers = 3;  ///< that share an input

/// Layers of one input, which becomes integers once; all have as many groups, and minimums and sums or none. With a
/// `gate`, the first of two layers gates the second, and the result is that of both.
template <int kBits>
void run_layers(KernelContext& ctx, const Tensor& input, const Layer* layers, int count, int position,
                const GateFunction* gate = nullptr) {
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
  if (gate != nullptr && left.rows == 1) products[1].out = ctx.temp_array<float>(columns / 2);
  if (ctx.failed()) return;
  for (int i = 0; i < count; ++i) products[i].left = left;
  const int zero = minimums ? 0 : groups::kZero<kBits>;
  if (left.rows == 1) {
    const RowProduct<kBits> row = {products, count, input.ptr<float>(), width, zero};
    if (gate == nullptr) return row.run(ctx);
    return row.run_pair(ctx, [&](int64_t first, int64_t last) {
      const int64_t begin = first * kPanel, end = std::min(last * kPanel, columns / 2);
      apply_gate(*gate, {products[0].out + begin, 0, products[1].out + begin, 0, 1}, end - begin);
    });
  }
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
  if (gate != nullptr) return GatedProduct<kBits>{products[0], products[1], *gate}.run(ctx);
  for (int i = 0; i < count; ++i) {
    if (layers[i].columns > 0) products[i].run(ctx);
  }
}

/// Operands of several layers, by their lists.
struct LayerLists {
  const TensorList &weights, &scales, &minimums, &sums;
};

/// Fills in the layers of lists, all but their columns and results; records the failure. Empty lists of minimums or
/// sums: none of them has any.
bool read_lists(KernelContext& ctx, const LayerLists& lists, size_t count, Layer* layers) {
  using arg = arguments::int4_group_dynamic_linear_pair_out;
  const struct {
    size_t size;
    int position;
    bool may_be_empty;
  } all[] = {{lists.weights.size(), arg::weights, false},
             {lists.scales.size(), arg::scales, false},
             {lists.minimums.size(), arg::minimums, true},
             {lists.sums.size(), arg::sums, true}};
  for (const auto& list : all) {
    if (list.size == count || (list.may_be_empty && list.size == 0)) continue;
    return ctx.fail(Check::KernelArgument, list.position, static_cast<int64_t>(list.size)), false;
  }
  for (size_t i = 0; i < count; ++i) {
    layers[i] = {&lists.weights[i],
                 &lists.scales[i],
                 lists.minimums.size() == 0 ? nullptr : &lists.minimums[i],
                 lists.sums.size() == 0 ? nullptr : &lists.sums[i],
                 nullptr,
                 0,
                 nullptr};
  }
  return true;
}

/// Layers of 4 bits, one for each result.
void run_lists(KernelContext& ctx, const Tensor& input, const LayerLists& lists, const IntList& columns,
               std::initializer_list<Tensor*> out) {
  using arg = arguments::int4_group_dynamic_linear_pair_out;
  Layer layers[kMostLayers];
  if (!read_lists(ctx, lists, out.size(), layers)) return;
  if (columns.size() != out.size()) {
    return ctx.fail(Check::KernelArgument, arg::columns, static_cast<int64_t>(columns.size()));
  }
  int count = 0;
  for (Tensor* result : out) {
    layers[count].columns = columns[static_cast<size_t>(count)];
    layers[count++].out = result;
  }
  run_layers<4>(ctx, input, layers, count, arg::columns);
}

/// Each row times the matrix whose number it has.
template <int kBits>
void run_experts(KernelContext& ctx, const Tensor& input, const Tensor& numbers, const groups::Experts& experts,
                 Tensor& out) {
  groups::for_each_expert<kBits>(ctx, input, numbers, experts, out, [&](const groups::ExpertRun& rows) {
    const Layer layer = {&rows.weight, &rows.scales, rows.minimums, rows.sums, nullptr, experts.columns, &rows.out};
    run_layers<kBits>(ctx, rows.input, &layer, 1, experts.position);
  });
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

void int4_group_dynamic_expert_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& experts,
                                          const Tensor& weight, const Tensor& scales, const Tensor* minimums,
                                          const Tensor* sums, int64_t columns, Tensor& out) {
  using arg = arguments::int4_group_dynamic_expert_linear_out;
  run_experts<4>(ctx, input, experts, {&weight, &scales, minimums, sums, columns, arg::columns}, out);
}

void int8_group_dynamic_expert_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& experts,
                                          const Tensor& weight, const Tensor& scales, const Tensor* minimums,
                                          const Tensor* sums, int64_t columns, Tensor& out) {
  using arg = arguments::int8_group_dynamic_expert_linear_out;
  run_experts<8>(ctx, input, experts, {&weight, &scales, minimums, sums, columns, arg::columns}, out);
}

void int4_group_dynamic_linear_pair_out(KernelContext& ctx, const Tensor& input, const TensorList& weights,
                                        const TensorList& scales, const TensorList& minimums, const TensorList& sums,
                                        const IntList& columns, Tensor& out0, Tensor& out1) {
  run_lists(ctx, input, {weights, scales, minimums, sums}, columns, {&out0, &out1});
}

void int4_group_dynamic_linear_triple_out(KernelContext& ctx, const Tensor& input, const TensorList& weights,
                                          const TensorList& scales, const TensorList& minimums, const TensorList& sums,
                                          const IntList& columns, Tensor& out0, Tensor& out1, Tensor& out2) {
  run_lists(ctx, input, {weights, scales, minimums, sums}, columns, {&out0, &out1, &out2});
}

/// f(gate) * other, where both are layers of the input, in this order.
void int4_group_dynamic_linear_gated_out(KernelContext& ctx, const Tensor& input, const TensorList& weights,
                                         const TensorList& scales, const TensorList& minimums, const TensorList& sums,
                                         int64_t columns, StringView activation, Tensor& out) {
  using arg = arguments::int4_group_dynamic_linear_gated_out;
  static_assert(int{arg::weights} == int{arguments::int4_group_dynamic_linear_pair_out::weights}, "as read_lists says");
  Layer layers[2];
  if (!read_lists(ctx, {weights, scales, minimums, sums}, 2, layers)) return;
  GateFunction function = GateFunction::Silu;
  if (activation == "gelu") {
    function = GateFunction::Gelu;
  } else if (activation == "gelu_tanh") {
    function = GateFunction::GeluTanh;
  } else if (!(activation == "silu")) {
    return ctx.fail(Check::KernelArgument, arg::activation, static_cast<int64_t>(activation.size));
  }
  layers[0].columns = layers[1].columns = columns;
  layers[0].out = &out;
  run_layers<4>(ctx, input, layers, 2, arg::columns, &function);
}

}  // namespace etir
