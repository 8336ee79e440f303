// The Math role: matrix products of a tile, the sum over heads, and what becomes of the scores.
//
// Two warpgroups take turns: while one reduces, the tensor cores work for the other (flag PINGPONG).
// In: stages filled by TMA.  Out: candidates in a slot (main), or scores in memory (sample, repair, STORE_SCORES), or a
// checksum of what a rung of the ladder does not consume.
#pragma once
#include "attr/trace.cuh"
#include "filter.cuh"
#include "reduce.cuh"
#include "select.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

namespace math {

using ptx::u32;
using ptx::u64;
using shape::Args;
using shape::Piece;
using shape::Smem;

enum class Mode { main, sample, repair };
constexpr int TURN = 2;  // named barriers 2 and 3: whose turn it is to issue

template <Mode M>
struct Rung {  // what the flags leave of the kernel; sampling and repair are always complete
  static constexpr bool part = M == Mode::main;
  static constexpr bool stores = !part || flag::STORE_SCORES;
  static constexpr bool mma = !part || flag::MMA;
  static constexpr bool reduces = !part || flag::REDUCE;
  static constexpr bool filters = !stores && flag::FILTER;
};

// Issues the tile's products; all but the last instruction are one group, so that the other warpgroup can queue behind.
__device__ __forceinline__ void issue(float (&d)[128], const void* keys, const void* queries) {
  const u64 a = wgmma::descriptor(keys), b = wgmma::descriptor(queries);
  constexpr int N = 64 * flag::BLOCK_Q, A = 64 * shape::DIM >> 4, K = wgmma::K_STEP;
  wgmma::fence();
  wgmma::step<N, 0, 0>(d, a, b);
  wgmma::step<N, 0, 1>(d, a + K, b + K);
  wgmma::step<N, 0, 1>(d, a + 2 * K, b + 2 * K);
  if constexpr (shape::SUBTILES > 1) {
    wgmma::step<N, 0, 1>(d, a + 3 * K, b + 3 * K);
    wgmma::step<N, N / 2, 0>(d, a + A, b);
    wgmma::step<N, N / 2, 1>(d, a + A + K, b + K);
    wgmma::step<N, N / 2, 1>(d, a + A + 2 * K, b + 2 * K);
  }
  if constexpr (shape::SUBTILES > 2) {
    wgmma::step<N, N / 2, 1>(d, a + A + 3 * K, b + 3 * K);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k == 0) wgmma::step<N, N, 0>(d, a + 2 * A, b);
      else wgmma::step<N, N, 1>(d, a + 2 * A + k * K, b + k * K);
    }
    wgmma::step<N, 3 * N / 2 % 128, 0>(d, a + 3 * A, b);
    wgmma::step<N, 3 * N / 2 % 128, 1>(d, a + 3 * A + K, b + K);
    wgmma::step<N, 3 * N / 2 % 128, 1>(d, a + 3 * A + 2 * K, b + 2 * K);
  }
  wgmma::commit();
  constexpr int LAST = shape::SUBTILES - 1;
  wgmma::step<N, LAST * N / 2, 1>(d, a + LAST * A + 3 * K, b + 3 * K);
  wgmma::commit();
}

template <Mode M>
struct Role {
  using R = Rung<M>;
  Smem& s;
  const Args& a;
  attr::Lane<role::math> trace;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
  const int query = lane % 4 % flag::BLOCK_Q;
  const int key_in_tile = lane % 4 / flag::BLOCK_Q * 64 + warp % 4 * 16 + lane / 4;
  tma::Ring queries{}, keys{}, slots{};
  int turn = 0;  // which warpgroup takes the next tile of this CTA
  u32 fold = 0;
  u64 folded_scores = 0;
  int barriers = 0;

  __device__ __forceinline__ void run() {
    keys.next(flag::KV_STAGES, group);
    if constexpr (R::mma && flag::PINGPONG && flag::MATH_WARPGROUPS == 2)
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
      atomicAdd(a.checksum, R::reduces ? folded_scores : static_cast<u64>(fold));
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

  __device__ __forceinline__ void batch(const Piece& piece, int stage) {
    reduce::Reduction<flag::REDUCE_MATH> reduction;
    if constexpr (R::reduces) reduction.load(s.w[stage], lane);
    const shape::Info info = s.info[stage][query];
    // Tiles that lie inside the bounds of every row of the batch need no mask.
    int inside_from = info.begin, inside_to = info.end;
#pragma unroll
    for (int q = 0; q < flag::BLOCK_Q; ++q) {
      inside_from = max(inside_from, s.info[stage][q].begin);
      inside_to = min(inside_to, s.info[stage][q].end);
    }
    filter::Filter filter;
    const bool whole = piece.kind == shape::whole;
    const int slot = whole ? slots.stage : shape::SLOTS + piece.kind - shape::head;
    int* counts = nullptr;
    if constexpr (R::filters) {
      if (whole) {
        trace.template begin<event::slot_free>(piece.row);
        ptx::wait(&s.slot_free[slot], slots.phase ^ 1u);  // waits for TopK: the batch that used this slot
        trace.template end<event::slot_free>(piece.row);
      }
      counts = whole ? s.counts[slot][query]
                     : a.counts + ((blockIdx.x * 2 + (slot - shape::SLOTS)) * flag::BLOCK_Q + query) * shape::SEGMENTS;
      const size_t row = static_cast<size_t>((blockIdx.x * shape::ALL_SLOTS + slot) * flag::BLOCK_Q + query);
      filter.open(a.cand + row * shape::ROW_ROOM, counts, info, warp, lane);
    }
    trace.template begin<event::score>(piece.row);
    int tile = (group - turn + flag::MATH_WARPGROUPS) % flag::MATH_WARPGROUPS;
    int key = piece.key + tile * shape::TILE_KEYS;
#pragma unroll 1
    for (; tile < piece.tiles; tile += flag::MATH_WARPGROUPS, key += flag::MATH_WARPGROUPS * shape::TILE_KEYS) {
      float d[128], first = 0.f, second = 0.f;
      const int at = keys.stage;
      trace.template begin<event::stage_full>(key);
      ptx::wait(&s.full[at], keys.phase);  // waits for TMA
      trace.template end<event::stage_full>(key);
      shape::delay<role::math>();
      const float scale = s.k_scale[at][key_in_tile], scale_8 = s.k_scale[at][key_in_tile + 8];
      if constexpr (R::mma) {
        constexpr bool turns = flag::PINGPONG && flag::MATH_WARPGROUPS == 2;
        if constexpr (turns) ptx::sync_named<256>(TURN + group);
        issue(d, s.k[at], s.q[stage]);
        if constexpr (turns) {
          wgmma::wait<1>();
          ptx::arrive_named<256>(TURN + 1 - group);
        }
        wgmma::wait<0>();
      } else {
        fold += *reinterpret_cast<const u32*>(&s.k[at][threadIdx.x % 128 * 16]);
      }
      __syncwarp();
      if (lane == 0) ptx::arrive(&s.empty[at]);
      keys.next(flag::KV_STAGES, flag::MATH_WARPGROUPS);
      if constexpr (R::reduces) {
        reduction.sum(d, lane, first, second);
        // Adding +0 turns -0 into +0: both are the same score.
        first = fmaf(first, scale * reduction.factor, 0.f);
        second = fmaf(second, scale_8 * reduction.factor, 0.f);
      } else if constexpr (R::mma) {
        fold += __float_as_uint(d[0]);
      }
      const int mine = key + key_in_tile;
      const bool inside = key >= inside_from && key + shape::TILE_KEYS <= inside_to;
      if constexpr (R::stores) {
        store(piece.row + query, mine, first, second, info, inside);
      } else if constexpr (R::filters) {
        filter.take(first, second, mine, inside, lane);
      } else if constexpr (R::reduces) {
        if (inside || (mine >= info.begin && mine < info.end)) folded_scores += shape::ordered(__float_as_uint(first));
        if (inside || (mine + 8 >= info.begin && mine + 8 < info.end))
          folded_scores += shape::ordered(__float_as_uint(second));
      }
    }
    trace.template end<event::score>(piece.row);
    turn = (turn + piece.tiles) % flag::MATH_WARPGROUPS;
    if constexpr (R::filters) {
      filter.close(counts, lane);
      if (whole) hand_over(piece, stage);
    }
  }

  __device__ __forceinline__ void store(int row, int key, float first, float second, const shape::Info& info, bool inside) {
    if constexpr (M == Mode::main) {  // the unfused scorer: -inf outside the row's bounds
      if (!inside && !(key >= info.begin && key < info.end)) first = -shape::INF;
      if (!inside && !(key + 8 >= info.begin && key + 8 < info.end)) second = -shape::INF;
    }
    if (M != Mode::repair && row >= a.rows) return;
    float* to = a.scores + row * a.stride;
    if (key < a.keys) to[key] = first;
    if (key + 8 < a.keys) to[key + 8] = second;
  }

  // Repair: when all CTAs have scored their share, each selects rows from the scratch.
  __device__ __forceinline__ void finish_round(const Piece& piece) {
    using Team = select::Team<shape::MATH_THREADS>;
    const Team team{1, static_cast<int>(threadIdx.x)};
    grid_barrier(team);
    for (int row = blockIdx.x; row < piece.tiles; row += gridDim.x) {
      const int global_row = a.failed[piece.row + row];
      select::from_memory(team, s.select, a.scores + row * a.stride, a.info[global_row],
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
