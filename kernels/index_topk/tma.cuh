// The TMA role: one thread walks this CTA's pieces and keeps the query stages and the key ring full.
//
// In: the plan.  Out: q, w, info and piece of each query stage; keys and scales of each ring stage.
#pragma once
#include "attr/trace.cuh"
#include "shape.cuh"

namespace tma {

using shape::Args;
using shape::Piece;
using shape::Smem;

struct Ring {
  int stage = 0;
  ptx::u32 phase = 0;
  __device__ __forceinline__ void next(int stages, int by = 1) {
    stage += by;
    if (stage >= stages) {
      stage -= stages;
      phase ^= 1u;
    }
  }
};

struct Loader {
  Smem& s;
  const Args& a;
  const CUtensorMap *q_map, *k_map;
  [[no_unique_address]] attr::Lane<role::tma> lane;
  Ring queries{}, keys{};

  // Announces a piece; `rows` of its batch are row, row + 1, ... or taken from a list.
  __device__ __forceinline__ void open(const Piece& piece, const int* list, int listed) {
    const int stage = queries.stage;
    ptx::wait(&s.q_empty[stage], queries.phase ^ 1u);  // waits for Math: the piece before the last one
    s.piece[stage] = piece;
    if (piece.kind >= shape::round_end) {
      ptx::arrive(&s.q_full[stage]);
      queries.next(2);
      return;
    }
    const int padded = (a.rows + 3) / 4 * 4;
    int bytes = 0;
#pragma unroll
    for (int q = 0; q < flag::BLOCK_Q; ++q) {
      const int row = list ? list[min(piece.row + q, listed - 1)] : piece.row + q;
      if (row < a.rows) bytes += shape::HEADS * 4;
      if (row < padded) bytes += sizeof(shape::Info);
      bytes += shape::HEADS * shape::DIM;
    }
    ptx::arrive_expect(&s.q_full[stage], bytes);
#pragma unroll
    for (int q = 0; q < flag::BLOCK_Q; ++q) {
      const int row = list ? list[min(piece.row + q, listed - 1)] : piece.row + q;
      ptx::load_box(s.q[stage][q], q_map, row * shape::HEADS, &s.q_full[stage]);
      if (row < a.rows) ptx::load_bytes(s.w[stage][q], a.w + row * shape::HEADS, shape::HEADS * 4, &s.q_full[stage]);
      if (row < padded) ptx::load_bytes(&s.info[stage][q], a.info + row, sizeof(shape::Info), &s.q_full[stage]);
    }
    queries.next(2);
  }
  __device__ __forceinline__ void stream(const Piece& piece) {
    lane.template begin<event::load>(piece.row);
    int key = piece.key;
#pragma unroll 1
    for (int tile = 0; tile < piece.tiles; ++tile, key += shape::TILE_KEYS) {
      const int stage = keys.stage;
      lane.template begin<event::stage_free>(key);
      ptx::wait(&s.empty[stage], keys.phase ^ 1u);  // waits for Math: the warpgroup that read this stage
      lane.template end<event::stage_free>(key);
      shape::delay<role::tma>();
      const int scales = min(shape::TILE_KEYS, a.keys - key) * 4;
      ptx::arrive_expect(&s.full[stage], shape::TILE_KEYS * shape::DIM + scales);
      ptx::load_box(s.k[stage], k_map, key, &s.full[stage]);
      ptx::load_bytes(s.k_scale[stage], a.k_scale + key, scales, &s.full[stage]);
      keys.next(flag::KV_STAGES);
    }
    lane.template end<event::load>(piece.row);
  }
  __device__ __forceinline__ void last() { open(Piece{0, 0, 0, shape::stop}, nullptr, 0); }

  // Batches cta, cta + ctas, ...: the case study's schedule; the busiest SM has a whole batch more.
  __device__ __forceinline__ void rows() {
    const int batches = (a.rows + flag::BLOCK_Q - 1) / flag::BLOCK_Q;
    for (int batch = blockIdx.x; batch < batches; batch += gridDim.x) one(batch, 0, 1 << 30);
  }
  // An equal share of all tiles: only the first and the last batch may be shared with a neighbour.
  __device__ __forceinline__ void shares() {
    const int2 from = a.plan[blockIdx.x], to = a.plan[blockIdx.x + 1];
    // These come last: Math has work while TopK selects from the last whole batch.
    const int whole = from.x + (from.y > 0);
    for (int batch = whole; batch < to.x; ++batch) one(batch, 0, 1 << 30);
    if (whole > from.x && from.x < to.x) one(from.x, from.y, 1 << 30);
    const int begin = from.x == to.x ? from.y : 0;
    if (to.y > begin) one(to.x, begin, to.y);
  }
  __device__ __forceinline__ void one(int batch, int begin, int end) {
    const int batches = (a.rows + flag::BLOCK_Q - 1) / flag::BLOCK_Q;
    if (batch >= batches) return;
    const int4 here = a.batches[batch];
    const int tiles = here.z;
    end = min(end, tiles);
    if (begin > 0 && end <= begin) return;
    const int kind = begin == 0 && end == tiles ? shape::whole : begin > 0 ? shape::head : shape::tail;
    const Piece piece{batch * flag::BLOCK_Q, here.y + begin * shape::TILE_KEYS, end - begin, kind};
    open(piece, nullptr, 0);
    stream(piece);
  }
  // All keys of the failed rows, in rounds of as many rows as the scratch holds.
  __device__ __forceinline__ void repair(int failed) {
    const int tiles = (a.keys + shape::TILE_KEYS - 1) / shape::TILE_KEYS;
    for (int first = 0; first < failed; first += a.repair_rows) {
      const int rows = min(a.repair_rows, failed - first);
      const int batches = (rows + flag::BLOCK_Q - 1) / flag::BLOCK_Q;
      const long long total = static_cast<long long>(batches) * tiles;
      long long at = total * blockIdx.x / gridDim.x;
      const long long end = total * (blockIdx.x + 1) / gridDim.x;
      while (at < end) {
        const int batch = static_cast<int>(at / tiles), tile = static_cast<int>(at % tiles);
        const int number = static_cast<int>(min(static_cast<long long>(tiles - tile), end - at));
        const Piece piece{batch * flag::BLOCK_Q, tile * shape::TILE_KEYS, number, shape::tail};
        open(piece, a.failed + first, rows);
        stream(piece);
        at += number;
      }
      open(Piece{first, 0, rows, shape::round_end}, nullptr, 0);
    }
  }
};

}  // namespace tma
