// The Math role: a batch of queries against its tiles of keys (steps.cuh), and what becomes of the scores.
//
// Two warpgroups take turns (flag PINGPONG): while one sums over heads, the tensor cores work for the other.
// In: stages filled by TMA.  Out: candidates in a slot (main), or scores in memory (sample, repair, STORE_SCORES), or a
// checksum of what a rung of the ladder does not consume.
#pragma once
#include "filter.cuh"
#include "select.cuh"
#include "steps.cuh"

namespace math {

using shape::Piece;

constexpr int SCALED = 4;  // named barrier 4: the queries are scaled

// The least s >= 0 for which 2^-s of each q.k, and of each partial sum of it, is below 60,000: |q.k|^2 <= |q|^2 |k|^2.
__device__ __forceinline__ int excess(float q_square, float k_square) {
  const float over = q_square * (k_square / 3.6e9f);
  return over > 1.f ? (static_cast<int>(__float_as_uint(over) >> 23) - 125) / 2 : 0;
}

template <Mode M>
struct Role : Steps<M> {
  using R = Rung<M>;
  using Steps<M>::s, Steps<M>::a, Steps<M>::warp, Steps<M>::lane, Steps<M>::group, Steps<M>::key_in_tile;
  using Steps<M>::keys, Steps<M>::fold, Steps<M>::turns;
  using Steps<M>::trace;
  const int query = lane % 4 % flag::BLOCK_Q;
  tma::Ring queries{}, slots{};
  int turn = 0;  // which warpgroup takes the next tile of this CTA
  u64 folded_scores = 0;
  int barriers = 0;
  float k_square = 0.f;  // the largest square of a key's norm

  __device__ __forceinline__ void run() {
    keys.next(flag::KV_STAGES, group);
    if constexpr (R::narrow) {
      for (int i = lane; i < a.squares; i += 32) k_square = fmaxf(k_square, a.k_square[i]);
#pragma unroll
      for (int d = 16; d; d /= 2) k_square = fmaxf(k_square, __shfl_xor_sync(~0u, k_square, d));
    }
    if constexpr (turns && R::mma)
      if (group == 1) ptx::arrive_named<256>(TURN);  // the first turn is warpgroup 0's
#pragma unroll 1
    while (true) {
      const int stage = queries.stage;
      ptx::wait(&s.q_full[stage], queries.phase);  // waits for TMA: queries, weights, bounds
      const Piece piece = s.piece[stage];
      if (piece.kind == shape::stop) break;
      if constexpr (M == Mode::repair) {
        if (piece.kind == shape::round_end) finish_round(piece);
      }
      if (piece.kind < shape::round_end) batch(piece, stage);
      __syncwarp();
      if (lane == 0) ptx::arrive(&s.q_empty[stage]);
      queries.next(2);
    }
    if constexpr (R::filters) hand_over(Piece{0, 0, 0, shape::stop}, -1);
    if constexpr (M == Mode::main && !R::filters && !R::stores) {
      // One addition a warp: one a thread, all to the same address, took longer than the matrix work of short rows.
      u64 sum = R::reduces ? folded_scores : static_cast<u64>(fold);
#pragma unroll
      for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
      if (lane == 0) atomicAdd(a.checksum, sum);
    }
    trace.close();
  }

  // Tells TopK that a slot is full (or that no more will come).
  __device__ __forceinline__ void hand_over(const Piece& piece, int stage) {
    const int slot = slots.stage;
    if (stage < 0) ptx::wait(&s.slot_free[slot], slots.phase ^ 1u);  // waits for TopK
    if (warp == 0 && lane < flag::BLOCK_Q && stage >= 0) s.slot_info[slot][lane] = s.info[stage][lane];
    if (warp == 0 && lane == 0) s.slot_piece[slot] = piece;
    __syncwarp();
    if (lane == 0) ptx::arrive(&s.slot_ready[slot]);
    slots.next(shape::SLOTS);
  }

  // Queries whose products with some key could leave f16 are made smaller by a power of two, in place.  What becomes
  // subnormal in e4m3 loses bits: at most 2^-10 of a row whose largest value is at least 448 / 2^excess.
  __device__ __forceinline__ void scale_queries(int stage) {
    bool any = false;
#pragma unroll 1
    for (int q = 0; q < flag::BLOCK_Q; ++q) {
      const int less = excess(s.info[stage][q].q_square, k_square);
      if (less == 0) continue;
      any = true;
      const u32 factor = (15u - less << 10) * 0x10001u;
      auto* row = reinterpret_cast<u32*>(s.q[stage][q]);
      for (int i = threadIdx.x; i < shape::HEADS * shape::DIM / 4; i += shape::MATH_THREADS)
        row[i] = ptx::scale_e4m3(row[i] & 0xFFFFu, factor) | ptx::scale_e4m3(row[i] >> 16, factor) << 16;
    }
    if (!any) return;
    ptx::fence_async();
    ptx::sync_named<shape::MATH_THREADS>(SCALED);
  }

  __device__ __forceinline__ void batch(const Piece& piece, int stage) {
    reduce::Reduction<R::math> reduction;
    if constexpr (R::reduces) reduction.load(s.w[stage][0], lane);
    const shape::Info& info = s.info[stage][query];
    if constexpr (R::narrow) {
      scale_queries(stage);
      reduction.factor *= __uint_as_float(127 + excess(info.q_square, k_square) << 23);
    }
    // Tiles that lie inside the bounds of every row of the batch need no mask.
    int inside_from = info.begin, inside_to = info.end;
#pragma unroll
    for (int q = 0; q < flag::BLOCK_Q; ++q) {
      inside_from = max(inside_from, s.info[stage][q].begin);
      inside_to = min(inside_to, s.info[stage][q].end);
    }
    filter::Filter filter;
    const bool whole = piece.kind == shape::whole;
    const auto slot_of = [&] { return whole ? slots.stage : shape::SLOTS + piece.kind - shape::head; };
    const auto counts_of = [&](int slot) {
      return whole ? s.counts[slot][query]
                   : a.counts + ((blockIdx.x * 2 + (slot - shape::SLOTS)) * flag::BLOCK_Q + query) * shape::SEGMENTS;
    };
    if constexpr (R::filters) {
      const int slot = slot_of();
      if (whole) {
        trace.template begin<event::slot_free>(piece.row);
        ptx::wait(&s.slot_free[slot], slots.phase ^ 1u);  // waits for TopK: the batch that used this slot
        trace.template end<event::slot_free>(piece.row);
      }
      const size_t row = static_cast<size_t>((blockIdx.x * shape::ALL_SLOTS + slot) * flag::BLOCK_Q + query);
      filter.open(a.cand + row * shape::ROW_ROOM, counts_of(slot), info.threshold, warp, lane);
    }
    trace.template begin<event::score>(piece.row);
    int tile = (group - turn + flag::MATH_WARPGROUPS) % flag::MATH_WARPGROUPS;
    int key = piece.key + tile * shape::TILE_KEYS;
    const int mine = tile < piece.tiles ? (piece.tiles - tile + flag::MATH_WARPGROUPS - 1) / flag::MATH_WARPGROUPS : 0;
    // What becomes of a finished step's two scores.
    const auto consume = [&](float first, float second, float scale, float scale_8) {
      if constexpr (R::reduces) {
        // Adding +0 turns -0 into +0: both are the same score.
        first = fmaf(first, scale * reduction.factor, 0.f);
        second = fmaf(second, scale_8 * reduction.factor, 0.f);
      }
      const int at = key + key_in_tile;
      const bool inside = key >= inside_from && key + shape::TILE_KEYS <= inside_to;
      const bool a_valid = inside | ((at >= info.begin) & (at < info.end));
      const bool b_valid = inside | ((at + 8 >= info.begin) & (at + 8 < info.end));
      if constexpr (R::stores) {
        if constexpr (M == Mode::main) {  // the unfused scorer: nothing outside the row's bounds
          if (!a_valid) first = -shape::INF;
          if (!b_valid) second = -shape::INF;
        }
        if (M == Mode::repair || piece.row + query < a.rows) {
          float* to = a.scores + (piece.row + query) * a.stride + at;
          if (at < a.keys) to[0] = first;
          if (at + 8 < a.keys) to[8] = second;
        }
      } else if constexpr (R::filters) {
        filter.take(first, second, at, a_valid, b_valid, lane);
      } else if constexpr (R::reduces) {
        if (a_valid) folded_scores += shape::ordered(__float_as_uint(first));
        if (b_valid) folded_scores += shape::ordered(__float_as_uint(second));
      }
      key += flag::MATH_WARPGROUPS * shape::TILE_KEYS;
    };
    if constexpr (R::narrow) this->in_pairs(reduction, mine, stage, key, consume);
    else this->one_by_one(reduction, mine, stage, key, consume);
    trace.template end<event::score>(piece.row);
    turn = (turn + piece.tiles) % flag::MATH_WARPGROUPS;
    if constexpr (R::filters) {
      filter.close(counts_of(slot_of()), lane);
      if (whole) hand_over(piece, stage);
    }
  }

  // Repair: when all CTAs have scored their share, each selects rows from the scratch.
  __device__ __forceinline__ void finish_round(const Piece& piece) {
    using Team = select::Team<shape::MATH_THREADS>;
    const Team team{1, static_cast<int>(threadIdx.x)};
    grid_barrier(team);
    for (int row = blockIdx.x; row < piece.tiles; row += gridDim.x) {
      const int global_row = a.failed[piece.row + row];
      select::from_memory(team, s.select[0], a.scores + row * a.stride, a.info[global_row],
                          a.out + static_cast<size_t>(global_row) * flag::K);
    }
    grid_barrier(team);
  }
  template <class Team>
  __device__ __forceinline__ void grid_barrier(const Team& team) {
    team.sync();
    ++barriers;
    if (team.rank == 0) {
      __threadfence();
      atomicAdd(&a.control[1], 1u);
      while (ptx::load_acquire(&a.control[1]) < barriers * gridDim.x) {
      }
      __threadfence();
    }
    team.sync();
  }
};

}  // namespace math
