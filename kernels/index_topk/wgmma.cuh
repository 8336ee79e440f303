// WGMMA m64nNk32, e4m3 x e4m3 -> f32, both operands in shared memory, 128-byte swizzle, K-major.
// Accumulator layout: thread holds, for 8-column group j, d[4j], d[4j+1] = row lane/4, columns 8j + 2(lane%4), +1 and
// d[4j+2], d[4j+3] = the same columns of row lane/4 + 8.
#pragma once
#include "ptx.cuh"

namespace wgmma {

// Start address, 1024 bytes from one group of 8 rows to the next, 128-byte swizzle.  By all lanes, of the same tile: what comes
// from one lane the compiler keeps in uniform registers, where the matrix instruction reads it; else it moves every word there
// before every instruction.
__device__ __forceinline__ ptx::u64 descriptor(const void* tile) {
  const ptx::u32 low = 1u << 16 | (ptx::smem(tile) & 0x3FFFF) >> 4;
  return static_cast<ptx::u64>(1u << 30 | 1024 >> 4) << 32 | __shfl_sync(~0u, low, 0);
}
constexpr int K_STEP = 32 >> 4;  // 32 bytes along K, in the descriptor's unit

__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Left>
__device__ __forceinline__ void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}

// d[First ...] (+)= A x B; Add = 0 starts a new sum.
template <int N, int First, int Add>
__device__ __forceinline__ void step(float (&d)[128], ptx::u64 a, ptx::u64 b) {
  if constexpr (N == 128) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1;\n}"
        : "+f"(d[First + 0]), "+f"(d[First + 1]), "+f"(d[First + 2]), "+f"(d[First + 3]), "+f"(d[First + 4]), "+f"(d[First + 5]), "+f"(d[First + 6]), "+f"(d[First + 7]),
          "+f"(d[First + 8]), "+f"(d[First + 9]), "+f"(d[First + 10]), "+f"(d[First + 11]), "+f"(d[First + 12]), "+f"(d[First + 13]), "+f"(d[First + 14]), "+f"(d[First + 15]),
          "+f"(d[First + 16]), "+f"(d[First + 17]), "+f"(d[First + 18]), "+f"(d[First + 19]), "+f"(d[First + 20]), "+f"(d[First + 21]), "+f"(d[First + 22]), "+f"(d[First + 23]),
          "+f"(d[First + 24]), "+f"(d[First + 25]), "+f"(d[First + 26]), "+f"(d[First + 27]), "+f"(d[First + 28]), "+f"(d[First + 29]), "+f"(d[First + 30]), "+f"(d[First + 31]),
          "+f"(d[First + 32]), "+f"(d[First + 33]), "+f"(d[First + 34]), "+f"(d[First + 35]), "+f"(d[First + 36]), "+f"(d[First + 37]), "+f"(d[First + 38]), "+f"(d[First + 39]),
          "+f"(d[First + 40]), "+f"(d[First + 41]), "+f"(d[First + 42]), "+f"(d[First + 43]), "+f"(d[First + 44]), "+f"(d[First + 45]), "+f"(d[First + 46]), "+f"(d[First + 47]),
          "+f"(d[First + 48]), "+f"(d[First + 49]), "+f"(d[First + 50]), "+f"(d[First + 51]), "+f"(d[First + 52]), "+f"(d[First + 53]), "+f"(d[First + 54]), "+f"(d[First + 55]),
          "+f"(d[First + 56]), "+f"(d[First + 57]), "+f"(d[First + 58]), "+f"(d[First + 59]), "+f"(d[First + 60]), "+f"(d[First + 61]), "+f"(d[First + 62]), "+f"(d[First + 63])
        : "l"(a), "l"(b), "n"(Add));
  } else if constexpr (N == 64) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1;\n}"
        : "+f"(d[First + 0]), "+f"(d[First + 1]), "+f"(d[First + 2]), "+f"(d[First + 3]), "+f"(d[First + 4]), "+f"(d[First + 5]), "+f"(d[First + 6]), "+f"(d[First + 7]),
          "+f"(d[First + 8]), "+f"(d[First + 9]), "+f"(d[First + 10]), "+f"(d[First + 11]), "+f"(d[First + 12]), "+f"(d[First + 13]), "+f"(d[First + 14]), "+f"(d[First + 15]),
          "+f"(d[First + 16]), "+f"(d[First + 17]), "+f"(d[First + 18]), "+f"(d[First + 19]), "+f"(d[First + 20]), "+f"(d[First + 21]), "+f"(d[First + 22]), "+f"(d[First + 23]),
          "+f"(d[First + 24]), "+f"(d[First + 25]), "+f"(d[First + 26]), "+f"(d[First + 27]), "+f"(d[First + 28]), "+f"(d[First + 29]), "+f"(d[First + 30]), "+f"(d[First + 31])
        : "l"(a), "l"(b), "n"(Add));
  }
}

// The same with f16 accumulators, two columns a register: for 8-column group j, d[2j] = row lane/4, d[2j+1] = row lane/4 + 8.
template <int N, int First, int Add>
__device__ __forceinline__ void step(ptx::u32 (&d)[64], ptx::u64 a, ptx::u64 b) {
  if constexpr (N == 256) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k32.f16.e4m3.e4m3 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1;\n}"
        : "+r"(d[First + 0]), "+r"(d[First + 1]), "+r"(d[First + 2]), "+r"(d[First + 3]), "+r"(d[First + 4]), "+r"(d[First + 5]), "+r"(d[First + 6]), "+r"(d[First + 7]),
          "+r"(d[First + 8]), "+r"(d[First + 9]), "+r"(d[First + 10]), "+r"(d[First + 11]), "+r"(d[First + 12]), "+r"(d[First + 13]), "+r"(d[First + 14]), "+r"(d[First + 15]),
          "+r"(d[First + 16]), "+r"(d[First + 17]), "+r"(d[First + 18]), "+r"(d[First + 19]), "+r"(d[First + 20]), "+r"(d[First + 21]), "+r"(d[First + 22]), "+r"(d[First + 23]),
          "+r"(d[First + 24]), "+r"(d[First + 25]), "+r"(d[First + 26]), "+r"(d[First + 27]), "+r"(d[First + 28]), "+r"(d[First + 29]), "+r"(d[First + 30]), "+r"(d[First + 31]),
          "+r"(d[First + 32]), "+r"(d[First + 33]), "+r"(d[First + 34]), "+r"(d[First + 35]), "+r"(d[First + 36]), "+r"(d[First + 37]), "+r"(d[First + 38]), "+r"(d[First + 39]),
          "+r"(d[First + 40]), "+r"(d[First + 41]), "+r"(d[First + 42]), "+r"(d[First + 43]), "+r"(d[First + 44]), "+r"(d[First + 45]), "+r"(d[First + 46]), "+r"(d[First + 47]),
          "+r"(d[First + 48]), "+r"(d[First + 49]), "+r"(d[First + 50]), "+r"(d[First + 51]), "+r"(d[First + 52]), "+r"(d[First + 53]), "+r"(d[First + 54]), "+r"(d[First + 55]),
          "+r"(d[First + 56]), "+r"(d[First + 57]), "+r"(d[First + 58]), "+r"(d[First + 59]), "+r"(d[First + 60]), "+r"(d[First + 61]), "+r"(d[First + 62]), "+r"(d[First + 63])
        : "l"(a), "l"(b), "n"(Add));
  } else if constexpr (N == 128) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.f16.e4m3.e4m3 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1;\n}"
        : "+r"(d[First + 0]), "+r"(d[First + 1]), "+r"(d[First + 2]), "+r"(d[First + 3]), "+r"(d[First + 4]), "+r"(d[First + 5]), "+r"(d[First + 6]), "+r"(d[First + 7]),
          "+r"(d[First + 8]), "+r"(d[First + 9]), "+r"(d[First + 10]), "+r"(d[First + 11]), "+r"(d[First + 12]), "+r"(d[First + 13]), "+r"(d[First + 14]), "+r"(d[First + 15]),
          "+r"(d[First + 16]), "+r"(d[First + 17]), "+r"(d[First + 18]), "+r"(d[First + 19]), "+r"(d[First + 20]), "+r"(d[First + 21]), "+r"(d[First + 22]), "+r"(d[First + 23]),
          "+r"(d[First + 24]), "+r"(d[First + 25]), "+r"(d[First + 26]), "+r"(d[First + 27]), "+r"(d[First + 28]), "+r"(d[First + 29]), "+r"(d[First + 30]), "+r"(d[First + 31])
        : "l"(a), "l"(b), "n"(Add));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k32.f16.e4m3.e4m3 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, p, 1, 1;\n}"
        : "+r"(d[First + 0]), "+r"(d[First + 1]), "+r"(d[First + 2]), "+r"(d[First + 3]), "+r"(d[First + 4]), "+r"(d[First + 5]), "+r"(d[First + 6]), "+r"(d[First + 7]),
          "+r"(d[First + 8]), "+r"(d[First + 9]), "+r"(d[First + 10]), "+r"(d[First + 11]), "+r"(d[First + 12]), "+r"(d[First + 13]), "+r"(d[First + 14]), "+r"(d[First + 15])
        : "l"(a), "l"(b), "n"(Add));
  }
}

}  // namespace wgmma
