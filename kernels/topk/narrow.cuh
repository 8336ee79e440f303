// Exact selection by radix passes: the interval of keys that holds the k-th largest, narrowed until what is in it is decided.
//
// In: keys that every thread visits a part of, at least k of them >= low.  Out: an Interval, then k indices in any order.
// All threads of the CTA take part in every function; each ends with a barrier behind what it read.
#pragma once
#include "shape.cuh"

namespace narrow {

using shape::BINS;
using shape::Shared;
using shape::THREADS;
using shape::u32;

// Keys above `top` are `above` in number and win; `inside` are in [low, top] and hold the other winners.
struct Interval {
  u32 low, top;
  int above, inside;
};

struct Entries {  // candidates in shared memory: raw bits, or ordered keys where threads keep lists
  const Shared& s;
  const float* row;
  int count;
  __device__ __forceinline__ int size() const { return count; }
  __device__ __forceinline__ int index(int i) const { return s.index[i]; }
  __device__ __forceinline__ u32 key(int i) const {
    if constexpr (shape::PER_THREAD) return s.bits[i];
    else if constexpr (shape::INDEX_ONLY) return shape::ordered(__ldg(row + s.index[i]));
    else return shape::ordered(s.bits[i]);
  }
};
struct Whole {  // a row in memory
  const shape::Row& row;
  __device__ __forceinline__ int size() const { return row.length; }
  __device__ __forceinline__ int index(int i) const { return row.first + i; }
  __device__ __forceinline__ u32 key(int i) const { return row.key(i); }
};

// Calls use(key) for every key of this thread.
template <class Source, class Use>
__device__ __forceinline__ void each_key(const Source& source, Use use) {
#pragma unroll 4
  for (int i = threadIdx.x; i < source.size(); i += THREADS) use(source.key(i));
}

__device__ __forceinline__ void clear_bins(Shared& s) {
  for (int i = threadIdx.x; i < BINS / 4; i += THREADS) s.clear[i] = make_uint4(0, 0, 0, 0);
}

// The sum over the lanes up to this one.
__device__ __forceinline__ u32 inclusive(u32 value) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const u32 other = __shfl_up_sync(~0u, value, d);
    if (lane >= d) value += other;
  }
  return value;
}

// From the highest bin down, the bin in which the running count reaches `need`: s.bin, s.above, s.inside.
__device__ __forceinline__ void find_bin(Shared& s, u32 need) {
  constexpr int EACH = BINS > THREADS ? 4 : 1;
  static_assert(EACH * THREADS >= BINS);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = BINS / EACH - 1 - static_cast<int>(threadIdx.x);
  u32 count[EACH] = {}, sum = 0;  // from the highest bin down
  if (group >= 0) {
    if constexpr (EACH == 4) {
      const uint4 four = s.clear[group];
      count[0] = four.w, count[1] = four.z, count[2] = four.y, count[3] = four.x;
    } else {
      count[0] = s.bins[group];
    }
  }
#pragma unroll
  for (int j = 0; j < EACH; ++j) sum += count[j];
  const u32 upto = inclusive(sum);
  if (lane == 31) s.warp_sum[warp] = upto;
  __syncthreads();
  u32 above = upto - sum + __reduce_add_sync(~0u, lane < warp ? s.warp_sum[lane] : 0u);
#pragma unroll
  for (int j = 0; j < EACH; ++j) {
    if (above < need && above + count[j] >= need) {
      s.bin = group * EACH + EACH - 1 - j;
      s.above = above;
      s.inside = count[j];
    }
    above += count[j];
  }
  __syncthreads();
}

// Narrows [low, ~0] to the bin that holds the k-th largest key, until at most `enough` keys are inside, or all of them win,
// or all of them are equal.  `hint` >= low: about the largest key; the first pass spreads its bins over [low, hint].
template <class Source>
__device__ __forceinline__ Interval find(Shared& s, const Source& source, int k, u32 low, u32 hint, int enough) {
  Interval at{low, ~0u, 0, 0};
  while (true) {
    const int shift = max(0, 32 - __clz(hint - at.low) - shape::BIN_BITS);
    clear_bins(s);
    __syncthreads();
    each_key(source, [&](u32 key) {
      if (key >= at.low && key <= at.top)
        atomicAdd(&s.bins[min((key - at.low) >> shift, static_cast<u32>(BINS - 1))], 1u);
    });
    __syncthreads();
    find_bin(s, k - at.above);
    const u32 bin = s.bin;
    at.above += s.above;
    at.inside = s.inside;
    at.low += bin << shift;
    // The highest bin also holds what is above the hint.
    const u32 width = (1u << shift) - 1u;
    if (bin < BINS - 1 && at.top - at.low > width) at.top = at.low + width;
    if (at.inside <= enough || at.above + at.inside == k || at.low == at.top) return at;
    hint = at.top;
    __syncthreads();  // all have read what this pass found
  }
}

// Writes the k indices that the interval decides.  With more undecided keys than UNDECIDED they must be equal or all win.
template <class Source>
__device__ __forceinline__ void emit(Shared& s, const Source& source, int k, const Interval& at, int* out) {
  const bool all = at.above + at.inside == k, equal = at.low == at.top;
  const int need = k - at.above, lane = threadIdx.x % 32;
  const u32 least = all || at.top == ~0u ? at.low : at.top + 1u;  // the least key that surely wins
  const bool none = !all && at.top == ~0u;                        // nothing does
  __syncthreads();
  if (threadIdx.x == 0) s.winners = s.ties = 0;
  __syncthreads();
  const int size = source.size();
#pragma unroll 2
  for (int i = threadIdx.x; i - lane < size; i += THREADS) {
    const u32 key = i < size ? source.key(i) : 0u;
    const bool win = i < size && key >= least && !none;
    const u32 wins = __ballot_sync(~0u, win);
    if (wins) {
      u32 to = 0;
      if (lane == 0) to = atomicAdd(&s.winners, static_cast<u32>(__popc(wins)));
      to = __shfl_sync(~0u, to, 0) + __popc(wins & ((1u << lane) - 1u));
      if (win) out[to] = source.index(i);
    }
    if (!all && i < size && key >= at.low && key <= at.top) {
      const u32 tie = atomicAdd(&s.ties, 1u);
      if (equal) {
        if (tie < need) out[at.above + tie] = source.index(i);
      } else if constexpr (shape::UNDECIDED > 0) {
        s.undecided[tie] = make_uint2(key, source.index(i));
      }
    }
  }
  if (all || equal) return;
  __syncthreads();
  if constexpr (shape::UNDECIDED > 0)
    for (int i = threadIdx.x; i < at.inside; i += THREADS) {
      const uint2 mine = s.undecided[i];
      u32 rank = 0;
      for (int j = 0; j < at.inside; ++j)
        rank += s.undecided[j].x > mine.x || (s.undecided[j].x == mine.x && j < i);
      if (rank < need) out[at.above + rank] = static_cast<int>(mine.y);
    }
}

template <class Source>
__device__ __forceinline__ Interval largest(Shared& s, const Source& source, int k, u32 low, u32 hint, int* out) {
  const Interval at =
      find(s, source, k, shape::RANGE ? low : 0u, shape::RANGE ? hint : ~0u, shape::UNDECIDED);
  emit(s, source, k, at, out);
  return at;
}

}  // namespace narrow
