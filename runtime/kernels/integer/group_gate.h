// Two layers on integers in groups, one of which gates the other: f(gate) * other.
//
// Both are multiplied panel by panel and combined while their results are near, so that the other layer's results need
// no place of their own, and nothing is read again: of a prompt's feed-forward layer, that and what f would write take
// as long as a third of the products.
#pragma once

#include "kernels/elementwise/activation_math.h"
#include "kernels/integer/group_row_product.h"
#include "kernels/util/wide.h"

namespace etir::integer {

constexpr int64_t kGatedRows = ETIR_SMALL_STACK ? 64 : 256;  ///< rows whose results of the other layer are kept

enum class GateFunction { Silu, Gelu, GeluTanh };

/// Rows of a part of both layers' results. The gate becomes the result.
struct GatedRows {
  float* gate;
  int64_t gate_size;  ///< elements from a row to the next
  const float* other;
  int64_t other_size;
  int64_t rows;
};

namespace detail {

template <typename F, typename Count>
[[gnu::flatten]] void gate_plain(const F& f, const GatedRows& part, Count columns) {
  for (int64_t r = 0; r < part.rows; ++r) {
    float* __restrict gate = part.gate + r * part.gate_size;
    const float* __restrict other = part.other + r * part.other_size;
    for (int64_t c = 0; c < columns; ++c) gate[c] = f(gate[c]) * other[c];
  }
}
#if ETIR_WIDE
template <typename F, typename Count>
[[gnu::flatten]] ETIR_AVX512 void gate_avx512(const F& f, const GatedRows& part, Count columns) {
  for (int64_t r = 0; r < part.rows; ++r) {
    float* __restrict gate = part.gate + r * part.gate_size;
    const float* __restrict other = part.other + r * part.other_size;
    for (int64_t c = 0; c < columns; ++c) gate[c] = f(gate[c]) * other[c];
  }
}
#endif

template <typename F>
void apply_gate(const F& f, const GatedRows& part, int64_t columns) {
  // Of nearly all panels the number of columns is a constant.
  const std::integral_constant<int64_t, kPanel> whole;
#if ETIR_WIDE
  if (has_avx512()) return columns == kPanel ? gate_avx512(f, part, whole) : gate_avx512(f, part, columns);
#endif
  columns == kPanel ? gate_plain(f, part, whole) : gate_plain(f, part, columns);
}

}  // namespace detail

inline void apply_gate(GateFunction function, const GatedRows& part, int64_t columns) {
  switch (function) {
    case GateFunction::Silu:
      return detail::apply_gate([](float x) { return silu_of(x); }, part, columns);
    case GateFunction::Gelu:
      return detail::apply_gate([](float x) { return gelu_of(x); }, part, columns);
    default:
      return detail::apply_gate([](float x) { return gelu_tanh_of(x); }, part, columns);
  }
}

/// The product of more than one row with both layers, which have as many columns.
template <int kBits>
struct GatedProduct {
  const GroupProduct<kBits>& gate;   ///< its results become those of both
  const GroupProduct<kBits>& other;  ///< its results are not kept
  GateFunction function;

  void run(KernelContext& ctx) const {
    const int64_t rows = gate.left.rows, panels = gate.weights.panels();
    for (int64_t begin = 0; begin < rows; begin += kGatedRows) {
      const int64_t end = std::min(rows, begin + kGatedRows);
#if ETIR_INT8_AMX
      if (gate.left.amx) {
        Tasks tasks(panels);
        for_each_thread(ctx, [&] { multiply(begin, end, [&] { return tasks.take(); }); });
        continue;
      }
#endif
      ctx.parallel_for(panels, 1, [&](int64_t first, int64_t last) {
        multiply(begin, end, [&] { return first < last ? first++ : -1; });
      });
    }
  }

 private:
  /// Rows [begin, end), at most kGatedRows, times the panels that `next` gives, -1 after the last.
  template <typename Next>
  void multiply(int64_t begin, int64_t end, const Next& next) const {
    alignas(64) float results[kGatedRows * kPanel];
    const auto combine = [&](int64_t panel) {
      const int64_t column = panel * kPanel;
      const GatedRows part = {gate.place(begin, column), gate.row_size, results, kPanel, end - begin};
      apply_gate(function, part, std::min<int64_t>(kPanel, gate.weights.rows - column));
    };
    GroupProduct<kBits> beside = other;
    beside.out = results, beside.row_size = kPanel, beside.first_row = begin;
    const auto multiply_panel = [&](int64_t panel) {
      gate.multiply_rows(begin, end, panel);
      beside.first_column = panel * kPanel;
      beside.multiply_rows(begin, end, panel);
      combine(panel);
    };
#if ETIR_INT8_AMX
    if (gate.left.fixed) {
      const FixedRowsAmx of_gate = gate.fixed_rows(begin, end), of_other = beside.fixed_rows(begin, end);
      // The layers take turns.
      const auto job = [&](int64_t index) -> FixedJob {
        const int64_t panel = index / 2;
        if (index % 2 != 0) return {&of_other, &other.weights, panel, results};
        return {&of_gate, &gate.weights, panel, gate.place(begin, panel * kPanel)};
      };
      const auto done = [&](int64_t index) {
        if (index % 2 != 0) combine(index / 2);
      };
      int64_t of_panel = -1;  // the second job of a panel
      const auto next_job = [&]() -> int64_t {
        if (of_panel >= 0) return std::exchange(of_panel, -1);
        const int64_t panel = next();
        if (panel >= 0) of_panel = 2 * panel + 1;
        return panel < 0 ? -1 : 2 * panel;
      };
      for (;;) {
        int64_t failed;
        {
          const TileRegisters registers;
          failed = multiply_fixed_amx(next_job, job, done);
        }
        if (failed < 0) return;
        of_panel = -1;
        multiply_panel(failed / 2);
      }
    }
#endif
    for (int64_t p = next(); p >= 0; p = next()) multiply_panel(p);
  }
};

}  // namespace etir::integer
