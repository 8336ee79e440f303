// Exact selection of the k largest of a row by a team of threads: one warp in main, a block's in merge and repair.
//
// A source (walk.cuh) is walked once a pass and never copied.  by_bins, the usual case: bins of equal width in the scores, from
// the threshold to the largest sampled score.  by_radix, any case: nine bits of the ordered score a pass.
// Both end alike: entries above the bin that holds the k-th largest are sure, those inside it are ranked in a short list.
// Out: k distinct entries in any order.
#pragma once
#include "shape.cuh"
#include "walk.cuh"

namespace select {

using ptx::u64;
using shape::SelectScratch;

// Writes indices, or folds the ordered keys of the selected scores (EMIT off).
struct Sink {
  int* out;
  u64 folded = 0;
  __device__ __forceinline__ void put(int at, int index, u32 bits) {
    if constexpr (flag::EMIT) out[at] = index;
    else folded += shape::ordered(bits);
  }
};

__device__ __forceinline__ bool finite(u32 bits) { return (bits & 0x7F800000u) != 0x7F800000u; }

template <class T>
__device__ __forceinline__ void clear(const T& team, SelectScratch& s) {
#pragma unroll 4
  for (int i = team.rank; i < shape::BINS; i += T::threads) s.bins[i] = 0;
  if (team.rank == 0) s.winners = s.ties = 0;
  team.sync();
}

// The bin, from the top, in which the running count reaches `need`, the counts above it and inside it.
struct Found {
  int bin;
  u32 above, inside;
};
// Each warp of a team finds it by itself.
__device__ __forceinline__ Found find_bin(const SelectScratch& s, u32 need) {
  constexpr int rows = shape::BINS / 32;
  const int lane = threadIdx.x % 32;
  u32 here[rows], mine = 0, above = 0;
  int row = 0;
#pragma unroll
  for (int j = 0; j < rows; ++j) here[j] = s.bins[shape::BINS - 1 - 32 * j - lane];
  bool found = false;
#pragma unroll
  for (int j = 0; j < rows; ++j) {
    const u32 sum = __reduce_add_sync(~0u, here[j]);
    const bool reached = above + sum >= need;
    if (!found && reached) row = j, mine = here[j];
    found |= reached;
    if (!found) above += sum;
  }
  u32 upto = mine;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const u32 other = __shfl_up_sync(~0u, upto, d);
    if (lane >= d) upto += other;
  }
  const int at = __ffs(__ballot_sync(~0u, above + upto >= need)) - 1;
  return {shape::BINS - 1 - 32 * row - at, above + __shfl_sync(~0u, upto - mine, at), __shfl_sync(~0u, mine, at)};
}

// The best `need` of the list's `count` undecided entries go behind the `sure` ones.
template <class T>
__device__ __forceinline__ void rank_list(const T& team, SelectScratch& s, int count, u32 need, u32 sure, Sink& sink) {
  for (int i = team.rank; i < count; i += T::threads) {
    const uint2 mine = s.list[i];
    const u32 key = shape::ordered(mine.x);
    u32 rank = 0;
#pragma unroll 4
    for (int j = 0; j < count; ++j) {
      const u32 other = shape::ordered(s.list[j].x);
      rank += (other > key) | ((other == key) & (j < i));
    }
    if (rank < need) sink.put(sure + rank, mine.y, mine.x);
  }
}

// False, with nothing written, when the bin that decides holds more than LIST entries or the range is not finite.
template <class T, class Source>
__device__ __forceinline__ bool by_bins(const T& team, SelectScratch& s, const Source& source, u32 k, float bottom, float top,
                                        Sink& sink) {
  const float scale = (shape::BINS - 1) / (top - bottom), bias = 8388608.f - bottom * scale;
  if (!(scale > 0.f && scale < 1e30f && fabsf(bottom * scale) < 4e6f)) return false;
  // Adding 2^23 leaves the integer part in the low bits; the sum is monotonic in the score.
  const auto bin = [=](u32 bits) {
    return max(0, min(shape::BINS - 1, __float_as_int(fmaf(__uint_as_float(bits), scale, bias)) - 0x4B000000));
  };
  const int lane = team.rank % 32;
  clear(team, s);
  source.each(team, [&](const Entry(&e)[BATCH], const bool(&valid)[BATCH]) {
#pragma unroll
    for (int u = 0; u < BATCH; ++u) atomicAdd(&s.bins[valid[u] ? bin(e[u].bits) : shape::BINS + lane], 1u);
  });
  team.sync();
  const Found found = find_bin(s, k);
  const int last = found.bin;
  const u32 sure = found.above;
  if (found.inside > shape::LIST) {
    team.sync();
    return false;
  }
  u32 taken = 0;  // by a team of one warp; others count in memory
  source.each(team, [&](const Entry(&e)[BATCH], const bool(&valid)[BATCH]) {
    int in[BATCH];
    u32 mine = 0;  // winners, and in the upper half undecided ones
    bool odd = false;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      in[u] = valid[u] ? bin(e[u].bits) : -1;
      mine += in[u] > last ? 1u : in[u] == last ? 0x10000u : 0u;
      odd |= in[u] == shape::BINS - 1 && !finite(e[u].bits);
    }
    u32 at = mine;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const u32 other = __shfl_up_sync(~0u, at, d);
      if (lane >= d) at += other;
    }
    u32 first = taken;
    if constexpr (T::threads == 32) taken += __shfl_sync(~0u, at, 31);
    else if (lane == 31) first = atomicAdd(&s.winners, at);
    if constexpr (T::threads > 32) first = __shfl_sync(~0u, first, 31);
    at += first - mine;
    u32 tie = at >> 16;
    at &= 0xFFFFu;
    if (mine >> 16) {
#pragma unroll
      for (int u = 0; u < BATCH; ++u) {
        s.list[in[u] == last ? tie : shape::LIST] = make_uint2(e[u].bits, e[u].key);
        tie += in[u] == last;
      }
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u)
      if (in[u] > last) sink.put(at++, e[u].key, e[u].bits);
    if (odd) s.not_finite = 1;
  });
  team.sync();
  rank_list(team, s, found.inside, k - sure, sure, sink);
  team.sync();
  return true;
}

// Any scores, ties and what is not finite included; needs at least k entries.
template <class T, class Source>
__device__ __forceinline__ void by_radix(const T& team, SelectScratch& s, const Source& source, u32 k, Sink& sink) {
  if (team.rank == 0) s.low = ~0u, s.top = 0u;
  team.sync();
  u32 least = ~0u, most = 0u;
  source.each(team, [&](const Entry(&e)[BATCH], const bool(&valid)[BATCH]) {
#pragma unroll
    for (int u = 0; u < BATCH; ++u)
      if (valid[u]) {
        const u32 key = shape::ordered(e[u].bits);
        least = min(least, key), most = max(most, key);
        if (!finite(e[u].bits)) s.not_finite = 1;
      }
  });
  atomicMin(&s.low, least);
  atomicMax(&s.top, most);
  team.sync();
  const u32 low = s.low;
  int shift = max(0, 32 - __clz(s.top - low) - shape::BIN_BITS), old_shift = 32;
  u32 prefix = 0, need = k, above = 0;
  Found found;
  while (true) {
    clear(team, s);
    const u32 base = old_shift == 32 ? 0u : prefix << (old_shift - shift);
    source.each(team, [&](const Entry(&e)[BATCH], const bool(&valid)[BATCH]) {
#pragma unroll
      for (int u = 0; u < BATCH; ++u) {
        const u32 d = shape::ordered(e[u].bits) - low;
        if (valid[u] && (old_shift == 32 || d >> old_shift == prefix)) atomicAdd(&s.bins[(d >> shift) - base], 1u);
      }
    });
    team.sync();
    found = find_bin(s, need);
    prefix = base + found.bin;
    need -= found.above;
    above += found.above;
    if (found.inside <= shape::LIST || shift == 0) break;
    old_shift = shift;
    shift = max(0, shift - shape::BIN_BITS);
    team.sync();  // the bins have been read by all
  }
  const bool listed = found.inside <= shape::LIST;
  source.each(team, [&](const Entry(&e)[BATCH], const bool(&valid)[BATCH]) {
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const u32 key = shape::ordered(e[u].bits), part = (key - low) >> shift;
      if (!valid[u] || part < prefix) continue;
      if (part > prefix) {
        sink.put(atomicAdd(&s.winners, 1u), e[u].key, e[u].bits);
      } else {
        const u32 at = atomicAdd(&s.ties, 1u);
        if (listed) s.list[at] = make_uint2(e[u].bits, e[u].key);
        else if (at < need) sink.put(above + at, e[u].key, e[u].bits);  // all of them are equal
      }
    }
  });
  team.sync();
  if (listed) rank_list(team, s, found.inside, need, above, sink);
  team.sync();
}

// The k largest candidates of a row, of which there are at least k; false when some score is not finite: then the row has to
// be repaired.
template <class T, class Source>
__device__ __forceinline__ bool candidates(const T& team, SelectScratch& s, const Source& source, const shape::Info& info,
                                           Sink& sink) {
  if (team.rank == 0) s.not_finite = 0;
  if (!by_bins(team, s, source, flag::K, info.threshold, info.top, sink)) by_radix(team, s, source, flag::K, sink);
  const bool all_finite = s.not_finite == 0;
  team.sync();
  return all_finite;
}

// A row with at most K valid keys: all of them.
template <class T>
__device__ __forceinline__ void short_row(const T& team, const shape::Info& info, Sink& sink) {
  const int valid = info.end - info.begin;
  for (int i = team.rank; i < flag::K; i += T::threads) sink.put(i, i < valid ? info.begin + i : -1, ~0u);
}

template <class T>
__device__ __forceinline__ void from_memory(const T& team, SelectScratch& s, const float* scores, const shape::Info& info,
                                            int* out) {
  Sink sink{out};
  const int valid = info.end - info.begin;
  if (valid <= flag::K) short_row(team, info, sink);
  else by_radix(team, s, Scores{scores + info.begin, info.begin, valid}, flag::K, sink);
}

}  // namespace select
