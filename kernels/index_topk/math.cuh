// The Math role: matrix products of a tile, the sum over heads, and what becomes of the scores.
//
// Two warpgroups take turns (flag PINGPONG): while one sums over heads, the tensor cores work for the other.
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
constexpr int SCALED = 4;  // named barrier 4: the queries are scaled

// The least s >= 0 for which 2^-s of each q.k, and of each partial sum of it, is below 60,000: |q.k|^2 <= |q|^2 |k|^2.
__device__ __forceinline__ int excess(float q_square, float k_square) {
  const float over = q_square * (k_square / 3.6e9f);
  return over > 1.f ? (static_cast<int>(__float_as_uint(over) >> 23) - 125) / 2 : 0;
}

template <Mode M>
struct Rung {  // what the flags leave of the kernel; sampling and repair are always complete
  static constexpr bool part = M == Mode::main;
  static constexpr bool stores = !part || flag::STORE_SCORES;
  static constexpr bool mma = !part || flag::MMA;
  static constexpr bool reduces = !part || flag::REDUCE;
  static constexpr bool filters = !stores && flag::FILTER;
  // What did not fit the narrow sums is scored again in full range and precision.
  static constexpr auto math = M == Mode::repair ? flag::REDUCE_MATH_t::f32 : flag::REDUCE_MATH;
  static constexpr bool narrow = math == flag::REDUCE_MATH_t::f16;
};

// Issues a tile's products in two halves of 64 accumulators, each a group: the first half is summed over heads while the
// tensor cores work on the second.  BLOCK_Q 4: the halves are two rows each; otherwise they are sub-tiles of keys.
template <int Part = 0>
__device__ __forceinline__ void issue(float (&d)[128], u64 keys, u64 queries) {
  constexpr int PARTS = shape::SUBTILES == 4 ? 4 : 2, N = 256 / PARTS, First = Part * N / 2, K = wgmma::K_STEP;
  if constexpr (Part == 0) wgmma::fence();
  wgmma::step<N, First, 0>(d, keys, queries);
  wgmma::step<N, First, 1>(d, keys + K, queries + K);
  wgmma::step<N, First, 1>(d, keys + 2 * K, queries + 2 * K);
  wgmma::step<N, First, 1>(d, keys + 3 * K, queries + 3 * K);
  if constexpr ((Part + 1) % (PARTS / 2) == 0) wgmma::commit();
  constexpr int NEXT = 64 * shape::DIM >> 4;
  if constexpr (Part + 1 < PARTS)
    issue<Part + 1>(d, flag::BLOCK_Q == 4 ? keys : keys + NEXT, flag::BLOCK_Q == 4 ? queries + 2 * NEXT : queries);
}

// A step with f16 accumulators: all products are one group.
template <int Part = 0>
__device__ __forceinline__ void issue_narrow(u32 (&d)[64], u64 keys, u64 queries) {
  constexpr int N = 256 / shape::SUBTILES, First = Part * N / 4, K = wgmma::K_STEP;
  if constexpr (Part == 0) wgmma::fence();
  wgmma::step<N, First, 0>(d, keys, queries);
  wgmma::step<N, First, 1>(d, keys + K, queries + K);
  wgmma::step<N, First, 1>(d, keys + 2 * K, queries + 2 * K);
  wgmma::step<N, First, 1>(d, keys + 3 * K, queries + 3 * K);
  if constexpr (Part + 1 == shape::SUBTILES) wgmma::commit();
  else issue_narrow<Part + 1>(d, keys + (64 * shape::DIM >> 4), queries);
}

template <Mode M>
struct Role {
  using R = Rung<M>;
  Smem& s;
  const Args& a;
  [[no_unique_address]] attr::Lane<role::math> trace;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
  const int query = lane % 4 % flag::BLOCK_Q;
  const int key_in_tile = lane % 4 / flag::BLOCK_Q * 64 + warp % 4 * 16 + lane / 4;
  tma::Ring queries{}, keys{}, slots{};
  int turn = 0;  // which warpgroup takes the next tile of this CTA
  u32 fold = 0;
  u64 folded_scores = 0;
  int barriers = 0;
  float k_square = 0.f;  // the largest square of a key's norm
  static constexpr bool turns = flag::PINGPONG && flag::MATH_WARPGROUPS == 2 && !R::narrow;

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

  // Waits for a stage of the ring and counts it as taken; returns which.
  __device__ __forceinline__ int take_stage(int key) {
    const int at = keys.stage;
    trace.template begin<event::stage_full>(key);
    ptx::wait(&s.full[at], keys.phase);  // waits for TMA
    trace.template end<event::stage_full>(key);
    shape::delay<role::math>();
    keys.next(flag::KV_STAGES, flag::MATH_WARPGROUPS);
    return at;
  }
  // The stage's number when `loaded` was loaded from it.  An arrival overtakes loads that wait behind TopK's traffic, and then
  // the copy engine overwrites what was not read yet (seen on an H200): so the arrival is made to need their values.
  __device__ __forceinline__ int when_read(int at, u32 loaded) const {
    return at + static_cast<int>(loaded & threadIdx.y);  // blocks are flat: + 0
  }
  __device__ __forceinline__ void give_back(int at) {
    __syncwarp();
    if (lane == 0) ptx::arrive(&s.empty[at]);
  }

  // A word of the keys that no product reads, folded.
  __device__ __forceinline__ u32 load_only(int at) {
    const u32 word = *reinterpret_cast<const u32*>(&s.k[at][threadIdx.x % 128 * 16]);
    fold += word;
    return word;
  }

  // f32 accumulators: one step's fill half of the registers, so it is summed in two halves.
  template <class Reduction, class Consume>
  __device__ __forceinline__ void one_by_one(const Reduction& reduction, int steps, int stage, const int& key, const Consume& consume) {
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
      float d[128], first = 0.f, second = 0.f;
      typename Reduction::Partial partial;
      const int at = take_stage(key);
      const float scale = s.k_scale[at][key_in_tile], scale_8 = s.k_scale[at][key_in_tile + 8];
      u32 loaded = __float_as_uint(scale) | __float_as_uint(scale_8);
      if constexpr (R::mma) {
        if constexpr (turns) ptx::sync_named<256>(TURN + group);  // waits for the other warpgroup: its products are queued
        issue(d, wgmma::descriptor(s.k[at]), wgmma::descriptor(s.q[stage][0]));
        wgmma::wait<1>();
        if constexpr (turns) ptx::arrive_named<256>(TURN + 1 - group);
        if constexpr (R::reduces) reduction.template add<0>(partial, d);
        wgmma::wait<0>();
      } else {
        loaded |= load_only(at);
      }
      give_back(when_read(at, loaded));
      if constexpr (R::reduces) {
        reduction.template add<1>(partial, d);
        reduction.finish(partial, lane, first, second);
      } else if constexpr (R::mma) {
        // One register a product is kept alive: what nothing uses, the compiler removes, `asm volatile` or not.
#pragma unroll
        for (int part = 0; part < 128; part += shape::SUBTILES == 4 ? 32 : 64) fold += __float_as_uint(d[part]);
      }
      consume(first, second, scale, scale_8);
    }
  }

  // A step whose registers were given to the next product: its sums over heads of each lane, and the scales of its keys.
  template <class Reduction>
  struct Sums {
    typename Reduction::Partial partial;
    float scale, scale_8;
  };
  // Sums up what the tensor cores have finished; the stage and `d` are free behind it.
  template <class Reduction>
  __device__ __forceinline__ Sums<Reduction> sum(const Reduction& reduction, const u32 (&d)[64], int at) {
    Sums<Reduction> sums;
    sums.scale = s.k_scale[at][key_in_tile], sums.scale_8 = s.k_scale[at][key_in_tile + 8];
    u32 loaded = __float_as_uint(sums.scale) | __float_as_uint(sums.scale_8);
    if constexpr (!R::mma) loaded |= load_only(at);
    give_back(when_read(at, loaded));
    if constexpr (R::reduces) {
      reduction.add(sums.partial, d);
    } else if constexpr (R::mma) {
#pragma unroll
      for (int part = 0; part < 64; part += 64 / shape::SUBTILES) fold += d[part];
    }
    return sums;
  }
  template <class Reduction, class Consume>
  __device__ __forceinline__ void finish(const Reduction& reduction, const Sums<Reduction>& sums, const Consume& consume) {
    float first = 0.f, second = 0.f;
    if constexpr (R::reduces) reduction.finish(sums.partial, lane, first, second);
    consume(first, second, sums.scale, sums.scale_8);
  }

  // f16 accumulators: two steps' fit, so the next one's products are queued before this one is summed over heads.  What is
  // left of the step before (the sum over lanes, the filter: long waits, few instructions) runs among those sums, without a
  // branch: alone it would keep the next product waiting.
  template <class Reduction, class Consume>
  __device__ __forceinline__ void in_pairs(const Reduction& reduction, int steps, int stage, const int& key, const Consume& consume) {
    u32 even[64], odd[64];
    int at_even = 0, at_odd = 0;
    const u64 queries_at = wgmma::descriptor(s.q[stage][0]);
    const auto start = [&](u32 (&d)[64], int& at) {
      at = take_stage(key);
      if constexpr (R::mma) issue_narrow(d, wgmma::descriptor(s.k[at]), queries_at);
    };
    if constexpr (flag::KV_STAGES <= flag::MATH_WARPGROUPS) {
      // The next step's stage is this one's: it is loaded only when this one has been given back.
#pragma unroll 1
      for (; steps > 0; --steps) {
        start(even, at_even);
        wgmma::wait<0>();
        finish(reduction, sum(reduction, even, at_even), consume);
      }
    }
    if (steps == 0) return;
    start(even, at_even);
    if (steps == 1) {
      wgmma::wait<0>();
      finish(reduction, sum(reduction, even, at_even), consume);
      return;
    }
    start(odd, at_odd);
    wgmma::wait<1>();
    auto last = sum(reduction, even, at_even), now = last;
#pragma unroll 1
    for (; steps > 3; steps -= 2) {
      start(even, at_even);
      wgmma::wait<1>();
      now = sum(reduction, odd, at_odd);
      finish(reduction, last, consume);
      start(odd, at_odd);
      wgmma::wait<1>();
      last = sum(reduction, even, at_even);
      finish(reduction, now, consume);
    }
    if (steps == 3) {
      start(even, at_even);
      wgmma::wait<1>();
      now = sum(reduction, odd, at_odd);
      finish(reduction, last, consume);
      wgmma::wait<0>();
      last = sum(reduction, even, at_even);
      finish(reduction, now, consume);
      finish(reduction, last, consume);
    } else {
      wgmma::wait<0>();
      now = sum(reduction, odd, at_odd);
      finish(reduction, last, consume);
      finish(reduction, now, consume);
    }
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
    if constexpr (R::narrow) in_pairs(reduction, mine, stage, key, consume);
    else one_by_one(reduction, mine, stage, key, consume);
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
