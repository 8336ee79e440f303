import os
from dataclasses import replace
from pathlib import Path

import pytest

from attribution.build.residency import LIMITS, SMS, limits_of, residency

HOPPER = LIMITS["9.0"]
CORPUS = Path(os.environ.get("ATTR_CORPUS", Path(__file__).resolve().parents[3] / "shared" / "corpus"))


@pytest.mark.parametrize(
    ("threads", "registers", "smem", "ctas", "caps"),
    [
        (384, 168, 228160, 1, ("registers", "smem")),
        (640, 96, 152 * 1024, 1, ("registers", "smem")),
        (128, 32, 0, 16, ("threads", "registers")),
        (32, 16, 0, 32, ("slots",)),
        (1024, 64, 0, 1, ("registers",)),
        (1024, 32, 0, 2, ("threads", "registers")),
        (256, 40, 0, 6, ("registers",)),
        (128, 24, 114 * 1024 - 1024, 2, ("smem",)),
        (128, 24, 114 * 1024 - 1023, 1, ("smem",)),
        (33, 24, 0, 32, ("threads", "slots")),
    ],
)
def test_known_occupancies_of_hopper(threads, registers, smem, ctas, caps):
    found = residency(HOPPER, threads, registers, smem)
    assert (found.ctas, found.caps) == (ctas, caps)


def test_the_next_threshold_is_exactly_where_one_more_cta_fits():
    found = residency(HOPPER, 256, 90, 100_000)
    assert found.ctas == 2
    for step in found.next:
        changed = {"threads": 256, "registers": 90, "smem": 100_000}
        for other in found.next:
            changed[other.resource] = other.at_most
        at = residency(HOPPER, changed["threads"], changed["registers"], changed["smem"])
        assert at.ctas == found.ctas + 1
        changed[step.resource] += {"threads": 32, "registers": 1, "smem": 1}[step.resource]
        above = residency(HOPPER, changed["threads"], changed["registers"], changed["smem"])
        assert above.ctas == found.ctas
        assert step.excess == step.used - step.at_most > 0


@pytest.mark.parametrize("threads", [32, 96, 128, 200, 256, 384, 512, 640, 1024])
@pytest.mark.parametrize("registers", [16, 24, 32, 41, 64, 96, 128, 168, 255])
@pytest.mark.parametrize("smem", [0, 1000, 49152, 100_000, 116_000, 232_448])
def test_thresholds_hold_over_the_whole_range(threads, registers, smem):
    found = residency(HOPPER, threads, registers, smem)
    used = {"threads": threads, "registers": registers, "smem": smem}
    if "slots" in found.caps or len(found.next) < len(found.caps):
        return
    used |= {step.resource: step.at_most for step in found.next}
    assert residency(HOPPER, *used.values()).ctas > found.ctas


def test_the_message_says_how_far_the_next_step_is():
    found = residency(HOPPER, 128, 32, 126 * 1024)
    (step,) = found.next
    assert str(step) == f"2 CTAs at <= {113 * 1024} B of shared memory: {13 * 1024} too many"
    assert "1 CTAs/SM, capped by smem" in str(found)


def test_what_cannot_be_launched_is_zero():
    assert residency(HOPPER, 128, 32, 227 * 1024).ctas == 1
    assert residency(HOPPER, 128, 32, 227 * 1024 + 1).ctas == 0
    assert residency(HOPPER, 1024, 65, 0).ctas == 0


def test_an_architecture_without_rules_has_none():
    assert limits_of("sm_90a") is HOPPER
    assert limits_of("sm_80") is LIMITS["8.0"]
    assert limits_of("sm_121") is None
    assert {capability for capability, _ in SMS.values()} <= set(LIMITS)


@pytest.mark.skipif(not (CORPUS / "ncu-rep").is_dir(), reason=f"no profiler reports at {CORPUS}")
def test_limits_agree_with_what_ncu_reports():
    ncu_report = pytest.importorskip("ncu_report")
    names = {"threads": "warps", "registers": "registers", "smem": "shared_mem", "slots": "blocks"}
    seen: set[str] = set()
    for path in sorted((CORPUS / "ncu-rep").glob("*.ncu-rep")):
        for action in _actions(ncu_report.load_report(str(path))):
            have = set(action.metric_names())

            def value(name, action=action, have=have):
                return action.metric_by_name(name).as_double() if name in have else None

            attribute = "device__attribute_"
            major = value(f"{attribute}compute_capability_major")
            if major is None or value("launch__occupancy_limit_warps") is None:
                continue
            capability = f"{major:.0f}.{value(f'{attribute}compute_capability_minor'):.0f}"
            limits = LIMITS[capability]
            assert limits.threads == value(f"{attribute}max_threads_per_multiprocessor")
            assert limits.ctas == value(f"{attribute}max_blocks_per_multiprocessor")
            assert limits.registers == value(f"{attribute}max_registers_per_multiprocessor")
            of_sm = f"{attribute}max_shared_memory_per_multiprocessor"
            assert limits.smem_bytes == value(of_sm)
            of_cta = f"{attribute}max_shared_memory_per_block_optin"
            assert limits.smem_cta_bytes == value(of_cta)
            reserved = f"{attribute}reserved_shared_memory_per_block"
            assert limits.smem_reserved_bytes == value(reserved)
            smem = sum(value(f"launch__shared_mem_per_block_{kind}") or 0 for kind in ("static", "dynamic"))
            # ncu takes the carve-out that the driver chose for this launch.
            chosen = replace(limits, smem_bytes=int(value("launch__shared_mem_config_size")))
            found = residency(
                chosen,
                int(value("launch__block_size")),
                int(value("launch__registers_per_thread")),
                int(smem),
            )
            assert found.fits == {ours: value(f"launch__occupancy_limit_{theirs}") for ours, theirs in names.items()}
            seen.add(capability)
    assert seen >= {"7.5", "8.0", "8.9", "9.0"}


def _actions(report):
    for r in range(report.num_ranges()):
        scope = report.range_by_idx(r)
        for a in range(scope.num_actions()):
            yield scope.action_by_idx(a)
