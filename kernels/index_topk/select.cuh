// Exact selection of the k largest by a team of threads, and the TopK role that applies it to full slots.
//
// Radix selection on (key - low): histogram of 10 bits, the bin that holds the k-th largest, again inside that bin until it
// has at most LIST entries or no bits are left; then one pass emits the sure winners and ranks the undecided.
// In: n entries, at least k of them with key >= low.  Out: k distinct entries in any order.
#pragma once
#include "attr/trace.cuh"
#include "shape.cuh"
#include "tma.cuh"

namespace select {

using ptx::u32;
using ptx::u64;
using shape::Args;
using shape::SelectScratch;
using shape::Smem;

template <int Threads>
struct Team {
  int barrier, rank;
  static constexpr int threads = Threads;
  __device__ __forceinline__ void sync() const { ptx::sync_named<Threads>(barrier); }
};

struct InShared {  // ordered keys and indices of candidates
  const uint2* cand;
  __device__ __forceinline__ u32 key(int i) const { return cand[i].x; }
  __device__ __forceinline__ int index(int i) const { return static_cast<int>(cand[i].y); }
};
struct InMemory {  // a row of scores
  const float* scores;
  int first;
  __device__ __forceinline__ u32 key(int i) const { return shape::ordered(__float_as_uint(__ldcg(scores + i))); }
  __device__ __forceinline__ int index(int i) const { return first + i; }
};

// Writes indices, or folds the selected keys (EMIT off).
struct Sink {
  int* out;
  u64 folded = 0;
  __device__ __forceinline__ void put(int at, int index, u32 key) {
    if constexpr (flag::EMIT) out[at] = index;
    else folded += key;
  }
};

// The bin, from the top, in which the running count reaches `need`; also the count above it and inside it.
template <class T>
__device__ __forceinline__ void find_bin(const T& team, SelectScratch& s, u32 need) {
  constexpr int each = (shape::BINS + T::threads - 1) / T::threads;
  const int lane = team.rank % 32, warp = team.rank / 32, top = shape::BINS - 1 - team.rank * each;
  u32 sum = 0;
#pragma unroll
  for (int j = 0; j < each; ++j)
    if (top - j >= 0) sum += s.bins[top - j];
  u32 upto = sum;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const u32 other = __shfl_up_sync(~0u, upto, d);
    if (lane >= d) upto += other;
  }
  if (lane == 31) s.warp_sum[warp] = upto;
  team.sync();
  for (int w = 0; w < warp; ++w) upto += s.warp_sum[w];
  if (upto >= need && upto - sum < need) {
    u32 above = upto - sum;
    for (int j = 0; j < each; ++j) {
      const u32 here = s.bins[top - j];
      if (above + here >= need) {
        s.bin = top - j;
        s.above = above;
        s.inside = here;
        break;
      }
      above += here;
    }
  }
  team.sync();
}

template <class T, class Source>
__device__ __forceinline__ void largest(const T& team, SelectScratch& s, const Source& source, int n, u32 k, u32 low, u32 top,
                                        Sink& sink) {
  int shift = max(0, 32 - __clz(top - low) - 10), old_shift = 32;
  u32 prefix = 0, need = k, above = 0;
  while (true) {
    for (int i = team.rank; i < shape::BINS; i += T::threads) s.bins[i] = 0;
    if (team.rank == 0) s.winners = s.ties = 0;
    team.sync();
    const u32 base = old_shift == 32 ? 0u : prefix << (old_shift - shift);
#pragma unroll 4
    for (int i = team.rank; i < n; i += T::threads) {
      const u32 key = source.key(i), d = key - low;
      if (key >= low && (old_shift == 32 || d >> old_shift == prefix)) atomicAdd(&s.bins[(d >> shift) - base], 1u);
    }
    team.sync();
    find_bin(team, s, need);
    prefix = base + s.bin;
    need -= s.above;
    above += s.above;
    if (s.inside <= shape::LIST || shift == 0) break;
    old_shift = shift;
    shift = max(0, shift - 10);
    team.sync();  // bin, above, inside have been read by all
  }
  const bool listed = s.inside <= shape::LIST;
  const int lane = team.rank % 32;
  const u32 below = (1u << lane) - 1u;
  constexpr int U = 4;
  for (int from = team.rank - lane; from < n; from += U * T::threads) {
    u32 key[U], win[U], tie[U], wins = 0, ties = 0;
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const int i = from + u * T::threads + lane;
      key[u] = i < n ? source.key(i) : 0u;
      const bool valid = i < n && key[u] >= low;
      const u32 part = (key[u] - low) >> shift;
      win[u] = __ballot_sync(~0u, valid && part > prefix);
      tie[u] = __ballot_sync(~0u, valid && part == prefix);
      wins += __popc(win[u]);
      ties += __popc(tie[u]);
    }
    u32 win_at = 0, tie_at = 0;
    if (lane == 0 && wins) win_at = atomicAdd(&s.winners, wins);
    if (lane == 1 && ties) tie_at = atomicAdd(&s.ties, ties);
    win_at = __shfl_sync(~0u, win_at, 0);
    tie_at = __shfl_sync(~0u, tie_at, 1);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const int i = from + u * T::threads + lane;
      if (win[u] >> lane & 1u) sink.put(win_at + __popc(win[u] & below), source.index(i), key[u]);
      if (tie[u] >> lane & 1u) {
        const u32 at = tie_at + __popc(tie[u] & below);
        if (listed) s.list[at] = make_uint2(key[u], source.index(i));
        else if (at < need) sink.put(above + at, source.index(i), key[u]);
      }
      win_at += __popc(win[u]);
      tie_at += __popc(tie[u]);
    }
  }
  team.sync();
  if (listed) {
    const int count = s.inside;
    for (int i = team.rank; i < count; i += T::threads) {
      const uint2 mine = s.list[i];
      u32 rank = 0;
      for (int j = 0; j < count; ++j) rank += s.list[j].x > mine.x || (s.list[j].x == mine.x && j < i);
      if (rank < need) sink.put(above + rank, mine.y, mine.x);
    }
  }
  team.sync();
}

// Scores become ordered keys in place; returns the largest.  Entries for which `valid` is false get key 0.
template <class T, class Valid>
__device__ __forceinline__ u32 order(const T& team, SelectScratch& s, uint2* cand, int n, Valid valid) {
  u32 most = 0;
#pragma unroll 4
  for (int i = team.rank; i < n; i += T::threads) {
    const u32 key = valid(i) ? shape::ordered(cand[i].x) : 0u;
    cand[i].x = key;
    most = max(most, key);
  }
  most = __reduce_max_sync(~0u, most);
  if (team.rank == 0) s.top = 0;
  team.sync();
  if (team.rank % 32 == 0) atomicMax(&s.top, most);
  team.sync();
  return s.top;
}

// A row with at most K valid keys: all of them.
template <class T>
__device__ __forceinline__ void short_row(const T& team, const shape::Info& info, Sink& sink) {
  const int valid = info.end - info.begin;
  for (int i = team.rank; i < flag::K; i += T::threads) sink.put(i, i < valid ? info.begin + i : -1, 0u);
}

template <class T>
__device__ __forceinline__ void from_memory(const T& team, SelectScratch& s, const float* scores, const shape::Info& info,
                                            int* out) {
  Sink sink{out};
  if (info.end - info.begin <= flag::K) short_row(team, info, sink);
  else largest(team, s, InMemory{scores + info.begin, info.begin}, info.end - info.begin, flag::K, 0u, ~0u, sink);
}

struct Role {
  Smem& s;
  const Args& a;
  attr::Lane<role::topk> trace;
  const Team<shape::TOPK_THREADS> team;
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
      short_row(team, info, sink);
      folded += sink.folded;
      return;
    }
    const int* counts = s.counts[slot][q];
    const uint2* from = a.cand + static_cast<size_t>((blockIdx.x * shape::ALL_SLOTS + slot) * flag::BLOCK_Q + q) * shape::ROW_ROOM;
    constexpr int room = flag::SEGMENT_CAPACITY;
    int n = 0, real = 0;
    bool lost = false;
#pragma unroll 1
    for (int g = 0; g < shape::SEGMENTS; ++g) {
      const int count = counts[g], dense = min(count, room), walked = flag::SCAN == flag::SCAN_t::counts ? dense : room;
      for (int i = team.rank; i < walked; i += shape::TOPK_THREADS) ptx::load_8(s.cand + n + i, from + g * room + i);
      n += walked;
      real += min(count, shape::SEGMENT_ROOM);
      lost |= count > shape::SEGMENT_ROOM;
    }
    if constexpr (flag::SPILL) {
#pragma unroll 1
      for (int g = 0; g < shape::SEGMENTS; ++g) {
        const int spilled = min(counts[g], shape::SEGMENT_ROOM) - room;
        const uint2* spill = from + shape::SEGMENTS * room + g * shape::SPILL;
        for (int i = team.rank; i < spilled; i += shape::TOPK_THREADS) ptx::load_8(s.cand + n + i, spill + i);
        n += max(0, spilled);
      }
    }
    ptx::load_8_wait();
    team.sync();
    if (lost || real < flag::K) {
      if (team.rank == 0) shape::fail(a, row, lost ? shape::segment_full : shape::underflow);
      return;
    }
    const u32 top = order(team, s.select, s.cand, n, [&](int i) {
      if constexpr (flag::SCAN == flag::SCAN_t::counts) return true;
      return i >= shape::SEGMENTS * room || i % room < counts[i / room];
    });
    const u32 low = shape::ordered(__float_as_uint(info.threshold + 0.f));
    largest(team, s.select, InShared{s.cand}, n, flag::K, low, top, sink);
    folded += sink.folded;
  }
};

}  // namespace select
