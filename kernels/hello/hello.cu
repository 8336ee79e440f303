// hello: out[row] = sum of x[row, :].  Flags: VECTOR (floats per load), TRACE.  Role: sum, all 128 threads.
// Barrier       | arrive | wait for
// __syncthreads | 128    | 1st: every thread's part of the row is in shared memory; 2nd: the parts have been read
#include "attr/config.cuh"
#include "attr/trace.cuh"

constexpr int threads = 128;
struct alignas(4 * flag::VECTOR) Vector { float at[flag::VECTOR]; };

extern "C" __global__ void __launch_bounds__(threads, 16)
hello(const Vector* x, float* out, int rows, int columns, attr::Trace trace) {
  __shared__ float part[threads];
  attr::Lane<role::sum> lane(trace, threadIdx.x == 0);
  const int vectors = columns / flag::VECTOR;
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    lane.begin<event::load>(row);
    Vector sums = {};
    for (int i = threadIdx.x; i < vectors; i += threads) {
      const Vector v = x[static_cast<size_t>(row) * vectors + i];
      for (int k = 0; k < flag::VECTOR; ++k) sums.at[k] += v.at[k];
    }
    float sum = 0;
    for (float one : sums.at) sum += one;
    part[threadIdx.x] = sum;
    __syncthreads();
    lane.end<event::load>(row);
    lane.begin<event::reduce>(row);
    if (threadIdx.x < 32) {
      sum = (sum + part[threadIdx.x + 32]) + (part[threadIdx.x + 64] + part[threadIdx.x + 96]);
      for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
      if (threadIdx.x == 0) out[row] = sum;
    }
    __syncthreads();
    lane.end<event::reduce>(row);
  }
  lane.close();
}
