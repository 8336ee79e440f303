// One pass over a row: what `pass` accepts is stored as a candidate, or `win` writes it to the output at once.
//
// In: a row, a threshold.  Out: s.found candidates were seen; those that fit are in s.index and s.bits.
#pragma once
#include "narrow.cuh"

namespace filter {

using narrow::Shared;
using shape::THREADS;
using shape::u32;

constexpr int KEYS = 4 * shape::UNROLL;         // of a thread in one batch
constexpr int BATCH = KEYS * THREADS;

// Keys of one batch: element number of key j, and the values.
struct Batch {
  float value[KEYS];
  int base;
  __device__ __forceinline__ int element(int j) const {
    return shape::VECTOR ? base + j / 4 * 4 * THREADS + j % 4 : base + j * THREADS;
  }
};

// Loads the batch that begins `from` elements behind the first vector; bit j of the result says that key j is of the row.
// Values of the others are not of the row.
__device__ __forceinline__ u32 load(const shape::Row& row, int from, Batch& b) {
  if constexpr (shape::VECTOR) {
    const int first = from / 4 + static_cast<int>(threadIdx.x), end = row.vectors();
#pragma unroll
    for (int u = 0; u < shape::UNROLL; ++u) {
      float4 four = make_float4(0.f, 0.f, 0.f, 0.f);
      if (first + u * THREADS < end) four = __ldcs(row.vector(first + u * THREADS));
      b.value[4 * u] = four.x, b.value[4 * u + 1] = four.y, b.value[4 * u + 2] = four.z, b.value[4 * u + 3] = four.w;
    }
    b.base = 4 * first - row.skip;
  } else {
    b.base = from + static_cast<int>(threadIdx.x);
#pragma unroll
    for (int j = 0; j < KEYS; ++j) b.value[j] = b.element(j) < row.length ? __ldcs(row.at + b.element(j)) : 0.f;
  }
  u32 there = (1u << KEYS) - 1u;
  if (from == 0 || from + BATCH > row.length) {  // the same for all threads
#pragma unroll
    for (int j = 0; j < KEYS; ++j)
      if (static_cast<u32>(b.element(j)) >= static_cast<u32>(row.length)) there &= ~(1u << j);
  }
  return there;
}

__device__ __forceinline__ void store(Shared& s, u32 at, float value, int column) {
  s.index[at] = column;
  if constexpr (!shape::INDEX_ONLY) s.bits[at] = __float_as_uint(value);
}

// Stores the keys of `mask` as candidates.
__device__ __forceinline__ void keep(Shared& s, const shape::Row& row, const Batch& b, u32 mask) {
  const int lane = threadIdx.x % 32;
  if constexpr (flag::RESERVE == flag::RESERVE_t::one) {
#pragma unroll
    for (int j = 0; j < KEYS; ++j)
      if (mask >> j & 1u) {
        const u32 at = atomicAdd(&s.found, 1u);
        if (at < shape::CAPACITY) store(s, at, b.value[j], row.first + b.element(j));
      }
  } else if constexpr (flag::RESERVE == flag::RESERVE_t::ballot) {
    u32 total = 0;
#pragma unroll
    for (int j = 0; j < KEYS; ++j) total += __popc(__ballot_sync(~0u, mask >> j & 1u));
    if (total == 0) return;
    u32 at = 0;
    if (lane == 0) at = atomicAdd(&s.found, total);
    at = __shfl_sync(~0u, at, 0);
    if (at + total > shape::CAPACITY) return;  // the row has failed
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
      const u32 votes = __ballot_sync(~0u, mask >> j & 1u);
      if (mask >> j & 1u) store(s, at + __popc(votes & ((1u << lane) - 1u)), b.value[j], row.first + b.element(j));
      at += __popc(votes);
    }
  } else {
    const u32 mine = __popc(mask), upto = narrow::inclusive(mine), total = __shfl_sync(~0u, upto, 31);
    if (total == 0) return;
    u32 at = 0;
    if (lane == 0) at = atomicAdd(&s.found, total);
    at = __shfl_sync(~0u, at, 0) + upto - mine;
    if (at - (upto - mine) + total > shape::CAPACITY) return;  // the row has failed
#pragma unroll
    for (int j = 0; j < KEYS; ++j)
      if (mask >> j & 1u) store(s, at++, b.value[j], row.first + b.element(j));
  }
}

template <class Use>
__device__ __forceinline__ void each_batch(const shape::Row& row, Use use) {
#pragma unroll 1
  for (int from = 0; from < row.skip + row.length; from += BATCH) {
    Batch b;
    const u32 there = load(row, from, b);
    use(b, there);
  }
}

// Candidates: every key that reaches `low`; of a row that was not sampled (low 0), every key.
__device__ __forceinline__ void candidates(Shared& s, const shape::Row& row, u32 low) {
  if (threadIdx.x == 0) s.found = 0;
  __syncthreads();
  const float threshold = shape::from_ordered(low);
  each_batch(row, [&](const Batch& b, u32 there) {
    u32 mask = 0;
#pragma unroll
    for (int j = 0; j < KEYS; ++j)
      if (!(b.value[j] < threshold)) mask |= 1u << j;
    keep(s, row, b, (low ? mask : ~0u) & there);
  });
  __syncthreads();
}

}  // namespace filter
