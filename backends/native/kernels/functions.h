// Functions of vectors (vec.h, which comes before this in the text): exp, log, tanh, erf, powers, sine and others.
//
// Polynomials are least-maximum fits in float64 of the stated range; errors are relative, of the polynomial before it
// is rounded to floats.
#ifndef ETIR_NATIVE_FUNCTIONS_H
#define ETIR_NATIVE_FUNCTIONS_H

// x 2^n for -252 <= n <= 254, which `whole` is as floats: in two factors where no instruction does it, so that results
// below the normal numbers and infinity come out.
ETIR_INLINE vf vscale(vf x, vf whole, vi n) {
#if ETIR_VW == 16 && defined(ETIR_BUILTINS)
  (void)n;
  return __builtin_ia32_scalefps512_mask(x, whole, (vf){0}, (uint16_t)-1, 4);
#elif ETIR_VW == 16 && defined(__AVX512F__)
  (void)n;
  return (vf)_mm512_scalef_ps((__m512)x, (__m512)whole);
#else
  (void)whole;
  const vi half = n >> 1;
  const vf first = vfloat((half + 127) << 23), second = vfloat((n - half + 127) << 23);
  return x * first * second;
#endif
}

// exp: x = n ln 2 + r with |r| <= ln(2) / 2, e^r = 1 + r + r^2 q(r) (error 3.4e-9).
ETIR_INLINE vf vexp(vf x) {
  const vf bounded = vmin_bound(vset(89.0f), vmax_bound(vset(-105.0f), x));
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
  const vf shifted = bounded * 1.44269504f + 12582912.0f;
  const vi n = vbits(shifted) - vset_int(0x4b400000);
  const vf whole = shifted - 12582912.0f;
  const vf r = (bounded - whole * 0.693359375f) + whole * 2.12194440e-4f;
  vf q = vset(0.0013951717410236597f);
  q = q * r + 0.008369598537683487f;
  q = q * r + 0.0416661873459816f;
  q = q * r + 0.16666512191295624f;
  q = q * r + 0.5f;
  return vscale((q * r) * r + r + 1.0f, whole, n);
}

// The same for numbers that are not above 0, in fewer steps: 2^t with t = x / ln 2, n + r with |r| <= 1/2
// (error 2.0e-9). Rounding t costs what rounding x has cost. Below e^-87.7, where floats lose digits, n is -127, whose
// scale is 0.
ETIR_INLINE vf vexp_below(vf x) {
  const vf bounded = vmax_bound(vset(-127.0f), x * 1.44269504f);
  const vf shifted = bounded + 12582912.0f;
  const vf r = bounded - (shifted - 12582912.0f);
  vf p = vset(0.00015353361961955588f);
  p = p * r + 0.0013398875016719103f;
  p = p * r + 0.00961843691766262f;
  p = p * r + 0.055503323674201965f;
  p = p * r + 0.24022647738456726f;
  p = p * r + 0.6931471824645996f;
  return (p * r + 1.0f) * vfloat((vbits(shifted) - vset_int(0x4b400000 - 127)) << 23);
}

// y / (1 + e^-x): e^-x in fewer steps, since what is below the normal numbers does not count. With AVX-512, whose
// division takes as long as all the rest, by a reciprocal of 14 bits and a step of Newton's: half a unit of rounding
// more. e^88 is as large as it gets there.
ETIR_INLINE vf vlogistic(vf y, vf x) {
  const vf bounded = vmin_bound(vset(87.3365402f), x);
  const vf shifted = bounded * -1.44269504f + 12582912.0f;
  const vf whole = shifted - 12582912.0f;
  const vf r = (whole * -0.693359375f - bounded) + whole * 2.12194440e-4f;
  vf q = vset(0.0013951717410236597f);
  q = q * r + 0.008369598537683487f;
  q = q * r + 0.0416661873459816f;
  q = q * r + 0.16666512191295624f;
  q = q * r + 0.5f;
  const vf power = (q * r) * r + r + 1.0f;
#if defined(ETIR_RECIPROCAL)
  const vf below = 1.0f + vscale(power, whole, vset_int(0));
  const vf near = ETIR_RECIPROCAL(below), found = near + near * (1.0f - below * near);
  return y * vselect(vgt(vset(-88.0f), x), vset(0.0f), found);
#else
  // Half of 2^n is a float for all n at which e^-x is one.
  const vf half = vfloat((vbits(shifted) - vset_int(0x4b400000 - 126)) << 23);
  return y / (1.0f + vselect(vgt(vset(-89.0f), x), vset(__builtin_inff()), power * half * 2.0f));
#endif
}

// e^x - 1: 2^n (e^r - 1) + (2^n - 1) with n and r as for exp, which loses nothing near 0; above 1, exp itself.
ETIR_INLINE vf vexpm1(vf x) {
  const vf bounded = vmin_bound(vset(1.0f), vmax_bound(vset(-25.0f), x));
  const vf shifted = bounded * 1.44269504f + 12582912.0f;
  const vf scale = vfloat((vbits(shifted) - vset_int(0x4b400000 - 127)) << 23);
  const vf whole = shifted - 12582912.0f;
  const vf r = (bounded - whole * 0.693359375f) + whole * 2.12194440e-4f;
  vf q = vset(0.0013951717410236597f);
  q = q * r + 0.008369598537683487f;
  q = q * r + 0.0416661873459816f;
  q = q * r + 0.16666512191295624f;
  q = q * r + 0.5f;
  const vf near = ((q * r) * r + r) * scale + (scale - 1.0f);
  return vselect(vgt(x, vset(1.0f)), vexp(x) - 1.0f, near);
}

// log: x = 2^n (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), log(1 + f) = f - f^2 / 2 + f^3 p(f) (error 7.5e-10). Numbers
// below the normal ones are scaled first; 0 gives -infinity, what is negative NaN.
ETIR_INLINE vf vlog(vf x) {
  const vm is_small = vlt(x, vset(1.17549435e-38f));
  const vi bits = vbits(vselect(is_small, x * 8388608.0f, x)) - vset_int(0x3f3504f3);
  const vf whole = vconvert(bits >> 23) + vselect(is_small, vset(-23.0f), vset(0.0f));
  const vf f = vfloat((bits & vset_int(0x007fffff)) + vset_int(0x3f3504f3)) - 1.0f;
  vf p = vset(0.0674663856625557f);
  p = p * f - 0.11675651371479034f;
  p = p * f + 0.11888162791728973f;
  p = p * f - 0.1240558922290802f;
  p = p * f + 0.14219552278518677f;
  p = p * f - 0.1666799634695053f;
  p = p * f + 0.2000211924314499f;
  p = p * f - 0.25000008940696716f;
  p = p * f + 0.3333331346511841f;
  const vf square = f * f;
  // ln 2 in two parts: the first one times a whole number is exact.
  vf result = square * f * p + whole * -2.12194440e-4f;
  result = result - 0.5f * square + f + whole * 0.693359375f;
  result = vselect(veq(x, vset(0.0f)), vset(-__builtin_inff()), result);
  result = vselect(vlt(x, vset(0.0f)), vset(__builtin_nanf("")), result);
  return vselect(veq(x, vset(__builtin_inff())), x, vselect(vne(x, x), x, result));
}

// log(1 + x): what is lost when 1 + x is rounded comes back as a factor.
ETIR_INLINE vf vlog1p(vf x) {
  const vf sum = x + 1.0f, kept = sum - 1.0f;
  const vf result = vlog(sum) * (x / kept);
  return vselect(veq(kept, vset(0.0f)), x, vselect(veq(sum, vset(__builtin_inff())), x, result));
}

// tanh: below 0.65 x + x^3 p(x^2) (error 6.4e-9), above 1 - 2 / (e^2|x| + 1).
ETIR_INLINE vf vtanh(vf x) {
  const vf size = vabs(x), square = x * x;
  vf p = vset(-0.005528624635189772f);
  p = p * square + 0.02048330567777157f;
  p = p * square - 0.05369296297430992f;
  p = p * square + 0.1333089917898178f;
  p = p * square - 0.3333326280117035f;
  const vf near = vsign_of(x + x * square * p, x);
  const vf far = 1.0f - 2.0f / (vexp(size + size) + 1.0f);
  return vselect(vlt(size, vset(0.65f)), near, vselect(vne(x, x), x, vsign_of(far, x)));
}

// x^y for x >= 0: y (n + log2(1 + f)) in a whole number and a rest, which no rounding of y n is in: y is two parts, of
// which the first one times a whole number is exact. The rest is y log2(1 + f) to 2^-24 of itself.
ETIR_INLINE vf vpow_of(vf x, vf exponent) {
  const vf y = vmin_bound(vset(4e9f), vmax_bound(vset(-4e9f), exponent));  // these give 0, 1 and infinity alone
  const vm is_small = vlt(x, vset(1.17549435e-38f));
  const vi bits = vbits(vselect(is_small, x * 8388608.0f, x)) - vset_int(0x3f3504f3);
  const vf whole = vconvert(bits >> 23) + vselect(is_small, vset(-23.0f), vset(0.0f));
  const vf fraction = vlog(vfloat((bits & vset_int(0x007fffff)) + vset_int(0x3f3504f3))) * 1.44269504f;
  const vf head = vfloat(vbits(y) & vset_int((int32_t)0xfffff000)), product = head * whole, first = vround(product);
  const vf rest = (product - first) + (y - head) * whole + y * fraction, second = vround(rest);
  const vf n = vmin_bound(vset(200.0f), vmax_bound(vset(-200.0f), first + second));
  return vscale(vexp((rest - second) * 0.693147181f), n, vbits(n + 12582912.0f) - vset_int(0x4b400000));
}

// Exponents that are whole keep the sign of x, where they are odd; others have NaN below 0.
ETIR_INLINE vf vpow(vf x, vf y) {
  const vf zero = vset(0.0f), one = vset(1.0f), infinity = vset(__builtin_inff()), none = vset(__builtin_nanf(""));
  const vf size = vabs(x), half = y * 0.5f;
  const vm grows = vgt(y, zero), is_whole = veq(vfloor(y), y);
  const vf above = vselect(grows, infinity, zero), below = vselect(grows, zero, infinity);
  vf result = vpow_of(size, y);
  result = vselect(veq(size, zero), below, vselect(veq(size, infinity), above, result));
  result = vselect(veq(vabs(y), infinity), vselect(vgt(size, one), above, vselect(vlt(size, one), below, one)), result);
  result = vselect(is_whole & vne(vfloor(half), half), vsign_of(result, x), result);
  result = vselect(vlt(x, zero) & vne(size, infinity), vselect(is_whole, result, none), result);
  result = vselect(vne(x, x), x, vselect(vne(y, y), y, result));
  return vselect(veq(y, zero), one, vselect(veq(x, one), one, result));
}

// erf: below 1 x p(x^2) (error 4.0e-8), above 1 - 2^u(|x|), whose u is fitted to log2(erfc) on [1, 3.95] (error of erf
// 1.6e-8, and 1.7e-8 of the power, which is a sixth of erf at most); beyond, erf is 1 in float.
ETIR_INLINE vf verf(vf x) {
  const vf size = vmin_bound(vset(3.95f), vabs(x)), square = size * size;
  vf p = vset(-0.0005631422391161323f);
  p = p * square + 0.004917551297694445f;
  p = p * square - 0.02671131119132042f;
  p = p * square + 0.11280179768800735f;
  p = p * square - 0.37612324953079224f;
  p = p * square + 1.1283791065216064f;
  vf u = vset(-0.0016695193480700254f);
  u = u * size + 0.021397849544882774f;
  u = u * size - 0.12811097502708435f;
  u = u * size - 0.9438688158988953f;
  u = u * size - 1.612386703491211f;
  u = u * size - 0.003778645070269704f;
  const vf shifted = u + 12582912.0f;
  const vf r = u - (shifted - 12582912.0f);
  vf e = vset(0.001326472731307149f);
  e = e * r + 0.009671512991189957f;
  e = e * r + 0.05550733581185341f;
  e = e * r + 0.24022242426872253f;
  e = e * r + 0.6931470036506653f;
  e = e * r + 1.0f;
  e = e * vfloat((vbits(shifted) - vset_int(0x4b400000 - 127)) << 23);
  return vselect(vlt(size, vset(1.0f)), x * p, vsign_of(1.0f - e, x));  // a NaN goes through e
}

// x as n pi/2 + r with |r| <= pi/4: r, and n modulo 4. Of one number beyond what `vturned` does by floats: the bits of
// 2/pi that count times the 24 of x, in whole numbers. r is NaN for what is not finite.
ETIR_NOINLINE __attribute__((unused)) float vturned_far(float x, int32_t* turns) {
  // Two bits more in front.
  static const uint32_t two_over_pi[7] = {0, 0x28be60db, 0x9391054a, 0x7f09d5f4, 0x7d4d3770, 0x36d8a566, 0x4f10e410};
  uint32_t bits, word[3];
  __builtin_memcpy(&bits, &x, sizeof(bits));
  *turns = 0;
  if ((bits >> 23 & 0xff) == 0xff) return x - x;
  const uint32_t from = (bits >> 23 & 0xff) - 126, at = from / 32, by = from % 32, digits = bits << 8 | 0x80000000u;
  for (int i = 0; i < 3; ++i) {
    word[i] = by == 0 ? two_over_pi[at + i] : two_over_pi[at + i] << by | two_over_pi[at + i + 1] >> (32 - by);
  }
  // Two bits of n, and 62 after the point.
  const uint64_t low = (uint64_t)digits * word[1] + ((uint64_t)digits * word[2] >> 32);
  const uint64_t product = ((uint64_t)(digits * word[0]) << 32) + low, nearest = product + 0x2000000000000000u;
  const uint64_t rest = product - (nearest & 0xc000000000000000u);
  const int32_t n = (int32_t)(nearest >> 62);
  // In halves: what makes floats of 64 bits is a function of a library.
  const float r = ((float)(int32_t)(rest >> 32) + (float)(uint32_t)rest * 2.32830644e-10f) * 1.46291807927e-9f;
  *turns = bits >> 31 ? -n : n;
  return bits >> 31 ? -r : r;
}
ETIR_NOINLINE __attribute__((unused)) void vturned_some(const vf* x, vf* r, vi* turns) {
  float from[ETIR_VW], to[ETIR_VW];
  int32_t n[ETIR_VW];
  __builtin_memcpy(from, x, sizeof(from));
  __builtin_memcpy(to, r, sizeof(to));
  __builtin_memcpy(n, turns, sizeof(n));
  for (int i = 0; i < ETIR_VW; ++i) {
    if (__builtin_fabsf(from[i]) > 8192.0f) to[i] = vturned_far(from[i], &n[i]);
  }
  __builtin_memcpy(r, to, sizeof(to));
  __builtin_memcpy(turns, n, sizeof(n));
}
ETIR_INLINE vf vturned(vf x, vi* turns) {
  const vf shifted = x * 0.636619772f + 12582912.0f;
  const vf whole = shifted - 12582912.0f;
  // pi/2 in three parts, of which the first two times a whole number below 2^13 are exact: r is right to 3e-11.
  vf r = ((x - whole * 1.5703125f) - whole * 4.837512969970703e-4f) - whole * 7.549789948768648e-8f;
  *turns = vbits(shifted);  // their two lowest bits: those of 12582912 are 0
  if (__builtin_expect(vany(vgt(vabs(x), vset(8192.0f))), 0)) {
    vf r_far = r;
    vi turns_far = *turns;
    vturned_some(&x, &r_far, &turns_far);
    r = r_far;
    *turns = turns_far;
  }
  return r;
}

// sin and cos: r + r^3 p(r^2) (error 4.3e-9) and 1 - r^2 / 2 + r^4 q(r^2) (error 1.2e-10) take turns.
ETIR_INLINE vf vwave(vf x, int32_t ahead) {
  vi turns;
  const vf r = vturned(x, &turns), square = r * r;
  turns = turns + vset_int(ahead);
  vf p = vset(-0.0001951101003214717f);
  p = p * square + 0.008332121185958385f;
  p = p * square - 0.16666653752326965f;
  vf q = vset(2.4432563805021346e-05f);
  q = q * square - 0.0013887310633435845f;
  q = q * square + 0.04166664555668831f;
  const vf sine = vsign_of(r + r * square * p, r), cosine = 1.0f - 0.5f * square + square * square * q;
  const vf found = vselect(vne(vconvert(turns & 1), vset(0.0f)), cosine, sine);
  return vfloat(vbits(found) ^ ((turns & 2) << 30));
}
ETIR_INLINE vf vsin(vf x) { return vwave(x, 0); }
ETIR_INLINE vf vcos(vf x) { return vwave(x, 1); }

#endif
