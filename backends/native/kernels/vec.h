// Vectors of floats for generated code: the vector types of GCC and clang, and for each instruction set what they lack.
//
// ETIR_VW is the number of floats of a vector: 16 with AVX-512, 8 with AVX2, 4 with SSE2, NEON, MVE and RVV (of 128
// bits), 1 without vectors, where `vf` is a float: GCC keeps vectors of one lane in memory. Everything else is ordinary
// arithmetic on the type `vf`, which compilers make one instruction of. Remainders are computed like whole vectors.
//
// NaN is kept by everything here; a maximum or minimum of a NaN is NaN, as in torch.
#ifndef ETIR_NATIVE_VEC_H
#define ETIR_NATIVE_VEC_H

#include <stdint.h>
#if defined(__SSE2__)
// Clang knows the instructions by names of its own; its immintrin.h takes it longer than the code of a small network.
#if defined(__clang__)
#if ETIR_VW == 16 && defined(__AVX512F__)
#if __has_builtin(__builtin_ia32_maxps512) && __has_builtin(__builtin_ia32_minps512) &&                \
    __has_builtin(__builtin_ia32_scalefps512_mask) && __has_builtin(__builtin_ia32_loadups512_mask) && \
    __has_builtin(__builtin_ia32_storeups512_mask)
#define ETIR_BUILTINS 1
#define ETIR_MAX(x, y) __builtin_ia32_maxps512(x, y, 4)
#define ETIR_MIN(x, y) __builtin_ia32_minps512(x, y, 4)
#endif
#if __has_builtin(__builtin_ia32_sqrtps512)
#define ETIR_SQRT(x) __builtin_ia32_sqrtps512(x, 4)
#endif
#if __has_builtin(__builtin_ia32_rcp14ps512_mask)
#define ETIR_RECIPROCAL(x) __builtin_ia32_rcp14ps512_mask(x, (vf){0}, 0xffff)
#endif
#elif ETIR_VW == 8 && defined(__AVX2__)
#if __has_builtin(__builtin_ia32_maxps256) && __has_builtin(__builtin_ia32_minps256) && \
    __has_builtin(__builtin_ia32_maskloadps256) && __has_builtin(__builtin_ia32_maskstoreps256)
#define ETIR_BUILTINS 1
#define ETIR_MAX(x, y) __builtin_ia32_maxps256(x, y)
#define ETIR_MIN(x, y) __builtin_ia32_minps256(x, y)
#endif
#elif ETIR_VW == 4
#if __has_builtin(__builtin_ia32_maxps) && __has_builtin(__builtin_ia32_minps)
#define ETIR_BUILTINS 1
#define ETIR_MAX(x, y) __builtin_ia32_maxps(x, y)
#define ETIR_MIN(x, y) __builtin_ia32_minps(x, y)
#endif
#endif
#endif
#if !defined(ETIR_BUILTINS)
#include <immintrin.h>
#if ETIR_VW == 16 && defined(__AVX512F__)
#define ETIR_RECIPROCAL(x) ((vf)_mm512_rcp14_ps((__m512)(x)))
#endif
#endif
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE >= 2
#include <arm_mve.h>
#define ETIR_MVE 1  // GCC has no multiply-add of vectors for it, compares lane by lane, and wrongly: intrinsics
#endif

#define ETIR_INLINE static inline __attribute__((always_inline, unused))
#define ETIR_NOINLINE static __attribute__((noinline))
// A function that does little more than call others, in which its time is spent: it stays as it is first made, since to
// optimize its addresses takes a compiler a fifth of all of its time.
#if defined(__clang__) && defined(__x86_64__)
#define ETIR_AS_IS __attribute__((noinline, optnone))
#else
#define ETIR_AS_IS __attribute__((noinline))
#endif
// Before a loop that is no quicker with copies of its body.
#if defined(__clang__)
#define ETIR_NOUNROLL _Pragma("nounroll")
#elif defined(__GNUC__) && __GNUC__ >= 8
#define ETIR_NOUNROLL _Pragma("GCC unroll 1")
#else
#define ETIR_NOUNROLL
#endif
// A number or an address of which the compiler is not to know how it was made.
#define ETIR_OPAQUE(x) __asm__("" : "+r"(x))

#ifdef __has_builtin
#if __has_builtin(__builtin_elementwise_sqrt)
#define ETIR_ELEMENTWISE_SQRT 1
#endif
#endif

#if ETIR_VW == 1
typedef float vf;
typedef int32_t vi;
typedef float vf_anywhere __attribute__((may_alias));

// The same 32 bits as the other type.
ETIR_INLINE vi vbits(vf x) {
  vi bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}
ETIR_INLINE vf vfloat(vi bits) {
  vf x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
ETIR_INLINE vf vset(float x) { return x; }
ETIR_INLINE vi vset_int(int32_t x) { return x; }
#else
typedef float vf __attribute__((vector_size(4 * ETIR_VW)));
typedef int32_t vi __attribute__((vector_size(4 * ETIR_VW)));
typedef float vf_anywhere __attribute__((vector_size(4 * ETIR_VW), aligned(4), may_alias));

ETIR_INLINE vi vbits(vf x) { return (vi)x; }
ETIR_INLINE vf vfloat(vi bits) { return (vf)bits; }
#define vset(x) ((float)(x) - (vf){0})
ETIR_INLINE vi vset_int(int32_t x) { return x - (vi){0}; }
#endif

// The lanes of a vector with these numbers.
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define ETIR_PICK(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#endif
#endif
#ifndef ETIR_PICK
#define ETIR_PICK(x, ...) __builtin_shuffle(x, (vi){__VA_ARGS__})
#endif

// Calls of these, and of `vset`, are most of a text, and macros since a compiler takes longer to inline a function.
#define vload(from) (*(const vf_anywhere*)(from))
#define vstore(to, x) ((void)(*(vf_anywhere*)(to) = (x)))

// sum + x * y, rounded once where the processor does so.
#if ETIR_VW == 4 && defined(ETIR_MVE)
#define vfma(sum, x, y) ((vf)__arm_vfmaq_f32((float32x4_t)(sum), (float32x4_t)(x), (float32x4_t)(y)))
#else
#define vfma(sum, x, y) ((sum) + (x) * (y))
#endif

// Whole numbers as floats.
#if ETIR_VW == 1
ETIR_INLINE vf vconvert(vi x) { return (float)x; }
#else
ETIR_INLINE vf vconvert(vi x) { return __builtin_convertvector(x, vf); }
#endif

// Numbers below the normal ones are 0 from here on, until `vflush_as` is given what this has returned: a multiply-add
// that reads or makes one takes some processors as long as a hundred others. Gates of sigmoids that are nearly shut,
// and weights of attention, make many.
ETIR_INLINE unsigned int vflush(void) {
#if defined(__SSE2__)
  const unsigned int mode = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(mode | 0x8040);  // flush to zero, denormals are zeros
  return mode;
#else
  return 0;
#endif
}
ETIR_INLINE void vflush_as(unsigned int mode) {
#if defined(__SSE2__)
  __builtin_ia32_ldmxcsr(mode);
#endif
  (void)mode;
}

// 0, 1, 2, ...
ETIR_INLINE vi vlanes(void) {
#if ETIR_VW == 1
  return 0;
#else
  vi x;
  for (int i = 0; i < ETIR_VW; ++i) x[i] = i;
  return x;
#endif
}

// What a comparison of each lane says, and what it selects: `x` where it holds, else `y`.
#if defined(ETIR_MVE)
typedef mve_pred16_t vm;
#define ETIR_COMPARISON(name, sign, intrinsic) \
  ETIR_INLINE vm name(vf x, vf y) { return intrinsic((float32x4_t)x, (float32x4_t)y); }
ETIR_INLINE vf vselect(vm where, vf x, vf y) { return (vf)__arm_vpselq_f32((float32x4_t)x, (float32x4_t)y, where); }
ETIR_INLINE vm vfirst(long count) { return __arm_vctp32q((uint32_t)count); }
#else
typedef vi vm;
#define ETIR_COMPARISON(name, sign, intrinsic) \
  ETIR_INLINE vm name(vf x, vf y) { return x sign y; }
#if ETIR_VW == 1
ETIR_INLINE vf vselect(vm where, vf x, vf y) { return where ? x : y; }
#else
ETIR_INLINE vf vselect(vm where, vf x, vf y) { return (vf)((where & (vi)x) | (~where & (vi)y)); }
#endif
ETIR_INLINE vm vfirst(long count) { return vlanes() < vset_int((int32_t)count); }  // the first lanes
#endif
ETIR_COMPARISON(veq, ==, __arm_vcmpeqq_f32)
ETIR_COMPARISON(vne, !=, __arm_vcmpneq_f32)
ETIR_COMPARISON(vgt, >, __arm_vcmpgtq_f32)
ETIR_COMPARISON(vge, >=, __arm_vcmpgeq_f32)
// Not by instructions of their own: those of Arm's condition codes hold for a NaN, too.
ETIR_INLINE vm vlt(vf x, vf y) { return vgt(y, x); }
ETIR_INLINE vm vle(vf x, vf y) { return vge(y, x); }
// Neither equal nor NaN.
ETIR_INLINE vm vapart(vf x, vf y) { return vgt(x, y) | vgt(y, x); }

// Whether a comparison holds for any lane.
ETIR_INLINE int vany(vm where) {
#if ETIR_VW == 1 || defined(ETIR_MVE)
  return where != 0;
#else
  int64_t lanes[ETIR_VW / 2], any = 0;
  __builtin_memcpy(lanes, &where, sizeof(lanes));
  for (int i = 0; i < ETIR_VW / 2; ++i) any |= lanes[i];
  return any != 0;
#endif
}

#if ETIR_VW == 1
// The first `count` floats, and floats that lie `stride` apart: of one lane.
ETIR_INLINE vf vload_some(const float* from, long count) { return count > 0 ? *from : 0.0f; }
ETIR_INLINE void vstore_some(float* to, vf x, long count) {
  if (count > 0) *to = x;
}
ETIR_INLINE vf vgather(const float* from, long stride) { return (void)stride, *from; }
ETIR_INLINE vf vgather_some(const float* from, long stride, long count) {
  return (void)stride, vload_some(from, count);
}
ETIR_INLINE void vscatter(float* to, long stride, vf x, long count) { (void)stride, vstore_some(to, x, count); }
#else
// The first `count` floats; the others are 0 and not written.
ETIR_INLINE vf vload_some(const float* from, long count) {
#if ETIR_VW == 16 && defined(ETIR_BUILTINS)
  return __builtin_ia32_loadups512_mask(from, (vf){0}, (uint16_t)((1u << count) - 1));
#elif ETIR_VW == 8 && defined(ETIR_BUILTINS)
  return __builtin_ia32_maskloadps256((const vf*)from, vfirst(count));
#elif ETIR_VW == 16 && defined(__AVX512F__)
  return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
#elif ETIR_VW == 8 && defined(__AVX2__)
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return (vf)_mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lanes));
#elif defined(ETIR_MVE)
  return (vf)__arm_vldrwq_z_f32(from, vfirst(count));
#else
  vf x = {0};
  for (long i = 0; i < count; ++i) x[i] = from[i];
  return x;
#endif
}
ETIR_INLINE void vstore_some(float* to, vf x, long count) {
#if ETIR_VW == 16 && defined(ETIR_BUILTINS)
  __builtin_ia32_storeups512_mask(to, x, (uint16_t)((1u << count) - 1));
#elif ETIR_VW == 8 && defined(ETIR_BUILTINS)
  __builtin_ia32_maskstoreps256((vf*)to, vfirst(count), x);
#elif ETIR_VW == 16 && defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)x);
#elif ETIR_VW == 8 && defined(__AVX2__)
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  _mm256_maskstore_ps(to, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lanes), (__m256)x);
#elif defined(ETIR_MVE)
  __arm_vstrwq_p_f32(to, (float32x4_t)x, vfirst(count));
#else
  for (long i = 0; i < count; ++i) to[i] = x[i];
#endif
}

// Floats that lie `stride` apart.
ETIR_INLINE vf vgather(const float* from, long stride) {
  vf x;
  for (int i = 0; i < ETIR_VW; ++i) x[i] = from[i * stride];
  return x;
}
ETIR_INLINE vf vgather_some(const float* from, long stride, long count) {
  vf x = {0};
  for (int i = 0; i < count; ++i) x[i] = from[i * stride];
  return x;
}
ETIR_INLINE void vscatter(float* to, long stride, vf x, long count) {
  for (int i = 0; i < count; ++i) to[i * stride] = x[i];
}
#endif

// `bound` is no NaN; x may be one, and then is the result.
ETIR_INLINE vf vmax_bound(vf bound, vf x) {
#if defined(ETIR_BUILTINS)
  return ETIR_MAX(bound, x);
#elif ETIR_VW == 16 && defined(__AVX512F__)
  return (vf)_mm512_max_ps((__m512)bound, (__m512)x);
#elif ETIR_VW == 8 && defined(__AVX2__)
  return (vf)_mm256_max_ps((__m256)bound, (__m256)x);
#elif ETIR_VW == 4 && defined(__SSE2__)
  return (vf)_mm_max_ps((__m128)bound, (__m128)x);
#elif ETIR_VW == 4 && defined(__ARM_NEON)
  return (vf)vmaxq_f32((float32x4_t)bound, (float32x4_t)x);
#else
  return vselect(vgt(bound, x), bound, x);
#endif
}
ETIR_INLINE vf vmin_bound(vf bound, vf x) {
#if defined(ETIR_BUILTINS)
  return ETIR_MIN(bound, x);
#elif ETIR_VW == 16 && defined(__AVX512F__)
  return (vf)_mm512_min_ps((__m512)bound, (__m512)x);
#elif ETIR_VW == 8 && defined(__AVX2__)
  return (vf)_mm256_min_ps((__m256)bound, (__m256)x);
#elif ETIR_VW == 4 && defined(__SSE2__)
  return (vf)_mm_min_ps((__m128)bound, (__m128)x);
#elif ETIR_VW == 4 && defined(__ARM_NEON)
  return (vf)vminq_f32((float32x4_t)bound, (float32x4_t)x);
#else
  return vselect(vlt(bound, x), bound, x);
#endif
}
ETIR_INLINE vf vmax(vf x, vf y) { return vselect(vne(x, x), x, vmax_bound(x, y)); }
ETIR_INLINE vf vmin(vf x, vf y) { return vselect(vne(x, x), x, vmin_bound(x, y)); }

ETIR_INLINE vf vabs(vf x) { return vfloat(vbits(x) & vset_int(0x7fffffff)); }
// Where a choice between the result and an operand follows, clang 22 makes one masked operation of both for AVX-512,
// and takes its operands in the wrong order: the choice is kept apart.
ETIR_INLINE vf vsign_of(vf magnitude, vf sign) {
  vf found = vfloat((vbits(magnitude) & vset_int(0x7fffffff)) | (vbits(sign) & vset_int((int32_t)0x80000000)));
#if ETIR_VW == 16 && defined(__AVX512F__)
  __asm__("" : "+v"(found));
#endif
  return found;
}

ETIR_INLINE vf vsqrt(vf x) {
#if defined(ETIR_BUILTINS) && defined(ETIR_ELEMENTWISE_SQRT)
  return __builtin_elementwise_sqrt(x);
#elif defined(ETIR_SQRT)
  return ETIR_SQRT(x);
#elif defined(ETIR_BUILTINS)  // clang makes one instruction of the loop
  for (int i = 0; i < ETIR_VW; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#elif ETIR_VW == 16 && defined(__AVX512F__)
  return (vf)_mm512_sqrt_ps((__m512)x);
#elif ETIR_VW == 8 && defined(__AVX2__)
  return (vf)_mm256_sqrt_ps((__m256)x);
#elif ETIR_VW == 4 && defined(__SSE2__)
  return (vf)_mm_sqrt_ps((__m128)x);
#elif ETIR_VW == 4 && defined(__aarch64__)
  return (vf)vsqrtq_f32((float32x4_t)x);
#elif ETIR_VW == 1
  return __builtin_sqrtf(x);
#elif defined(ETIR_ELEMENTWISE_SQRT)
  return __builtin_elementwise_sqrt(x);
#else
  for (int i = 0; i < ETIR_VW; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

// Whole numbers: the nearest (of two the even one), the next below, the next above, and the next towards 0. Adding 2^23
// rounds a smaller number that is not below 0; larger ones are whole. Zeros keep their sign.
ETIR_INLINE vf vwhole(vf x, vf whole) { return vselect(vlt(vabs(x), vset(8388608.0f)), vsign_of(whole, x), x); }
ETIR_INLINE vf vnearest(vf x) { return vsign_of((vabs(x) + 8388608.0f) - 8388608.0f, x); }
ETIR_INLINE vf vround(vf x) { return vwhole(x, vnearest(x)); }
ETIR_INLINE vf vfloor(vf x) {
  const vf nearest = vnearest(x);
  return vwhole(x, nearest - vselect(vgt(nearest, x), vset(1.0f), vset(0.0f)));
}
ETIR_INLINE vf vceil(vf x) {
  const vf nearest = vnearest(x);
  return vwhole(x, nearest + vselect(vlt(nearest, x), vset(1.0f), vset(0.0f)));
}
ETIR_INLINE vf vtrunc(vf x) {
  const vf nearest = vabs(vnearest(x));
  return vwhole(x, nearest - vselect(vgt(nearest, vabs(x)), vset(1.0f), vset(0.0f)));
}

#if ETIR_VW == 1
ETIR_INLINE float vsum(vf x) { return x; }
ETIR_INLINE float vproduct(vf x) { return x; }
ETIR_INLINE float vlargest(vf x) { return x; }
#else
// In pairs: the error grows with the logarithm of the number of lanes.
ETIR_INLINE float vsum(vf x) {
  float part[ETIR_VW];
  for (int i = 0; i < ETIR_VW; ++i) part[i] = x[i];
  for (int width = ETIR_VW / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) part[i] += part[i + width];
  }
  return part[0];
}
ETIR_INLINE float vproduct(vf x) {
  float part[ETIR_VW];
  for (int i = 0; i < ETIR_VW; ++i) part[i] = x[i];
  for (int width = ETIR_VW / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) part[i] *= part[i + width];
  }
  return part[0];
}
ETIR_INLINE float vlargest(vf x) {
  float largest = x[0];
  for (int i = 1; i < ETIR_VW; ++i) largest = x[i] > largest || x[i] != x[i] ? x[i] : largest;
  return largest;
}
#endif

#endif
