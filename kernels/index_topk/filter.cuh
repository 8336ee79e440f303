// Candidates: scores at or above the row's threshold go to this warp's segments in global memory (they stay in L2).
//
// In: two scores a lane.  Out: (score bits, key) entries and true counts, attempts beyond the room included.
// Layouts: `segments` one list per Math warp and row; `split` one per half of the warp's keys; `shared` one per row, with
// atomics.  Nothing is stored behind a branch that the whole warp takes or not.
#pragma once
#include "shape.cuh"

namespace filter {

using shape::Piece;

struct Filter {
  uint2* segment;  // where this lane's candidates go; split: those of the first half, the second's are one segment further
  int* shared;     // LAYOUT shared: the row's counter
  int number;      // of the segment within the row
  int count[2];    // entries in it, by half when split; the same in all lanes that share the segment
  unsigned int mine;  // lanes that hold scores of the same row
  float threshold;

  __device__ __forceinline__ void open(uint2* row, int* counter, float threshold_, int warp, int lane) {
    shared = counter;
    count[0] = count[1] = 0;
    constexpr unsigned int every = flag::BLOCK_Q == 4 ? 0x11111111u : flag::BLOCK_Q == 2 ? 0x55555555u : ~0u;
    mine = every << (lane % flag::BLOCK_Q);
    number = flag::LAYOUT == flag::LAYOUT_t::shared ? 0 : flag::LAYOUT == flag::LAYOUT_t::split ? 2 * warp : warp;
    segment = row + number * shape::SEGMENT_ROOM;
    threshold = threshold_;
  }
  // One predicated store; entries beyond the room are only counted.
  static __device__ __forceinline__ void put(bool yes, uint2* segment, int at, float score, int key) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %0, 0;\n@p st.global.v2.b32 [%1], {%2, %3};\n}" ::"r"(
                     static_cast<int>(yes && at < shape::SEGMENT_ROOM)),
                 "l"(segment + at), "r"(__float_as_uint(score)), "r"(key)
                 : "memory");
  }
  // Scores of `key` and `key + 8`; `a`, `b`: these lie inside the row's bounds.
  __device__ __forceinline__ void take(float first, float second, int key, bool a, bool b, int lane) {
    // Not below, rather than at or above: NaN passes, so that TopK sees it and has the row repaired.
    a = !(first < threshold) && a;
    b = !(second < threshold) && b;
    const unsigned int all_a = __ballot_sync(~0u, a), all_b = __ballot_sync(~0u, b);
    if constexpr (flag::LAYOUT == flag::LAYOUT_t::split || flag::BLOCK_Q == 1) {
      const unsigned int below = (1u << lane) - 1u, row_a = all_a & mine, row_b = all_b & mine;
      const int number_a = __popc(row_a), number_b = __popc(row_b);
      const int rank_a = __popc(row_a & below), rank_b = __popc(row_b & below);
      if constexpr (flag::LAYOUT == flag::LAYOUT_t::split) {
        put(a, segment, count[0] + rank_a, first, key);
        put(b, segment + shape::SEGMENT_ROOM, count[1] + rank_b, second, key + 8);
        count[0] += number_a;
        count[1] += number_b;
      } else {
        const int base = reserve(number_a + number_b, lane);
        put(a, segment, base + rank_a, first, key);
        put(b, segment, base + number_a + rank_b, second, key + 8);
      }
    } else {
      // Both halves in one mask, the row's lanes side by side: two counts of bits instead of four.
      constexpr unsigned int every = flag::BLOCK_Q == 4 ? 0x11111111u : 0x55555555u;
      const int q = lane % flag::BLOCK_Q;
      const unsigned int both = ((all_a >> q) & every) | (((all_b >> q) & every) << 1);
      const int rank = __popc(both & ((1u << (lane - q)) - 1u));
      const int base = reserve(__popc(both), lane);
      put(a, segment, base + rank, first, key);
      put(b, segment, base + rank + (a ? 1 : 0), second, key + 8);
    }
  }
  __device__ __forceinline__ int reserve(int entries, int lane) {
    int base = count[0];
    count[0] += entries;
    if constexpr (flag::LAYOUT == flag::LAYOUT_t::shared) {
      const int leader = __ffs(mine) - 1;
      if (lane == leader && entries) base = atomicAdd(shared, entries);
      base = __shfl_sync(~0u, base, leader);
    }
    return base;
  }
  // The true counts, by one lane of the row.
  __device__ __forceinline__ void close(int* counts, int lane) const {
    if constexpr (flag::LAYOUT != flag::LAYOUT_t::shared)
      if (lane == __ffs(mine) - 1)
        for (int h = 0; h < (flag::LAYOUT == flag::LAYOUT_t::split ? 2 : 1); ++h) counts[number + h] = count[h];
  }
};

}  // namespace filter
