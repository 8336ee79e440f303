"""What is timed when stage main of one arm is replayed alone, and another arm ran last in the memory that all arms share?

    python -m bench.stage_gpu FILE.json
In: a Hopper GPU.  Out: milliseconds of main at Q 4096 x N 8192 behind an execution of each arm's operator, and rows that tell them
against main behind its own.  A pair that ends its process by an illegal access or does not come back is a row too.
Every pair has a process of its own, which executes the arm's operator, the other's, and then only main of the first.
Misuse: a time of main behind another operator is a time of nothing; that is what is shown here.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from attribution.build import build
from attribution.load import load_kernel, load_variants, module_of, shipped_root
from attribution.measure.memory import SharedMemory
from attribution.measure.prepared import Module, Prepared
from attribution.measure.probe import Gpu, find
from attribution.plan import Arm, Overrides, plan
from bench.gpu import compiled

SHAPE = {"q": 4096, "n": 8192}
ARMS = ("full", "ctas_66", "block_q_2", "h20_block_q_2")
SAMPLES, LIMIT_S = 9, 40


def arms(sms: int) -> dict[str, Arm]:
    kernel = load_kernel(shipped_root(), "index_topk")
    asked = plan(
        kernel,
        load_variants(shipped_root(), kernel),
        [one for one in ARMS if one != "full"],
        Overrides(SHAPE, {}, {"sms": sms, "ctas": sms}),
    )
    return {arm.name: arm for question in asked.questions for arm in question.arms if arm.name in ARMS}


def behind(mine: str, last: str, sms: int) -> list[float]:
    """Milliseconds of main of `mine` where `last` executed last."""
    import torch

    kernel, of = load_kernel(shipped_root(), "index_topk"), arms(sms)
    gpu, memory = module_of(kernel, "gpu"), SharedMemory()
    inputs = gpu.inputs(SHAPE, "normal", 1)

    def prepared(name: str) -> Prepared:
        with memory.arm():
            made = gpu.operator(inputs, SHAPE, of[name].flags, of[name].knobs)
        return Prepared(kernel, made, Module(build(kernel, of[name].flags)))

    both = {name: prepared(name) for name in dict.fromkeys((mine, last))}
    replay = both[mine].graph("main")
    both[last].graph()
    torch.cuda.synchronize()
    spent = []
    for _ in range(SAMPLES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        both[last].again()
        begin.record()
        replay()
        end.record()
        torch.cuda.synchronize()
        spent.append(round(begin.elapsed_time(end), 6))
    return spent


def asked(mine: str, last: str) -> dict[str, Any]:
    """Samples of a pair, or how its process ended."""
    command = [sys.executable, "-m", "bench.stage_gpu", "--pair", mine, last]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"ended": f"no end in {LIMIT_S} s"}
    if done.returncode:
        return {"ended": done.stderr[-400:]}
    return {"milliseconds": json.loads(done.stdout.splitlines()[-1])}


def reason(ended: str) -> str:
    """What CUDA said when a process ended, or all that is known of it."""
    said = re.search(r"CUDA (?:error|warning): ([^(\n]+)", ended)
    return said.group(1).strip() if said else ended


def rows(pairs: dict[str, dict[str, dict[str, Any]]]) -> list[dict[str, str]]:
    """Main of each arm behind another's operator, as a ratio to main behind its own."""
    out = []
    for mine, by in pairs.items():
        own = by[mine].get("milliseconds")
        for last, found in by.items():
            said = reason(found.get("ended", "no time of its own to compare with"))
            if own and "milliseconds" in found:
                said = f"{statistics.median(found['milliseconds']) / statistics.median(own):.3f}"
            out.append({"what": f"main of {mine} behind {last}", "measured": said})
    return out


def main(arguments: list[str]) -> None:
    gpu = find()
    if not isinstance(gpu, Gpu):
        raise SystemExit(f"stage_gpu: {gpu}")
    if arguments[0] == "--pair":
        print(json.dumps(behind(arguments[1], arguments[2], gpu.sms)))
        return
    compiled(load_kernel(shipped_root(), "index_topk"), (arm.flags for arm in arms(gpu.sms).values()))
    pairs = {mine: {last: asked(mine, last) for last in ARMS} for mine in ARMS}
    made = {"card": gpu.name, "scope": "graph", "date": time.strftime("%Y-%m-%d"), "shape": SHAPE, "pairs": pairs}
    Path(arguments[0]).write_text(json.dumps({**made, "rows": rows(pairs)}, indent=1) + "\n", encoding="utf-8")
    for row in rows(pairs):
        print(f"{row['what']}: {row['measured']}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
