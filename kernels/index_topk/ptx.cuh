// Hopper's instructions that C++ cannot say: barriers, bulk copies, register hand-over, packed conversions.
#pragma once

struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};

namespace ptx {

using u32 = unsigned int;
using u64 = unsigned long long;

__device__ __forceinline__ u32 smem(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void barrier_init(u64* bar, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(bar)), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(u64* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory");
}
__device__ __forceinline__ void arrive_expect(u64* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(u64* bar, u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "again:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1, 0x989680;\n"
      "@p bra done;\nbra again;\ndone:\n}" ::"r"(smem(bar)), "r"(parity) : "memory");
}
// One box of a two-dimensional tensor of bytes: `row` counts rows of 128 bytes.
__device__ __forceinline__ void load_box(void* to, const CUtensorMap* map, int row, u64* bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(smem(to)), "l"(map), "r"(0), "r"(row), "r"(smem(bar)) : "memory");
}
// `bytes`, `to` and `from` are multiples of 16.
__device__ __forceinline__ void load_bytes(void* to, const void* from, int bytes, u64* bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(smem(bar)) : "memory");
}
// 16 bytes past the first-level cache; read even when nobody uses them.
__device__ __forceinline__ uint4 load_global_16(const void* from) {
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(__cvta_generic_to_global(from)) : "memory");
  return v;
}

template <int Threads>
__device__ __forceinline__ void sync_named(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(Threads) : "memory");
}
template <int Threads>
__device__ __forceinline__ void arrive_named(int id) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(Threads) : "memory");
}
template <int Registers>
__device__ __forceinline__ void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
// What ordinary stores wrote to shared memory becomes visible to WGMMA and the copy engine.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Sum of the squares of two e4m3 numbers.
__device__ __forceinline__ float squares_e4m3(u32 two) {
  float x, y;
  asm("{\n.reg .b32 h;\n.reg .b16 a, b;\ncvt.rn.f16x2.e4m3x2 h, %2;\nmov.b32 {a, b}, h;\n"
      "cvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}" : "=f"(x), "=f"(y) : "h"(static_cast<unsigned short>(two)));
  return fmaf(x, x, y * y);
}
// Two e4m3 numbers times two f16 ones.
__device__ __forceinline__ u32 scale_e4m3(u32 two, u32 factor) {
  unsigned short scaled;
  asm("{\n.reg .b32 h;\ncvt.rn.f16x2.e4m3x2 h, %1;\nmul.rn.f16x2 h, h, %2;\ncvt.rn.satfinite.e4m3x2.f16x2 %0, h;\n}"
      : "=h"(scaled) : "h"(static_cast<unsigned short>(two)), "r"(factor));
  return scaled;
}
__device__ __forceinline__ u32 load_acquire(const u32* p) {
  u32 v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_global(p)) : "memory");
  return v;
}
__device__ __forceinline__ u32 dynamic_smem_bytes() {
  u32 v;
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(v));
  return v;
}

}  // namespace ptx
