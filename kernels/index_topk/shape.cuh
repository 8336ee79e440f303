// Sizes that follow from the flags, the shared-memory map, and the arguments of the scoring kernels.
//
// A step is one warpgroup's: 4 x 64 accumulator columns of 64 heads, 128 registers a thread whatever BLOCK_Q is.
//   BLOCK_Q 4: 64 keys x 4 rows;  2: 128 keys x 2 rows;  1: 256 keys x 1 row.
// group = sub-tile * BLOCK_Q + row of the batch: which 64 columns.  Of a finished step, lane l holds the scores of group l % 4
// and accumulator rows l / 4 and l / 4 + 8.
#pragma once
#include "attr/config.cuh"
#include "ptx.cuh"

namespace shape {

constexpr float INF = __builtin_bit_cast(float, 0x7F800000u);
constexpr int HEADS = 64;
constexpr int DIM = 128;
constexpr int GROUPS = 4;
constexpr int SUBTILES = GROUPS / flag::BLOCK_Q;
constexpr int TILE_KEYS = 64 * SUBTILES;
constexpr int MATH_WARPS = 4 * flag::MATH_WARPGROUPS;
constexpr int MATH_THREADS = 32 * MATH_WARPS;
constexpr int TOPK_WARPS = flag::TOPK_WARPS;  // and one warp that loads: whole warpgroups
constexpr int THREADS = MATH_THREADS + 32 * TOPK_WARPS + 32;
static_assert((TOPK_WARPS + 1) % 4 == 0);

constexpr int SEGMENTS = flag::LAYOUT == flag::LAYOUT_t::shared     ? 1
                         : flag::LAYOUT == flag::LAYOUT_t::split ? 2 * MATH_WARPS
                                                                 : MATH_WARPS;
constexpr int SPILL = flag::SPILL ? 2048 / SEGMENTS : 0;  // entries behind each segment
constexpr int SEGMENT_ROOM = flag::SEGMENT_CAPACITY + SPILL;
constexpr int ROW_ROOM = SEGMENTS * SEGMENT_ROOM;
constexpr int SLOTS = flag::OVERLAP ? 2 : 1;
constexpr int ALL_SLOTS = SLOTS + 2;  // and the two batches that this CTA may share with a neighbour
constexpr int BIN_BITS = 9;
constexpr int BINS = 1 << BIN_BITS;
constexpr int LIST = 256;

static_assert(flag::BLOCK_Q == 1 || flag::BLOCK_Q == 2 || flag::BLOCK_Q == 4);
// Each stage has one reader, the warpgroup number stage % MATH_WARPGROUPS.  A barrier tells only odd phases from even ones, so
// a warpgroup that passed over a phase of the other's would take the phase before it for its own.
static_assert(flag::KV_STAGES % flag::MATH_WARPGROUPS == 0 && flag::MATH_WARPGROUPS <= 2);
static_assert(SEGMENT_ROOM % 2 == 0);

// What the loader tells Math about a piece of a query batch, and Math tells TopK.
enum Kind : int { whole, head, tail, round_end, stop };
struct Piece {
  int row;    // first row of the batch
  int key;    // first key of the piece
  int tiles;  // tiles of the piece
  int kind;
};
// Per row: threshold, bounds, the largest sampled score, the largest square of a head's norm.  A multiple of 16 bytes, so
// that the copy engine can bring it.
struct alignas(16) Info {
  float threshold;
  int begin;
  int end;
  float top;
  float q_square;
  int unused[3];
};
static_assert(sizeof(Info) == 32);

// Scratch of a selecting team.
struct SelectScratch {
  unsigned int bins[BINS + 32];  // what is no entry is counted behind the last bin
  uint2 list[LIST + 2];          // and listed behind the last place
  unsigned int winners, ties, low, top, not_finite, unused[3];
};

struct Smem {
  alignas(1024) unsigned char q[2][flag::BLOCK_Q][HEADS * DIM];
  alignas(1024) unsigned char k[flag::KV_STAGES][TILE_KEYS * DIM];
  alignas(128) float k_scale[flag::KV_STAGES][TILE_KEYS];
  alignas(128) float w[2][flag::BLOCK_Q][HEADS];
  alignas(16) Info info[2][flag::BLOCK_Q];
  alignas(16) Piece piece[2];
  alignas(16) Piece slot_piece[SLOTS];
  Info slot_info[SLOTS][flag::BLOCK_Q];
  int counts[SLOTS][flag::BLOCK_Q][SEGMENTS];
  alignas(8) ptx::u64 full[flag::KV_STAGES], empty[flag::KV_STAGES], q_full[2], q_empty[2];
  alignas(8) ptx::u64 slot_ready[SLOTS], slot_free[SLOTS];
  SelectScratch select[TOPK_WARPS];  // one a warp; repair has one team
};

struct Args {
  const float* w;            // [Q, 64]
  const float* k_scale;      // [keys]
  const Info* info;          // [Q rounded up to 4]
  const int4* batches;       // [batches]: cost before this batch, its first key, its tiles
  const int2* plan;          // [ctas + 1]: first batch of a CTA and tile inside it
  uint2* cand;               // [ctas, ALL_SLOTS, BLOCK_Q, ROW_ROOM]: score bits, key
  int* counts;               // [ctas, 2, BLOCK_Q, SEGMENTS] of head and tail pieces
  float* scores;             // [rows, stride]
  int* out;                  // [Q, K]
  int* status;               // [Q]: why a row failed
  int* failed;               // [Q]: rows to repair
  unsigned int* control;     // [0] number of failed rows, [1] grid barrier
  unsigned long long* checksum;  // [1]
  int rows;                  // Q
  int keys;                  // N, or the number of sampled keys
  long long stride;          // of scores
  int repair_rows;           // rows of scratch
  const float* k_square;     // [squares] largest squares of keys' norms, of parts of the keys
  int squares;
};

enum Why : int { underflow = 1, segment_full = 2, not_finite = 4 };

__device__ __forceinline__ void fail(const Args& a, int row, int why) {
  a.status[row] = why;
  const unsigned int at = atomicAdd(&a.control[0], 1u);
  if (at < a.rows) a.failed[at] = row;  // main alone, again and again, counts on
}

template <role::id Role>
__device__ __forceinline__ void delay() {
  constexpr bool here = (flag::DELAY_ROLE == flag::DELAY_ROLE_t::tma && Role == role::tma) ||
                        (flag::DELAY_ROLE == flag::DELAY_ROLE_t::math && Role == role::math) ||
                        (flag::DELAY_ROLE == flag::DELAY_ROLE_t::topk && Role == role::topk);
  if constexpr (here && flag::DELAY_CYCLES > 0) {
    const long long begin = clock64();
    while (clock64() - begin < flag::DELAY_CYCLES) {
    }
  }
}

// Unsigned integers in the order of the numbers; NaN is below all of them.
__device__ __forceinline__ unsigned int ordered(unsigned int bits) {
  const unsigned int key = bits ^ (static_cast<unsigned int>(static_cast<int>(bits) >> 31) | 0x80000000u);
  return (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0u : key;
}
__device__ __forceinline__ unsigned int bits_of(unsigned int key) {
  return key ^ ((key >> 31) ? 0x80000000u : 0xFFFFFFFFu);
}
__device__ __forceinline__ float from_ordered(unsigned int key) { return __uint_as_float(bits_of(key)); }

}  // namespace shape
