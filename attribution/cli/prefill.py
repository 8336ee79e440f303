"""`attr prefill`: measure a prefill stack with the native indexer, the fused one and none, one recording an input length."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attribution.cli.options import Json, Overwrite
from attribution.cli.output import print_json, progress_bar
from attribution.errors import InputError


def prefill(
    length: Annotated[list[int], typer.Option("--length", help="Input length in tokens; may be repeated.")],
    out: Annotated[Path, typer.Option("--out", help="Start of the recordings' names: OUT-16k, or OUT-64 below 1024.")],
    config: Annotated[str, typer.Option("--config", help="Sizes: h200, or tiny for a CPU.")] = "h200",
    layers: Annotated[int | None, typer.Option("--layers", help="Layers, where fewer or more are wanted.")] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=1000, help="Multiples of 4 are balanced.")] = 8,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**62, help="Seed of the tokens.")] = 1,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Time to first token with and without the fused indexer, and which share of the kernels' time the indexer has.

    `attr reconcile` reads what this leaves; input lengths that never use the fused indexer measure its adapter alone.
    """
    from attribution.prefill.bench import make_bench
    from attribution.prefill.record import record_all
    from attribution.recording import check_free

    if len(set(length)) < len(length):
        raise InputError(f"--length {', '.join(map(str, length))}: the same length twice; give each once")
    if out.name in ("", ".."):
        raise InputError(
            f"--out {str(out)!r}: must end in the start of a name; --out recordings/prefill makes prefill-16k"
        )
    paths = {n: out.with_name(f"{out.name}-{_short(n)}") for n in length}
    for path in paths.values():
        check_free(path, overwrite)
    with progress_bar(quiet=json) as progress:
        progress(0, len(length), "making the stack")
        bench = make_bench(config, max(length), layers, device, seed)
        done = record_all(bench, paths, rounds, lambda step, text: progress(step, 2 * len(paths), text), overwrite)
    if json:
        print_json({"recordings": [str(r.path) for r in done]})
        return
    for recording in done:
        print(f"recording: {recording.path}")
    print(f"next: attr reconcile {' '.join(str(r.path) for r in done)}")


def _short(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else str(tokens)
