"""Each known fault has exactly the wrong law on record, and an edit that changes nothing is the token rule."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from specverify.faults import CATALOGUE, Fault, _edited
from specverify.reference import (
    RULES,
    Model,
    Number,
    Outcome,
    ScriptedTape,
    completed_law,
    outcome_law,
    target_law,
    total_variation,
)

DATA = json.loads(Path(__file__).with_name("data").joinpath("laws.json").read_text(encoding="utf-8"))
RECORDS = [record for record in DATA["records"] if record["variant"].split(":")[0] in CATALOGUE]
INPUTS = ("AB", "C2", "C3", "T3", "W402")


def model(name: str, side: str) -> Model:
    """Return the target (p) or draft (q) of a recorded input."""
    rows = DATA["inputs"][name][side]
    if isinstance(rows, list):
        return lambda _: [Fraction(x) for x in rows]
    return lambda prefix: [Fraction(x) for x in rows[",".join(map(str, prefix))]]


def outcomes(fault: str, name: str, gamma: int) -> dict[Outcome, Number]:
    """Return the exact law of one round of a fault on a recorded input."""
    return outcome_law(CATALOGUE[fault].rule, model(name, "p"), model(name, "q"), gamma)


def joint_tv(law: Mapping[Outcome, Number], name: str, length: int) -> Number:
    """Return the distance of the completed block to the target's joint law."""
    target = model(name, "p")
    return total_variation(completed_law(law, target, length), target_law(target, length))


def recorded(quantity: str) -> list[Any]:
    """Give the records of a quantity as parameters of a test."""
    return [
        pytest.param(record, id=f"{record['variant'].split(':')[0]}-{record['input']['name']}")
        for record in RECORDS
        if record["quantity"] == quantity
    ]


def as_law(law: dict[str, str]) -> dict[int, Fraction]:
    """Return a recorded law over tokens without its zeros."""
    return {int(token): Fraction(x) for token, x in law.items() if Fraction(x)}


def test_the_records_cover_every_fault_and_input() -> None:
    """All catalogued faults have both laws on all five inputs, under their recorded names."""
    seen = Counter((record["variant"].split(":")[0], record["quantity"]) for record in RECORDS)
    assert all(seen[fault, "first_token_law"] == seen[fault, "joint_tv"] == 5 for fault in CATALOGUE)
    assert seen.total() == 10 * len(CATALOGUE) + 5
    assert {record["input"]["name"] for record in RECORDS} == set(INPUTS)
    assert {record["variant"] for record in RECORDS} == {f"{f.id}:{f.name}" for f in CATALOGUE.values()}


@pytest.mark.parametrize("record", recorded("first_token_law"))
def test_first_token_laws_are_the_recorded_ones(record: dict[str, Any]) -> None:
    """The law of the first emitted token, and its distance to the target, with ``==``."""
    name, target = record["input"]["name"], model(record["input"]["name"], "p")
    law = completed_law(outcomes(record["variant"].split(":")[0], name, record["gamma"]), target, 1)
    assert {token: x for (token,), x in law.items()} == as_law(record["law"])
    assert total_variation(law, target_law(target, 1)) == Fraction(record["tv"])


@pytest.mark.parametrize("record", recorded("joint_tv"))
def test_joint_distances_are_the_recorded_ones(record: dict[str, Any]) -> None:
    """The distance of the completed block to the target's joint law, with ``==``.

    The recorded K31 draws the bonus from the draft's row after the whole draft. A verifier is not given that row, so
    the edited rule uses the last one it has: the same law without context, which on W402 is another.
    """
    fault, name = record["variant"].split(":")[0], record["input"]["name"]
    got = joint_tv(outcomes(fault, name, record["gamma"]), name, record["length"])
    if (fault, name) == ("K31", "W402"):
        assert got != Fraction(record["value"])
        got = joint_tv(bonus_after_whole_draft(name, record["gamma"]), name, record["length"])
    assert got == Fraction(record["value"])
    assert record.get("exact", False) == (got == 0)


def bonus_after_whole_draft(name: str, gamma: int) -> dict[Outcome, Number]:
    """Return the token rule's law with the bonus drawn from the draft's own next row."""
    draft = model(name, "q")
    law: defaultdict[Outcome, Number] = defaultdict(Fraction)
    for outcome, weight in outcome_law(RULES["token"], model(name, "p"), draft, gamma).items():
        if outcome.num_accepted < gamma:
            law[outcome] += weight
        else:
            for token, q in enumerate(draft(outcome.draft_tokens)):
                law[Outcome(outcome.draft_tokens, gamma, token)] += weight * q
    return dict(law)


@pytest.mark.parametrize("record", recorded("second_token_law_given_first_accepted"))
def test_one_coin_per_block_shows_at_the_second_token(record: dict[str, Any]) -> None:
    """K15 leaves the first token right; given that draft 1 was accepted, token 2 has the recorded wrong law."""
    law: defaultdict[int, Number] = defaultdict(Fraction)
    for outcome, weight in outcomes("K15", record["input"]["name"], record["gamma"]).items():
        if outcome.num_accepted:
            law[outcome.emitted[1]] += weight
    total = sum(law.values())
    assert {token: weight / total for token, weight in law.items() if weight} == as_law(record["law"])


@pytest.mark.parametrize("name", [*INPUTS, "SUN", "W637"])
@pytest.mark.parametrize("gamma", [0, 1, 2])
def test_with_nothing_edited_it_is_the_token_rule(name: str, gamma: int) -> None:
    """The same exact law of every outcome, so that each fault is the token rule but for its one edit."""
    target, draft = model(name, "p"), model(name, "q")
    law = outcome_law(_edited(), target, draft, gamma)
    assert law == outcome_law(RULES["token"], target, draft, gamma)
    assert sum(law.values()) == 1


@pytest.mark.parametrize("fault", CATALOGUE)
def test_every_fault_differs_from_the_token_rule_and_from_the_others(fault: str) -> None:
    """On W402 the law of the whole outcome tells all faults and all rules apart; margins alone could not."""
    law = outcomes(fault, "W402", 2)
    assert sum(law.values()) == 1
    rules = [outcome_law(rule, model("W402", "p"), model("W402", "q"), 2) for rule in RULES.values()]
    others = [outcomes(other, "W402", 2) for other in CATALOGUE if other != fault]
    assert all(total_variation(law, other) > 0 for other in (*rules, *others))


def test_shared_uniforms_are_shared() -> None:
    """K12 draws the replacement with the coin that rejected, K15 tests every position with the first coin."""
    p, q = [Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)], [Fraction(1, 5), Fraction(1, 5), Fraction(3, 5)]
    assert CATALOGUE["K12"].rule(ScriptedTape({("accept", 0): 0.9}), [2], [q], [p, p]) == (0, 1)
    assert CATALOGUE["K12"].rule(ScriptedTape({("accept", 0): 0.7}), [2], [q], [p, p]) == (0, 0)
    tape = ScriptedTape({("accept", 0): 0.2, ("final",): 0.0})
    assert CATALOGUE["K15"].rule(tape, [2, 2], [q, q], [p, p, p]) == (2, 0)


def test_a_bonus_without_drafts_is_still_a_target_draw() -> None:
    """Where nothing was drafted there is no draft row to draw the bonus from, so K31 shows nothing."""
    assert outcomes("K31", "AB", 0) == outcome_law(RULES["token"], model("AB", "p"), model("AB", "q"), 0)


@pytest.mark.parametrize("fault", CATALOGUE.values(), ids=lambda fault: fault.id)
def test_every_fault_explains_itself(fault: Fault) -> None:
    """The record reads as sentences: what it does, why that is wrong, what to change."""
    assert CATALOGUE[fault.id] is fault
    assert fault.explain.startswith(f"{fault.id}  {fault.name}\n\nMechanism: it ")
    for text in (fault.claim, fault.wrong, fault.advice):
        assert text in fault.explain
        assert text[0].islower()
        assert not text.endswith(".")
