// ReLU, weights and the sum over 64 heads: 128 accumulators a thread become two finished scores a lane.
//
// In: d of a tile (see shape.cuh: group = 64 columns of one row's heads).  Out: lane l's scores, as shape.cuh says.
//
// f32: max and multiply-add per head on the ordinary lanes (128 thread-instructions a pair), then a reduction over 4 lanes.
// packed: one packed conversion with ReLU and one packed multiply-add per two heads (64 thread-instructions a pair), sums of
//   32 in f16, the last one in f32.
// f16, bf16: one packed conversion with ReLU per two heads, then the weighted sum as a matrix product of m16n8k16: the
//   accumulator layout of WGMMA is the A fragment of that instruction.  Column 2j of B holds the high half of the weights of
//   group j, column 2j+1 what rounding took away, and all groups add into one C, so the sum over lanes costs nothing
//   (40 thread-instructions a pair).  Rounding: each q.k to 11 (f16) or 8 (bf16) bits; weights are exact to 22 or 16 bits.
#pragma once
#include "shape.cuh"

namespace reduce {

using ptx::u32;

// Where the weights of a group begin.
__device__ __forceinline__ int weights_of(int group) { return group % flag::BLOCK_Q * shape::HEADS; }

template <flag::REDUCE_MATH_t Math>
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 r;
  if constexpr (Math == flag::REDUCE_MATH_t::f16)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
template <flag::REDUCE_MATH_t Math>
__device__ __forceinline__ u32 pack_relu(float low, float high) {
  u32 r;
  if constexpr (Math == flag::REDUCE_MATH_t::f16)
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  else
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
template <flag::REDUCE_MATH_t Math>
__device__ __forceinline__ float widen(u32 half) {
  if constexpr (Math == flag::REDUCE_MATH_t::f16) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(static_cast<unsigned short>(half)));
    return f;
  } else {
    return __uint_as_float(half << 16);
  }
}
template <flag::REDUCE_MATH_t Math>
__device__ __forceinline__ void multiply(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  if constexpr (Math == flag::REDUCE_MATH_t::f16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Weighted sums on the tensor cores.
template <flag::REDUCE_MATH_t Math>
struct Reduction {
  u32 b[shape::GROUPS][4][2];
  float factor;  // a power of two that was taken out of the weights, so that f16 holds them

  __device__ __forceinline__ void load(const float* w, int lane) {
    const int column = lane >> 2, t = lane & 3, group = column >> 1;
    const float* row = w + weights_of(group);
    float2 v[4][2];
    float most = 0.f;
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        v[k][h] = *reinterpret_cast<const float2*>(row + 16 * k + 8 * h + 2 * t);
        most = fmaxf(most, fmaxf(fabsf(v[k][h].x), fabsf(v[k][h].y)));
      }
    float down = 1.f;
    factor = 1.f;
    if constexpr (Math == flag::REDUCE_MATH_t::f16) {
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const int exponent = min(max(static_cast<int>(__float_as_uint(most) >> 23), 2), 252) - 127;
      down = __uint_as_float(static_cast<u32>(127 - exponent) << 23);
      // Fetch the factor of this lane's score from a lane that loaded it.
      factor = __shfl_sync(~0u, __uint_as_float(static_cast<u32>(127 + exponent) << 23), 8 * t);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float x = v[k][h].x * down, y = v[k][h].y * down;
        const u32 high = pack<Math>(x, y);
        const u32 rest = pack<Math>(x - widen<Math>(high & 0xFFFFu), y - widen<Math>(high >> 16));
        const u32 mine = (column & 1) ? rest : high;
#pragma unroll
        for (int j = 0; j < shape::GROUPS; ++j) b[j][k][h] = (j == group) ? mine : 0u;
      }
  }
  struct Partial {
    float c[2][4] = {};
  };
  template <int Half>
  __device__ __forceinline__ void add(Partial& p, const float (&d)[128]) const {
    auto& c = p.c;
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int j = 2 * Half; j < 2 * Half + 2; ++j) {
        const int i = 32 * j + 8 * k;
        multiply<Math>(c[j & 1], pack_relu<Math>(d[i], d[i + 1]), pack_relu<Math>(d[i + 2], d[i + 3]),
                       pack_relu<Math>(d[i + 4], d[i + 5]), pack_relu<Math>(d[i + 6], d[i + 7]), b[j][k][0], b[j][k][1]);
      }
  }
  __device__ __forceinline__ void finish(const Partial& p, int, float& first, float& second) const {
    const auto& c = p.c;
    first = (c[0][0] + c[1][0]) + (c[0][1] + c[1][1]);
    second = (c[0][2] + c[1][2]) + (c[0][3] + c[1][3]);
  }
};

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
template <>
struct Reduction<flag::REDUCE_MATH_t::packed> {
  static constexpr auto HALF = flag::REDUCE_MATH_t::f16;
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
      for (int c = 0; c < 8; ++c) w[j][c] = pack<HALF>(v[c].x * down, v[c].y * down);
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
  static __device__ __forceinline__ float both(u32 sum) { return widen<HALF>(sum & 0xFFFFu) + widen<HALF>(sum >> 16); }
  template <int Half>
  __device__ __forceinline__ void add(Partial& p, const float (&d)[128]) const {
#pragma unroll
    for (int j = 2 * Half; j < 2 * Half + 2; ++j) p.low[j] = p.high[j] = 0u;
#pragma unroll
    for (int c = 0; c < 8; ++c)
#pragma unroll
      for (int j = 2 * Half; j < 2 * Half + 2; ++j) {
        const int i = 32 * j + 4 * c;
        fma(p.low[j], pack_relu<HALF>(d[i], d[i + 1]), w[j][c]);
        fma(p.high[j], pack_relu<HALF>(d[i + 2], d[i + 3]), w[j][c]);
      }
  }
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
