"""One case is run in units whose randomness follows from their place alone, so that counts never depend on timing.

A unit is one look's worth of rows of one case, cut into blocks; each block has its own stream, from which the kit draws
the drafts, a seed for every call, and the completions. Counts are the only state.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from specverify.arrays import IntArray
from specverify.calling import Caller, SamplerRaised, call
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.handing import Handed
from specverify.hard import HardChecks, Violation
from specverify.probes import case_probes
from specverify.reading import OutputFault
from specverify.sampling import CaseSampler
from specverify.schedule import Planned
from specverify.trace import Trace

__all__ = ["CaseRun", "Tally"]

BLOCK = 2**16
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
    """

    tested: IntArray
    accepted: IntArray
    overlap: np.ndarray[tuple[int], np.dtype[np.float64]]
    emitted: int = 0
    stopped: int = 0


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
        caller: What makes the calls.
    """

    planned: Planned
    verifier: Verifier
    rule: str | None
    tau: float
    seed: int
    selects: Callable[[str], bool]
    caller: Caller = call
    rows: int = 0
    calls: int = 0
    seconds: float = 0.0
    violations: list[Violation] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    fault: Violation | None = None

    def __post_init__(self) -> None:
        self.handed = Handed(self.planned.case, self.verifier)
        self.case: Case = self.handed.case
        self.case_probes = case_probes(self.case, self.tau, self.rule, self.verifier.drafts)
        self.probes = [probe for probe in self.case_probes.probes if self.selects(probe.check)]
        self.counts = [np.zeros(len(probe.probs), dtype=np.int64) for probe in self.probes]
        width = self.case.num_draft_tokens
        self.tally = Tally(np.zeros(width, np.int64), np.zeros(width, np.int64), np.zeros(width))
        self.outcomes = np.zeros(self.case_probes.outcome_space, dtype=np.int64)
        self.first_tokens = np.zeros(self.case.vocab_size, dtype=np.int64)
        self._hard = HardChecks(self.case, self.tau, self.rule == "token")
        self._sampler = CaseSampler(self.case)
        self._overlaps = [np.minimum(p, q).sum(axis=1) for p, q in zip(self.case.target, self.case.draft, strict=False)]
        self._key = zlib.crc32(self.case.name.encode("utf-8", "surrogatepass"))

    @property
    def name(self) -> str:
        """Give the name of the case."""
        return self.case.name

    def advance(self, look: int) -> None:
        """Run the rows due at a look and count them; a faulty call ends the case."""
        due = self.planned.rows_at(look) - self.rows
        for block in range(-(-max(due, 0) // BLOCK)):
            if self.fault is not None:
                return
            trace = self.run(min(BLOCK, due - block * BLOCK), (look, block))
            if trace is not None:
                self.count(trace)

    def run(self, rows: int, unit: tuple[int, ...], batch: int | None = None) -> Trace | None:
        """Run one block of rows; None when a call was faulty, which ``fault`` then tells."""
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence([self.seed, self._key, *unit])))
        drafted, num_draft_tokens = self._sampler.draft(rows, rng)
        draft_tokens = drafted if self.case.tree is None else np.full((rows, self.case.num_draft_tokens), -1)
        accepted, following = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
        bounds = list(self._calls(rows, batch))
        seeds = _distinct(len(bounds), rng)
        began = time.perf_counter()
        try:
            for (start, stop), seed in zip(bounds, seeds, strict=True):
                part = slice(start, stop)
                self.calls += 1
                given = self.handed, drafted[part], num_draft_tokens[part], seed
                reply = self.caller(self.verifier, *given, watch=start == 0)
                accepted[part], following[part] = reply.num_accepted, reply.next_token
                if reply.draft_tokens is not None:
                    draft_tokens[part] = reply.draft_tokens
                    if self.verifier.drafts:
                        num_draft_tokens[part] = (reply.draft_tokens >= 0).sum(axis=1)
                self.warnings.update(dict.fromkeys(reply.warnings))
        except (OutputFault, SamplerRaised) as error:
            self.fault = Violation("SV-STR-001", self.name, 1, str(error))
            return None
        finally:
            self.seconds += time.perf_counter() - began
        return self._sampler.complete(draft_tokens, num_draft_tokens, accepted, following, rng)

    def _calls(self, rows: int, batch: int | None) -> Iterator[tuple[int, int]]:
        limit = batch or self.planned.batch
        start = 0
        if self.rows == 0 and batch is None:
            for size in FIRST_BATCHES:
                if size <= min(limit, rows - start):
                    yield start, start + size
                    start += size
        while start < rows:
            yield start, min(start + limit, rows)
            start += limit

    def count(self, trace: Trace) -> None:
        """Add a trace to all counts."""
        views = self.case_probes.views(trace)
        for counts, probe in zip(self.counts, self.probes, strict=True):
            counts += probe.count(views)
        if len(self.outcomes):
            self.outcomes += self.case_probes.count_outcomes(views)
        self.first_tokens += np.bincount(trace.completed[:, 0], minlength=len(self.first_tokens))
        self.violations += self._hard.find(trace)
        self._tally(trace)
        self.rows += len(trace)

    def count_of(self, check: str) -> IntArray:
        """Give the counts int64 [K] of a check that has one probe here."""
        return next(counts for counts, probe in zip(self.counts, self.probes, strict=True) if probe.check == check)

    def _tally(self, trace: Trace) -> None:
        for position, overlap in enumerate(self._overlaps):
            tested = (trace.num_accepted >= position) & (trace.num_draft_tokens > position)
            prefix = self.case.row_index(trace.draft_tokens[tested, :position])
            self.tally.tested[position] += int(tested.sum())
            self.tally.accepted[position] += int((trace.num_accepted > position).sum())
            self.tally.overlap[position] += float(overlap[prefix].sum())
        self.tally.emitted += int(trace.num_accepted.sum() + (trace.next_token >= 0).sum())
        self.tally.stopped += int(trace.rejected.sum())


def _distinct(count: int, rng: np.random.Generator) -> list[int]:
    """Draw distinct call seeds: two equal ones would rightly repeat a call, and wrongly convict the sampler."""
    seeds: dict[int, None] = {}
    while len(seeds) < count:
        seeds |= dict.fromkeys(rng.integers(0, 2**31, size=count - len(seeds)).tolist())
    return list(seeds)
