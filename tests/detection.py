"""How many samples it takes to find each known fault, against the fewest that any test could need.

One case, completed blocks only (what any sampler shows), alpha = 1e-6. Blocks are drawn from the exact law of the fault
and the kit's combined evidence is computed after every 2% more; the unit is the information bound ln(1/alpha) / KL.
"Listed" is the whole catalogue; "unlisted" is the catalogue without the fault and without those of the same law.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specverify.alternatives import alternatives, completed, score
from specverify.cases import Case
from specverify.evidence import log_e, mean_log_e
from specverify.faults import CATALOGUE
from specverify.menu import softmax_case
from specverify.plan import SHARES
from specverify.probes import CaseProbes
from specverify.trace import Trace

Floats = npt.NDArray[np.float64]
ALPHA = 1e-6
REPEATS = 15
GROWTH = 1.05
MOST = 2_000_000  # rows; faults whose bound is above a fifth of it are left out
SAME = 1e-9


def case_of(size: int) -> Case:
    """Give the pair that is measured at a vocabulary size: AB, else an irregular pair, one drafted token."""
    if size == 2:
        return Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
    return softmax_case(f"softmax-{size}", size, 1, 1.5 if size < 100 else 2.0)


@dataclass
class Wrong:
    """The law of the completed block under one fault: of whole blocks, or of the first token alone."""

    name: str
    law: Floats
    kl: float

    @property
    def bound(self) -> float:
        """Give the information bound in samples."""
        return math.log(1 / ALPHA) / self.kl


def wrong_laws(case: Case) -> list[Wrong]:
    """Give every catalogued fault whose completed block is wrong on the case."""
    small = case.vocab_size <= 8
    due = np.outer(case.target[0][0], case.target[1][0]).ravel() if small else case.target[0][0]
    found = []
    for name, fault in CATALOGUE.items():
        law = fault.law(case) if small else None
        wrong = completed(case, law) if law is not None else fault.first_token_law(case.target[0][0], case.draft[0][0])
        if wrong is not None and fault.has_law and len(wrong) == len(due):
            forbidden = wrong[due == 0].sum()
            inside = (wrong > 0) & (due > 0)
            kl = float((wrong[inside] * np.log(wrong[inside] / due[inside])).sum()) if forbidden < 1e-12 else math.inf
            if 1e-9 < kl < math.inf:
                found.append(Wrong(name, wrong / wrong.sum(), kl))
    return found


class Watch:
    """The combined evidence on one case, from the blocks seen so far.

    Args:
        case: The case.
        without: Names of the faults that are left out of the catalogue.
    """

    def __init__(self, case: Case, without: tuple[str, ...] = ()) -> None:
        self.case = case
        self.probes = CaseProbes(case, 1e-12, None)
        kept = tuple(name for name, fault in CATALOGUE.items() if fault.has_law and name not in without)
        self.found = alternatives(self.probes, kept)
        self.counts = [np.zeros(len(probe.probs), dtype=np.int64) for probe in self.probes.probes]
        self.first = np.zeros(case.vocab_size, dtype=np.int64)

    def add(self, blocks: npt.NDArray[np.int64]) -> None:
        """Count blocks int64 [n, 2]."""
        n = len(blocks)
        one = np.ones(n, dtype=np.int64)
        trace = Trace(blocks[:, :1], one, one, blocks[:, 1], blocks)  # nothing is owed: what was drawn is all there is
        views = self.probes.views(trace, np.random.default_rng(0))
        for counts, probe in zip(self.counts, self.probes.probes, strict=True):
            counts += probe.count(views)
        self.first += np.bincount(blocks[:, 0], minlength=len(self.first))

    def log_e(self) -> float:
        """Give the log of the combined evidence."""
        checks = mean_log_e([log_e(c, probe.probs) for c, probe in zip(self.counts, self.probes.probes, strict=True)])
        probe = self.found.output_probe
        seen = self.first if probe is None else self.counts[self.probes.probes.index(probe)]
        faults = mean_log_e(score(self.found.output, seen))
        ways = mean_log_e(score(self.found.directions, self.first))
        parts = zip(SHARES, (checks, faults, ways), strict=True)
        return float(np.logaddexp.reduce([math.log(share) + part for share, part in parts]))


def samples_needed(case: Case, wrong: Wrong, without: tuple[str, ...], seed: int) -> float:
    """Give the blocks after which a fault is proved, over the information bound."""
    rng = np.random.default_rng([seed, len(wrong.law)])
    watch, n = Watch(case, without), 0
    while n < MOST:
        more = max(1, math.ceil(n * (GROWTH - 1)))
        watch.add(draw(case, wrong.law, more, rng))
        n += more
        if watch.log_e() >= math.log(2 / ALPHA):
            return n / wrong.bound
    return math.inf


def draw(case: Case, law: Floats, n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw completed blocks int64 [n, 2]."""
    size = case.vocab_size
    drawn = rng.choice(len(law), size=n, p=law)
    if len(law) > size:
        return np.stack([drawn // size, drawn % size], axis=1)
    return np.stack([drawn, rng.choice(size, size=n, p=case.target[1][0])], axis=1)


def alike(wrong: Wrong, others: list[Wrong]) -> tuple[str, ...]:
    """Name the faults with the same law on the case, the fault itself included."""
    return tuple(other.name for other in others if np.abs(other.law - wrong.law).max() < SAME)


def measured(size: int) -> Iterator[tuple[str, float, float, float]]:
    """Give fault, bound, and the median multiples listed and unlisted."""
    case = case_of(size)
    laws = [wrong for wrong in wrong_laws(case) if wrong.bound < MOST / 5]
    for wrong in laws:
        listed = np.median([samples_needed(case, wrong, (), seed) for seed in range(REPEATS)])
        without = alike(wrong, laws)
        unlisted = np.median([samples_needed(case, wrong, without, seed) for seed in range(REPEATS)])
        yield wrong.name, wrong.bound, float(listed), float(unlisted)


def main() -> None:
    """Print one table a vocabulary size."""
    for size in map(int, sys.argv[1:] or (2, 32, 1024, 32768)):
        rows = list(measured(size))
        print(f"\n## V = {size}\n\n| fault | bound | listed | unlisted |\n|---|---|---|---|", flush=True)
        for name, bound, listed, unlisted in rows:
            print(f"| {name} | {bound:.0f} | {listed:.2f} | {unlisted:.2f} |")
        for column, word in ((2, "listed"), (3, "unlisted")):
            values = [row[column] for row in rows]
            print(f"\ngeometric mean {word}: {math.exp(np.mean(np.log(values))):.2f}, worst {max(values):.2f}")


if __name__ == "__main__":
    main()
