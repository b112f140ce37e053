"""Counting distinct outcomes counts the rows: the same cells, the same tally, and no impossible event goes unseen."""

import numpy as np
import pytest

from specverify.arrays import IntArray
from specverify.cases import Case
from specverify.distinct import Outcomes, each_row, lengths
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
    """Every probe has the same counts from a trace's distinct outcomes as from its rows."""
    laws = CaseProbes(case, TAU, "token", drafts=True)
    trace = drawn(case, 5000, none=none)
    seen, each = laws.views(trace), row_by_row(laws, trace)
    for probe in laws.probes:
        assert probe.count(seen).tolist() == probe.count(each).tolist(), probe.key
    assert all(len(view.trace) < len(trace) for name, view in seen.items() if name == "token" or case.vocab_size < 9)


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


@pytest.mark.parametrize("case", [BY_NAME["AB4"], BY_NAME["W637-ragged"]], ids=lambda case: case.name)
def test_distinct_lengths_are_all_that_acceptance_needs(case: Case) -> None:
    """How often each draft length, accepted length and presence of a next token came is kept."""
    trace = drawn(case, 3000, none=True)
    view = lengths(trace)

    def table(seen: Trace, times: IntArray) -> dict[tuple[int, int, bool], int]:
        found: dict[tuple[int, int, bool], int] = {}
        columns = seen.num_draft_tokens, seen.num_accepted, seen.next_token >= 0, times
        for drafted, accepted, emitted, count in zip(*(column.tolist() for column in columns), strict=True):
            found[drafted, accepted, emitted] = found.get((drafted, accepted, emitted), 0) + count
        return found

    assert table(view.trace, view.repeats) == table(trace, np.ones(len(trace), dtype=np.int64))


@pytest.mark.parametrize("size", [64, 1000])
def test_every_impossible_event_raises_a_suspicion(size: int) -> None:
    """One row among many that emits, rejects or puts in place what it cannot is suspected; correct rows are not."""
    case = softmax_case("softmax", size, 3, 1.0)
    target = [np.where(np.arange(size) % 5 == 0, 0, row[0]) for row in case.target]
    case = case.replace_rows([row[None, :] / row.sum() for row in target], case.draft)
    hard = HardChecks(case, TAU, True)
    drafts, due = CaseSampler(case).draft(100, np.random.default_rng(1))
    bonus = np.full(100, int(np.argmax(case.target[3][0])))
    good = np.isin(drafts % 5, [0], invert=True).all(axis=1)
    drafts, due, bonus = drafts[good], due[good], bonus[good]
    assert not hard.suspects(made(drafts, due, due, bonus))
    for position in range(3):
        p, q = case.target[position][0], case.draft[position][0]
        over, under = int(np.argmax(p - q)), int(np.argmax((q - p) * (p > 0)))
        for draft, following in ((over, over), (over, -1), (under, under), (under, 0)):
            wrong, accepted, after = drafts.copy(), due.copy(), bonus.copy()
            wrong[7, position], accepted[7], after[7] = draft, position, following
            trace = made(wrong, due, accepted, after)
            assert hard.find(trace)
            assert hard.suspects(trace)
        accepted, after = due.copy(), bonus.copy()
        accepted[7], after[7] = position, over
        fair = drafts.copy()
        fair[7, position] = under
        assert not hard.suspects(made(fair, due, accepted, after))


def made(drafts: IntArray, due: IntArray, accepted: IntArray, following: IntArray) -> Trace:
    """Make a trace whose blocks are completed with token 1, which is possible."""
    emitted = Trace(drafts, due, accepted, following, drafts).emitted()
    return Trace(drafts, due, accepted, following, np.where(emitted < 0, 1, emitted))
