// The selector of serving engines: a histogram of half-precision keys over the whole row, then radix on the float bits of the
// one bin that decides.
//
// In: a row of more than K keys.  Out: the indices above that bin are written; its keys are candidates.
#pragma once
#include "filter.cuh"

namespace histogram {

using narrow::Shared;
using shape::u32;

__device__ __forceinline__ u32 half_bits(float x) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}

// The bin of a value: the upper bits of its ordered half-precision key.  Rounding keeps the order.
__device__ __forceinline__ u32 bin_of(float x) {
  const u32 bits = half_bits(x);
  const u32 key = (bits & 0x7FFFu) > 0x7C00u ? 0xFFFFu : bits ^ ((bits >> 15) ? 0xFFFFu : 0x8000u);
  return key >> (16 - shape::BIN_BITS);
}

// The number of indices that were written.
__device__ __forceinline__ int candidates(Shared& s, const shape::Row& row, int* out) {
  narrow::clear_bins(s);
  if (threadIdx.x == 0) s.found = s.winners = 0;
  __syncthreads();
  filter::each_batch(row, [&](const filter::Batch& b, u32 there) {
#pragma unroll
    for (int j = 0; j < filter::KEYS; ++j)
      if (there >> j & 1u) atomicAdd(&s.bins[bin_of(b.value[j])], 1u);
  });
  __syncthreads();
  narrow::find_bin(s, shape::K);
  const u32 pivot = s.bin;
  const int above = s.above, lane = threadIdx.x % 32;
  filter::each_batch(row, [&](const filter::Batch& b, u32 there) {
    u32 wins = 0, inside = 0;
#pragma unroll
    for (int j = 0; j < filter::KEYS; ++j) {
      const u32 bin = bin_of(b.value[j]);
      if (bin > pivot) wins |= 1u << j;
      if (bin == pivot) inside |= 1u << j;
    }
    filter::keep(s, row, b, inside & there);
    wins &= there;
    const u32 mine = __popc(wins), upto = narrow::inclusive(mine);
    u32 at = 0;
    if (lane == 31 && upto) at = atomicAdd(&s.winners, upto);
    at = __shfl_sync(~0u, at, 31) + upto - mine;
#pragma unroll
    for (int j = 0; j < filter::KEYS; ++j)
      if (wins >> j & 1u) out[at++] = row.first + b.element(j);
  });
  __syncthreads();
  return above;
}

}  // namespace histogram
