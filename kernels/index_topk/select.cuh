// Exact selection of the k largest by a team of threads.
//
// Radix selection on (key - low): histogram of 10 bits, the bin that holds the k-th largest, again inside that bin until it
// has at most LIST entries or no bits are left; then one pass emits the sure winners and ranks the undecided.
// In: n entries, at least k of them with key >= low.  Out: k distinct entries in any order.
#pragma once
#include "filter.cuh"
#include "shape.cuh"

namespace select {

using ptx::u32;
using ptx::u64;
using shape::SelectScratch;

template <int Threads>
struct Team {
  int barrier, rank;
  static constexpr int threads = Threads;
  __device__ __forceinline__ void sync() const { ptx::sync_named<Threads>(barrier); }
};

using filter::INVALID;
using filter::NO_KEY;

struct InShared {  // ordered keys and indices of candidates
  const uint2* cand;
  __device__ __forceinline__ u32 key(int i) const { return cand[i].x; }
  __device__ __forceinline__ void load(int i, u32& key, int& index) const {
    const uint2 v = cand[i];
    key = v.x;
    index = static_cast<int>(v.y);
  }
};
struct InMemory {  // a row of scores
  const float* scores;
  int first;
  __device__ __forceinline__ u32 key(int i) const { return shape::ordered(__float_as_uint(__ldcg(scores + i))); }
  __device__ __forceinline__ void load(int i, u32& k, int& index) const {
    k = key(i);
    index = first + i;
  }
};

// Writes indices, or folds the ordered keys of the selected scores (EMIT off).
struct Sink {
  int* out;
  u64 folded = 0;
  __device__ __forceinline__ void put(int at, int index, u32 bits) {
    if constexpr (flag::EMIT) out[at] = index;
    else folded += shape::ordered(bits);
  }
};

// The bin, from the top, in which the running count reaches `need`; also the count above it and inside it.
template <class T>
__device__ __forceinline__ void find_bin(const T& team, SelectScratch& s, u32 need) {
  constexpr int each = (shape::BINS + T::threads - 1) / T::threads;
  const int lane = team.rank % 32, warp = team.rank / 32, top = shape::BINS - 1 - team.rank * each;
  u32 sum = 0;
#pragma unroll
  for (int j = 0; j < each; ++j)
    if (top - j >= 0) sum += s.bins[top - j];
  u32 upto = sum;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const u32 other = __shfl_up_sync(~0u, upto, d);
    if (lane >= d) upto += other;
  }
  if (lane == 31) s.warp_sum[warp] = upto;
  team.sync();
  for (int w = 0; w < warp; ++w) upto += s.warp_sum[w];
  if (upto >= need && upto - sum < need) {
    u32 above = upto - sum;
    for (int j = 0; j < each; ++j) {
      const u32 here = s.bins[top - j];
      if (above + here >= need) {
        s.bin = top - j;
        s.above = above;
        s.inside = here;
        break;
      }
      above += here;
    }
  }
  team.sync();
}

// Writes the sure winners, then the best `need` of the undecided behind them.  `wins(key, tie)` says which is which.
template <class T, class Source, class Wins>
__device__ __forceinline__ void emit(const T& team, SelectScratch& s, const Source& source, int n, u32 k, u32 need, u32 above,
                                     bool equal, Sink& sink, Wins wins) {
  const bool listed = s.inside <= shape::LIST;
  const int lane = team.rank % 32;
  const u32 below = (1u << lane) - 1u;
  constexpr int U = 4;
#pragma unroll 1
  for (int from = team.rank; from - lane < n; from += U * T::threads) {
    u32 key[U], win[U], total = 0;
    int index[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const int i = from + u * T::threads;
      bool tie = false, yes = false;
      if (i < n) {
        source.load(i, key[u], index[u]);
        yes = wins(key[u], tie);
      }
      win[u] = __ballot_sync(~0u, yes);
      total += __popc(win[u]);
      if (tie) {
        const u32 at = atomicAdd(&s.ties, 1u);
        if (listed) s.list[at] = make_uint2(key[u], index[u]);
        else if (equal && at < need) sink.put(above + at, index[u], shape::bits_of(key[u]));
      }
    }
    u32 at = 0;
    if (lane == 0 && total) at = atomicAdd(&s.winners, total);
    at = __shfl_sync(~0u, at, 0);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (win[u] >> lane & 1u) sink.put(at + __popc(win[u] & below), index[u], shape::bits_of(key[u]));
      at += __popc(win[u]);
    }
  }
  team.sync();
  if (listed) {
    const int count = s.inside;
    for (int i = team.rank; i < count; i += T::threads) {
      const uint2 mine = s.list[i];
      u32 rank = 0;
      for (int j = 0; j < count; ++j) rank += s.list[j].x > mine.x || (s.list[j].x == mine.x && j < i);
      if (rank < need) sink.put(above + rank, mine.y, shape::bits_of(mine.x));
    }
  }
  team.sync();
}

// The usual case, with candidates in shared memory as (score bits, key): bins of equal width in the scores, from the threshold
// to the largest sampled score.  An entry's place in the output is the count of the bins above its own and its rank in it,
// which the histogram's atomics return (kept in the upper bits of the key): no ballots, one pass each.
// False, with nothing written, when the bin that decides holds more than LIST entries or the range is not finite.
__device__ __forceinline__ bool finite(u32 bits) { return (bits & 0x7F800000u) != 0x7F800000u; }
constexpr int KEY_BITS = 19;
constexpr u32 KEY_MASK = NO_KEY;
static_assert(KEY_MASK == (1u << KEY_BITS) - 1u);
static_assert(shape::ROW_ROOM < 1 << (32 - KEY_BITS), "a rank must fit above the key");

template <class T>
__device__ __forceinline__ bool by_bins(const T& team, SelectScratch& s, uint2* cand, int n, u32 k, float bottom, float top,
                                        Sink& sink) {
  const float scale = (shape::BINS - 1) / (top - bottom), bias = 8388608.f - bottom * scale;
  if (!(scale > 0.f && scale < 1e30f && fabsf(bottom * scale) < 4e6f)) return false;
  // Adding 2^23 leaves the integer part in the low bits; the sum is monotonic in the score.
  const auto bin = [=](u32 bits) {
    return max(0, min(shape::BINS - 1, __float_as_int(fmaf(__uint_as_float(bits), scale, bias)) - 0x4B000000));
  };
  for (int i = team.rank; i < shape::BINS; i += T::threads) s.bins[i] = 0;
  if (team.rank == 0) s.ties = 0;
  team.sync();
  // Entries are taken UNROLL at a time, loads before atomics before stores: a team of three warps has little else to hide
  // latency with.  What fills up the last round falls into bin 0 and ranks below every candidate.
  constexpr int U = shape::UNROLL;
#pragma unroll 1
  for (int i = team.rank; i < n; i += U * T::threads) {
    uint2 v[U];
    u32 rank[U];
#pragma unroll
    for (int u = 0; u < U; ++u) v[u] = cand[i + u * T::threads];
#pragma unroll
    for (int u = 0; u < U; ++u) rank[u] = atomicAdd(&s.bins[bin(v[u].x)], 1u);
#pragma unroll
    for (int u = 0; u < U; ++u) cand[i + u * T::threads].y = v[u].y | rank[u] << KEY_BITS;
  }
  team.sync();
  constexpr int each = (shape::BINS + T::threads - 1) / T::threads;
  const int lane = team.rank % 32, warp = team.rank / 32, first = shape::BINS - 1 - team.rank * each;
  u32 sum = 0;
#pragma unroll
  for (int j = 0; j < each; ++j)
    if (first - j >= 0) sum += s.bins[first - j];
  u32 upto = sum;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const u32 other = __shfl_up_sync(~0u, upto, d);
    if (lane >= d) upto += other;
  }
  if (lane == 31) s.warp_sum[warp] = upto;
  team.sync();
  for (int w = 0; w < warp; ++w) upto += s.warp_sum[w];
  u32 above = upto - sum;
#pragma unroll
  for (int j = 0; j < each; ++j)
    if (first - j >= 0) {
      const u32 here = s.bins[first - j];
      s.bins[first - j] = above;
      if (above < k && above + here >= k) {
        s.bin = first - j;
        s.above = above;
        s.inside = here;
      }
      above += here;
    }
  team.sync();
  const int last = s.bin, inside = s.inside;
  const u32 sure = s.above;
  if (inside > shape::LIST) {
    team.sync();
    return false;
  }
#pragma unroll 1
  for (int i = team.rank; i < n; i += U * T::threads) {
    uint2 v[U];
    int in[U];
    u32 at[U];
    bool tie = false;
#pragma unroll
    for (int u = 0; u < U; ++u) v[u] = cand[i + u * T::threads];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      in[u] = bin(v[u].x);
      at[u] = s.bins[in[u]] + (v[u].y >> KEY_BITS);
      tie |= in[u] == last;
    }
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (in[u] > last) {
        sink.put(at[u], v[u].y & KEY_MASK, v[u].x);
        if (in[u] == shape::BINS - 1 && !finite(v[u].x)) s.not_finite = 1;
      }
    if (tie)
      for (int u = 0; u < U; ++u)
        if (in[u] == last) s.list[atomicAdd(&s.ties, 1u)] = make_uint2(shape::ordered(v[u].x), v[u].y & KEY_MASK);
  }
  team.sync();
  for (int i = team.rank; i < inside; i += T::threads) {
    const uint2 mine = s.list[i];
    u32 rank = 0;
    for (int j = 0; j < inside; ++j) rank += s.list[j].x > mine.x || (s.list[j].x == mine.x && j < i);
    if (rank < k - sure) sink.put(sure + rank, mine.y, shape::bits_of(mine.x));
  }
  team.sync();
  return true;
}

template <class T, class Source>
__device__ __forceinline__ void largest(const T& team, SelectScratch& s, const Source& source, int n, u32 k, u32 low, u32 top,
                                        Sink& sink) {
  int shift = max(0, 32 - __clz(top - low) - 10), old_shift = 32;
  u32 prefix = 0, need = k, above = 0;
  while (true) {
    for (int i = team.rank; i < shape::BINS; i += T::threads) s.bins[i] = 0;
    if (team.rank == 0) s.winners = s.ties = 0;
    team.sync();
    const u32 base = old_shift == 32 ? 0u : prefix << (old_shift - shift);
#pragma unroll 4
    for (int i = team.rank; i < n; i += T::threads) {
      const u32 key = source.key(i), d = key - low;
      if (key >= low && (old_shift == 32 || d >> old_shift == prefix)) atomicAdd(&s.bins[(d >> shift) - base], 1u);
    }
    team.sync();
    find_bin(team, s, need);
    prefix = base + s.bin;
    need -= s.above;
    above += s.above;
    if (s.inside <= shape::LIST || shift == 0) break;
    old_shift = shift;
    shift = max(0, shift - 10);
    team.sync();  // bin, above, inside have been read by all
  }
  emit(team, s, source, n, k, need, above, shift == 0, sink, [=](u32 key, bool& tie) {
    const u32 part = (key - low) >> shift;
    tie = key >= low && part == prefix;
    return key >= low && part > prefix;
  });
}

// Any candidates: scores become ordered keys in place, then radix selection.
template <class T>
__device__ __forceinline__ void by_radix(const T& team, SelectScratch& s, uint2* cand, int n, u32 k, u32 low, Sink& sink) {
  u32 most = 0;
  if (team.rank == 0) s.top = 0;
  team.sync();
#pragma unroll 1
  for (int i = team.rank; i < n; i += T::threads) {
    const u32 index = cand[i].y & KEY_MASK, key = index == NO_KEY ? 0u : shape::ordered(cand[i].x);
    if (index != NO_KEY && !finite(cand[i].x)) s.not_finite = 1;
    cand[i] = make_uint2(key, index);
    most = max(most, key);
  }
  most = __reduce_max_sync(~0u, most);
  if (team.rank % 32 == 0) atomicMax(&s.top, most);
  team.sync();
  largest(team, s, InShared{cand}, n, k, low, s.top, sink);
}

// The k largest candidates of a row; false when some score is not finite: then the row has to be repaired.
template <class T>
__device__ __forceinline__ bool candidates(const T& team, SelectScratch& s, uint2* cand, int n, const shape::Info& info,
                                           Sink& sink) {
  if (team.rank == 0) s.not_finite = 0;
  if (!by_bins(team, s, cand, n, flag::K, info.threshold, info.top, sink))
    by_radix(team, s, cand, n, flag::K, shape::ordered(__float_as_uint(info.threshold + 0.f)), sink);
  const bool finite = s.not_finite == 0;
  team.sync();
  return finite;
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
  if (info.end - info.begin <= flag::K) short_row(team, info, sink);
  else largest(team, s, InMemory{scores + info.begin, info.begin}, info.end - info.begin, flag::K, 0u, ~0u, sink);
}

}  // namespace select
