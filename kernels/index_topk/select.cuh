// Exact selection of the k largest of a row by a team of threads: one warp in main, a block's in merge and repair.
//
// A source hands out all entries of the row as (score bits, key), several a lane at a time so that their latencies overlap;
// it is walked once a pass and never copied.  by_bins, the usual case: bins of equal width in the scores, from the threshold
// to the largest sampled score.  by_radix, any case: nine bits of the ordered score a pass.
// Both end alike: entries above the bin that holds the k-th largest are sure, those inside it are ranked in a short list.
// Out: k distinct entries in any order.
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
  __device__ __forceinline__ void sync() const {
    if constexpr (Threads == 32) __syncwarp();
    else ptx::sync_named<Threads>(barrier);
  }
};

// What a source hands to a pass: `batch(entry, valid)`, all of one lane.
constexpr int BATCH = 8;
struct Entry {
  u32 bits;
  int key;
};

struct List {
  const uint2* from;  // aligned to 16 bytes
  int held;           // entries
  int walked;         // entries that are read, at least `held`
};
// Lists of candidates; `lists(g)` says which.  A warp walks a list.
template <class Lists>
struct Candidates {
  Lists lists;
  int count;

  template <class T, class F>
  __device__ __forceinline__ void each(const T& team, F&& batch) const {
    const int lane = team.rank % 32;
#pragma unroll 1
    for (int g = team.rank / 32; g < count; g += T::threads / 32) {
      const List list = lists(g);
#pragma unroll 1
      for (int i = 2 * lane; i < list.walked; i += 32 * BATCH) {
        Entry e[BATCH];
        bool valid[BATCH];
#pragma unroll
        for (int u = 0; u < BATCH; u += 2) {
          const int at = i + 32 * u;
          uint4 two{};
          if (at < list.walked) two = ptx::load_global_16(list.from + at);
          e[u] = {two.x, static_cast<int>(two.y)};
          e[u + 1] = {two.z, static_cast<int>(two.w)};
          valid[u] = at < list.held;
          valid[u + 1] = at + 1 < list.held;
        }
        batch(e, valid);
      }
    }
  }
};
template <class Lists>
Candidates(Lists, int) -> Candidates<Lists>;

// A row of scores in memory.
struct Scores {
  const float* scores;
  int first, count;

  template <class T, class F>
  __device__ __forceinline__ void each(const T& team, F&& batch) const {
#pragma unroll 1
    for (int i = team.rank; i < count; i += BATCH * T::threads) {
      Entry e[BATCH];
      bool valid[BATCH];
#pragma unroll
      for (int u = 0; u < BATCH; ++u) {
        const int at = i + u * T::threads;
        valid[u] = at < count;
        e[u] = {valid[u] ? __float_as_uint(__ldcg(scores + at)) : 0u, first + at};
      }
      batch(e, valid);
    }
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

__device__ __forceinline__ bool finite(u32 bits) { return (bits & 0x7F800000u) != 0x7F800000u; }

// Where a bin's count lies: a lane that reads neighbouring bins shares no bank with the other lanes.
__device__ __forceinline__ int place(int bin) { return bin ^ (bin >> shape::BIN_BITS - 5 & 31); }

template <class T>
__device__ __forceinline__ void clear(const T& team, SelectScratch& s) {
#pragma unroll 4
  for (int i = team.rank; i < shape::BINS; i += T::threads) s.bins[i] = 0;
  if (team.rank == 0) s.winners = s.ties = 0;
  team.sync();
}

// Finds the bin, from the top, in which the running count reaches `need`; every bin's count becomes the count above it.
template <class T>
__device__ __forceinline__ void find_bin(const T& team, SelectScratch& s, u32 need) {
  static_assert(shape::BINS % T::threads == 0);
  constexpr int each = shape::BINS / T::threads;
  const int lane = team.rank % 32, warp = team.rank / 32, top = shape::BINS - 1 - team.rank * each;
  u32 here[each], sum = 0;
#pragma unroll
  for (int j = 0; j < each; ++j) sum += here[j] = s.bins[place(top - j)];
  u32 upto = sum;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const u32 other = __shfl_up_sync(~0u, upto, d);
    if (lane >= d) upto += other;
  }
  if constexpr (T::threads > 32) {
    if (lane == 31) s.warp_sum[warp] = upto;
    team.sync();
    for (int w = 0; w < warp; ++w) upto += s.warp_sum[w];
  }
  u32 above = upto - sum;
#pragma unroll
  for (int j = 0; j < each; ++j) {
    s.bins[place(top - j)] = above;
    if (above < need && above + here[j] >= need) {
      s.bin = top - j;
      s.above = above;
      s.inside = here[j];
    }
    above += here[j];
  }
  team.sync();
}

// The best `need` of the list's `count` undecided entries go behind the `sure` ones.
template <class T>
__device__ __forceinline__ void rank_list(const T& team, SelectScratch& s, int count, u32 need, u32 sure, Sink& sink) {
  for (int i = team.rank; i < count; i += T::threads) {
    const uint2 mine = s.list[i];
    u32 rank = 0;
    for (int j = 0; j < count; ++j) rank += s.list[j].x > mine.x || (s.list[j].x == mine.x && j < i);
    if (rank < need) sink.put(sure + rank, mine.y, shape::bits_of(mine.x));
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
  clear(team, s);
  source.each(team, [&](const Entry(&e)[BATCH], const bool(&valid)[BATCH]) {
#pragma unroll
    for (int u = 0; u < BATCH; ++u)
      if (valid[u]) atomicAdd(&s.bins[place(bin(e[u].bits))], 1u);
  });
  team.sync();
  find_bin(team, s, k);
  const int last = s.bin, inside = s.inside;
  const u32 sure = s.above;
  if (inside > shape::LIST) {
    team.sync();
    return false;
  }
  source.each(team, [&](const Entry(&e)[BATCH], const bool(&valid)[BATCH]) {
    int in[BATCH];
    u32 at[BATCH];
    bool tie = false;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      in[u] = valid[u] ? bin(e[u].bits) : -1;
      tie |= in[u] == last;
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u)
      if (in[u] > last) at[u] = atomicAdd(&s.bins[place(in[u])], 1u);
#pragma unroll
    for (int u = 0; u < BATCH; ++u)
      if (in[u] > last) {
        sink.put(at[u], e[u].key, e[u].bits);
        if (in[u] == shape::BINS - 1 && !finite(e[u].bits)) s.not_finite = 1;
      }
    if (tie) {
#pragma unroll
      for (int u = 0; u < BATCH; ++u)
        if (in[u] == last) s.list[atomicAdd(&s.ties, 1u)] = make_uint2(shape::ordered(e[u].bits), e[u].key);
    }
  });
  team.sync();
  rank_list(team, s, inside, k - sure, sure, sink);
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
  while (true) {
    clear(team, s);
    const u32 base = old_shift == 32 ? 0u : prefix << (old_shift - shift);
    source.each(team, [&](const Entry(&e)[BATCH], const bool(&valid)[BATCH]) {
#pragma unroll
      for (int u = 0; u < BATCH; ++u) {
        const u32 d = shape::ordered(e[u].bits) - low;
        if (valid[u] && (old_shift == 32 || d >> old_shift == prefix)) atomicAdd(&s.bins[place((d >> shift) - base)], 1u);
      }
    });
    team.sync();
    find_bin(team, s, need);
    prefix = base + s.bin;
    need -= s.above;
    above += s.above;
    if (s.inside <= shape::LIST || shift == 0) break;
    old_shift = shift;
    shift = max(0, shift - shape::BIN_BITS);
    team.sync();  // bin, above, inside have been read by all
  }
  const bool listed = s.inside <= shape::LIST;
  source.each(team, [&](const Entry(&e)[BATCH], const bool(&valid)[BATCH]) {
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const u32 key = shape::ordered(e[u].bits), part = (key - low) >> shift;
      if (!valid[u] || part < prefix) continue;
      if (part > prefix) {
        sink.put(atomicAdd(&s.winners, 1u), e[u].key, e[u].bits);
      } else {
        const u32 at = atomicAdd(&s.ties, 1u);
        if (listed) s.list[at] = make_uint2(key, e[u].key);
        else if (at < need) sink.put(above + at, e[u].key, e[u].bits);  // all of them are equal
      }
    }
  });
  team.sync();
  if (listed) rank_list(team, s, s.inside, need, above, sink);
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
