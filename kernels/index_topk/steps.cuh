// The steps of the Math role: a tile of keys is taken from the ring, multiplied with the batch's queries and summed over heads.
//
// In: stages filled by TMA, descriptors of the queries.  Out: two finished scores a lane and step, handed to `consume`, or a
// checksum of what a rung of the ladder does not consume.
#pragma once
#include "attr/trace.cuh"
#include "reduce.cuh"
#include "shape.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

namespace math {

using ptx::u32;
using ptx::u64;
using shape::Args;
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
struct Steps {
  using R = Rung<M>;
  Smem& s;
  const Args& a;
  [[no_unique_address]] attr::Lane<role::math> trace;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
  const int key_in_tile = lane % 4 / flag::BLOCK_Q * 64 + warp % 4 * 16 + lane / 4;
  tma::Ring keys{};
  u32 fold = 0;
  static constexpr bool turns = flag::PINGPONG && flag::MATH_WARPGROUPS == 2 && !R::narrow;

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
    const u64 queries_at = wgmma::descriptor(s.q[stage][0]);
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
      float d[128], first = 0.f, second = 0.f;
      typename Reduction::Partial partial;
      const int at = take_stage(key);
      const float scale = s.k_scale[at][key_in_tile], scale_8 = s.k_scale[at][key_in_tile + 8];
      u32 loaded = __float_as_uint(scale) | __float_as_uint(scale_8);
      if constexpr (R::mma) {
        if constexpr (turns) ptx::sync_named<256>(TURN + group);  // waits for the other warpgroup: its products are queued
        issue(d, wgmma::descriptor(s.k[at]), queries_at);
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
};

}  // namespace math
