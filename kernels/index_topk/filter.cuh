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
  uint2* row;      // this lane's row in the slot
  int* shared;     // LAYOUT shared: the row's counter
  int count[2];    // this warp's entries in the row, by half when split; the same in all lanes of the row
  int warp;
  unsigned int mine;  // lanes that hold scores of the same row
  float threshold;
  int begin, end;

  __device__ __forceinline__ void open(uint2* row_in_slot, int* counter, const shape::Info& info, int warp_, int lane) {
    row = row_in_slot;
    shared = counter;
    count[0] = count[1] = 0;
    warp = warp_;
    constexpr unsigned int every = flag::BLOCK_Q == 4 ? 0x11111111u : flag::BLOCK_Q == 2 ? 0x55555555u : ~0u;
    mine = every << (lane % flag::BLOCK_Q);
    threshold = info.threshold;
    begin = info.begin;
    end = info.end;
  }
  static __device__ __forceinline__ void put(uint2* row, int segment, int at, float score, int key) {
    if (at < shape::SEGMENT_ROOM) {
      // Spill lies behind all segments, so that these stay dense.
      uint2* to = at < flag::SEGMENT_CAPACITY
                      ? row + segment * flag::SEGMENT_CAPACITY + at
                      : row + shape::SEGMENTS * flag::SEGMENT_CAPACITY + segment * shape::SPILL +
                            (at - flag::SEGMENT_CAPACITY);
      *to = make_uint2(__float_as_uint(score), static_cast<unsigned int>(key));
    }
  }
  // `inside`: all keys of the tile are inside the bounds of every row of the batch.
  __device__ __forceinline__ void take(float first, float second, int key, bool inside, int lane) {
    bool a = first >= threshold, b = second >= threshold;
    if (!inside) {
      a = a && key >= begin && key < end;
      b = b && key + 8 >= begin && key + 8 < end;
    }
    const unsigned int all_a = __ballot_sync(~0u, a), all_b = __ballot_sync(~0u, b);
    if ((all_a | all_b) == 0u) return;
    const unsigned int below = (1u << lane) - 1u;
    const unsigned int row_a = all_a & mine, row_b = all_b & mine;
    if constexpr (flag::LAYOUT == flag::LAYOUT_t::split) {
      if (a) put(row, 2 * warp, count[0] + __popc(row_a & below), first, key);
      if (b) put(row, 2 * warp + 1, count[1] + __popc(row_b & below), second, key + 8);
      count[0] += __popc(row_a);
      count[1] += __popc(row_b);
      return;
    }
    const int number_a = __popc(row_a), number = number_a + __popc(row_b);
    int base = count[0], segment = warp;
    if constexpr (flag::LAYOUT == flag::LAYOUT_t::shared) {
      const int leader = __ffs(mine) - 1;
      if (lane == leader && number) base = atomicAdd(shared, number);
      base = __shfl_sync(~0u, base, leader);
      segment = 0;
    }
    if (a) put(row, segment, base + __popc(row_a & below), first, key);
    if (b) put(row, segment, base + number_a + __popc(row_b & below), second, key + 8);
    count[0] += number;
  }
  // The true counts, by one lane of the row.
  __device__ __forceinline__ void close(int* counts, int lane) const {
    if (lane != __ffs(mine) - 1) return;
    if constexpr (flag::LAYOUT == flag::LAYOUT_t::segments) counts[warp] = count[0];
    if constexpr (flag::LAYOUT == flag::LAYOUT_t::split) {
      counts[2 * warp] = count[0];
      counts[2 * warp + 1] = count[1];
    }
  }
};

}  // namespace filter
