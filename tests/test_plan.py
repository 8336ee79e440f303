"""Plans: base and null arm always come along, overrides reach every arm, orders are balanced."""

from __future__ import annotations

from collections import Counter

import pytest

from attribution import order
from attribution.declare import Kernel, Variant
from attribution.errors import InputError
from attribution.plan import Overrides, Plan, plan, whole_rounds

NOTHING = Overrides({}, {}, {})


def arms(planned: Plan) -> list[str]:
    return [a.name for q in planned.questions for a in q.arms]


def test_a_variant_never_travels_alone(index_topk: Kernel, index_topk_variants: dict[str, Variant]) -> None:
    planned = plan(index_topk, index_topk_variants, ["math_only"], NOTHING)
    assert arms(planned) == ["full", "null", "math_only", "score_only"]
    null = planned.questions[0].arms[1]
    assert (null.variant, null.flags) == ("full", planned.questions[0].arms[0].flags)


def test_what_stands_beside_a_variant_comes_along_once_and_brings_nothing_itself(index_topk: Kernel) -> None:
    def variant(name: str, stages: int, *beside: str) -> Variant:
        return Variant("index_topk", name, "?", "base", {"KV_STAGES": stages}, beside=beside)

    declared = {"base": Variant("index_topk", "base", "?")}
    declared |= {v.name: v for v in (variant("a", 2, "b"), variant("b", 4, "c"), variant("c", 6))}
    for names, wanted in ((["a"], "ab"), (["b", "a"], "bca"), (["c"], "c"), (["base"], "")):
        assert arms(plan(index_topk, declared, names, NOTHING)) == ["base", "null", *wanted], names


def test_variants_of_one_base_share_a_question(index_topk: Kernel, index_topk_variants: dict[str, Variant]) -> None:
    planned = plan(
        index_topk,
        index_topk_variants,
        ["serial", "load_only", "serial_filter_only", "serial"],
        NOTHING,
    )
    assert [q.base for q in planned.questions] == ["full", "serial"]
    assert arms(planned) == [
        "full",
        "null",
        "serial",
        "load_only",
        "serial",
        "null",
        "serial_filter_only",
    ]


def test_the_base_alone_is_a_question(index_topk: Kernel, index_topk_variants: dict[str, Variant]) -> None:
    assert arms(plan(index_topk, index_topk_variants, ["full"], NOTHING)) == ["full", "null"]


def test_overrides_reach_every_arm_but_not_its_own_change(
    index_topk: Kernel, index_topk_variants: dict[str, Variant]
) -> None:
    over = Overrides({"q": 7}, {"BLOCK_Q": 2, "OVERLAP": False}, {"ctas": 5})
    planned = plan(index_topk, index_topk_variants, ["block_q_1", "two_waves", "score_only"], over)
    seen = {a.name: a for q in planned.questions for a in q.arms}
    assert planned.shape["q"] == 7
    assert {n: a.flags["BLOCK_Q"] for n, a in seen.items()} == {
        "full": 2, "null": 2, "block_q_1": 1, "two_waves": 2, "score_only": 2,
    }  # fmt: skip
    assert all(a.flags["OVERLAP"] is False for a in seen.values())
    assert {n: a.knobs["ctas"] for n, a in seen.items()} == {
        "full": 5, "null": 5, "block_q_1": 5, "two_waves": 32, "score_only": 5,
    }  # fmt: skip


def test_a_knob_that_the_variant_only_inherits_follows_the_override(index_topk: Kernel) -> None:
    """The base sets ctas = 4; one variant inherits that, the other has a number of its own."""
    declared = {
        "base": Variant("index_topk", "base", "?", knobs={"ctas": 4}),
        "inherits": Variant("index_topk", "inherits", "?", "base", {"BLOCK_Q": 2}, {"ctas": 4}),
        "own": Variant("index_topk", "own", "?", "base", {}, {"ctas": 8}),
    }
    planned = plan(index_topk, declared, ["inherits", "own"], Overrides({}, {}, {"ctas": 5}))
    assert [a.knobs["ctas"] for a in planned.questions[0].arms] == [5, 5, 5, 8]


def test_a_variant_that_changes_nothing_is_refused(index_topk: Kernel, index_topk_variants: dict[str, Variant]) -> None:
    for over in (
        Overrides({}, {"BLOCK_Q": 1, "KV_STAGES": 4}, {}),
        Overrides({}, {"BLOCK_Q": 1, "KV_STAGES": 4}, {"ctas": 5}),
    ):
        with pytest.raises(InputError, match="variant block_q_1 equals its base full under these overrides"):
            plan(index_topk, index_topk_variants, ["block_q_1"], over)


def test_each_question_has_an_order_of_its_own_seed(
    index_topk: Kernel, index_topk_variants: dict[str, Variant]
) -> None:
    over = Overrides({}, {}, {}, rounds=12, order_seed=5)
    planned = plan(index_topk, index_topk_variants, ["load_only", "serial_filter_only"], over)
    assert [q.base for q in planned.questions] == ["full", "serial"]
    for i, question in enumerate(planned.questions):
        names = [a.name for a in question.arms]
        wanted = [names[arm] for row in order.rounds(3, 12, 5 + i) for arm in row]
        assert [r.arm.name for r in planned.runs() if r.question == question.base] == wanted
    assert order.rounds(3, 12, 6) != order.rounds(3, 12, 4)


@pytest.mark.parametrize(
    ("arms", "rounds"), [(2, 12), (3, 12), (4, 12), (5, 20), (6, 12), (7, 14), (8, 16), (9, 18), (10, 20)]
)
def test_without_a_number_rounds_are_whole_designs(arms: int, rounds: int) -> None:
    assert whole_rounds(arms) == rounds
    assert order.imbalance(order.rounds(arms, rounds, 1)) == ""


def test_a_plan_of_five_arms_is_balanced_by_default(
    index_topk: Kernel, index_topk_variants: dict[str, Variant]
) -> None:
    planned = plan(index_topk, index_topk_variants, ["load_only", "math_only"], NOTHING)
    assert [a.name for a in planned.questions[0].arms] == ["full", "null", "load_only", "math_only", "score_only"]
    assert planned.rounds == 20


def test_one_round_is_allowed_and_less_is_not(index_topk: Kernel, index_topk_variants: dict[str, Variant]) -> None:
    assert len(list(plan(index_topk, index_topk_variants, ["full"], Overrides({}, {}, {}, rounds=1)).runs())) == 2
    with pytest.raises(InputError, match="rounds = -1: allowed is an integer >= 1"):
        plan(index_topk, index_topk_variants, ["full"], Overrides({}, {}, {}, rounds=-1))


def test_an_override_that_one_arm_cannot_have_is_refused(
    index_topk: Kernel, index_topk_variants: dict[str, Variant]
) -> None:
    with pytest.raises(InputError, match="EMIT needs SELECT"):
        plan(index_topk, index_topk_variants, ["math_only"], Overrides({}, {"SELECT": False}, {}))


def test_runs_are_paired_balanced_and_numbered(index_topk: Kernel, index_topk_variants: dict[str, Variant]) -> None:
    runs = list(plan(index_topk, index_topk_variants, ["load_only"], NOTHING).runs())
    assert [r.run for r in runs] == list(range(36))
    assert Counter((r.round, r.arm.name) for r in runs).most_common(1)[0][1] == 1
    follows = Counter((r.predecessor, r.arm.name) for r in runs if r.predecessor)
    assert set(follows.values()) == {4}
    assert len(follows) == 6
    assert set(Counter((r.position, r.arm.name) for r in runs).values()) == {4}


def test_the_same_arguments_give_the_same_plan(index_topk: Kernel, index_topk_variants: dict[str, Variant]) -> None:
    one, two = (plan(index_topk, index_topk_variants, ["serial"], NOTHING) for _ in range(2))
    assert one.facts() == two.facts()
    assert [r.arm.name for r in one.runs()] == [r.arm.name for r in two.runs()]
    other = plan(index_topk, index_topk_variants, ["serial"], Overrides({}, {}, {}, order_seed=1))
    assert [r.arm.name for r in one.runs()] != [r.arm.name for r in other.runs()]


@pytest.mark.parametrize(
    ("names", "over", "sentence"),
    [
        (["math_onyl"], NOTHING, "no variant math_onyl; nearest: math_only"),
        (["full"], Overrides({"n": 1024}, {}, {}), "n = 1024 is below K = 2048"),
        (["full"], Overrides({"n": 8200}, {}, {}), "a multiple of 128"),
        (["full"], Overrides({"q": 0}, {}, {}), "q = 0: allowed is an integer >= 1"),
        (["full"], Overrides({"q": 9000}, {}, {}), "q = 9000 is above n"),
        (["full"], Overrides({}, {}, {"ctas": 0}), "ctas = 0: allowed is an integer >= 1"),
        (
            ["full"],
            Overrides({}, {"SEGMENT_CAPACITY": 200}, {}),
            "capacity 1600 .* is below K = 2048",
        ),
        (["full"], Overrides({}, {}, {}, distribution="norml"), "nearest: normal"),
        (["full"], Overrides({}, {"DELAY_CYCLES": 5}, {}), "go together"),
    ],
)
def test_what_is_not_allowed_is_refused(
    index_topk: Kernel,
    index_topk_variants: dict[str, Variant],
    names: list[str],
    over: Overrides,
    sentence: str,
) -> None:
    with pytest.raises(InputError, match=sentence):
        plan(index_topk, index_topk_variants, names, over)
