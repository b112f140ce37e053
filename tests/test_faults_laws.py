"""The laws computed on arrays are those of the rules under the tape: with ``==`` on fractions, to 1e-12 on floats."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from fault_inputs import model, of_levels, random_levels

from specverify.arrays import FloatArray
from specverify.cases import Case
from specverify.faults import CATALOGUE, Edit, Fault, first_token_law, outcome_law_arrays
from specverify.faults.coins import raced_again
from specverify.faults.laws import Outcomes, outcomes
from specverify.lumping import Law, lump, rule_law
from specverify.menu import menu
from specverify.reference import RULES, Number, Outcome, completed_law

CHAINS = [fault for fault in CATALOGUE.values() if fault.level in "KQ" and fault.longer is None]
CASES = {case.name: case for case in menu()}
SMALL = ["AB", "W402", "W637-ragged", "zeros", "ties", "disjoint", "no-draft", "overconfident", "one-hot-target"]
GRID = {"K17": 2.0**-23}  # where p/q lies on its grid, rounding decides about one step of the grid
every_fault = pytest.mark.parametrize("fault", CHAINS, ids=lambda fault: fault.id)


def collected(found: Outcomes) -> dict[Outcome, Number]:
    """Add up the weights by outcome, leaving out the zeros."""
    law: defaultdict[Outcome, Number] = defaultdict(int)
    for draft, kept, token, weight in zip(*(part.tolist() for part in found), strict=True):
        law[Outcome(tuple(draft), kept, token)] += weight
    return positive(law)


def positive(law: dict[Outcome, Number]) -> dict[Outcome, Number]:
    """Leave out the zeros."""
    return {outcome: weight for outcome, weight in law.items() if weight}


def by_row(law: Law) -> dict[tuple[int, ...], float]:
    """Give the probabilities of a law by its rows: drafts, their number, accepted length and next token."""
    trace = law.view.trace
    columns = [trace.draft_tokens, trace.num_draft_tokens, trace.num_accepted, trace.next_token]
    found: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for row, weight in zip(np.column_stack(columns).tolist(), law.weights.tolist(), strict=True):
        found[tuple(row)] += weight
    return found


def exact_by_row(fault: Fault, case: Case) -> dict[tuple[int, ...], float]:
    """Give the same from the rule under the tape, on rows of fractions, for every draft length of the case."""
    full = case.num_draft_tokens
    lengths = range(full + 1) if case.ragged else [full]
    law: dict[tuple[int, ...], float] = {}
    for length in lengths:
        for outcome, weight in fault.exact_law(case.target_row, case.draft_row, length).items():
            assert outcome.next_token is not None
            row = (*outcome.draft_tokens, *[-1] * (full - length), length, outcome.num_accepted, outcome.next_token)
            law[row] = float(weight) / len(lengths)
    return law


@every_fault
@pytest.mark.parametrize(("size", "gamma"), [(1, 2), (2, 0), (2, 3), (3, 2), (4, 1)])
def test_laws_on_arrays_are_exactly_those_under_the_tape(fault: Fault, size: int, gamma: int) -> None:
    """On random tables with zeros, every row its own, the same outcomes have the same probabilities, with ``==``."""
    target, draft = random_levels(size, size, gamma), random_levels(size + 10, size, max(gamma - 1, 0))
    exact = fault.exact_law(of_levels(target), of_levels(draft), gamma)
    assert collected(outcomes(fault.edit, target, draft, gamma)) == positive(exact)
    assert sum(exact.values()) == 1


@every_fault
@pytest.mark.parametrize("name", SMALL)
def test_float_laws_are_the_exact_ones(fault: Fault, name: str) -> None:
    """On built-in cases, a ragged one too, in the form that the checks read."""
    law = outcome_law_arrays(fault.edit, CASES[name])
    assert law is not None
    found, exact = by_row(law), exact_by_row(fault, CASES[name])
    near = GRID.get(fault.id, 1e-12)
    assert all(abs(found.get(row, 0.0) - exact.get(row, 0.0)) < near for row in {*found, *exact})


def test_the_law_is_the_one_that_the_checks_enumerate() -> None:
    """Unedited it agrees with the enumeration of the token rule, the ties that rounding decides included."""
    case = CASES["ties"]
    law, lens = outcome_law_arrays(Edit(), case, 1e-12), lump(case, 8, 1e-12)
    assert law is not None
    assert lens is not None
    enumerated = rule_law(RULES["token"], lens)
    assert enumerated is not None
    assert by_row(law) == pytest.approx(by_row(enumerated), abs=1e-12)
    assert law.view.tied_draft.sum() == enumerated.view.tied_draft.sum()


def test_a_case_that_is_too_large_has_no_law_of_outcomes() -> None:
    """More than eight tokens are left to the law of the first token."""
    large = next(case for case in menu() if case.vocab_size > 8)
    assert outcome_law_arrays(Edit(), large) is None
    assert CATALOGUE["K02"].law(large) is None


@every_fault
@pytest.mark.parametrize("seed", range(6))
def test_the_first_token_has_the_law_of_the_outcomes(fault: Fault, seed: int) -> None:
    """On random rows of six tokens with zeros, one token being drafted."""
    target, draft = of_levels(random_levels(seed, 6, 1)), of_levels(random_levels(seed + 100, 6, 0))
    p, q = (np.array(model(()), dtype=np.float64) for model in (target, draft))
    law = completed_law(fault.exact_law(target, draft, 1), target, 1)
    expected = [float(law.get((x,), 0)) for x in range(6)]
    assert fault.first_token_law(p, q) == pytest.approx(expected, abs=GRID.get(fault.id, 1e-12))


@every_fault
def test_without_drafts_the_first_token_is_the_bonus(fault: Fault) -> None:
    """No draft row is needed then, and the law is that of a round of no drafts."""
    target = of_levels(random_levels(2, 4, 0))
    law = fault.exact_law(target, target, 0)
    found = fault.first_token_law(np.array(target(()), dtype=np.float64), None)
    assert found == pytest.approx([float(law.get(Outcome((), 0, x), 0)) for x in range(4)], abs=1e-15)


@every_fault
def test_a_large_vocabulary_takes_no_matrix(fault: Fault) -> None:
    """At 262144 tokens the law of the first token is a law, and agrees with a direct sum where that is short."""
    rng = np.random.default_rng(1)
    p, q = (row / row.sum() for row in (rng.random(262144) ** 4, rng.random(262144) ** 4))
    law = fault.first_token_law(p, q)
    assert law is not None
    assert law.shape == p.shape
    assert law.min() >= 0
    assert law.sum() == pytest.approx(1, abs=1e-9)


def dropped(p: FloatArray, q: FloatArray) -> FloatArray:
    """Sum K04's law draft by draft."""
    law = np.minimum(p, q)
    for x in np.flatnonzero(q > p):
        rest = np.where(np.arange(len(p)) == x, 0, p)
        law += (q[x] - p[x]) * rest / rest.sum()
    return law


def reused(p: FloatArray, q: FloatArray) -> FloatArray:
    """Sum K12's law draft by draft."""
    law, rest = np.minimum(p, q), np.maximum(p - q, 0)
    ends = np.concatenate([[0], np.cumsum(rest / rest.sum())])
    for x in np.flatnonzero(q > p):
        law += q[x] * np.diff(np.maximum(ends, p[x] / q[x]))
    return law


@pytest.mark.parametrize(("fault", "direct"), [("K04", dropped), ("K12", reused)])
@pytest.mark.parametrize("peak", [0.0, 1 - 1e-9])
def test_sums_over_drafts_stay_exact(fault: str, direct: Any, peak: float) -> None:
    """With 300 tokens, also where nearly all of the target is on one of them, which differences would not survive."""
    rng = np.random.default_rng(3)
    p, q = (row / row.sum() for row in (rng.random(300), rng.random(300) ** 3))
    p = (1 - peak) * p + peak * (np.arange(300) == 7)
    assert CATALOGUE[fault].first_token_law(p, q) == pytest.approx(direct(p, q), abs=1e-12)


def test_a_fault_is_compared_in_a_millisecond_or_so() -> None:
    """All laws of a built-in case together take a fraction of a second, so that a diagnosis can try them all."""
    case = CASES["W402"].permuted([0, 2, 1], "W402 in another order")
    began = time.process_time()
    laws = [outcome_law_arrays(fault.edit, case) for fault in CHAINS]
    assert time.process_time() - began < 0.02 * len(CHAINS)
    assert all(law is not None for law in laws)


def test_the_second_race_is_the_recorded_one() -> None:
    """The closed form of the race with old noise is independent of the order of ids, and exact for fractions."""
    p, q = (np.array(model("W637", side)(()), dtype=object) for side in "pq")
    weights = raced_again(p, q)
    assert raced_again(p[::-1], q[::-1])[::-1].tolist() == weights.tolist()
    assert weights.sum() == 1
    assert raced_again(np.stack([p, p]), np.stack([q, p]))[1].tolist() == p.tolist()


def test_edits_of_the_block_rule_show_nothing_with_one_draft() -> None:
    """With one draft all of them are the token rule."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.2, 0.5])
    assert first_token_law(CATALOGUE["K27c"].edit, p, q) == pytest.approx(p)
