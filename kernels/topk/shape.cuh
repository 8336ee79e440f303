// Sizes that follow from the flags, the shared memory of a CTA, the order of float32 bits, and the view of one row.
#pragma once
#include "attr/config.cuh"

namespace shape {

using u32 = unsigned int;

constexpr int K = flag::K;
constexpr int THREADS = flag::THREADS;
constexpr int WARPS = THREADS / 32;
constexpr int CAPACITY = flag::CANDIDATE_CAPACITY;
constexpr int LIST_SLOTS = 16;  // candidates of a thread in `online` and `heap`
constexpr bool INDEX_ONLY = flag::STORAGE == flag::STORAGE_t::index;
constexpr bool VECTOR = flag::LOADS == flag::LOADS_t::vector;
constexpr bool PER_THREAD = flag::ALGORITHM == flag::ALGORITHM_t::online || flag::ALGORITHM == flag::ALGORITHM_t::heap;
constexpr int UNROLL = PER_THREAD ? 1 : flag::UNROLL;  // 16-byte loads in flight a thread
// Bins of one radix pass.  Four a thread where shared memory has room for them.
constexpr bool RANGE = flag::RADIX == flag::RADIX_t::range;
constexpr int BINS = !RANGE ? 256 : CAPACITY > 8192 ? 512 : 4 * THREADS;
constexpr int BIN_BITS = BINS == 256 ? 8 : BINS == 512 ? 9 : BINS == 1024 ? 10 : BINS == 2048 ? 11 : 12;
static_assert(BINS == 1 << BIN_BITS);
constexpr int UNDECIDED = RANGE ? 256 : 0;  // entries that are ranked one against the other instead of by another pass

struct Shared {
  union {
    uint4 clear[BINS / 4];
    u32 bins[BINS];
    uint2 undecided[UNDECIDED ? UNDECIDED : 1];  // the bins are dead by then
  };
  u32 warp_sum[32];
  u32 bin, above, inside;  // what a pass found
  u32 least, most;         // of the sample
  u32 found;               // candidates
  u32 winners, ties;       // written so far
  alignas(16) int index[CAPACITY];
  alignas(16) u32 bits[INDEX_ONLY ? 4 : CAPACITY];
};

// CTAs that an SM should hold: registers are shared out accordingly.  233,472 bytes are an sm_90's; where there are less, fewer
// CTAs fit and the registers only stay unused.
constexpr int BY_SMEM = 233472 / (sizeof(Shared) + 1024);
constexpr int BY_REGISTERS = (flag::ALGORITHM == flag::ALGORITHM_t::online ? 512
                              : flag::ALGORITHM == flag::ALGORITHM_t::heap ? 1024
                              : UNROLL == 4                                ? 1536
                                                                           : 2048) /
                             THREADS;
constexpr int FEWER = BY_SMEM < BY_REGISTERS ? BY_SMEM : BY_REGISTERS;
constexpr int RESIDENT = FEWER < 1 ? 1 : FEWER;

static_assert(K <= CAPACITY && (!PER_THREAD || THREADS * LIST_SLOTS <= CAPACITY));
static_assert(UNDECIDED * sizeof(uint2) <= BINS * sizeof(u32) || !RANGE);

// Unsigned integers in the order of the numbers: -0 below +0, and every NaN above +inf, as torch.topk has it on a GPU.
constexpr u32 MINUS_ZERO = 0x7FFFFFFFu, PLUS_ZERO = 0x80000000u, PLUS_INF = 0xFF800000u, NOT_A_NUMBER = 0xFFFFFFFFu;
__device__ __forceinline__ u32 ordered(u32 bits) {
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return NOT_A_NUMBER;
  return bits ^ ((bits >> 31) ? 0xFFFFFFFFu : 0x80000000u);
}
__device__ __forceinline__ u32 ordered(float x) { return ordered(__float_as_uint(x)); }
__device__ __forceinline__ float from_ordered(u32 key) {
  return __uint_as_float(key ^ ((key >> 31) ? 0x80000000u : 0xFFFFFFFFu));
}

// Elements [0, length) of a row.  Vectors are 16-byte aligned, so the first one may begin `skip` elements early.
struct Row {
  const float* at;  // element 0
  int first;        // its column
  int length;
  int skip;
  __device__ __forceinline__ Row(const float* scores, int column, int count)
      : at(scores + column), first(column), length(count),
        skip(VECTOR ? static_cast<int>(reinterpret_cast<unsigned long long>(scores + column) / 4 % 4) : 0) {}
  __device__ __forceinline__ int vectors() const { return (skip + length + 3) / 4; }
  __device__ __forceinline__ const float4* vector(int v) const { return reinterpret_cast<const float4*>(at - skip) + v; }
  __device__ __forceinline__ u32 key(int i) const { return ordered(__ldg(at + i)); }
};

enum Why : int { none = 0, underflow = 1, overflow = 2, uncertain = 3 };

}  // namespace shape
