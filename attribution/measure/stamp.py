"""Small kernels that look at the card's clocks: stamps on every SM, the timer's tick, a hold.

In: a CUDA context that torch has made current.  Out: numpy arrays of what the kernels wrote.
`Stamps` holds the stamps of many samples in one buffer and reads them back once, so that stamping
costs a launch and no synchronization.
Misuse: a stamp is outside the events that time a sample; never between them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from attribution.measure import clocks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SOURCE = r"""
struct Stamp { unsigned long long timer_ns, clock; unsigned int sm, pad; };
__device__ unsigned long long timer() {
  unsigned long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory"); return t;
}
__device__ unsigned long long cycles() {
  unsigned long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory"); return t;
}
__device__ unsigned int sm_id() {
  unsigned int id; asm volatile("mov.u32 %0, %%smid;" : "=r"(id)); return id;
}
extern "C" __global__ void stamp(Stamp* out) {
  out[blockIdx.x] = {timer(), cycles(), sm_id(), 0};
}
extern "C" __global__ void hold(unsigned int ns) {
  const unsigned long long begin = timer();
  while (timer() - begin < ns) __nanosleep(200);
}
extern "C" __global__ void ticks(unsigned long long* out, int count) {
  for (int i = 0; i < count; ++i) out[i] = timer();
}
// One CTA per SM.  Stamps right after a barrier over the grid; gives up after 5 ms, so that an SM
// that another process holds cannot hang the card: its stamp is then 0.
extern "C" __global__ void together(unsigned long long* out, unsigned int* sm, unsigned int* arrived,
                                    int rounds) {
  sm[blockIdx.x] = sm_id();
  bool whole = true;
  for (int r = 0; r < rounds; ++r) {
    const unsigned long long begin = timer();
    atomicAdd(arrived, 1u);
    while (whole && atomicAdd(arrived, 0u) < gridDim.x * (r + 1u)) whole = timer() - begin < 5000000;
    out[r * gridDim.x + blockIdx.x] = whole ? timer() : 0;
  }
}
"""

FIELDS = [("timer_ns", "<u8"), ("clock", "<u8"), ("sm", "<u4"), ("pad", "<u4")]
STAMP_BYTES = 24


class Stamps:
    """The stamp kernels on one card, and a buffer for the stamps of `capacity` launches."""

    def __init__(self, arch: str, sms: int, capacity: int = 256) -> None:
        import torch
        from cuda.core import LaunchConfig, Program, ProgramOptions

        code = Program(SOURCE, "c++", ProgramOptions(name="stamp", arch=arch)).compile("cubin")
        self._code = code  # a kernel keeps no reference to its module
        self.sms, self.capacity, self.used = sms, capacity, 0
        self._kernels = {n: code.get_kernel(n) for n in ("stamp", "hold", "ticks", "together")}
        self._wide, self._one = LaunchConfig(grid=sms, block=1), LaunchConfig(grid=1, block=1)
        self._buffer = torch.zeros(capacity * sms * STAMP_BYTES, dtype=torch.uint8, device="cuda")

    def _launch(self, name: str, config: Any, *arguments: Any) -> None:
        from cuda.core import launch

        launch(on_stream(), config, self._kernels[name], *arguments)

    def hold(self, ns: int) -> None:
        """Keep the stream busy for `ns`, while the host enqueues what follows without a gap."""
        import numpy as np

        self._launch("hold", self._one, np.uint32(ns))

    def put(self) -> int:
        """Stamp all SMs now, on the current stream; the stamp's number."""
        assert self.used < self.capacity, "read() the stamps first"
        at = self._buffer.data_ptr() + self.used * self.sms * STAMP_BYTES
        self._launch("stamp", self._wide, at)
        self.used += 1
        return self.used - 1

    def read(self) -> NDArray[np.void]:
        """All stamps since the last read, [stamps, sms] of `FIELDS`; synchronizes."""
        import numpy as np

        count, self.used = self.used, 0
        raw = self._buffer[: count * self.sms * STAMP_BYTES].cpu().numpy().tobytes()
        return np.frombuffer(raw, np.dtype(FIELDS)).reshape(count, self.sms)

    def timer(self) -> dict[str, Any]:
        """Facts of %globaltimer here: tick, offset of each SM by its number (None: not seen) and their spread, in ns."""
        import numpy as np
        import torch

        rounds = 64
        steps = torch.zeros(4096, dtype=torch.int64, device="cuda")
        self._launch("ticks", self._one, steps.data_ptr(), np.int32(len(steps)))
        out = torch.zeros((rounds, self.sms), dtype=torch.int64, device="cuda")
        sm = torch.zeros(self.sms, dtype=torch.int32, device="cuda")
        arrived = torch.zeros(1, dtype=torch.int32, device="cuda")
        pointers = [t.data_ptr() for t in (out, sm, arrived)]
        self._launch("together", self._wide, *pointers, np.int32(rounds))
        stamps = out.cpu().numpy()
        whole = stamps[(stamps > 0).all(axis=1)]
        offsets = clocks.timer_offsets_ns(whole) if len(whole) else np.full(self.sms, np.nan)
        seen = sm.cpu().numpy()
        return {
            "tick_ns": clocks.tick_ns(steps.cpu().numpy()),
            "timer_offsets_ns": clocks.by_sm(seen, offsets, self.sms),
            "timer_offset_spread_ns": float(offsets.max() - offsets.min()),
            "timer_offset_rounds": len(whole),
            "sms_seen": len(np.unique(seen)),
        }


def on_stream() -> Any:
    """torch's current stream as cuda.core's `Stream`."""
    import torch

    return _stream(torch.cuda.current_stream().cuda_stream)


@functools.cache
def _stream(handle: int) -> Any:
    """One for each handle: torch never destroys its streams, and making another for every launch takes microseconds."""
    from cuda.core import Stream

    return Stream.from_handle(handle)
