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
using select::INVALID;
using select::NO_KEY;
using select::Sink;
using shape::Args;
using shape::Smem;

struct Role {
  Smem& s;
  const Args& a;
  [[no_unique_address]] attr::Lane<role::topk> trace;
  const select::Team<shape::TOPK_THREADS> team;
  u64 folded = 0;

  __device__ __forceinline__ void run() {
    tma::Ring slots{};
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
        for (int q = 0; q < flag::BLOCK_Q && piece.row + q < a.rows; ++q) {
          shape::delay<role::topk>();
          row(slot, q, piece.row + q);
        }
      }
      trace.template end<event::select>(piece.row);
      if constexpr (flag::LAYOUT == flag::LAYOUT_t::shared) {
        team.sync();
        if (team.rank < flag::BLOCK_Q) s.counts[slot][team.rank][0] = 0;
      }
      __syncwarp();
      if (team.rank % 32 == 0) ptx::arrive(&s.slot_free[slot]);
      slots.next(shape::SLOTS);
    }
    if constexpr (flag::SELECT && !flag::EMIT) atomicAdd(a.checksum, folded);
    trace.close();
  }

  __device__ __forceinline__ void row(int slot, int q, int row) {
    const shape::Info info = s.slot_info[slot][q];
    Sink sink{a.out + static_cast<size_t>(row) * flag::K};
    if (info.end - info.begin <= flag::K) {
      select::short_row(team, info, sink);
      folded += sink.folded;
      return;
    }
    const int* counts = s.counts[slot][q];
    const uint2* from = a.cand + static_cast<size_t>((blockIdx.x * shape::ALL_SLOTS + slot) * flag::BLOCK_Q + q) * shape::ROW_ROOM;
    constexpr int room = flag::SEGMENT_CAPACITY;
    int n = 0, real = 0;
    bool lost = false;
#pragma unroll 1
    for (int g = 0; g < shape::SEGMENTS; ++g, from += shape::SEGMENT_ROOM) {
      const int count = counts[g], held = min(count, shape::SEGMENT_ROOM);
      // Reserved: the walk covers the whole segment, and what was spilled behind it.
      const int walked = flag::SCAN == flag::SCAN_t::counts ? (held + 1) / 2 * 2 : max(room, (held + 1) / 2 * 2);
      for (int i = 2 * team.rank; i < walked; i += 2 * shape::TOPK_THREADS) ptx::load_16(s.cand + n + i, from + i);
      n += walked;
      real += held;
      lost |= count > shape::SEGMENT_ROOM;
    }
    for (int i = n + team.rank; i < n + shape::PAD; i += shape::TOPK_THREADS) s.cand[i] = make_uint2(INVALID, NO_KEY);
    ptx::load_wait();
    team.sync();
    if (lost || real < flag::K) {
      if (team.rank == 0) shape::fail(a, row, lost ? shape::segment_full : shape::underflow);
      return;
    }
    if constexpr (flag::SCAN == flag::SCAN_t::reserved || flag::LAYOUT == flag::LAYOUT_t::shared) {
      for (int g = 0, at = 0; g < shape::SEGMENTS; ++g) {
        const int held = min(counts[g], shape::SEGMENT_ROOM);
        const int walked = flag::SCAN == flag::SCAN_t::counts ? (held + 1) / 2 * 2 : max(room, (held + 1) / 2 * 2);
        for (int i = held + team.rank; i < walked; i += shape::TOPK_THREADS)
          s.cand[at + i] = make_uint2(INVALID, NO_KEY);
        at += walked;
      }
      team.sync();
    }
    if (!select::candidates(team, s.select, s.cand, n, info, sink) && team.rank == 0) shape::fail(a, row, shape::not_finite);
    folded += sink.folded;
  }
};

}  // namespace topk
