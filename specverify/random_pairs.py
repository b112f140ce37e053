"""Random targets and drafts are tried on any sampler without a false alarm: every pair has its share of one budget.

Half of the budget alpha is split over the pairs that are tried, half over their confirmations. A pair that fails is
confirmed once, on fresh samples; what was confirmed is diagnosed on several pairs, and where a known fault fits, the
pair is shrunk over the fault's exact laws (module ``shrinking``), never by running the sampler until it fails again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

from specverify.cases import Case
from specverify.checking import check
from specverify.contract import Verifier, as_verifier
from specverify.counterexample import reproduce
from specverify.errors import ConfigError
from specverify.faults import CATALOGUE
from specverify.plan import plan
from specverify.reports import Report
from specverify.shrinking import POWER, shrink
from specverify.wording import brief

__all__ = ["RandomPairs", "check_random_pairs", "random_cases"]

ROWS = 20_000
CALLS = 400  # calls that one pair gets, so that a sampler of one row per call gets so many rows
CONFIRMING = 4  # times the rows of a pair go to its confirmation, so that what is real is confirmed
DIAGNOSED = 8  # pairs that the diagnosis looks at: one alone often cannot tell faults apart
WIDTH = 100
ANY_POWER = 1 - 1e-9  # a target of total variation that is met wherever anything at all would have been seen
MAX_VOCAB_SIZE, MAX_DRAFT_TOKENS = 4, 2


@dataclass(frozen=True)
class RandomPairs:
    """What random pairs showed of one sampler.

    Attributes:
        verdict: "conformant", "nonconformant", "inconclusive", or "not_applicable" for a sampler that takes no pairs.
        message: For people: what was found and what it is worth.
        pairs: Pairs that were run.
        samples: Rows of each.
        detectable_tv: Total variation of the output that would have been detected on every pair with probability .9;
            None where nothing can be said.
        fault: Id of the known fault that fits best, or None.
        case: The case that is shown: the smallest that shows the fault, or the pair as it was found; else None.
        report: The report of the run on that case, or None.
    """

    verdict: str
    message: str
    pairs: int = 0
    samples: int = 0
    detectable_tv: float | None = None
    fault: str | None = None
    case: Case | None = None
    report: Report | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """The message."""
        return self.message


def random_cases(count: int, *, seed: int = 0) -> list[Case]:
    """Draw different cases of 2 to 4 tokens and up to 2 drafted tokens, whose rows depend on the tokens before them.

    Args:
        count: How many, 1 or more.
        seed: The same seed gives the same cases, with one version of Hypothesis.

    Returns:
        Exact cases named "pair 1", "pair 2", ...; fewer where so many different ones were not drawn.

    Example:
        >>> [case.name for case in random_cases(3)]
        ['pair 1', 'pair 2', 'pair 3']
    """
    import hypothesis

    from specverify.properties import conditional_tables, reproducible

    drawn: dict[str, Case] = {}
    tables = conditional_tables(min_vocab_size=2, max_vocab_size=MAX_VOCAB_SIZE, max_num_draft_tokens=MAX_DRAFT_TOKENS)

    @hypothesis.seed(seed)
    @hypothesis.settings(reproducible, max_examples=2 * count, phases=[hypothesis.Phase.generate])
    @hypothesis.given(tables)
    def draw(case: Case) -> None:
        drawn.setdefault(case.description, case)

    draw()
    return [case.renamed(f"pair {number}") for number, case in enumerate(list(drawn.values())[:count], start=1)]


def check_random_pairs(
    sampler: Callable[..., Any],
    *,
    pairs: int = 30,
    samples: int | None = None,
    seed: int = 0,
    alpha: float = 1e-6,
    target: str | None = None,
) -> RandomPairs:
    """Run a sampler on random pairs of target and draft.

    Args:
        sampler: A verifier of one draft per position, or a plain function with its parameter names.
        pairs: Pairs tried at most, 1 or more.
        samples: Rows of every pair; left out, 20,000, or what 400 calls can take.
        seed: Root of the pairs and of every random number of the runs; the same seed gives the same result.
        alpha: Most that the probability of calling a correct sampler nonconformant may be.
        target: What names the sampler on the command line, for the line that reproduces a failure.

    Returns:
        What was found. The first confirmed failure ends the search.

    Raises:
        SpecverifyError: The sampler's declaration or an argument is wrong.

    Example:
        >>> from specverify.registry import load
        >>> found = check_random_pairs(load("naive-redraw"), samples=4000)
        >>> found.verdict, found.fault, found.case.vocab_size
        ('nonconformant', 'K02', 2)
    """
    verifier = as_verifier(sampler)
    if isinstance(pairs, bool) or not isinstance(pairs, int) or pairs < 1:
        raise ConfigError(f"expected pairs to be an integer of at least 1, got {brief(pairs)}")
    if verifier.tree:
        text = f"{verifier.name} verifies trees, and a random pair has one draft per position"
        return RandomPairs("not_applicable", text)
    rows = samples if samples is not None else min(ROWS, CALLS * (verifier.max_batch or ROWS))
    return _Search(verifier, random_cases(pairs, seed=seed), rows, seed, alpha, alpha / (2 * pairs), target).run()


@dataclass(frozen=True)
class _Search:
    """A search under way: what is run, and the budget of the whole and of one pair or confirmation."""

    verifier: Verifier
    cases: list[Case]
    samples: int
    seed: int
    alpha: float
    share: float
    target: str | None

    def run(self) -> RandomPairs:
        doubts: list[str] = []
        largest: float | None = None
        for case in self.cases:
            found = self._check([case])
            if found.verdict == "nonconformant":
                again = self._check([_fresh(case)], CONFIRMING)
                if again.verdict == "nonconformant":
                    return self._explained(case, again)
                doubts.append(f"{case.name} failed, and did not fail again on {CONFIRMING} times as many fresh samples")
            elif found.verdict == "inconclusive":
                doubts.append(f"on {case.name}: {found.document['warnings'][0]}")
            else:
                largest = max(found.document["detectable_tv"]["value"] or 0.0, largest or 0.0)
        return self._unfailing(largest, doubts)

    def _check(self, cases: list[Case], times: int = 1, *, stop_early: bool = True) -> Report:
        return check(self.verifier, cases=cases, stop_early=stop_early, **self._options(times))

    def _options(self, times: int) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "alpha": self.share,
            "samples": times * self.samples,
            "target": self.target,
            "target_tv": ANY_POWER,
        }

    def _unfailing(self, largest: float | None, doubts: list[str]) -> RandomPairs:
        did = f"{self.verifier.name}: {len(self.cases)} random pairs of up to {self.samples:,} rows each"
        worth = (
            f"an error of total variation {largest:.2g} or more in its output on any one of them would have been "
            f"caught with probability 0.9, a smaller one may have been missed"
            if largest
            else "no error that would have been caught can be stated"
        )
        verdict, text = ("inconclusive", f"INCONCLUSIVE, {doubts[0]}") if doubts else ("conformant", "none failed")
        return RandomPairs(verdict, f"{did}: {text}; {worth}.", len(self.cases), self.samples, largest)

    def _explained(self, case: Case, again: Report) -> RandomPairs:
        """Diagnose a confirmed failure on several pairs, and show the smallest case that has it."""
        others = [other for other in self.cases if other is not case][: DIAGNOSED - 1]
        seen = self._check([_fresh(each) for each in (case, *others)], stop_early=False)
        diagnosis = seen.diagnosis or again.diagnosis
        fault = diagnosis[0]["fault"] if diagnosis else None
        shown, report, why = self._smallest(fault) or self._as_found(fault, case, again)
        report = Report({**report.document, "diagnosis": diagnosis})
        name = f"{self.verifier.name}: a random pair of target and draft fails"
        text = fill(f"{name}: {case.name} of {len(self.cases)}, confirmed on fresh samples. {why}", WIDTH)
        message = f"{text}\n\n{report}"
        if report.document["counterexample"] is None:
            line = reproduce(plan(self.verifier, cases=[shown], **self._options(CONFIRMING)), shown)
            message += f"\n  Reproduce: {line}\n"
        return RandomPairs("nonconformant", message, len(self.cases), self.samples, None, fault, shown, report)

    def _smallest(self, fault: str | None) -> tuple[Case, Report, str] | None:
        """Shrink over the exact laws of a fault and run the result: the case, its report and what it is; or None."""
        small = None if fault is None else shrink(fault, self.verifier, samples=self.samples, alpha=self.alpha)
        if small is None:
            return None
        report = check(
            self.verifier, cases=[small], samples=self.samples, seed=self.seed, alpha=self.alpha, target=self.target
        )
        rows = f"{self.samples:,} rows show {fault} with probability {POWER:g}"
        why = f"Below is the smallest case on which {rows}, found among the exact laws of that fault and then run."
        return (small, report, why) if report.verdict == "nonconformant" else None

    def _as_found(self, fault: str | None, case: Case, again: Report) -> tuple[Case, Report, str]:
        """Give the pair itself, the report of its confirmation, and why it was not shrunk."""
        if fault is None:
            why = "No known fault fits, so that there is no exact law to shrink over"
        elif CATALOGUE[fault].may_be_of(self.verifier):
            why = f"No smaller case shows {fault} with {self.samples:,} rows"
        else:
            why = f"{fault} does not show in the law of a row, over which pairs are shrunk"
        return _fresh(case), again, f"{why}: the pair is shown as found."


def _fresh(case: Case) -> Case:
    """Give the same case with random numbers of its own."""
    return case.renamed(f"{case.name} again")
