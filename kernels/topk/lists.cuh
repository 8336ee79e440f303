// Every thread keeps the LIST_SLOTS largest of the keys that it sees: in registers (`online`) or as a heap in shared memory.
//
// In: a row.  Out: candidates in s.index and s.bits (ordered keys; 0 where a slot stayed empty).
// A thread may see more of the K largest than it can keep.  It has not when the least key of its list is no larger than the
// row's K-th: `may_have_lost` says for which threads that is to be asked.
#pragma once
#include "filter.cuh"

namespace lists {

using narrow::Shared;
using shape::LIST_SLOTS;
using shape::THREADS;
using shape::u32;

struct InRegisters {
  u32 key[LIST_SLOTS] = {};
  int index[LIST_SLOTS] = {};
  u32 least = 0;
  int slot = 0;
  __device__ __forceinline__ InRegisters(Shared&) {}
  __device__ __forceinline__ void push(u32 k, int i) {
#pragma unroll
    for (int j = 0; j < LIST_SLOTS; ++j)
      key[j] = j == slot ? k : key[j], index[j] = j == slot ? i : index[j];
    least = ~0u;
#pragma unroll
    for (int j = 0; j < LIST_SLOTS; ++j)
      if (key[j] < least) least = key[j], slot = j;
  }
  __device__ __forceinline__ void finish(Shared& s) const {
#pragma unroll
    for (int j = 0; j < LIST_SLOTS; ++j) {
      s.bits[j * THREADS + threadIdx.x] = key[j];
      s.index[j * THREADS + threadIdx.x] = index[j];
    }
  }
};

// A binary heap with the least key at its root; slot j of all threads lies together, so that banks do not conflict.
struct Heap {
  u32* key;
  int* index;
  u32 least = 0;
  __device__ __forceinline__ Heap(Shared& s) : key(s.bits + threadIdx.x), index(s.index + threadIdx.x) {
#pragma unroll
    for (int j = 0; j < LIST_SLOTS; ++j) key[j * THREADS] = 0u;
  }
  __device__ __forceinline__ void push(u32 k, int i) {
    int at = 0;
#pragma unroll 1
    while (2 * at + 1 < LIST_SLOTS) {
      int child = 2 * at + 1;
      u32 below = key[child * THREADS];
      if (child + 1 < LIST_SLOTS && key[(child + 1) * THREADS] < below) below = key[++child * THREADS];
      if (k <= below) break;
      key[at * THREADS] = below;
      index[at * THREADS] = index[child * THREADS];
      at = child;
    }
    key[at * THREADS] = k;
    index[at * THREADS] = i;
    least = key[0];
  }
  __device__ __forceinline__ void finish(Shared&) const {}
};

// The least key that this thread kept; 0 while its list had room.
template <class List>
__device__ __forceinline__ u32 candidates(Shared& s, const shape::Row& row) {
  List list(s);
  filter::each_batch(row, [&](const filter::Batch& b, u32 there) {
#pragma unroll
    for (int j = 0; j < filter::KEYS; ++j) {
      const u32 key = shape::ordered(b.value[j]);
      if ((there >> j & 1u) && key > list.least) list.push(key, row.first + b.element(j));
    }
  });
  list.finish(s);
  if (threadIdx.x == 0) s.found = THREADS * LIST_SLOTS;
  __syncthreads();
  return list.least;
}

}  // namespace lists
