// A threshold from a sample of the row, so that few keys are left to select from.  It only has to be likely: whether K keys
// passed it is counted, and a row where they did not is selected again from memory.
//
// In: a row of more than DENSE keys.  Out: {key that candidates must reach, the largest sampled key}.
// One 16-byte group a thread, each at a hashed place of its own stratum: no period of the data can hide from it.
#pragma once
#include "narrow.cuh"

namespace sample {

using narrow::Shared;
using shape::u32;

constexpr int SIZE = 4 * shape::THREADS;  // keys of one group a thread
constexpr int GROUPS_MOST = 4;
constexpr int GROUP_REACH = 48 * SIZE;    // keys of a row for which one more group a thread is read
// Shorter rows are candidates as a whole.
constexpr int DENSE = 2 * (SIZE > shape::K ? SIZE : shape::K);
static_assert(DENSE <= shape::CAPACITY);
// Standard deviations of the number of sampled winners that the threshold leaves room for, as if keys were independent.
constexpr float MARGIN = 5.f;

struct Threshold {
  u32 low, hint;
};

// The sampled keys of this thread.
struct Sampled {
  u32 key[GROUPS_MOST][4];
  int groups;
};
template <class Use>
__device__ __forceinline__ void each_key(const Sampled& sampled, Use use) {
#pragma unroll
  for (int g = 0; g < GROUPS_MOST; ++g)
    if (g < sampled.groups)
#pragma unroll
      for (int j = 0; j < 4; ++j) use(sampled.key[g][j]);
}

__device__ __forceinline__ u32 hashed(u32 x) {
  x *= 0x9E3779B9u;
  x ^= x >> 15;
  x *= 0x85EBCA6Bu;
  return x ^ (x >> 13);
}

// How many of `sampled` keys must reach the threshold so that K of the row do, MARGIN deviations away from failing.
__device__ __forceinline__ int rank_of(int sampled, int length) {
  const float expected = static_cast<float>(shape::K) * sampled / length;
  const float spread = MARGIN * sqrtf(1.f - static_cast<float>(sampled) / length);
  const float root = 0.5f * (spread + sqrtf(spread * spread + 4.f * expected));
  return min(sampled, static_cast<int>(root * root) + 1);
}

// Group g of this thread, as ordered keys.  The first and the last vector may reach over the row's ends: strata lie between.
__device__ __forceinline__ void group(const shape::Row& row, int number, int g, int groups, u32 (&key)[4]) {
  const u32 strata = groups * shape::THREADS, mine = g * shape::THREADS + threadIdx.x, vectors = row.vectors() - 2;
  const u32 v = 1 + static_cast<u32>(static_cast<unsigned long long>(vectors) * mine / strata) +
                hashed(number * GROUPS_MOST * shape::THREADS + mine) % (vectors / strata);
  if constexpr (shape::VECTOR) {
    const float4 four = __ldg(row.vector(v));
    key[0] = shape::ordered(four.x), key[1] = shape::ordered(four.y);
    key[2] = shape::ordered(four.z), key[3] = shape::ordered(four.w);
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) key[j] = row.key(4 * (v - 1) + j);
  }
}

__device__ __forceinline__ Threshold threshold(Shared& s, const shape::Row& row, int number) {
  Sampled mine;
  mine.groups = min(GROUPS_MOST, (row.length - 1) / GROUP_REACH + 1);
#pragma unroll
  for (int g = 0; g < GROUPS_MOST; ++g)
    if (g < mine.groups) group(row, number, g, mine.groups, mine.key[g]);
  u32 least = ~0u, most = 0u;
  each_key(mine, [&](u32 k) { least = min(least, k), most = max(most, k); });
  least = __reduce_min_sync(~0u, least);
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x == 0) s.least = ~0u, s.most = 0u;
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    atomicMin(&s.least, least);
    atomicMax(&s.most, most);
  }
  __syncthreads();
  const int rank = rank_of(mine.groups * SIZE, row.length);
  const u32 hint = s.most;
  u32 low = narrow::find(s, mine, rank, s.least, hint, rank / 8).low;
  // The filter compares floats: there zeros are equal and every NaN passes.
  if (low == shape::PLUS_ZERO) low = shape::MINUS_ZERO;
  return {min(low, shape::PLUS_INF), max(hint, low)};
}

}  // namespace sample
