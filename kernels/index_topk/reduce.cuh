// ReLU, weights and the sum over 64 heads: the accumulators of a step become two finished scores a lane.
//
// In: d of a step (see shape.cuh: group = 64 columns of one row's heads).  Out: lane l's scores, as shape.cuh says.
//
// f32: max and multiply-add per head on the ordinary lanes (128 thread-instructions a pair), then a reduction over 4 lanes.
// packed: one packed conversion with ReLU and one packed multiply-add per two heads (64 thread-instructions a pair, the
//   conversions at half rate), sums of 32 in f16, the last one in f32.
// f16: as packed on f16 accumulators, which need no conversion, half the registers and half the traffic of the matrix
//   instruction with the register file.  math.cuh sees to it that they do not overflow.
#pragma once
#include "shape.cuh"

namespace reduce {

using ptx::u32;

// Where the weights of a group begin.
__device__ __forceinline__ int weights_of(int group) { return group % flag::BLOCK_Q * shape::HEADS; }

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ __forceinline__ u32 pack_relu(float low, float high) {
  u32 r;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ __forceinline__ u32 relu(u32 x) {  // NaN stays NaN
  u32 r;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(0u));
  return r;
}
__device__ __forceinline__ float widen(u32 half) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(static_cast<unsigned short>(half)));
  return f;
}

template <flag::REDUCE_MATH_t Math>
struct Reduction;

// Of 4 groups x 2 rows of partial sums, each of four lanes keeps its own group and gives the others away.
__device__ __forceinline__ void over_lanes(const float (&p)[shape::GROUPS][2], int lane, float& first, float& second) {
  const bool upper = lane & 2, odd = lane & 1;
  float half[2][2];
#pragma unroll
  for (int j = 0; j < 2; ++j)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      half[j][h] = (upper ? p[j + 2][h] : p[j][h]) + __shfl_xor_sync(~0u, upper ? p[j][h] : p[j + 2][h], 2);
  first = (odd ? half[1][0] : half[0][0]) + __shfl_xor_sync(~0u, odd ? half[0][0] : half[1][0], 1);
  second = (odd ? half[1][1] : half[0][1]) + __shfl_xor_sync(~0u, odd ? half[0][1] : half[1][1], 1);
}

// Weighted sums on the ordinary lanes, two heads an instruction.
struct Halves {
  u32 w[shape::GROUPS][8];
  float factor;  // taken out of the weights, so that 64 products of the largest f16 do not overflow

  __device__ __forceinline__ void load(const float* weights, int lane) {
    const int t = lane & 3;
#pragma unroll
    for (int j = 0; j < shape::GROUPS; ++j) {
      float2 v[8];
      float most = 0.f;
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        v[c] = *reinterpret_cast<const float2*>(weights + weights_of(j) + 8 * c + 2 * t);
        most = fmaxf(most, fmaxf(fabsf(v[c].x), fabsf(v[c].y)));
      }
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const int exponent = min(max(static_cast<int>(__float_as_uint(most) >> 23), 11), 243) - 119;
      const float down = __uint_as_float(static_cast<u32>(127 - exponent) << 23);
      if (j == t) factor = __uint_as_float(static_cast<u32>(127 + exponent) << 23);
#pragma unroll
      for (int c = 0; c < 8; ++c) w[j][c] = pack(v[c].x * down, v[c].y * down);
    }
  }
  struct Partial {
    u32 low[shape::GROUPS], high[shape::GROUPS];
  };
  static __device__ __forceinline__ void fma(u32& sum, u32 a, u32 b) {
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  }
  static __device__ __forceinline__ u32 plus(u32 a, u32 b) {
    u32 sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
  }
  static __device__ __forceinline__ float both(u32 sum) { return widen(sum & 0xFFFFu) + widen(sum >> 16); }
  __device__ __forceinline__ void finish(const Partial& p, int lane, float& first, float& second) const {
    const auto &low = p.low, &high = p.high;
    // As over_lanes, but two heads at a time: the last sum, of even and odd heads, is in f32.
    const bool upper = lane & 2, odd = lane & 1;
    u32 half[2][2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      half[j][0] = plus(upper ? low[j + 2] : low[j], __shfl_xor_sync(~0u, upper ? low[j] : low[j + 2], 2));
      half[j][1] = plus(upper ? high[j + 2] : high[j], __shfl_xor_sync(~0u, upper ? high[j] : high[j + 2], 2));
    }
    const u32 one = plus(odd ? half[1][0] : half[0][0], __shfl_xor_sync(~0u, odd ? half[0][0] : half[1][0], 1));
    const u32 two = plus(odd ? half[1][1] : half[0][1], __shfl_xor_sync(~0u, odd ? half[0][1] : half[1][1], 1));
    first = both(one);
    second = both(two);
  }
};

template <>
struct Reduction<flag::REDUCE_MATH_t::packed> : Halves {
  template <int Half>
  __device__ __forceinline__ void add(Partial& p, const float (&d)[128]) const {
#pragma unroll
    for (int j = 2 * Half; j < 2 * Half + 2; ++j) p.low[j] = p.high[j] = 0u;
#pragma unroll
    for (int c = 0; c < 8; ++c)
#pragma unroll
      for (int j = 2 * Half; j < 2 * Half + 2; ++j) {
        const int i = 32 * j + 4 * c;
        fma(p.low[j], pack_relu(d[i], d[i + 1]), w[j][c]);
        fma(p.high[j], pack_relu(d[i + 2], d[i + 3]), w[j][c]);
      }
  }
};

template <>
struct Reduction<flag::REDUCE_MATH_t::f16> : Halves {
  __device__ __forceinline__ void add(Partial& p, const u32 (&d)[64]) const {
#pragma unroll
    for (int j = 0; j < shape::GROUPS; ++j) p.low[j] = p.high[j] = 0u;
#pragma unroll
    for (int c = 0; c < 8; ++c)
#pragma unroll
      for (int j = 0; j < shape::GROUPS; ++j) {
        const int i = 16 * j + 2 * c;
        fma(p.low[j], relu(d[i]), w[j][c]);
        fma(p.high[j], relu(d[i + 1]), w[j][c]);
      }
  }
};

// Weighted sums on the ordinary lanes, in full precision.
template <>
struct Reduction<flag::REDUCE_MATH_t::f32> {
  const float* w;
  static constexpr float factor = 1.f;

  __device__ __forceinline__ void load(const float* weights, int lane) {
    w = weights + 2 * (lane & 3);
  }
  struct Partial {
    float p[shape::GROUPS][2];
  };
  template <int Half>
  __device__ __forceinline__ void add(Partial& partial, const float (&d)[128]) const {
    auto& p = partial.p;
#pragma unroll
    for (int j = 2 * Half; j < 2 * Half + 2; ++j) {
      float low = 0.f, high = 0.f;
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const float2 v = *reinterpret_cast<const float2*>(w + weights_of(j) + 8 * c);
        const int i = 32 * j + 4 * c;
        low = fmaf(fmaxf(d[i], 0.f), v.x, low);
        low = fmaf(fmaxf(d[i + 1], 0.f), v.y, low);
        high = fmaf(fmaxf(d[i + 2], 0.f), v.x, high);
        high = fmaf(fmaxf(d[i + 3], 0.f), v.y, high);
      }
      p[j][0] = low;
      p[j][1] = high;
    }
  }
  __device__ __forceinline__ void finish(const Partial& p, int lane, float& first, float& second) const {
    over_lanes(p.p, lane, first, second);
  }
};

}  // namespace reduce
