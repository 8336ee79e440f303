// topk: the K largest of every row of a float32 matrix, inside the row's bounds; exact, in any order.
// CTA c takes rows c, c + ctas, ...  Role: cta, all threads.  What a selection cannot certify is selected again from memory.
#include "attr/trace.cuh"
#include "histogram.cuh"
#include "lists.cuh"
#include "sample.cuh"

namespace {

using narrow::Entries;
using shape::K;
using shape::u32;

extern __shared__ uint4 memory[];

// A row of more than K keys.  Returns why its candidates were not enough; `seen`: how many there were.
// low, hint: the K-th key is known to be >= low when too many candidates were seen.
__device__ __forceinline__ int select(shape::Shared& s, const shape::Row& row, const float* scores, int number, int* out,
                                      attr::Lane<role::cta>& spans, int& seen, u32& low, u32& hint) {
  u32 kept = 0;
  int written = 0;
  if constexpr (flag::ALGORITHM == flag::ALGORITHM_t::threshold) {
    if (row.length > sample::DENSE) {
      spans.begin<event::sample>(number);
      const sample::Threshold t = sample::threshold(s, row, number);
      low = t.low, hint = t.hint;
      spans.end<event::sample>(number);
    }
  }
  spans.begin<event::read>(number);
  if constexpr (flag::ALGORITHM == flag::ALGORITHM_t::threshold) filter::candidates(s, row, low);
  else if constexpr (flag::ALGORITHM == flag::ALGORITHM_t::histogram) written = histogram::candidates(s, row, out);
  else if constexpr (flag::ALGORITHM == flag::ALGORITHM_t::online) kept = lists::candidates<lists::InRegisters>(s, row);
  else kept = lists::candidates<lists::Heap>(s, row);
  spans.end<event::read>(number);
  seen = s.found;
  if (seen > shape::CAPACITY) return shape::overflow;
  if (seen < K - written) return shape::underflow;
  spans.begin<event::select>(number);
  const auto at = narrow::largest(s, Entries{s, scores, seen}, K - written, low, hint, out + written);
  spans.end<event::select>(number);
  if constexpr (shape::PER_THREAD)
    if (__syncthreads_or(kept > at.low)) return shape::uncertain;
  return shape::none;
}

}  // namespace

// scores [rows, stride]; begin, end [rows]: columns [begin, end) of a row count, as far as they are in [0, columns).
// out [rows, K]: columns, then -1 where a row has fewer.  report [rows]: candidates, Why.
extern "C" __global__ void __launch_bounds__(shape::THREADS, shape::RESIDENT)
topk(const float* scores, const int* begin, const int* end, int* out, int2* report, int rows, int columns, long long stride,
     attr::Trace trace) {
  shape::Shared& s = *reinterpret_cast<shape::Shared*>(memory);
  attr::Lane<role::cta> spans(trace, threadIdx.x == 0);
#pragma unroll 1
  for (int number = blockIdx.x; number < rows; number += gridDim.x) {
    const int first = max(begin[number], 0), length = min(end[number], columns) - first;
    const float* const line = scores + number * stride;
    int* const to = out + static_cast<long long>(number) * K;
    int seen = max(length, 0), why = shape::none;
    if (length <= K) {
      for (int i = threadIdx.x; i < K; i += shape::THREADS) to[i] = i < length ? first + i : -1;
    } else {
      const shape::Row row(line, first, length);
      u32 low = 0, hint = ~0u;
      why = select(s, row, line, number, to, spans, seen, low, hint);
      if (why != shape::none) {
        spans.begin<event::repair>(number);
        __syncthreads();
        const bool known = why == shape::overflow;
        narrow::largest(s, narrow::Whole{row}, K, known ? low : 0u, known ? hint : ~0u, to);
        spans.end<event::repair>(number);
      }
    }
    if (threadIdx.x == 0) report[number] = make_int2(seen, why);
    __syncthreads();  // shared memory is free for the next row
  }
  spans.close();
}
