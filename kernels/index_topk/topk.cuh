// The TopK role: from full slots of candidates to the indices of each row, while Math scores the next batch.
//
// In: slots that Math has filled, with true counts.  Out: K indices a row, or the row on the list of failed rows.
#pragma once
#include "attr/trace.cuh"
#include "select.cuh"
#include "shape.cuh"
#include "tma.cuh"

namespace topk {

using ptx::u64;
using select::Sink;
using shape::Args;
using shape::Smem;

// Each warp takes rows of its own, in turn over all slots: nothing but the slots' barriers makes one wait for another.
struct Role {
  Smem& s;
  const Args& a;
  [[no_unique_address]] attr::Lane<role::topk> trace;  // of the first warp
  const int warp, lane;
  u64 folded = 0;

  __device__ __forceinline__ void run() {
    tma::Ring slots{};
    int first = 0;  // the warp that takes a slot's first row
#pragma unroll 1
    while (true) {
      const int slot = slots.stage;
      trace.template begin<event::slot_ready>(slot);
      ptx::wait(&s.slot_ready[slot], slots.phase);  // waits for Math: all warps have stored their candidates
      trace.template end<event::slot_ready>(slot);
      const shape::Piece piece = s.slot_piece[slot];
      if (piece.kind == shape::stop) break;
      trace.template begin<event::select>(piece.row);
      if constexpr (flag::SELECT) {
#pragma unroll 1
        for (int q = (warp - first + shape::TOPK_WARPS) % shape::TOPK_WARPS; q < flag::BLOCK_Q; q += shape::TOPK_WARPS)
          if (piece.row + q < a.rows) {
            shape::delay<role::topk>();
            row(slot, q, piece.row + q);
          }
        first = (first + flag::BLOCK_Q) % shape::TOPK_WARPS;
      }
      trace.template end<event::select>(piece.row);
      if constexpr (flag::LAYOUT == flag::LAYOUT_t::shared)
        if (warp == 0 && lane < flag::BLOCK_Q && !flag::SELECT) s.counts[slot][lane][0] = 0;
      __syncwarp();
      if (lane == 0) ptx::arrive(&s.slot_free[slot]);
      slots.next(shape::SLOTS);
    }
    if constexpr (flag::SELECT && !flag::EMIT) atomicAdd(a.checksum, folded);
    trace.close();
  }

  __device__ __forceinline__ void row(int slot, int q, int row) {
    const select::Team<32> team{0, lane};
    const shape::Info info = s.slot_info[slot][q];
    Sink sink{a.out + static_cast<size_t>(row) * flag::K};
    if (info.end - info.begin <= flag::K) {
      select::short_row(team, info, sink);
    } else {
      const int* counts = s.counts[slot][q];
      const uint2* from = a.cand + static_cast<size_t>((blockIdx.x * shape::ALL_SLOTS + slot) * flag::BLOCK_Q + q) * shape::ROW_ROOM;
      const int count = lane < shape::SEGMENTS ? counts[lane] : 0, stored = min(count, shape::SEGMENT_ROOM);
      const bool lost = __any_sync(~0u, count > shape::SEGMENT_ROOM);
      if (lost || __reduce_add_sync(~0u, stored) < flag::K) {
        if (lane == 0) shape::fail(a, row, lost ? shape::segment_full : shape::underflow);
      } else {
        // Reserved: the walk covers the whole segment, and what was spilled behind it.
        constexpr int least = flag::SCAN == flag::SCAN_t::reserved ? flag::SEGMENT_CAPACITY : 0;
        const int longest = max(least, static_cast<int>(__reduce_max_sync(~0u, stored)));
        const select::Segments source{from, counts, longest};
        if (!select::candidates(team, s.select[warp], source, info, sink) && lane == 0) shape::fail(a, row, shape::not_finite);
      }
    }
    if constexpr (flag::LAYOUT == flag::LAYOUT_t::shared) {  // Math counts on from here, of short rows too
      __syncwarp();
      if (lane == 0) s.counts[slot][q][0] = 0;
    }
    folded += sink.folded;
  }
};

}  // namespace topk
