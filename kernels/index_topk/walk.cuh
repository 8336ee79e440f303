// Who walks over the entries of a row, and the sources that hand them out.
//
// A source gives each lane several entries (score bits, key) at a time, so that their latencies overlap, and is walked once a
// pass: segments of candidates as main left them, lists of candidates by two CTAs, scores in memory.
#pragma once
#include "filter.cuh"
#include "shape.cuh"

namespace select {

using ptx::u32;

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

// The segments of a row, by one warp: 64 entries of each, then 64 more of each.  Reads on to the end of the longest.
struct Segments {
  const uint2* from;  // aligned to 16 bytes
  const int* counts;  // entries of each segment; beyond its room there are none
  int longest;        // entries walked

  template <class T, class F>
  __device__ __forceinline__ void each(const T& team, F&& batch) const {
    static_assert(T::threads == 32);
    constexpr int loads = BATCH / 2, side = shape::SEGMENTS < loads ? shape::SEGMENTS : loads, deep = loads / side;
#pragma unroll 1
    for (int at = 2 * team.rank; at - 2 * team.rank < longest; at += 64 * deep) {
#pragma unroll 1
      for (int g = 0; g < shape::SEGMENTS; g += side) {
        const uint2* here = from + g * shape::SEGMENT_ROOM + at;
        Entry e[BATCH];
        bool valid[BATCH];
#pragma unroll
        for (int u = 0; u < loads; ++u) {
          const uint4 two = ptx::load_global_16(here + u % side * shape::SEGMENT_ROOM + u / side * 64);
          e[2 * u] = {two.x, static_cast<int>(two.y)};
          e[2 * u + 1] = {two.z, static_cast<int>(two.w)};
        }
#pragma unroll
        for (int u = 0; u < loads; ++u) {
          const int left = min(counts[g + u % side], shape::SEGMENT_ROOM) - at - u / side * 64;
          valid[2 * u] = left > 0;
          valid[2 * u + 1] = left > 1;
        }
        batch(e, valid);
      }
    }
  }
};

struct List {
  const uint2* from;  // aligned to 16 bytes
  int held;           // entries
};
// Lists of candidates; `lists(g)` says which.  The team's warps take 64 entries of one list each in turn: of all lists, then
// of all lists further on.
template <class Lists>
struct Candidates {
  Lists lists;
  int count, longest;  // lists, entries of the longest

  template <class T, class F>
  __device__ __forceinline__ void each(const T& team, F&& batch) const {
    constexpr int warps = T::threads / 32;
    const int lane = team.rank % 32;
    int g = team.rank / 32 % count, at = team.rank / 32 / count * 64 + 2 * lane;
#pragma unroll 1
    while (at - 2 * lane < longest) {
      Entry e[BATCH];
      bool valid[BATCH];
#pragma unroll
      for (int u = 0; u < BATCH; u += 2) {
        const List list = lists(g);
        uint4 two{};
        if (at < list.held) two = ptx::load_global_16(list.from + at);
        e[u] = {two.x, static_cast<int>(two.y)};
        e[u + 1] = {two.z, static_cast<int>(two.w)};
        valid[u] = at < list.held;
        valid[u + 1] = at + 1 < list.held;
        g += warps;
        while (g >= count) g -= count, at += 64;
      }
      batch(e, valid);
    }
  }
};
template <class Lists>
Candidates(Lists, int, int) -> Candidates<Lists>;

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

}  // namespace select
