"""`make bench`: all benchmarks, or those named on the command line."""

from __future__ import annotations

import importlib
import sys

NAMES = ("startup", "build", "trace", "verdicts", "attribution", "ingest")


def main() -> None:
    for name in sys.argv[1:] or NAMES:
        for what, ratio, target in importlib.import_module(f"bench.{name}").ratios():
            print(f"{ratio:8.3f}  target {target:18}  {what}", flush=True)


main()
