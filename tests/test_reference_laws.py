"""The reference reproduces every recorded exact law of the token, block, match and one-hot rules, with ``==``."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from specverify.reference import (
    RULES,
    Model,
    Number,
    Outcome,
    accept_tail,
    completed_law,
    expected_tokens,
    outcome_law,
    round_law,
    target_law,
    total_variation,
)

DATA = json.loads(Path(__file__).with_name("data").joinpath("laws.json").read_text(encoding="utf-8"))
SETUPS = {  # variant: the rule, and whether the draft is the likeliest token instead of a sampled one
    "token": ("token", False),
    "block": ("block", False),
    "match": ("match", False),
    "argmax_draft_one_hot": ("one_hot", True),
    "N1:match_sampled_draft": ("match", False),
    "N2:sampled_draft_scored_one_hot": ("one_hot", False),
}
COUNTS = {
    "token": 52,
    "block": 52,
    "match": 42,
    "argmax_draft_one_hot": 19,
    "N1:match_sampled_draft": 10,
    "N2:sampled_draft_scored_one_hot": 10,
    "full_joint_bound": 38,
    "any": 7,
    "target": 2,
}


def model(name: str, side: str) -> Model:
    """Return the target (p) or draft (q) of a recorded input."""
    rows = DATA["inputs"][name][side]
    if isinstance(rows, list):
        return lambda _: [Fraction(x) for x in rows]
    return lambda prefix: [Fraction(x) for x in rows[",".join(map(str, prefix))]]


def likeliest(draft: Model) -> Model:
    """Return the point mass at a draft's likeliest token, ties going to the lower id."""

    def row(prefix: tuple[int, ...]) -> Sequence[Number]:
        q = list(draft(prefix))
        return [Fraction(int(x == q.index(max(q)))) for x in range(len(q))]

    return row


def outcomes(record: dict[str, Any]) -> tuple[dict[Outcome, Number], Model]:
    """Return the law of one round of a record's rule, and its target."""
    rule, is_likeliest = SETUPS[record["variant"]]
    target, draft = model(record["input"]["name"], "p"), model(record["input"]["name"], "q")
    return outcome_law(RULES[rule], target, likeliest(draft) if is_likeliest else draft, record["gamma"]), target


def as_law(law: dict[str, str]) -> dict[tuple[int, ...], Fraction]:
    """Return a recorded law as the reference writes it."""
    return {tuple(map(int, key.split(","))): Fraction(value) for key, value in law.items() if Fraction(value)}


def tail(record: dict[str, Any]) -> tuple[Fraction, ...]:
    """Return a recorded tail as a tuple."""
    return tuple(Fraction(record["value"][str(i)]) for i in range(1, record["gamma"] + 1))


def overlap(record: dict[str, Any], length: int) -> Number:
    """Return the sum of min(p, q) over strings of a length."""
    name = record["input"]["name"]
    return 1 - total_variation(target_law(model(name, "p"), length), target_law(model(name, "q"), length))


def check_round_law(record: dict[str, Any]) -> None:
    """Compare the law of the emitted tuple."""
    law, _ = outcomes(record)
    assert round_law(law) == as_law(record["law"])


def check_expected_tokens(record: dict[str, Any]) -> None:
    """Compare the mean number of tokens, or its full-joint bound."""
    if record["variant"] == "full_joint_bound":
        got: Number = 1 + sum(overlap(record, i) for i in range(1, record["gamma"] + 1))
    else:
        got = expected_tokens(outcomes(record)[0])
    assert got == Fraction(record["value"])


def check_accept_tail(record: dict[str, Any]) -> None:
    """Compare P(num_accepted >= i), or its full-joint bound."""
    if record["variant"] == "full_joint_bound":
        got = tuple(overlap(record, i) for i in range(1, record["gamma"] + 1))
    else:
        got = accept_tail(outcomes(record)[0])
    assert got == tail(record)


def check_first_token_law(record: dict[str, Any]) -> None:
    """Compare the law of the first emitted token, and its distance to the target."""
    law, target = outcomes(record)
    first = completed_law(law, target, 1)
    assert first == as_law(record["law"])
    assert total_variation(first, target_law(target, 1)) == Fraction(record["tv"])


def check_joint_tv(record: dict[str, Any]) -> None:
    """Compare the distance of the completed block to the target's joint law."""
    law, target = outcomes(record)
    got = total_variation(completed_law(law, target, record["length"]), target_law(target, record["length"]))
    assert got == Fraction(record["value"])
    assert record["exact"] == (got == 0)


def check_alpha(record: dict[str, Any]) -> None:
    """Compare the overlap of the root rows."""
    assert overlap(record, 1) == Fraction(record["value"])


def check_joint_law(record: dict[str, Any]) -> None:
    """Compare the target's joint law."""
    assert target_law(model(record["input"]["name"], "p"), record["length"]) == as_law(record["law"])


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "round_law": check_round_law,
    "expected_tokens": check_expected_tokens,
    "accept_tail": check_accept_tail,
    "first_token_law": check_first_token_law,
    "joint_tv": check_joint_tv,
    "alpha": check_alpha,
    "joint_law": check_joint_law,
}


@pytest.mark.parametrize("variant", COUNTS)
def test_every_record_is_equal(variant: str) -> None:
    """Every recorded quantity of a variant equals the enumerated one exactly, and none is left out."""
    records = [record for record in DATA["records"] if record["variant"] == variant]
    for record in records:
        CHECKS[record["quantity"]](record)
    assert len(records) == COUNTS[variant]


def test_no_record_is_left_out() -> None:
    """The variants compared are all that the file holds of rules, on all seven inputs; test_faults compares faults."""
    records = [record for record in DATA["records"] if not record["variant"].startswith("K")]
    assert Counter(record["variant"] for record in records) == COUNTS
    assert {record["input"]["name"] for record in records} == set(DATA["inputs"])
    assert len(DATA["inputs"]) == 7


@pytest.mark.parametrize("rule", RULES)
def test_float_rows_give_the_same_law_up_to_rounding(rule: str) -> None:
    """A rule enumerated on float rows is within 1e-12 of its exact law."""
    target, draft = model("W402", "p"), model("W402", "q")
    exact = outcome_law(RULES[rule], target, draft, 2)
    rounded = outcome_law(
        RULES[rule], lambda s: [float(x) for x in target(s)], lambda s: [float(x) for x in draft(s)], 2
    )
    assert total_variation(exact, rounded) < 1e-12
    assert sum(exact.values()) == 1
