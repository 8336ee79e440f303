// The small stages around the main kernel: what is sampled and who scores what; thresholds; rows that two CTAs shared.
#pragma once
#include "select.cuh"
#include "shape.cuh"

namespace stages {

constexpr int PLAN_THREADS = 512;
// A batch costs at least as much as TopK takes for its rows, in tiles of Math: measured on an H200.  Rungs that leave selection
// out share the tiles out in the same way: they are to do the same work.
constexpr int SELECT_TILES = flag::STORE_SCORES ? 0 : flag::SELECT_TILES * flag::BLOCK_Q / (4 * shape::SUBTILES);

using ptx::u32;
using ptx::u64;
using shape::Info;

// Sampled key i: one at random in each of `samples` equal strata, so that neither clusters nor periods mislead it.
__device__ __forceinline__ int sampled_key(int i, int samples, int keys, u32 seed) {
  const u32 n = keys, s = samples;  // n <= 2^19 and s <= 2^12: products fit
  const int low = n * i / s, width = n * (i + 1) / s - low;
  u32 h = (i + 1) * 0x9E3779B9u ^ seed * 0x85EBCA6Bu;
  h ^= h >> 16;
  h *= 0x7FEB352Du;
  h ^= h >> 15;
  h *= 0x846CA68Bu;
  h ^= h >> 16;
  return low + static_cast<int>(__umulhi(h, static_cast<u32>(width)));
}
// How many sampled keys lie below `key`.
__device__ __forceinline__ int sampled_below(int key, int samples, int keys, u32 seed) {
  int i = max(0, static_cast<int>(static_cast<u32>(key) * samples / keys) - 1);
  while (i < samples && sampled_key(i, samples, keys, seed) < key) ++i;
  return i;
}

struct Prepare {
  const uint4* k;
  const float* k_scale;
  const int *k_start, *k_end;
  uint4* sample_k;
  float* sample_scale;
  Info *info, *sample_info;
  int4 *batches, *sample_batches;
  int2 *plan, *sample_plan;
  int *status, *counts;
  u32* control;
  u64* checksum;
  int rows, keys, samples, ctas;
  u32 seed;
  const uint4* q;
  float* k_square;

  __device__ __forceinline__ Info bounds(int row, bool sampled) const {
    if (row >= rows) return Info{shape::INF, 0, 0, 0.f};
    const int begin = min(max(k_start[row], 0), keys), end = max(begin, min(k_end[row], keys));
    if (!sampled) return Info{-shape::INF, begin, end, 0.f};
    return Info{-shape::INF, sampled_below(begin, samples, keys, seed), sampled_below(end, samples, keys, seed), 0.f};
  }
  // The cost of each batch, summed up, and equal shares of it for the CTAs.  One block of PLAN_THREADS threads;
  // scratch: PLAN_THREADS / 32 + PLAN_THREADS.
  __device__ __forceinline__ void plan_tiles(bool sampled, int4* batch, int2* share, u32* scratch) const {
    const int count = (rows + flag::BLOCK_Q - 1) / flag::BLOCK_Q, each = (count + PLAN_THREADS - 1) / PLAN_THREADS;
    const int from = min(count, static_cast<int>(threadIdx.x) * each), to = min(count, from + each);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 sum = 0;
    for (int b = from; b < to; ++b) {
      int low = 1 << 30, high = 0;
#pragma unroll
      for (int q = 0; q < flag::BLOCK_Q; ++q) {
        const Info row = bounds(b * flag::BLOCK_Q + q, sampled);
        if (row.end > row.begin) {
          low = min(low, row.begin);
          high = max(high, row.end);
        }
      }
      low = high ? low / shape::TILE_KEYS * shape::TILE_KEYS : 0;
      const int tiles = (high - low + shape::TILE_KEYS - 1) / shape::TILE_KEYS;
      const int cost = sampled ? tiles : max(tiles, SELECT_TILES);
      batch[b] = make_int4(cost, low, tiles, cost);
      sum += cost;
    }
    u32 upto = sum;
    for (int d = 1; d < 32; d *= 2) {
      const u32 other = __shfl_up_sync(~0u, upto, d);
      if (lane >= d) upto += other;
    }
    __syncthreads();
    if (lane == 31) scratch[warp] = upto;
    __syncthreads();
    u32 total = 0;
    for (int w = 0; w < PLAN_THREADS / 32; ++w) {
      if (w < warp) upto += scratch[w];
      total += scratch[w];
    }
    u32 at = upto - sum;
    u32* starts = scratch + PLAN_THREADS / 32;  // of each thread's batches
    starts[threadIdx.x] = at;
    for (int b = from; b < to; ++b) {
      batch[b].x = at;
      at += batch[b].w;
    }
    __syncthreads();
    for (int c = threadIdx.x; c <= ctas; c += PLAN_THREADS) {
      const u32 x = static_cast<u32>(static_cast<u64>(total) * c / ctas);
      int thread = 0;  // the last one that starts at x or before
      for (int step = PLAN_THREADS / 2; step; step /= 2)
        if (starts[thread + step] <= x) thread += step;
      int low = min(count, thread * each);  // then the first batch that ends behind x
      while (low < count && static_cast<u32>(batch[low].x + batch[low].w) <= x) ++low;
      int tile = 0;
      if (c > 0 && c < ctas && low < count)
        tile = static_cast<int>(static_cast<u64>(x - batch[low].x) * batch[low].z / batch[low].w);
      share[c] = c == 0 ? make_int2(0, 0) : c == ctas ? make_int2(count, 0) : make_int2(low, tile);
    }
  }
  // By one warp: the largest square of a norm among `vectors` of 128 e4m3 numbers.  NaN counts as nothing.
  static __device__ __forceinline__ float largest_square(const uint4* from, int vectors) {
    const int lane = threadIdx.x % 32;
    float most = 0.f;
#pragma unroll 16
    for (int i = lane; i < 8 * vectors; i += 32) {
      const uint4 v = __ldg(from + i);
      float sum = 0.f;
      for (const u32 four : {v.x, v.y, v.z, v.w}) sum += ptx::squares_e4m3(four & 0xFFFFu) + ptx::squares_e4m3(four >> 16);
#pragma unroll
      for (int d = 1; d < 8; d *= 2) sum += __shfl_xor_sync(~0u, sum, d);
      most = fmaxf(most, sum);
    }
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 8));
    return fmaxf(most, __shfl_xor_sync(~0u, most, 16));
  }
  __device__ __forceinline__ void run(u32* scratch) const {
    if (blockIdx.x < 2) {
      const bool sampled = blockIdx.x == 1;
      plan_tiles(sampled, sampled ? sample_batches : batches, sampled ? sample_plan : plan, scratch);
      if (!sampled && threadIdx.x < 2) control[threadIdx.x] = 0;
      if (!sampled && threadIdx.x == 0) *checksum = 0;
      return;
    }
    const int thread = (blockIdx.x - 2) * blockDim.x + threadIdx.x, threads = (gridDim.x - 2) * blockDim.x;
    for (int i = thread; i < samples * 8; i += threads) {
      const int key = sampled_key(i / 8, samples, keys, seed);
      sample_k[i] = k[static_cast<size_t>(key) * 8 + i % 8];
      if (i % 8 == 0) sample_scale[i / 8] = k_scale[key];
    }
    constexpr bool narrow = flag::REDUCE_MATH == flag::REDUCE_MATH_t::f16;
    for (int row = thread / 32; row < (rows + 3) / 4 * 4; row += threads / 32) {
      const float square = narrow && row < rows ? largest_square(q + static_cast<size_t>(row) * shape::HEADS * 8, shape::HEADS) : 0.f;
      if (thread % 32 < 2) {
        Info mine = bounds(row, thread % 2);
        mine.q_square = square;
        (thread % 2 ? sample_info : info)[row] = mine;
        if (row < rows) status[row] = 0;
      }
    }
    if constexpr (narrow) {
      if (threadIdx.x == 0) scratch[0] = 0;
      __syncthreads();
      for (int part = thread / 32; part < keys / 64; part += threads / 32) {
        const float square = largest_square(k + static_cast<size_t>(part) * 64 * 8, 64);
        if (threadIdx.x % 32 == 0) atomicMax(&scratch[0], __float_as_uint(square));  // not negative: ordered as integers
      }
      __syncthreads();
      if (threadIdx.x == 0) k_square[blockIdx.x - 2] = __uint_as_float(scratch[0]);
    }
    if constexpr (flag::LAYOUT == flag::LAYOUT_t::shared)
      for (int i = thread; i < ctas * 2 * flag::BLOCK_Q; i += threads) counts[i] = 0;
  }
};

// The rank in the sample from which at least K candidates follow in all but about one of 10^5 rows (z = 4.3), or 0.
// p solves p - K/n = z sqrt(p (1 - p) (1 - s/n) / (s + 2)): mean and deviation of the share of keys above a sample's
// m-th largest, sampled without replacement.
__device__ __forceinline__ int rank_in_sample(int sampled, int valid, float z) {
  const float s = sampled, share = static_cast<float>(flag::K) / valid;
  const float a = z * z * fmaxf(0.f, 1.f - s / valid) / (s + 2.f), b = 2.f * share + a;
  const float p = (b + sqrtf(fmaxf(0.f, b * b - 4.f * (1.f + a) * share * share))) / (2.f * (1.f + a));
  const int rank = static_cast<int>(ceilf(p * (s + 1.f)));
  return rank <= sampled ? rank : 0;
}

// One warp a row: bisection on ordered keys until about `rank` samples are at or above.
__device__ __forceinline__ void threshold(const float* scores, const Info* sample_info, Info* info, int rows, int stride,
                                          float z, u32* keys) {
  const int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  keys += threadIdx.x / 32 * stride;
  if (row >= rows) return;
  const Info here = info[row], sample = sample_info[row];
  const int valid = here.end - here.begin, n = sample.end - sample.begin;
  const int rank = valid > flag::K && n > 0 ? rank_in_sample(n, valid, z) : 0;
  if (rank == 0) return;  // every key is a candidate: prepared so
  u32 low = ~0u, high = 0;
  for (int i = lane; i < n; i += 32) {
    const u32 key = shape::ordered(__float_as_uint(scores[static_cast<size_t>(row) * stride + sample.begin + i]));
    keys[i] = key;
    low = min(low, key);
    high = max(high, key);
  }
  __syncwarp();
  low = __reduce_min_sync(~0u, low);
  high = __reduce_max_sync(~0u, high) + 1u;
  const float top = shape::from_ordered(high - 1u);
  const u32 enough = rank, plenty = rank + rank / 32;  // counts at `low` and `high`: >= enough, < enough
  while (high - low > 1u) {
    const u32 middle = low + (high - low) / 2;
    u32 count = 0;
#pragma unroll 8
    for (int i = lane; i < n; i += 32) count += keys[i] >= middle;
    count = __reduce_add_sync(~0u, count);
    if (count >= enough) low = middle;
    else high = middle;
    if (count >= enough && count <= plenty) break;
  }
  if (lane == 0 && low > 0x007FFFFFu) {
    info[row].threshold = shape::from_ordered(low);
    info[row].top = top;
  }
}

constexpr int MERGE_THREADS = 256;
constexpr int MERGE_LISTS = 1024;  // what is known of that many lists is kept
struct MergeSmem {
  shape::SelectScratch select;
  u32 lists[MERGE_LISTS];
  u32 held, lost;
  int longest;
};

// One block per (boundary between two CTAs, row of the batch): the batch that the boundary cuts, if it is the first to.
__device__ __forceinline__ void merge(MergeSmem& s, const shape::Args& a, int ctas) {
  const int cut = blockIdx.x / flag::BLOCK_Q + 1, q = blockIdx.x % flag::BLOCK_Q;
  const int2 here = a.plan[cut], before = a.plan[cut - 1];
  const int row = here.x * flag::BLOCK_Q + q;
  if (here.y == 0 || (before.x == here.x && before.y > 0) || row >= a.rows) return;
  const select::Team<MERGE_THREADS> team{1, static_cast<int>(threadIdx.x)};
  const Info info = a.info[row];
  select::Sink sink{a.out + static_cast<size_t>(row) * flag::K};
  if (info.end - info.begin <= flag::K) {
    select::short_row(team, info, sink);
  } else {
    int end = cut;  // pieces are those of CTAs cut-1 .. end
    while (end + 1 < ctas && a.plan[end + 1].x == here.x) ++end;
    // Twice the true count of a list, and whether it is of the CTA's last piece.
    const auto look_up = [&](int g) -> u32 {
      const int cta = cut - 1 + g / shape::SEGMENTS;
      const int2 first = a.plan[cta], last = a.plan[cta + 1];
      if (first.x == last.x && first.y == last.y) return 0;  // no share
      const int kind = first.x == here.x && first.y > 0 ? 0 : 1;
      return 2 * a.counts[((cta * 2 + kind) * flag::BLOCK_Q + q) * shape::SEGMENTS + g % shape::SEGMENTS] + kind;
    };
    const int lists = (end - cut + 2) * shape::SEGMENTS;
    if (team.rank == 0) s.longest = 0;
    if (team.rank == 0) s.held = s.lost = 0;
    team.sync();
    for (int g = team.rank; g < lists; g += MERGE_THREADS) {
      const u32 found = look_up(g);
      const int entries = found / 2, held = min(entries, shape::SEGMENT_ROOM);
      if (g < MERGE_LISTS) s.lists[g] = found;
      atomicAdd(&s.held, held);
      atomicMax(&s.longest, held);
      if (entries > shape::SEGMENT_ROOM) s.lost = 1;
    }
    team.sync();
    if (s.lost || s.held < flag::K) {
      if (team.rank == 0) shape::fail(a, row, s.lost ? shape::segment_full : shape::underflow);
      return;
    }
    const auto list = [&](int g) {
      const u32 found = g < MERGE_LISTS ? s.lists[g] : look_up(g);
      const int slot = (cut - 1 + g / shape::SEGMENTS) * shape::ALL_SLOTS + shape::SLOTS + found % 2, held = found / 2;
      const uint2* from = a.cand + static_cast<size_t>(slot * flag::BLOCK_Q + q) * shape::ROW_ROOM;
      return select::List{from + g % shape::SEGMENTS * shape::SEGMENT_ROOM, held};
    };
    const select::Candidates source{list, lists, s.longest};
    if (!select::candidates(team, s.select, source, info, sink) && team.rank == 0) shape::fail(a, row, shape::not_finite);
  }
  if constexpr (flag::SELECT && !flag::EMIT) atomicAdd(a.checksum, sink.folded);
}

}  // namespace stages
