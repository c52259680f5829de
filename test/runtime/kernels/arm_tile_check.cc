// Integer products on Arm: each tile that this processor has against the portable one, the conversion of sums, and sums
// of depthwise windows, to the bit. Prints the best tile's number, or the name of the only one, and how many numbers
// differ.
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "embedded/semihosting.h"
#include "kernels/cortex_m/outputs.h"
#include "kernels/integer/depthwise_mve.h"
#include "kernels/integer/product.h"
#include "kernels/integer/requantize.h"

using namespace etir::integer;

namespace {

/// Sums of rows [begin, end), as int32 [rows, columns].
struct Sums {
  std::vector<int32_t> all;
  int64_t columns;
  Sums(int64_t rows, int64_t columns_) : all(static_cast<size_t>(rows * columns_), 77), columns(columns_) {}
  void operator()(const Block& block) {
    for (int r = 0; r < block.rows; ++r) {
      for (int c = 0; c < block.columns; ++c) {
        all[static_cast<size_t>((block.row + r) * columns + block.column + c)] = block.row_sums(r)[c];
      }
    }
  }
};

int difference(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  int count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

/// `ends`: numbers at the ends of their range, where sums are as large as they get, instead of any.
int products(int64_t rows, int64_t depth, int64_t columns, int ends) {
  const int64_t panels = panels_of(columns), quads = quads_of(depth);
  std::vector<int8_t> left(static_cast<size_t>(rows * depth)), packed(static_cast<size_t>(panels * quads * kPanelQuad));
  for (auto& v : left) v = static_cast<int8_t>(ends != 0 ? (std::rand() % 4 ? -128 : 127) : std::rand());
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t k = 0; k < depth; ++k) {
      // Only some panels have a weight of -128.
      const int least = c / kPanel % 2 == 0 ? -127 : -128;
      int v = ends == 1 ? least : ends == 2 ? (std::rand() % 2 ? least : 127) : std::rand() % 255 - 127;
      if (least == -128 && std::rand() % 50 == 0) v = least;
      packed[static_cast<size_t>(((c / kPanel * quads + k / kQuad) * kPanel + c % kPanel) * kQuad + k % kQuad)] =
          static_cast<int8_t>(v);
    }
  }
  const MatrixRows source = {left.data(), rows, depth};
  const Weights weights = {packed.data(), columns, depth};
  Sums wanted(rows, columns), copied(rows, columns);
  std::vector<int8_t> row(static_cast<size_t>(quads * kQuad));
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(left.data() + r * depth, depth, row.data());
    const Piece piece = {quads, {row.data()}};
    std::vector<int32_t> sums(static_cast<size_t>(panels * kPanel));
    add_products(&piece, 1, 1, {packed.data(), weights.panel_bytes(), static_cast<int>(panels)}, sums.data(), 0);
    std::copy_n(sums.data(), columns, wanted.all.data() + r * columns);
  }
  detail::multiply_copied(source, weights, 0, rows, 0, panels, false, [&](const Block& b) { copied(b); });
  int count = difference(copied.all, wanted.all);
#if ETIR_NEON
  for (int variant = 0; variant <= static_cast<int>(etir::arm_bytes()); ++variant) {
    Sums found(rows, columns);
    // In two parts, as by two threads.
    const int64_t half = rows / 2, some = panels / 2;
    const auto store = [&](const Block& b) { found(b); };
    const auto bytes = static_cast<etir::ArmBytes>(variant);
    detail::multiply_arm(bytes, source, weights, 0, half, 0, panels, store);
    detail::multiply_arm(bytes, source, weights, half, rows, 0, some, store);
    detail::multiply_arm(bytes, source, weights, half, rows, some, panels, store);
    count += difference(found.all, wanted.all);
  }
#endif
  return count;
}

/// Sums of all sizes times factors of all sizes, with halves, NaN and infinities.
int conversions() {
  int count = 0;
  const float factors[] = {0.0f,
                           0.5f,
                           0.25f,
                           1.5f,
                           1e-9f,
                           3e-5f,
                           0.0131f,
                           1e30f,
                           -0.5f,
                           -1e30f,
                           std::numeric_limits<float>::infinity(),
                           1e-40f,
                           std::numeric_limits<float>::quiet_NaN()};
  for (int round = 0; round < 4000; ++round) {
    const int n = 1 + std::rand() % 70;
    std::vector<int32_t> sums, bias;
    std::vector<float> f;
    for (int i = 0; i < n; ++i) {
      const int32_t size = 1 << std::rand() % 31;
      sums.push_back((std::rand() % size) * (std::rand() % 2 ? 1 : -1));
      bias.push_back(std::rand() % 3 == 0 ? std::numeric_limits<int32_t>::max() : std::rand() % 100);
      f.push_back(factors[static_cast<size_t>(std::rand()) % (sizeof(factors) / sizeof(float))]);
    }
    const int low = std::rand() % 4 ? -128 : std::rand() % 100 - 50;
    const Output out = {std::rand() % 256 - 128, low, std::rand() % 4 ? 127 : low + std::rand() % 50};
    std::vector<int8_t> wanted(static_cast<size_t>(n)), found(static_cast<size_t>(n));
    requantize_row(sums.data(), bias.data(), f.data(), n, out, wanted.data());
    requantize(false, sums.data(), bias.data(), f.data(), n, out, found.data());
    for (size_t i = 0; i < wanted.size(); ++i) count += wanted[i] != found[i];
  }
  return count;
}

#if ETIR_MVE
/// Products and results of ExecuTorch's library for Cortex-M: sums, factors and shifts of all sizes.
int fixed_point() {
  using namespace etir::cortex_m;
  int count = 0;
  const auto any = [] { return static_cast<int32_t>(static_cast<uint32_t>(std::rand()) * 2654435761u); };
  const int32_t ends[] = {0, 1, -1, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min(), 1 << 30};
  for (int round = 0; round < 3000; ++round) {
    const int n = 1 + std::rand() % 70, first = std::rand() % 5;
    std::vector<int32_t> sums, bias, multipliers, shifts;
    for (int i = 0; i < n + first; ++i) {
      const auto end = [&] { return ends[static_cast<size_t>(std::rand()) % (sizeof(ends) / sizeof(int32_t))]; };
      sums.push_back(round % 7 == 0 && std::rand() % 2 ? end() : any() >> (std::rand() % 31));
      bias.push_back(round % 11 == 0 && std::rand() % 2 ? end() : any() >> (std::rand() % 31));
      multipliers.push_back(round % 13 == 0 && std::rand() % 2 ? end() : any());
      shifts.push_back(round % 3 == 0 ? std::rand() % 63 - 31 : -(std::rand() % 12));
    }
    const int low = std::rand() % 4 ? -128 : std::rand() % 100 - 50;
    const Limits limits = {std::rand() % 256 - 128, low, std::rand() % 4 ? 127 : low + std::rand() % 50};
    const Outputs outputs = {round % 5 == 0 ? nullptr : bias.data(), multipliers.data(), shifts.data(), limits};
    std::vector<int8_t> found(static_cast<size_t>(n) + 4, 55);
    store_sums_mve(outputs, first, sums.data(), n, found.data());
    for (int i = 0; i < n; ++i) {
      count += found[static_cast<size_t>(i)] != outputs(first + i, sums[static_cast<size_t>(i)]);
    }
    for (size_t i = static_cast<size_t>(n); i < found.size(); ++i) count += found[i] != 55;
  }
  for (int round = 0; round < 60; ++round) {
    const int n = round % 10 == 9 ? 70000 : std::rand() % 200, offset = round % 3 ? std::rand() % 257 - 128 : 128;
    std::vector<int8_t> x(static_cast<size_t>(n) + 1), w(x.size());
    for (auto& v : x) v = static_cast<int8_t>(round % 2 ? std::rand() : 127);
    for (auto& v : w) v = static_cast<int8_t>(round % 2 ? std::rand() : -128);
    int64_t wanted = 0;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) wanted += (x[i] + offset) * w[i];
    count += dot(x.data(), offset, w.data(), n) != wanted;
  }
  return count;
}

/// Windows of all sizes, with the ends of the ranges in every other round; numbers around the sums stay what they are.
int windows() {
  int count = 0;
  for (int round = 0; round < 600; ++round) {
    const int taps = 1 + std::rand() % 27, channels = 1 + std::rand() % 40, row = channels + std::rand() % 30;
    const int16_t offset = static_cast<int16_t>(round % 5 < 2 ? 0 : round % 5 == 2 ? 128 : std::rand() % 256 - 127);
    std::vector<int8_t> image(static_cast<size_t>(taps * 50)), w(static_cast<size_t>(taps * row));
    for (auto& v : image) v = static_cast<int8_t>(round % 2 ? std::rand() : std::rand() % 4 ? -128 : 127);
    for (auto& v : w) v = static_cast<int8_t>(round % 2 ? std::rand() : std::rand() % 4 ? -128 : 127);
    std::vector<const int8_t*> places;
    for (int t = 0; t < taps; ++t) places.push_back(image.data() + std::rand() % taps * 50 + std::rand() % 10);
    std::vector<int32_t> wanted(static_cast<size_t>(channels + 8));
    for (auto& v : wanted) v = std::rand() % 3 ? std::rand() : std::numeric_limits<int32_t>::max();
    std::vector<int32_t> found = wanted;
    for (int t = 0; t < taps; ++t) {
      for (int c = 0; c < channels; ++c) {
        const int32_t product = (places[static_cast<size_t>(t)][c] + offset) * w[static_cast<size_t>(t * row + c)];
        int32_t& sum = wanted[static_cast<size_t>(c)];
        sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(product));
      }
    }
    offset == 0 ? add_taps_mve<false>(places.data(), 0, w.data(), row, taps, channels, found.data())
                : add_taps_mve<true>(places.data(), offset, w.data(), row, taps, channels, found.data());
    count += difference(found, wanted);
  }
  return count;
}
#else
int fixed_point() { return 0; }
int windows() { return 0; }
#endif

}  // namespace

int main() {
  int count = conversions() + windows() + fixed_point();
  for (int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 21}) {
    for (int64_t depth : {1, 3, 4, 12, 16, 27, 36, 64, 100}) {
      for (int64_t columns : {1, 16, 33, 70}) count += products(rows, depth, columns, static_cast<int>(depth % 3));
    }
  }
  for (int ends = 0; ends < 3; ++ends) {
    count += products(11, 1024, 50, ends) + products(6, 1030, 20, ends) + products(3, 2600, 300, ends);
    count += products(1, 4100, 33, ends);
  }
  char text[64];
#if ETIR_NEON
  std::snprintf(text, sizeof(text), "%d %d\n", static_cast<int>(etir::arm_bytes()), count);
#else
  std::snprintf(text, sizeof(text), "%s %d\n", ETIR_MVE ? "mve" : "portable", count);
#endif
#if defined(__aarch64__)
  std::fputs(text, stdout);
#else
  etir::semihosting_print(text);
#endif
}
