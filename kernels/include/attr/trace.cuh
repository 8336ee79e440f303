// In-kernel trace: one elected thread of a role writes begin and end of its events, without atomics.
//
//   attr::Lane<role::math> lane(trace, threadIdx.x == 0);   // trace: attr::Trace, a kernel parameter
//   lane.begin<event::score>(row);
//   ...
//   lane.end<event::score>(row);
//   lane.close();                                           // every lane that was opened, on every path
//
// - With flag::TRACE == 0 all of it vanishes: .text is the same bytes as without these lines.
// - An event is recorded when flag::TRACE reaches the event's level (declared in kernel.py) and the host allowed that
//   level for this CTA.  An event of another role does not compile.
// - A (CTA, role) has one lane: elect one thread, and do not open a second lane of the same role in a CTA.
// - Beyond the lane's capacity nothing is written, but the attempt is counted: loss is a number.
// - Where a lane stands is kept in static shared memory, 16 bytes a role: registers of the elected thread are registers of all
//   threads, and a kernel that has none to spare is slowed down by them everywhere.
// - Hazard: reading the timer orders memory accesses and other volatile asm, not arithmetic in registers, and not
//   asynchronous work: put `end` behind the wait that makes the work visible.
#pragma once
#include "attr/config.cuh"
#include "attr/layout.cuh"

namespace attr {

using Trace = LaneHeader*;

// The generated sizes are sums of the fields: no padding, so Python reads every field where this writes it.
static_assert(sizeof(Record) == bytes_of_Record && sizeof(Record) == sizeof(uint4));
static_assert(sizeof(LaneHeader) == bytes_of_LaneHeader && sizeof(LaneHeader) % sizeof(Record) == 0);

__device__ __forceinline__ unsigned long long timer_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}

__device__ __forceinline__ unsigned long long cycles() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}

__device__ __forceinline__ unsigned int sm_id() {
  unsigned int id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

// Where a lane stands.
struct Cursor {
  Record* next;
  int left;            // room left; below zero: attempts that were lost
  unsigned int level;  // 0: nothing is recorded
};

template <role::id Role, bool On = (flag::TRACE > 0)>
class Lane {
 public:
  // `leader` is true for exactly one thread of this CTA and role.
  __device__ __forceinline__ Lane(Trace trace, bool leader) : trace_(leader ? trace : nullptr) {
    if (!leader) return;
    LaneHeader* header = header_of();
    Cursor& at = cursor();
    at.level = header->level;
    if (at.level == 0) return;
    at.left = static_cast<int>(header->capacity);
    at.next = reinterpret_cast<Record*>(trace_) + header->first;
    header->state = LaneState::open;
    header->sm_begin = sm_id();
    header->clock_begin = cycles();
    header->timer_begin_ns = timer_ns();
  }
  template <event::id Event>
  __device__ __forceinline__ void begin(int arg) {
    put<Event, 0>(arg);
  }
  template <event::id Event>
  __device__ __forceinline__ void end(int arg) {
    put<Event, 1>(arg);
  }
  __device__ __forceinline__ void close() {
    if (!trace_ || cursor().level == 0) return;
    LaneHeader* header = header_of();
    header->clock_end = cycles();
    header->timer_end_ns = timer_ns();
    header->sm_end = sm_id();
    header->attempts = static_cast<long long>(header->capacity) - cursor().left;
    header->state = LaneState::closed;
  }

 private:
  template <event::id Event, unsigned short Edge>
  __device__ __forceinline__ void put(int arg) {
    static_assert(event::role_of(Event) == Role, "this event belongs to another role");
    if constexpr (flag::TRACE >= event::level_of(Event)) {
      if (!trace_) return;
      Cursor& at = cursor();
      if (at.level < event::level_of(Event)) return;
      if (at.left > 0) {
        Record record;
        record.time_ns = timer_ns();
        record.arg = arg;
        record.event = static_cast<unsigned short>(Event);
        record.edge = Edge;
        uint4 words;
        memcpy(&words, &record, sizeof(words));
        // One streaming store: a record is never half there, and it does not displace the kernel's data in L2.
        __stcs(reinterpret_cast<uint4*>(at.next++), words);
      }
      --at.left;
    }
  }
  __device__ __forceinline__ static Cursor& cursor() {
    __shared__ Cursor cursors[role::count];
    return cursors[static_cast<unsigned int>(Role)];
  }
  // Found again at the end rather than kept.
  __device__ __forceinline__ LaneHeader* header_of() const {
    const unsigned int cta = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    return trace_ + (cta * role::count + static_cast<unsigned int>(Role));
  }
  Trace trace_;  // null: this thread records nothing
};

template <role::id Role>
class Lane<Role, false> {
 public:
  __device__ __forceinline__ Lane(Trace, bool) {}
  template <event::id Event>
  __device__ __forceinline__ void begin(int) {
    static_assert(event::role_of(Event) == Role, "this event belongs to another role");
  }
  template <event::id Event>
  __device__ __forceinline__ void end(int) {
    static_assert(event::role_of(Event) == Role, "this event belongs to another role");
  }
  __device__ __forceinline__ void close() {}
};

}  // namespace attr
