// Keep alive what a control does not consume: fold it, and write the fold.
//
//   attr::Fold fold;
//   fold.add(accumulator[0]);          // one register a tile: one integer addition
//   fold.write(checksum, threadIdx.x); // without this line the compiler deletes the work
//
// - An empty `asm volatile("" :: "r"(x))` does not do it: it stops the front end, but leaves no instruction, and ptxas
//   then deletes what made x (seen: no QGMMA left in a control that should have kept all of them).
// - The fold is a sum of bit patterns modulo 2^32: it does not depend on order, and equal values do not cancel.
// - Fold one accumulator register of a tile, not all: a control must not do more ordinary work than it removes.
#pragma once

namespace attr {

class Fold {
 public:
  __device__ __forceinline__ void add(unsigned int bits) { sum_ += bits; }
  __device__ __forceinline__ void add(int bits) { sum_ += static_cast<unsigned int>(bits); }
  __device__ __forceinline__ void add(float value) { sum_ += __float_as_uint(value); }
  __device__ __forceinline__ void write(unsigned int* out, unsigned int index) const { out[index] = sum_; }
  __device__ __forceinline__ unsigned int value() const { return sum_; }

 private:
  unsigned int sum_ = 0;
};

}  // namespace attr
