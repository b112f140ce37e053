"""Counting distinct outcomes counts the rows: the same cells, the same tally, and no impossible event goes unseen."""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case
from specverify.distinct import Outcomes, each_row
from specverify.hard import HardChecks
from specverify.lumping import View
from specverify.menu import menu, softmax_case
from specverify.probes import CaseProbes
from specverify.sampling import CaseSampler
from specverify.trace import Trace

TAU = 1e-12
CASES = [case for case in menu() if case.vocab_size > 1]
BY_NAME = {case.name: case for case in menu()}


def drawn(case: Case, rows: int, *, none: bool) -> Trace:
    """Make a trace that follows no rule: any accepted length, any next token, with ``none`` now and then -1."""
    rng = np.random.default_rng(5)
    sampler = CaseSampler(case)
    drafts, due = sampler.draft(rows, rng)
    accepted = rng.integers(0, due + 1)
    following = rng.integers(-1 if none else 0, case.vocab_size, rows)
    return sampler.complete(drafts, due, accepted, following, rng)


def row_by_row(laws: CaseProbes, trace: Trace) -> dict[str, View]:
    """See a trace through every lens, each row for itself."""
    views = {"token": each_row(trace)}
    for name, lens in (("rule", laws.rule_lens), ("block", laws.block_lens)):
        if lens is not None:
            views[name] = lens.view(trace)
    return views


@pytest.mark.parametrize("none", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_distinct_outcomes_are_counted_as_often_as_they_came(case: Case, none: bool) -> None:
    """Every probe of what was emitted has the same counts from a trace's distinct outcomes as from its rows."""
    laws = CaseProbes(case, TAU, "token", drafts=True)
    trace = drawn(case, 5000, none=none)
    seen, each = laws.views(trace, np.random.default_rng(1)), row_by_row(laws, trace)
    for probe in laws.probes:
        if probe.question.lens != "block":
            assert probe.count(seen).tolist() == probe.count(each).tolist(), probe.key
    assert all(len(view.trace) < len(trace) for name, view in seen.items() if name == "token" or case.vocab_size < 9)


class Expected(np.random.Generator):
    """A generator that draws exactly what is expected, where that is whole."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def multinomial(self, n: IntArray, pvals: FloatArray) -> IntArray:  # type: ignore[override]  # what is asked for
        """Give n times the probabilities."""
        due = n[:, None] * pvals
        assert np.array_equal(due, np.rint(due))
        return due.astype(np.int64)


def dyadic(*, contextual: bool) -> Case:
    """Make a case of three tokens and two drafts whose probabilities are quarters."""
    quarters = [(0.5, 0.25, 0.25), (0.25, 0.5, 0.25), (0.25, 0.25, 0.5)]
    prefixes = [s for length in range(3) for s in product(range(3), repeat=length)]
    target = {s: quarters[(sum(s) + len(s)) % 3 if contextual else len(s)] for s in prefixes}
    return Case.from_table("dyadic", target, {s: quarters[0] for s in prefixes if len(s) < 2}, num_draft_tokens=2)


@pytest.mark.parametrize("contextual", [False, True])
def test_what_blocks_owe_follows_the_target_after_their_own_prefix(contextual: bool) -> None:
    """Of 64 rows that emitted the same tokens the blocks begin with these and go on as the target says, exactly."""
    case = dyadic(contextual=contextual)
    laws = CaseProbes(case, TAU, None)
    runs = [s for length in range(4) for s in product(range(3), repeat=length)]
    rows = [(*([*s[:-1], 0, 0][:2] if s else (0, 0)), max(len(s) - 1, 0), s[-1] if s else -1) for s in runs]
    drafts, accepted, following = np.split(np.repeat(np.array(rows), 64, axis=0), [2, 3], axis=1)
    lengths = np.full(len(drafts), 2)
    trace = Trace(drafts, lengths, accepted[:, 0], following[:, 0], np.zeros((len(drafts), 1), dtype=np.int64))
    view = laws.views(trace, Expected())["block"]
    counts = dict(zip(map(tuple, view.trace.completed.tolist()), view.times.tolist(), strict=True))
    for block in product(range(3), repeat=3):
        due = Fraction(0)
        for length in range(4):
            weights = [Fraction(case.target_row(block[:i])[block[i]]) for i in range(length, 3)]
            due += 64 * prod(weights, start=Fraction(1))
        assert counts[block] == due


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_blocks_that_owe_nothing_are_counted_as_they_came(case: Case) -> None:
    """Where every draft was accepted and a bonus came, the counts of blocks are those of the rows."""
    laws = CaseProbes(case, TAU, "token")
    sampler, rng = CaseSampler(case), np.random.default_rng(3)
    drafts, due = sampler.draft(4000, rng)
    whole = np.flatnonzero(due == case.num_draft_tokens)
    bonus = rng.integers(0, case.vocab_size, len(whole))
    trace = sampler.complete(drafts[whole], due[whole], due[whole], bonus, rng)
    seen, each = laws.views(trace, rng), row_by_row(laws, trace)
    probes = [probe for probe in laws.probes if probe.question.lens == "block"]
    assert [p.count(seen).tolist() for p in probes] == [p.count(each).tolist() for p in probes]


@pytest.mark.parametrize("rule", ["token", None])
def test_blocks_are_lumped_alike_whatever_else_is_asked(rule: str | None) -> None:
    """The cells of blocks are the same, seen through finer cells or directly, and have the target's probabilities."""
    case = softmax_case("softmax", 300, 2, 2.0)
    laws = CaseProbes(case, TAU, rule)
    assert (laws.lens is laws.rule_lens) == (rule == "token")
    probe = next(probe for probe in laws.probes if probe.check == "SV-JNT-001")
    trace = drawn(case, 300, none=False)
    assert probe.count(laws.views(trace, np.random.default_rng(2))).sum() == 300
    lens = laws.block_lens
    assert lens is not None
    assert lens.tables is not None
    for table, row, law in zip(lens.tables, case.target, lens.case.target, strict=True):
        np.testing.assert_allclose(np.bincount(table, row[0], lens.case.vocab_size), law[0], atol=1e-15)


def test_too_many_possible_outcomes_are_seen_row_by_row() -> None:
    """Where outcomes outnumber the rows by far nothing is gained by numbering them, nor always possible."""
    for length, rows in ((2, 4), (40, 1000)):
        case = Case.from_rows("long", [0.5, 0.25, 0.25], [0.25, 0.5, 0.25], num_draft_tokens=length)
        lens = CaseProbes(case, TAU, None).rule_lens
        assert lens is not None
        trace = drawn(case, rows, none=False)
        view = Outcomes(lens, 3).view(trace)
        assert view.times is None
        assert view.trace is trace


@pytest.mark.parametrize("size", [64, 1000])
def test_every_impossible_event_raises_a_suspicion(size: int) -> None:
    """One row among many that emits, rejects or puts in place what it cannot is suspected; correct rows are not."""
    case = softmax_case("softmax", size, 3, 1.0)
    target = [np.where(np.arange(size) % 5 == 0, 0, row[0]) for row in case.target]
    case = case.replace_rows([row[None, :] / row.sum() for row in target], case.draft)
    laws = CaseProbes(case, TAU, "token")
    hard = HardChecks(case, TAU, True, laws.lens)

    def suspects(trace: Trace) -> bool:
        return hard.suspects(trace, laws.views(trace, np.random.default_rng(0))["rule"])

    drafts, due = CaseSampler(case).draft(100, np.random.default_rng(1))
    bonus = np.full(100, int(np.argmax(case.target[3][0])))
    good = np.isin(drafts % 5, [0], invert=True).all(axis=1)
    drafts, due, bonus = drafts[good], due[good], bonus[good]
    assert not suspects(made(drafts, due, due, bonus))
    for position in range(3):
        p, q = case.target[position][0], case.draft[position][0]
        over, under = int(np.argmax(p - q)), int(np.argmax((q - p) * (p > 0)))
        for draft, following in ((over, over), (over, -1), (under, under), (under, 0)):
            wrong, accepted, after = drafts.copy(), due.copy(), bonus.copy()
            wrong[7, position], accepted[7], after[7] = draft, position, following
            trace = made(wrong, due, accepted, after)
            assert hard.find(trace)
            assert suspects(trace)
        accepted, after = due.copy(), bonus.copy()
        accepted[7], after[7] = position, over
        fair = drafts.copy()
        fair[7, position] = under
        assert not suspects(made(fair, due, accepted, after))


@pytest.mark.parametrize("position", range(4))
def test_every_emitted_token_that_is_impossible_raises_a_suspicion(position: int) -> None:
    """Accepted, put in place or as a bonus, it is suspected of a sampler without a rule too; a refused one is not."""
    case = softmax_case("softmax", 64, 3, 1.0)
    target = [np.where(np.arange(64) == 5, 0, row[0]) for row in case.target]
    case = case.replace_rows([row[None, :] / row.sum() for row in target], case.draft)
    laws = CaseProbes(case, TAU, None)
    hard = HardChecks(case, TAU, False, laws.lens)
    drafts, due = np.full((9, 3), 1), np.full(9, 3)

    def suspected(draft: IntArray, accepted: int, following: int) -> bool:
        wrong, kept, after = drafts.copy(), due.copy(), np.full(9, 1)
        wrong[7], kept[7], after[7] = draft, accepted, following
        trace = made(wrong, due, kept, after)
        found = hard.suspects(trace, laws.views(trace, np.random.default_rng(0))["rule"])
        assert found == bool(hard.find(trace))
        return found

    fair = np.full(3, 1)
    assert suspected(fair, position, 5)  # put in place of a refused draft, or as the bonus
    assert not suspected(fair, position, -1)
    if position < 3:
        forbidden = np.where(np.arange(3) == position, 5, 1)
        assert suspected(forbidden, position + 1, 1)
        assert not suspected(forbidden, position, 1)


def made(drafts: IntArray, due: IntArray, accepted: IntArray, following: IntArray) -> Trace:
    """Make a trace whose blocks are completed with token 1, which is possible."""
    emitted = Trace(drafts, due, accepted, following, drafts).emitted()
    return Trace(drafts, due, accepted, following, np.where(emitted < 0, 1, emitted))
