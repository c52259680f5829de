// What the sums of a layer on int8 become: int8 numbers of one encoding, or float32 where nobody reads integers.
#pragma once

#include "kernels/integer/dequantize.h"
#include "kernels/integer/requantize.h"

namespace etir::integer {

namespace detail {

constexpr int kMostBlockRows = 32;  ///< of a block of a product, by any variant

/// Rows that add what belongs to their columns once and multiply by 1: float(sum + bias) * factor.
struct PlainRows {
  RowScale rows[kMostBlockRows];
  constexpr PlainRows() : rows() {
    for (RowScale& row : rows) row = {1.0f, -129};
  }
};

}  // namespace detail

/// Where the columns of a layer go, and by which factors.
struct Results {
  const int32_t* bias;
  const float* factors;
  int64_t columns;
  const Output* output;  ///< of int8 numbers, or null: float32
  Tensor& out;
  bool vnni = use_vnni();

  /// Writes a block of the product whose columns begin with column `first` of the result.
  void store(const Block& block, int64_t first = 0) const {
    static constexpr detail::PlainRows kPlain;
    const int64_t column = first + block.column, at = block.row * columns + column;
    if (output != nullptr) {
      requantize(vnni, block, bias + column, factors + column, *output, out.ptr<int8_t>() + at, columns);
    } else {
      dequantize(vnni, block, kPlain.rows, {bias + column, factors + column, nullptr}, out.ptr<float>() + at, columns);
    }
  }
};

/// Takes the blocks of a product whose columns begin with column `first` of the results.
struct StoreResults {
  const Results& results;
  int64_t first = 0;

  void operator()(const Block& block) const { results.store(block, first); }
  bool read_requantized(Requantized* to) const {
    if (results.output == nullptr) return false;
    *to = {results.bias + first, results.factors + first, results.out.ptr<int8_t>() + first, results.columns,
           *results.output};
    return true;
  }
};

}  // namespace etir::integer
