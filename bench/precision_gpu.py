"""Recordings that show how small an effect can be told on this card: null arms, and slow-downs of a known size.

In: a Hopper GPU; a folder.  Out: recordings `precision-*` there; `attr noise` says what they show.
The slow-down is planted in a copy of index_topk: flag PLANT holds every CTA of the main kernel up for that many cycles before
it does anything.  All CTAs start together and stay, so main takes exactly that much longer.  The base is held up as
well, for BASE_CYCLES: its machine code is that of the slow arm but for one number.  (Seen: with the code moved by two
instructions the operator took 0.18 % longer, and with the loop left out 0.6 %.)
Misuse: run it on a card that nobody else uses; what it leaves is read, never tuned.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from attribution.declare import Kernel, Variant
from attribution.load import load_kernel, load_variants, shipped_root
from attribution.measure import probe, start, watch
from attribution.measure.jobfile import Options
from attribution.plan import Overrides, plan

BASE_CYCLES, PLANTED_CYCLES = 1_000, 27_000
"""The difference is 0.3 % of the operator at Q 4096, N 131072 (some 8.7 M cycles)."""
HOLD = """
  if constexpr (M == math::Mode::main && flag::PLANT > 0) {
    for (const long long from = clock64(); clock64() - from < flag::PLANT;) {}
  }
"""
SHAPES = {"128k": (131072, 120), "8k": (8192, 240)}
"""Name -> keys, rounds; Q 4096."""


def planted_root(folder: Path) -> Path:
    """A root whose index_topk has the flag PLANT, with a variant `planted`."""
    home = folder / "kernels" / "index_topk"
    shutil.copytree(shipped_root() / "kernels" / "index_topk", home, ignore=shutil.ignore_patterns("__pycache__"))
    source, declared = home / "index_topk.cu", home / "kernel.py"
    text, count = re.subn(r"(score_kernel\([^{;]*\{)", r"\1" + HOLD, source.read_text(encoding="utf-8"), count=1)
    flag = '"PLANT": Flag(1000, "cycles by which each CTA of main is held up"),\n    "TRACE": Flag('
    code = declared.read_text(encoding="utf-8")
    if count != 1 or code.count('"TRACE": Flag(') != 1:
        raise SystemExit("precision: index_topk looks otherwise than this benchmark knows it: adapt planted_root()")
    source.write_text(text, encoding="utf-8")
    declared.write_text(code.replace('"TRACE": Flag(', flag), encoding="utf-8")
    (folder / "variants").mkdir()
    (folder / "variants" / "index_topk.toml").write_text(
        '[full]\nasks = "How long does the fused operator take?"\n'
        f'[planted]\nbase = "full"\nstage = "operator"\nasks = "Is a slow-down of {PLANTED_CYCLES} cycles seen?"\n'
        f"flags = {{ PLANT = {PLANTED_CYCLES} }}\n"
        "expects = { h200 = { time_ratio = [1.0025, 1.0035] } }\n",
        encoding="utf-8",
    )
    return folder


def record(kernel: Kernel, variants: dict[str, Variant], names: list[str], over: Overrides, path: Path) -> None:
    """One recording in scope graph, whole operators only."""
    options = Options(scopes=("graph",), traced_rounds=0, stages=("operator",), timeout_s=60.0)
    watch.execute(plan(kernel, variants, names, over), kernel, variants, path, lambda *_: None, options)


def main(folder: Path, only: list[str]) -> None:
    """All recordings, or those named."""
    gpu = probe.find()
    if not isinstance(gpu, probe.Gpu):
        raise SystemExit(f"precision: {gpu}")
    with tempfile.TemporaryDirectory() as scratch:
        root = planted_root(Path(scratch))
        kernel = load_kernel(root, "index_topk")
        variants = load_variants(root, kernel)
        asked = start.Asked(gpu, Options(), None, 0)
        for name, (keys, rounds) in SHAPES.items():
            if only and name not in only:
                continue
            knobs = asked.knobs(kernel, {"ctas": gpu.sms})
            names = ["planted"] if name == "128k" else ["full"]
            over = Overrides({"q": 4096, "n": keys}, {}, knobs, rounds=rounds)
            record(kernel, variants, names, over, folder / f"precision-{name}")
    if not only or "hello" in only:
        hello = load_kernel(shipped_root(), "hello")
        over = Overrides({"rows": 4096}, {}, asked.knobs(hello, {}), rounds=240)
        record(hello, load_variants(shipped_root(), hello), ["vector"], over, folder / "precision-hello")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
