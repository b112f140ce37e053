"""One case is run in units whose randomness follows from their place alone, so that counts never depend on timing.

A unit is a block of the rows that one case is due at one look. It has its own stream, from which the kit draws the
drafts, a seed for every call, and the completions; so it may be carried out anywhere, and gives the same counts there.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from specverify.arrays import IntArray
from specverify.calling import Caller, SamplerRaised, here
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.distinct import each_row
from specverify.hard import HardChecks, Violation
from specverify.loop_handing import hand
from specverify.lumping import View
from specverify.probes import Probe, case_probes
from specverify.reading import OutputFault, refuse
from specverify.sampling import CaseSampler
from specverify.schedule import Planned
from specverify.together import replies
from specverify.trace import Rounds, Trace

__all__ = ["CaseRun", "Counted", "Tally", "Unit"]

BLOCK = 2**16
KEPT = 2**24  # bytes that freed arrays of a unit may take and yet stay with the process
FIRST_BATCHES = (1, 2, 3, 5, 17)  # the first calls of a case are small, so that every size is seen


@dataclass
class Tally:
    """Acceptance by position: how often a position was tested, accepted, and its exact overlap.

    Attributes:
        tested: int64 [G], rows that reached the position.
        accepted: int64 [G], rows that accepted the draft there.
        overlap: float64 [G], sum over the tested rows of sum_x min(p, q), the acceptance due under the token rule.
        emitted: Tokens that the sampler itself emitted.
        stopped: Rows in which a draft was rejected.
        rounds: Rows of which a loop reported its rounds.
    """

    tested: IntArray
    accepted: IntArray
    overlap: np.ndarray[tuple[int], np.dtype[np.float64]]
    emitted: int = 0
    stopped: int = 0
    rounds: int = 0

    def add(self, other: Tally) -> None:
        """Add what was seen elsewhere."""
        self.tested += other.tested
        self.accepted += other.accepted
        self.overlap += other.overlap
        self.emitted += other.emitted
        self.stopped += other.stopped
        self.rounds += other.rounds


@dataclass(frozen=True)
class Unit:
    """Rows to be run.

    Attributes:
        rows: How many.
        place: What its stream follows from, beside the seed and the case.
        first: Whether it begins a case: its first calls are then small.
        batch: Rows of each call, or None for those of the plan.
    """

    rows: int
    place: tuple[int, ...]
    first: bool = False
    batch: int | None = None


@dataclass
class Counted:
    """What was counted in some units of a case.

    Attributes:
        counts: int64 [K] of every probe.
        outcomes: int64, counts of whole outcomes, where they are few enough.
        first_tokens: int64 [V], counts of the first token.
        tally: Acceptance by position.
        rows: Rows that were counted.
        calls: Calls that were made.
        seconds: Time that they took.
        violations: Impossible events.
        warnings: What the sampler did beside; the keys of a dict, in order.
        fault: What was wrong with a call, if any was: the unit is then not counted.
    """

    counts: list[IntArray]
    outcomes: IntArray
    first_tokens: IntArray
    tally: Tally
    rows: int = 0
    calls: int = 0
    seconds: float = 0.0
    violations: list[Violation] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    fault: Violation | None = None

    @classmethod
    def nothing(cls, probes: Sequence[Probe], outcomes: int, case: Case) -> Counted:
        """Give the counts before the first unit."""
        width = case.num_draft_tokens
        return cls(
            [np.zeros(len(probe.probs), dtype=np.int64) for probe in probes],
            np.zeros(outcomes, dtype=np.int64),
            np.zeros(case.vocab_size, dtype=np.int64),
            Tally(np.zeros(width, np.int64), np.zeros(width, np.int64), np.zeros(width)),
        )

    def count_call(self) -> None:
        """Count a call that begins."""
        self.calls += 1

    def add(self, other: Counted) -> None:
        """Add what was counted elsewhere; where units are added in one order, the sums are the same to the last bit."""
        for mine, theirs in zip(self.counts, other.counts, strict=True):
            mine += theirs
        self.outcomes += other.outcomes
        self.first_tokens += other.first_tokens
        self.tally.add(other.tally)
        self.rows += other.rows
        self.calls += other.calls
        self.seconds += other.seconds
        self.violations += other.violations
        self.warnings.update(other.warnings)
        self.fault = self.fault or other.fault


@dataclass(eq=False)
class CaseRun:
    """One planned case for one sampler, and what was counted so far.

    Args:
        planned: The case and its rows.
        verifier: The sampler.
        rule: The rule whose laws are asserted, or None.
        tau: Relative tolerance within which rounding decides whether p exceeds q.
        seed: Master seed of the run.
        selects: Whether a check was asked for, by id.
        caller: Gives what makes the calls of a unit, for as long as it runs.
    """

    planned: Planned
    verifier: Verifier
    rule: str | None
    tau: float
    seed: int
    selects: Callable[[str], bool]
    caller: Callable[[], AbstractContextManager[Caller]] = here

    def __post_init__(self) -> None:
        _keep_freed_memory()
        self.handed = hand(self.planned.case, self.verifier)
        self.case: Case = self.handed.case
        self.case_probes = case_probes(self.case, self.tau, self.rule, self.verifier.drafts)
        self.probes = [probe for probe in self.case_probes.probes if self.selects(probe.check)]
        self.seen = self._nothing()
        self._hard = HardChecks(
            self.case, self.tau, self.rule == "token" and self.case.loop is None, self.case_probes.lens
        )
        self._sampler = CaseSampler(self.case)
        self._overlaps = [np.minimum(p, q).sum(axis=1) for p, q in zip(self.case.target, self.case.draft, strict=False)]
        self._key = zlib.crc32(self.case.name.encode("utf-8", "surrogatepass"))

    def _nothing(self) -> Counted:
        return Counted.nothing(self.probes, self.case_probes.outcome_space, self.case)

    @property
    def name(self) -> str:
        """Give the name of the case."""
        return self.case.name

    def units(self, look: int) -> list[Unit]:
        """List the units due at a look, those of all looks before being done."""
        done = self.planned.rows_at(look - 1) if look else 0
        due = max(0, self.planned.rows_at(look) - done)
        starts = range(0, due, BLOCK)
        return [Unit(min(BLOCK, due - start), (look, start // BLOCK), done + start == 0) for start in starts]

    def carry_out(self, unit: Unit) -> tuple[Counted, Trace | None]:
        """Run a unit and count it; nothing is kept. There is no trace where a call was faulty."""
        found = self._nothing()
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence([self.seed, self._key, *unit.place])))
        trace = self._run(unit, found, rng)
        if trace is not None:
            self._count(trace, found, rng)
        return found, trace

    def _run(self, unit: Unit, found: Counted, rng: np.random.Generator) -> Trace | None:
        rows, case = unit.rows, self.case
        drafted, num_draft_tokens = self._sampler.draft(rows, rng)
        draft_tokens = drafted if case.tree is None else np.full((rows, case.num_draft_tokens), -1)
        accepted, following = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
        bounds = list(self._calls(unit))
        seeds = _distinct(len(bounds), rng)
        rounds: list[Rounds] = []
        began = time.perf_counter()
        try:
            with self.caller() as caller:
                given = self.handed, drafted, num_draft_tokens, bounds, seeds, found.count_call
                made = replies(caller, self.verifier, *given)
                for part, reply in made:
                    accepted[part], following[part] = reply.num_accepted, reply.next_token
                    if reply.draft_tokens is not None:
                        draft_tokens[part] = reply.draft_tokens
                        if self.verifier.drafts:
                            num_draft_tokens[part] = (reply.draft_tokens >= 0).sum(axis=1)
                    if reply.rounds is not None:
                        rounds.append(reply.rounds)
                    found.warnings.update(dict.fromkeys(reply.warnings))
                if rounds and len(rounds) < len(bounds):
                    refuse(
                        f"{len(rounds)} of {len(bounds)} calls reported rounds, expected all or none; report all rounds"
                    )
        except (OutputFault, SamplerRaised) as error:
            found.fault = Violation("SV-STR-001", self.name, 1, str(error))
            return None
        finally:
            found.seconds = time.perf_counter() - began
        whole = case.loop is not None or self.planned.size_class == "stage"
        trace = self._sampler.complete(draft_tokens, num_draft_tokens, accepted, following, rng, whole=whole)
        return replace(trace, rounds=Rounds.joined(rounds, rng)) if len(rounds) == len(bounds) else trace

    def _calls(self, unit: Unit) -> Iterator[tuple[int, int]]:
        limit = unit.batch or self.planned.batch
        start = 0
        for size in FIRST_BATCHES if unit.first else ():
            if size <= min(limit, unit.rows - start):
                yield start, start + size
                start += size
        while start < unit.rows:
            yield start, min(start + limit, unit.rows)
            start += limit

    def _count(self, trace: Trace, found: Counted, rng: np.random.Generator) -> None:
        views = self.case_probes.views(trace, rng)
        for counts, probe in zip(found.counts, self.probes, strict=True):
            counts += probe.count(views)
        if len(found.outcomes):
            found.outcomes += self.case_probes.count_outcomes(views)
        found.first_tokens += views["token"].sums(views["token"].trace.completed[:, 0], len(found.first_tokens))
        outcomes = views.get("rule") or each_row(trace)
        if self.case.loop is None:
            self._tally(outcomes, found.tally)
        else:  # which of the tokens were drafted is not known
            found.tally.emitted += trace.completed.size
            found.tally.rounds += 0 if trace.rounds is None else len(trace)
        if self._suspects(trace, outcomes):
            found.violations += self._hard.find(trace)
        found.rows += len(trace)

    def _suspects(self, trace: Trace, outcomes: View) -> bool:
        if self.case.contextual:  # then nothing is lumped
            return bool(self._hard.find(outcomes.trace))
        return self._hard.suspects(trace, outcomes)

    def count_of(self, check: str) -> IntArray:
        """Give the counts int64 [K] of a check that has one probe here."""
        return next(n for n, probe in zip(self.seen.counts, self.probes, strict=True) if probe.check == check)

    def _tally(self, view: View, tally: Tally) -> None:
        trace, times = view.trace, view.repeats
        for position, overlap in enumerate(self._overlaps):
            tested = (trace.num_accepted >= position) & (trace.num_draft_tokens > position)
            prefix = self.case.row_index(trace.draft_tokens[tested, :position])
            tally.tested[position] += int(times[tested].sum())
            tally.accepted[position] += int(times[trace.num_accepted > position].sum())
            tally.overlap[position] += float(overlap[prefix] @ times[tested])
        tally.emitted += int(times @ (trace.num_accepted + (trace.next_token >= 0)))
        tally.stopped += int(times[trace.rejected].sum())


@cache
def _keep_freed_memory() -> None:
    """Have the next unit use the memory that one has freed, once for a process.

    The C library of Linux gives freed memory back to the system beyond twice the size of the largest array that was
    ever freed alone; to get it anew for each unit takes as long as half of what is done with it.
    """
    np.empty(KEPT, dtype=np.uint8)


def _distinct(count: int, rng: np.random.Generator) -> list[int]:
    """Draw distinct call seeds: two equal ones would rightly repeat a call, and wrongly convict the sampler."""
    seeds: dict[int, None] = {}
    while len(seeds) < count:
        seeds |= dict.fromkeys(rng.integers(0, 2**31, size=count - len(seeds)).tolist())
    return list(seeds)
