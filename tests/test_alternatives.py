"""Likelihood ratios of known faults and generic directions are those of exact laws, and always e-values."""

import math

import numpy as np
import pytest
from hypothesis import Phase, find, settings

from specverify.alternatives import MOST, SLIP, alternatives, completed, directions, null_of, score
from specverify.cases import Case
from specverify.faults import CATALOGUE
from specverify.lumping import block_law, rule_law
from specverify.menu import menu
from specverify.probes import CaseProbes
from specverify.properties import pairs, reproducible
from specverify.reference import RULES, completed_law, outcome_law, token

CASES = {case.name: case for case in menu()}
NAMES = tuple(name for name, fault in CATALOGUE.items() if fault.has_law)
TAU = 1e-12


@pytest.mark.parametrize("name", ["AB", "W402", "W637-ragged", "zeros", "AB4", "disjoint"])
def test_a_lossless_rule_completes_to_the_target(name: str) -> None:
    """Completing the outcomes of the token and the match rule gives the target's law of whole blocks."""
    lens = CaseProbes(CASES[name], TAU, None).rule_lens
    assert lens is not None
    due = block_law(lens)
    assert due is not None
    for rule in (RULES["token"], RULES["match"]):
        law = rule_law(rule, lens)
        assert law is not None
        np.testing.assert_allclose(completed(CASES[name], law), due.weights, atol=1e-14)


def test_completion_is_the_exact_one() -> None:
    """The completed law of a fault in arrays is the one enumerated in fractions."""
    case, fault = CASES["W402"], CATALOGUE["K02"]
    law = fault.law(case)
    assert law is not None
    exact = completed_law(outcome_law(fault.rule, case.target_row, case.draft_row, 2), case.target_row, 3)
    blocks = completed(case, law)
    assert len(exact) == 27
    for (a, b, c), weight in exact.items():
        assert blocks[9 * a + 3 * b + c] == pytest.approx(float(weight), abs=1e-14)


@pytest.mark.parametrize("rule", [None, "token"])
@pytest.mark.parametrize(
    "name", ["AB", "W402", "zeros", "subnormal", "tiny-ratio", "softmax-32", "zipf-32003", "dust-32502"]
)
def test_every_ratio_is_an_e_value(name: str, rule: str | None) -> None:
    """Under the null law the mean likelihood ratio of one row is at most 1, for every fault and direction."""
    probes = CaseProbes(CASES[name], TAU, rule)
    found = alternatives(probes, NAMES)
    null = null_of(probes, found, by_outcome=False)
    first = np.where(probes.case.target[0][0] > 0, probes.case.target[0][0], 0)
    assert np.all(
        np.exp(found.output) @ null <= 1 + 1e-6 if len(null) < 1000 else np.exp(found.output) @ first <= 1 + 1e-9
    )
    assert np.all(np.exp(found.directions) @ first <= 1 + 1e-9)
    if found.outcome is not None:
        assert np.all(np.exp(found.outcome) @ null_of(probes, found, by_outcome=True) <= 1 + 1e-6)
    assert found.output.max() <= math.log(MOST)
    assert found.output.min() >= math.log(SLIP) - 1e-12


def test_a_fault_that_changes_nothing_has_no_evidence() -> None:
    """On two tokens K05 is exact, so that its ratios are 1; on W402 they are not."""
    for name, quiet in (("AB", True), ("W402", False)):
        found = alternatives(CaseProbes(CASES[name], TAU, "token"), ("K05",))
        assert found.outcome is not None
        assert bool(np.abs(found.outcome[0][:-1]).max() < 1e-9) is quiet


def test_ratios_find_their_own_fault() -> None:
    """Counts drawn from the law of a fault give that fault the highest likelihood, by a wide margin over the null."""
    case = CASES["W402"]
    probes = CaseProbes(case, TAU, "token")
    found = alternatives(probes, NAMES)
    probe = next(probe for probe in probes.probes if probe.check == "SV-RUL-001")
    for name in ("K02", "K12", "K15", "K31"):
        law = CATALOGUE[name].law(case)
        assert law is not None
        assert found.outcome is not None
        counts = np.random.default_rng(5).multinomial(20_000, probe.mass(probes.outcome_probs(law)))
        scores = score(found.outcome, counts)
        assert NAMES[int(np.argmax(scores))] == name
        assert scores.max() > 100


def test_directions_are_laws_near_the_target() -> None:
    """Every direction is a distribution, and some are within a hundredth of the target."""
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.3, 0.6, 0.0])
    for law in directions(p, q):
        assert law.sum() == pytest.approx(1)
        assert law.min() >= 0
    moves = [np.abs(law - p).max() for law in directions(p, q)]
    assert sum(0 < move < 0.01 for move in moves) > 5


def test_no_drafts_leave_the_bonus() -> None:
    """Where nothing is drafted only faults of the draw itself can show: K18 loses the dust, K02 changes nothing."""
    found = alternatives(CaseProbes(CASES["dust-32502"], TAU, "token"), ("K02", "K18"))
    tail = found.output[:, 100]
    assert tail[0] == pytest.approx(0, abs=1e-8)
    assert tail[1] == pytest.approx(math.log(SLIP))


def test_the_token_rule_itself_is_no_alternative() -> None:
    """No fault has the token rule's law on the witness table, but for those that need tiny or zero weights."""
    case = CASES["W402"]
    lens = CaseProbes(case, TAU, None).rule_lens
    assert lens is not None
    due = rule_law(token, lens)
    assert due is not None
    probes = CaseProbes(case, TAU, "token")
    correct = probes.outcome_probs(due)
    same = []
    for name in NAMES:
        law = CATALOGUE[name].law(case)
        assert law is not None
        if np.abs(probes.outcome_probs(law) - correct).max() < 1e-6:
            same.append(name)
    assert set(same) <= {"K17", "K18", "K21"}


@pytest.mark.parametrize("kind", ["near_equal", "mirrored", "shaped"])
@pytest.mark.parametrize("length", [1, 2])
def test_evidence_is_a_number_beside_subnormal_probabilities(kind: str, length: int) -> None:
    """Rows with probabilities of 1e-319 give finite likelihood ratios, for every fault and every direction."""
    names = tuple(name for name in NAMES if not CATALOGUE[name].plays)
    pair = find(
        pairs(3, kind=kind),
        lambda pair: 0 < float(min(pair[0])) < 1e-310 and pair[0] != pair[1],
        settings=settings(reproducible, max_examples=2000, phases=[Phase.generate]),
    )
    case = Case.from_rows("tail", *pair, num_draft_tokens=length)
    with np.errstate(all="raise", under="ignore"):
        found = alternatives(CaseProbes(case, TAU, "token"), names)
        laws = [CATALOGUE[name].law(case) for name in names]
        first = [CATALOGUE[name].first_token_law(case.target[0][0], case.draft[0][0]) for name in names]
    assert np.isfinite(found.output).all()
    assert np.isfinite(found.directions).all()
    assert all(law is not None and abs(law.weights.sum() - 1) < 1e-9 for law in laws)
    assert all(row is not None and abs(row.sum() - 1) < 1e-9 for row in first)
