"""Each known fault has exactly the wrong law on record, and an edit that changes nothing is the rule itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from fault_inputs import RECORDS, model

from specverify.errors import SamplerLoadError
from specverify.faults import CATALOGUE, BlockEdit, Edit, Fault, exact_law, fault_sampler, rule
from specverify.reference import (
    RULES,
    Number,
    Outcome,
    ScriptedTape,
    completed_law,
    outcome_law,
    target_law,
    total_variation,
)

INPUTS = ("AB", "C2", "C3", "T3", "W402")
NAMES = {  # where the records have another name than the catalogue
    "K03c": "residual_floor_1_1000",
    "K11": "leniency_11_10",
    "K27a": "block_uncapped_ratio",
    "K27c": "block_cumulative_token_residual",
    "K27d": "block_break_at_first_failure",
    "K30a": "residual_unnormalised_spill_last",
    "K30b": "residual_unnormalised_spill_first",
    "K33": "stale_scores_after_replacement",
    "Q02a": "draft_top2_scored_raw",
    "Q02b": "draft_top2_scored_unnormalised",
    "Q02c": "draft_raw_scored_top2",
    "Q04a": "draft_T_half_scored_T1",
    "Q04b": "draft_T1_scored_T_half",
    "Q05": "q_row_rotated",
    "Q06": "q_ids_reversed",
}
UNRECORDED = ("K16", "K17", "K18", "K20", "K21", "K22", "K24", "Q03", "Q08")
CHAINS = [fault for fault in CATALOGUE.values() if fault.level in "KQ"]
DIFFERENT = [fault for fault in CHAINS if fault.has_law and fault.id != "K18"]  # its tail is longer than W402's rows


def outcomes(fault: str, name: str, gamma: int) -> dict[Outcome, Number]:
    """Return the exact law of one round of a fault on a recorded input."""
    return CATALOGUE[fault].exact_law(model(name, "p"), model(name, "q"), gamma)


def joint_tv(law: Mapping[Outcome, Number], name: str, length: int) -> Number:
    """Return the distance of the completed block to the target's joint law."""
    target = model(name, "p")
    return total_variation(completed_law(law, target, length), target_law(target, length))


def name_of(record: dict[str, Any]) -> str:
    """Give the name of a record's input."""
    named: str | dict[str, str] = record["input"]
    return named if isinstance(named, str) else named["name"]


def recorded(quantity: str, levels: str = "KQ") -> list[Any]:
    """Give the records of a quantity as parameters of a test."""
    return [
        pytest.param(record, id=f"{record['variant'].split(':')[0]}-{name_of(record)}-{number}")
        for number, record in enumerate(RECORDS)
        if record["quantity"] == quantity and record["variant"][0] in levels
    ]


def as_law(law: dict[str, str]) -> dict[int, Fraction]:
    """Return a recorded law over tokens without its zeros."""
    return {int(token): Fraction(x) for token, x in law.items() if Fraction(x)}


def test_the_records_cover_every_fault_and_input() -> None:
    """All faults with a recorded law have both laws on all inputs, under their recorded names; no record is left."""
    records = [record for record in RECORDS if record["variant"][0] in "KQ"]
    seen = Counter((*record["variant"].split(":"), record["quantity"]) for record in records)
    names = [(fault.id, NAMES.get(fault.id, fault.name)) for fault in CHAINS if fault.id not in UNRECORDED]
    assert {(key, name) for key, name, _ in seen} == set(names)
    assert all(seen[key, name, "first_token_law"] >= 5 and seen[key, name, "joint_tv"] >= 5 for key, name in names)
    assert set(INPUTS) <= {name_of(record) for record in records}
    assert len(records) == 388


@pytest.mark.parametrize("record", recorded("first_token_law"))
def test_first_token_laws_are_the_recorded_ones(record: dict[str, Any]) -> None:
    """The law of the first emitted token, and its distance to the target, with ``==``."""
    name, target = record["input"]["name"], model(record["input"]["name"], "p")
    law = completed_law(outcomes(record["variant"].split(":")[0], name, record["gamma"]), target, 1)
    assert {token: x for (token,), x in law.items() if x} == as_law(record["law"])
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
    assert not record.get("exact", False) or got == 0


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
@pytest.mark.parametrize(("edit", "unedited"), [(Edit(), "token"), (BlockEdit(), "block")])
def test_with_nothing_edited_it_is_the_rule(edit: Edit | BlockEdit, unedited: str, gamma: int, name: str) -> None:
    """The same exact law of every outcome, so that each fault is the rule but for its one edit."""
    target, draft = model(name, "p"), model(name, "q")
    law = exact_law(edit, target, draft, gamma)
    assert law == outcome_law(RULES[unedited], target, draft, gamma)
    assert sum(law.values()) == 1


def test_the_faults_with_a_law_are_pairwise_different() -> None:
    """On W402 the law of the whole outcome tells all faults and all rules apart; margins alone could not."""
    laws: dict[str, dict[Outcome, Number]] = {fault.id: outcomes(fault.id, "W402", 2) for fault in DIFFERENT}
    rules = ("token", "block", "match")  # one_hot has the law of match
    laws |= {name: outcome_law(RULES[name], model("W402", "p"), model("W402", "q"), 2) for name in rules}
    assert all(sum(law.values()) == 1 for law in laws.values())
    ordered = sorted(tuple(sorted((outcome, w) for outcome, w in law.items() if w)) for law in laws.values())
    assert all(a != b for a, b in pairwise(ordered))
    assert len(ordered) == len(DIFFERENT) + len(rules)


@pytest.mark.parametrize("fault", ["K26", "K32", "K33"])
def test_longer_rounds_emit_what_no_contract_allows(fault: str) -> None:
    """Some outcome has tokens after the next one; without them the round is that of the token rule."""
    law = outcomes(fault, "W402", 2)
    assert any(outcome.extra for outcome in law)
    cut: defaultdict[Outcome, Number] = defaultdict(Fraction)
    for outcome, weight in law.items():
        cut[outcome._replace(extra=())] += weight
    assert dict(cut) == outcome_law(RULES["token"], model("W402", "p"), model("W402", "q"), 2)


def test_shared_uniforms_are_shared() -> None:
    """K12 draws the replacement with the coin that rejected, K15 tests every position with the first coin."""
    p, q = [Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)], [Fraction(1, 5), Fraction(1, 5), Fraction(3, 5)]
    assert CATALOGUE["K12"].rule(ScriptedTape({("accept", 0): 0.9}), [2], [q], [p, p]) == (0, 1)
    assert CATALOGUE["K12"].rule(ScriptedTape({("accept", 0): 0.7}), [2], [q], [p, p]) == (0, 0)
    tape = ScriptedTape({("accept", 0): 0.2, ("final",): 0.0})
    assert CATALOGUE["K15"].rule(tape, [2, 2], [q, q], [p, p, p]) == (2, 0)


def test_a_lost_tail_is_lost() -> None:
    """K18 never draws a token of less than 2^-24 of the weight, and draws all others in proportion."""
    tail, p = Fraction(1, 2**25), [Fraction(1, 2), Fraction(1, 2) - Fraction(2, 2**25)]
    row = [*p, tail, tail]
    law = exact_law(CATALOGUE["K18"].edit, lambda _: row, lambda _: row, 0)
    assert {outcome.next_token: weight for outcome, weight in law.items()} == {0: p[0] / sum(p), 1: p[1] / sum(p)}


def test_an_endpoint_lets_a_forbidden_token_through() -> None:
    """K17 accepts a draft of target probability 0 once in 2^24, and K21 draws such a token once in 100,000."""
    p, q = [Fraction(1), Fraction(0)], [Fraction(1, 2), Fraction(1, 2)]
    law = CATALOGUE["K17"].exact_law(lambda _: p, lambda _: q, 1)
    assert law[Outcome((1,), 1, 0)] == Fraction(1, 2**25)
    law = CATALOGUE["K21"].exact_law(lambda _: p, lambda _: q, 0)
    assert law[Outcome((), 0, 1)] == Fraction(1, 100_001)


def test_a_counted_rejection_keeps_the_draft() -> None:
    """K22 emits the rejected draft, so that the first token has the draft's law."""
    law = completed_law(outcomes("K22", "T3", 1), model("T3", "p"), 1)
    assert [law[(x,)] for x in range(3)] == model("T3", "q")(())


def test_rounding_the_draft_is_a_small_error() -> None:
    """Q03 is off by less than a thousandth on W402, and its draft is rounded to eight bits before the draw."""
    assert 0 < joint_tv(outcomes("Q03", "W402", 2), "W402", 3) < Fraction(1, 500)


def test_a_bonus_without_drafts_is_still_a_target_draw() -> None:
    """Where nothing was drafted there is no draft row to draw the bonus from, so K31 shows nothing."""
    assert outcomes("K31", "AB", 0) == outcome_law(RULES["token"], model("AB", "p"), model("AB", "q"), 0)


def test_one_edit_makes_one_rule() -> None:
    """Laws are kept by rule, so that the same fault must always give the same one."""
    assert CATALOGUE["K02"].rule is CATALOGUE["K02"].rule is rule(CATALOGUE["K02"].edit)


@pytest.mark.parametrize("fault", CATALOGUE.values(), ids=lambda fault: fault.id)
def test_every_fault_explains_itself(fault: Fault) -> None:
    """The record reads as sentences: what it does, why that is wrong, what to change, what shows and hides it."""
    assert CATALOGUE[fault.id] is fault
    text = fault.explain
    assert text.startswith(f"{fault.id}  {fault.name}\n\nMechanism: it ")
    for part in (fault.claim, fault.wrong, fault.advice, fault.provenance, fault.exposed_by, fault.hidden_by):
        assert part in text
        assert not part.endswith(".")
    assert all(part[0].islower() for part in (fault.claim, fault.wrong, fault.advice))


@pytest.mark.parametrize("record", recorded("first_token_law", "M"))
def test_tree_faults_have_the_recorded_first_token_laws(record: dict[str, Any]) -> None:
    """With two siblings, the law and, where it is recorded, its distance to the target, with ``==``."""
    name, fault = name_of(record), CATALOGUE[record["variant"].split(":")[0]]
    target = model(name, "p")
    law = completed_law(fault.exact_law(target, model(name, "q"), 1), target, 1)
    assert {token: x for (token,), x in law.items() if x} == as_law(record["law"])
    distance = total_variation(law, target_law(target, 1))
    assert "tv" not in record or distance == Fraction(record["tv"])


@pytest.mark.parametrize("record", recorded("joint_tv", "M"))
def test_tree_faults_have_the_recorded_joint_distances(record: dict[str, Any]) -> None:
    """For trees of two levels, with ``==``."""
    name, fault = name_of(record), record["variant"].split(":")[0]
    assert joint_tv(outcomes(fault, name, 2), name, record["length"]) == Fraction(record["value"])


def test_tree_faults_are_of_trees() -> None:
    """M01 to M12 run under the tree form where they lie in the verifier, else as rounds with a law of their own."""
    trees = [fault for fault in CATALOGUE.values() if fault.level == "M"]
    assert [fault.id for fault in trees] == [f"M{number:02}" for number in range(1, 13)]
    played = [fault for fault in trees if fault.has_law]
    assert [fault.id for fault in played] == ["M07", "M08", "M10", "M11"]
    assert all(fault.plays and fault.drafts and fault_sampler(fault).drafts for fault in played)
    assert all(fault_sampler(fault).tree for fault in trees if fault not in played)


def test_an_explanation_holds_the_exact_laws() -> None:
    """The laws are computed for the text: those on record, as fractions, and distances."""
    text = CATALOGUE["K02"].explain
    assert "AB (18/25, 7/25) at distance 3/25; C2 (29/50, 21/50)" in text
    assert "AB 18/125; C3 11/100; T3 39/500; W402 30805/174636" in text
    assert "AB (3/5, 2/5), which is exact" in CATALOGUE["K15"].explain


def test_names_are_unique_and_faults_that_cannot_run_say_why() -> None:
    """Every id and name finds one fault; only K20 and faults of drafted trees have no sampler."""
    assert len({fault.name for fault in CATALOGUE.values()}) == len(CATALOGUE)
    assert [fault.id for fault in CHAINS if not fault.runnable] == ["K20"]
    with pytest.raises(SamplerLoadError, match="K20: it shows on rows that are not finite"):
        fault_sampler(CATALOGUE["K20"])
