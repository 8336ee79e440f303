"""Is there a GPU to measure on?  Asked in a child process: this one never touches the driver.

In: nothing.  Out: `Gpu`, or the reason why there is none.
Without a driver the first call into it can hang for ever, so the child has a time limit, and is only started where a
device file or nvidia-smi says that there is a card.
Misuse: it says what is there now; the worker looks again.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from attribution.errors import InputError, MeasureError

LIMIT_S = 60
DEVICE_FILE = Path("/dev/nvidia0")
CHILD = (sys.executable, "-m", "attribution.measure.probe")
NEEDED = {"torch": 'pip install "attribution[gpu]"', "cuda.core": 'pip install "attribution[cuda]"'}


@dataclass(frozen=True)
class Gpu:
    """A card: its name, number of SMs and architecture as `sm_90`."""

    name: str
    sms: int
    arch: str


def has_card() -> bool:
    """Whether a device file or nvidia-smi shows a card."""
    if DEVICE_FILE.exists():
        return True
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return False
    try:
        done = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and "GPU 0" in done.stdout


def find() -> Gpu | str:
    """The card, or a few words on why none can be used."""
    if not has_card():
        return "no CUDA device: neither /dev/nvidia0 nor nvidia-smi shows one"
    for module, how in NEEDED.items():
        if _missing(module):
            return f"there is a CUDA device, but not the package {module}: `{how}`"
    try:
        done = subprocess.run(CHILD, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"the CUDA driver did not answer within {LIMIT_S} s"
    try:
        return Gpu(**json.loads(done.stdout))
    except (ValueError, TypeError):
        words = (done.stderr or done.stdout).strip().splitlines()
        return f"the CUDA driver gives no device: {words[-1][:200] if words else 'it said nothing'}"


def _missing(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:  # the parent of cuda.core
        return True


def choose(asked: str, gpu_module: str | None, kernel: str) -> Gpu | None:
    """The card to measure `kernel` on, None for the host machine.  Raises InputError, MeasureError.

    `auto` takes the card where there is one and the kernel can use it; `cuda` insists.
    """
    if asked not in ("auto", "host", "cuda"):
        raise InputError(f"--machine {asked}: allowed are auto, host and cuda")
    if asked == "host":
        return None
    if gpu_module is None:
        if asked == "auto":
            return None
        raise InputError(
            f"--machine cuda: kernel {kernel} names no GPU module (`gpu` in its kernel.py); use --machine host"
        )
    found = find()
    if isinstance(found, Gpu):
        return found
    if asked == "auto":
        return None
    raise MeasureError(f"--machine cuda: {found}; --machine host runs the same variants on the reference machine")


def _main() -> None:
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    capability = device.compute_capability
    facts = {
        "name": device.name,
        "sms": device.properties.multiprocessor_count,
        "arch": f"sm_{capability.major}{capability.minor}",
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    _main()
