// index_topk on Hopper: FP8 indexer scores and the exact K largest of each row, without the score matrix.
//
//   score[t, s] = k_scale[s] * sum over 64 heads of w[t, h] * ReLU(q[t, h] . k[s])
//
// Stages, one launch each: prepare (gathers sampled keys, bounds, shares), sample (scores of the sampled keys), threshold,
// main (scores, filters, selects), merge (rows that two CTAs shared), repair (rows whose candidates were too few or too many).
// Roles of the scoring kernels: Math (MATH_WARPGROUPS x 4 warps), then one warp that loads and three that select.
//
// barrier             arrives                          waits                    count
// full[KV_STAGES]     TMA (and its bytes)              Math, one warpgroup      1
// empty[KV_STAGES]    Math, each warp of the reader    TMA                      4
// q_full[2]           TMA (and its bytes)              Math                     1
// q_empty[2]          Math, each warp                  TMA                      4 x MATH_WARPGROUPS
// slot_ready[SLOTS]   Math, each warp                  TopK                     4 x MATH_WARPGROUPS
// slot_free[SLOTS]    TopK, each warp                  Math                     TOPK_WARPS
// named 1             Math's team in repair            the same                  Math threads
// named 2, 3          the other Math warpgroup         Math warpgroup 0, 1      256
// named 4             Math, when queries are scaled    the same                  Math threads
//
// A row in which some score is not finite (q.k beyond f16, or NaN among the inputs) is scored again in f32 by repair, where
// ReLU(NaN) is 0; what is NaN even then ranks below all numbers.
#include "attr/config.cuh"
#include "attr/trace.cuh"
#include "math.cuh"
#include "select.cuh"
#include "shape.cuh"
#include "stages.cuh"
#include "tma.cuh"
#include "topk.cuh"

using ptx::u64;

// Registers are handed out evenly (128 a thread of 512, 168 of 384); Math takes from the others, and waits for ever if the sum
// exceeds what was handed out: static_assert below.  One warpgroup of Math has
// enough.
constexpr int MATH_REGISTERS = flag::TOPK_WARPS == 3 ? 208 : 200;
constexpr int OTHER_REGISTERS = flag::TOPK_WARPS == 3 ? 88 : 56;

static_assert(flag::MATH_WARPGROUPS == 1 || MATH_REGISTERS * 256 + OTHER_REGISTERS * 128 * ((flag::TOPK_WARPS + 1) / 4) <=
                                                (flag::TOPK_WARPS == 3 ? 168 * 384 : 128 * 512));

extern __shared__ __align__(1024) unsigned char dynamic[];

template <math::Mode M>
__device__ __forceinline__ void score_kernel(const CUtensorMap& q_map, const CUtensorMap& k_map, const shape::Args& a,
                                             attr::Trace trace) {
  auto& s = *reinterpret_cast<shape::Smem*>(dynamic);
  int failed = 0;
  if constexpr (M == math::Mode::repair) {
    failed = min(static_cast<int>(*reinterpret_cast<volatile unsigned int*>(a.control)), a.rows);
    if (failed == 0) return;
  }
  if (ptx::dynamic_smem_bytes() < sizeof(shape::Smem)) __trap();
  if (threadIdx.x == 0) {
    for (int i = 0; i < flag::KV_STAGES; ++i) {
      ptx::barrier_init(&s.full[i], 1);
      ptx::barrier_init(&s.empty[i], 4);
    }
    for (int i = 0; i < 2; ++i) {
      ptx::barrier_init(&s.q_full[i], 1);
      ptx::barrier_init(&s.q_empty[i], shape::MATH_WARPS);
    }
    for (int i = 0; i < shape::SLOTS; ++i) {
      ptx::barrier_init(&s.slot_ready[i], shape::MATH_WARPS);
      ptx::barrier_init(&s.slot_free[i], shape::TOPK_WARPS);
    }
    ptx::barrier_init_fence();
  }
  for (int i = threadIdx.x; i < shape::SLOTS * flag::BLOCK_Q * shape::SEGMENTS; i += shape::THREADS)
    s.counts[0][0][i] = 0;
  __syncthreads();
  const int warp = threadIdx.x / 32;
  if (warp < shape::MATH_WARPS) {
    if constexpr (flag::MATH_WARPGROUPS == 2) ptx::grow_registers<MATH_REGISTERS>();
    math::Role<M>{{s, a, attr::Lane<role::math>(trace, M == math::Mode::main && threadIdx.x == 0)}}.run();
  } else {
    if constexpr (flag::MATH_WARPGROUPS == 2) ptx::shrink_registers<OTHER_REGISTERS>();
    if (warp == shape::MATH_WARPS) {
      if (threadIdx.x % 32 == 0) {
        tma::Loader loader{s, a, &q_map, &k_map, attr::Lane<role::tma>(trace, M == math::Mode::main)};
        if constexpr (M == math::Mode::repair) loader.repair(failed);
        else if constexpr (flag::SCHEDULE == flag::SCHEDULE_t::rows && M == math::Mode::main) loader.rows();
        else loader.shares();
        loader.last();
        loader.lane.close();
      }
    } else if constexpr (math::Rung<M>::filters) {
      const int rank = threadIdx.x - shape::MATH_THREADS - 32;
      topk::Role{s, a, attr::Lane<role::topk>(trace, rank == 0), rank / 32, rank % 32}.run();
    }
  }
}

#define SCORE_PARAMETERS                                                                                               \
  const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map, const float *w,                \
      const float *k_scale, const shape::Info *info, const int4 *batches, const int2 *plan, uint2 *cand, int *counts,  \
      float *scores, int *out, int *status, int *failed, unsigned int *control, u64 *checksum, attr::Trace trace,      \
      int rows, int keys, int stride, int repair_rows, const float *k_square, int squares
#define SCORE_ARGUMENTS                                                                                                \
  shape::Args {                                                                                                        \
    w, k_scale, info, batches, plan, cand, counts, scores, out, status, failed, control, checksum, rows, keys, stride, \
        repair_rows, k_square, squares                                                                                                    \
  }

extern "C" __global__ void __launch_bounds__(shape::THREADS, 1) index_main(SCORE_PARAMETERS) {
  score_kernel<math::Mode::main>(q_map, k_map, SCORE_ARGUMENTS, trace);
}
extern "C" __global__ void __launch_bounds__(shape::THREADS, 1) index_sample(SCORE_PARAMETERS) {
  score_kernel<math::Mode::sample>(q_map, k_map, SCORE_ARGUMENTS, nullptr);
}
// Cooperative: all CTAs must be resident.
extern "C" __global__ void __launch_bounds__(shape::THREADS, 1) index_repair(SCORE_PARAMETERS) {
  score_kernel<math::Mode::repair>(q_map, k_map, SCORE_ARGUMENTS, nullptr);
}

extern "C" __global__ void __launch_bounds__(stages::MERGE_THREADS)
    index_merge(const shape::Info* info, const int2* plan, uint2* cand, int* counts, int* out, int* status, int* failed,
                unsigned int* control, u64* checksum, int rows, int ctas) {
  if constexpr (math::Rung<math::Mode::main>::filters && flag::SELECT) {
    shape::Args a{};
    a.info = info, a.plan = plan, a.cand = cand, a.counts = counts, a.out = out, a.status = status, a.failed = failed;
    a.control = control, a.checksum = checksum, a.rows = rows;
    __shared__ stages::MergeSmem smem;
    stages::merge(smem, a, ctas);
  }
}

extern "C" __global__ void __launch_bounds__(stages::PLAN_THREADS)
    index_prepare(const uint4* k, const float* k_scale, const int* k_start, const int* k_end, uint4* sample_k,
                  float* sample_scale, shape::Info* info, shape::Info* sample_info, int4* batches, int4* sample_batches,
                  int2* plan, int2* sample_plan, int* status, int* counts, unsigned int* control, u64* checksum, int rows,
                  int keys, int samples, int ctas, int seed, const uint4* q, float* k_square) {
  __shared__ unsigned int scratch[stages::PLAN_THREADS / 32 + stages::PLAN_THREADS];
  stages::Prepare{k, k_scale, k_start, k_end, sample_k, sample_scale, info, sample_info, batches, sample_batches, plan,
                  sample_plan, status, counts, control, checksum, rows, keys, samples, ctas, static_cast<unsigned int>(seed), q, k_square}
      .run(scratch);
}

extern "C" __global__ void __launch_bounds__(128)
    index_threshold(const float* scores, const shape::Info* sample_info, shape::Info* info, int rows, int stride, float z) {
  stages::threshold(scores, sample_info, info, rows, stride, z, reinterpret_cast<unsigned int*>(dynamic));
}
