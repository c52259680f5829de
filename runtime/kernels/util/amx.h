// Tile registers of AMX, which a processor is asked for at run time, and Linux for leave to use them.
//
// Instructions are written as such: intrinsics of some compilers do not say that they read memory.
#pragma once

#include <cstdint>

#include "kernels/util/vnni.h"

// ETIR_TILES=0 leaves them out.
#ifndef ETIR_TILES
#if defined(__linux__) && defined(__x86_64__) && defined(__AVX2__) && ETIR_INT8_VNNI && \
    (defined(__clang__) ? __clang_major__ >= 12 : defined(__GNUC__) && __GNUC__ >= 11)
#define ETIR_TILES 1
#else
#define ETIR_TILES 0
#endif
#endif

#if ETIR_TILES
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace etir {

constexpr int kTileRows = 16;   ///< rows of a register
constexpr int kTileBytes = 64;  ///< bytes of a row of a register

/// What the registers can multiply: bits of the processor's answer.
enum class TileNumbers : unsigned { BFloat16 = 1u << 22, Int8 = 1u << 25 };

/// Whether the processor multiplies such numbers, and the system lets this process use the registers.
inline bool ask_for_tiles(TileNumbers numbers) {
  unsigned a, b, c, d;
  constexpr unsigned kTile = 1u << 24;
  const unsigned wanted = kTile | static_cast<unsigned>(numbers);
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & wanted) != wanted) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// The registers of a thread, for the time that this lives: 0 to 3 are sums, 4 and 5 sixteen rows of left numbers of
/// `depth` times four bytes, 6 and 7 that many rows of right ones.
class TileRegisters {
 public:
  __attribute__((target("amx-tile"))) explicit TileRegisters(int depth = kTileRows) {
    struct alignas(64) {
      uint8_t palette = 1, start = 0, reserved[14] = {};
      uint16_t bytes[16] = {};
      uint8_t rows[16] = {};
    } shape;
    static_assert(sizeof(shape) == 64);
    for (int i = 0; i < 8; ++i) {
      const bool is_left = i == 4 || i == 5, is_right = i >= 6;
      shape.bytes[i] = static_cast<uint16_t>(is_left ? 4 * depth : kTileBytes);
      shape.rows[i] = static_cast<uint8_t>(is_right ? depth : kTileRows);
    }
    asm volatile("ldtilecfg %0" ::"m"(shape));
  }
  __attribute__((target("amx-tile"))) ~TileRegisters() { asm volatile("tilerelease"); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

}  // namespace etir

#define ETIR_TILE_LOAD(tile, from, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(static_cast<int64_t>(stride)) : "memory")
#define ETIR_TILE_STORE(tile, to, stride) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(static_cast<int64_t>(stride)) : "memory")
#define ETIR_TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile ::: "memory")

#endif
