"""Random targets and drafts are tried on any sampler without a false alarm: every pair has its share of one budget.

Half of the budget alpha is split over the pairs that are tried, half over their confirmations. A pair that fails is
confirmed once, on fresh samples, unless the sampler did what a correct one never does; the failure is diagnosed on
several pairs, and where a known fault fits, the pair is shrunk over the fault's exact laws (module ``shrinking``),
never by running the sampler until it fails again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

from specverify.cases import Case
from specverify.checking import check
from specverify.checks import CATALOGUE as CHECKS
from specverify.checks import CERTAIN
from specverify.contract import Verifier
from specverify.counterexample import reproduce
from specverify.errors import ConfigError
from specverify.faults import CATALOGUE
from specverify.generating import as_sampler
from specverify.integers import integer
from specverify.options import ALWAYS, MAX_SAMPLES, MAX_SEED, MIN_ALPHA, Options
from specverify.plan import plan
from specverify.reports import Report
from specverify.shrinking import POWER, apart, shrink

__all__ = ["RandomPairs", "check_random_pairs", "random_cases"]

ROWS = 20_000
CALLS = 400  # calls that one pair gets, so that a sampler of one row per call gets so many rows
CONFIRMING = 4  # times the rows of a pair go to its confirmation, so that what is real is confirmed
DIAGNOSED = 8  # pairs that the diagnosis looks at: one alone often cannot tell faults apart
WIDTH = 100
ANY_POWER = 1 - 1e-9  # a target of total variation that is missed only where nothing at all would have been seen
STRUCTURE = "SV-STR-001"
MAX_PAIRS = 1000
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
            None where nothing can be said, or not of every pair.
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
        count: How many, 1 to 1000.
        seed: The same seed gives the same cases, with one version of Hypothesis.

    Returns:
        Exact cases named "pair 1", "pair 2", ...; fewer where so many different ones were not drawn.

    Raises:
        ConfigError: The count or the seed is no such integer.

    Example:
        >>> [case.name for case in random_cases(3)]
        ['pair 1', 'pair 2', 'pair 3']
    """
    import hypothesis

    from specverify.properties import conditional_tables, reproducible

    count, root = _count("count", count), integer("seed", seed, 0, MAX_SEED - 1)
    drawn: dict[str, Case] = {}
    tables = conditional_tables(min_vocab_size=2, max_vocab_size=MAX_VOCAB_SIZE, max_num_draft_tokens=MAX_DRAFT_TOKENS)

    def draw() -> None:
        @hypothesis.seed(root)
        @hypothesis.settings(reproducible, max_examples=2 * count, phases=[hypothesis.Phase.generate])
        @hypothesis.given(tables)
        def kept(case: Case) -> None:
            drawn.setdefault(case.description, case)

        kept()

    apart(draw)
    return [case.renamed(f"pair {number}") for number, case in enumerate(list(drawn.values())[:count], start=1)]


def check_random_pairs(
    sampler: Callable[..., Any],
    *,
    pairs: int = 30,
    samples: int | None = None,
    seed: int = 0,
    alpha: float = 1e-6,
    known_failures: Mapping[str, str] | None = None,
    timeout: float | None = None,
    target: str | None = None,
) -> RandomPairs:
    """Run a sampler on random pairs of target and draft.

    Args:
        sampler: A verifier of one draft per position, or a plain function with its parameter names.
        pairs: Pairs tried at most, 1 to 1000.
        samples: Rows of every pair, at most 250,000,000; left out, 20,000, or what 400 calls can take.
        seed: Root of the pairs and of every random number of the runs; the same seed gives the same result.
        alpha: Most that the probability of calling a correct sampler nonconformant may be, for all pairs together.
        known_failures: Reason by check id: these checks are left out, as what they tolerate may show on a pair or not.
        timeout: Seconds that one call may take, as for :func:`specverify.check`.
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
    verifier = as_sampler(sampler)
    pairs = _count("pairs", pairs)
    if samples is not None:
        why = f"a pair that fails is confirmed with {CONFIRMING} times as many"
        samples = integer("samples", samples, 1, MAX_SAMPLES // CONFIRMING, instead=why)
    options = Options.checked(
        verifier,
        samples=samples,
        seed=seed,
        alpha=alpha,
        known_failures=known_failures,
        timeout=timeout,
        target=target,
    )
    share = _share(options.alpha, pairs)
    for unfit, takes in ((verifier.tree, "verifies trees"), (verifier.loops, "is a generate loop")):
        if unfit:
            text = f"{verifier.name} {takes}, and a random pair is a round of one draft per position"
            return RandomPairs("not_applicable", text)
    if STRUCTURE in options.known_failures:
        text = f"calls of {verifier.name} are known to fail: {options.known_failures[STRUCTURE]}"
        return RandomPairs("not_applicable", text)
    rows = options.samples or min(ROWS, CALLS * (verifier.max_batch or ROWS))
    return _Search(verifier, random_cases(pairs, seed=options.seed), rows, options, share).run()


@dataclass(frozen=True)
class _Tried:
    """A case on which the sampler was run."""

    case: Case
    options: Mapping[str, Any]
    report: Report

    @property
    def verdict(self) -> str:
        return self.report.verdict

    @property
    def certain(self) -> bool:
        """Say whether the sampler did what a correct one never does."""
        return any(entry["id"] in CERTAIN and entry["status"] == "failed" for entry in self.report.checks)

    @property
    def detectable(self) -> float:
        """Give the total variation that would have been detected; 0 where every error is an impossible event."""
        return self.report.document["detectable_tv"]["value"] or 0.0

    @property
    def doubt(self) -> str:
        """Say why it is inconclusive."""
        if self.detectable > ANY_POWER:
            rows = f"{self.options['samples']:,} rows"
            return f"on {self.case.name} {rows} are too few to show any error of the output; take more samples"
        return f"on {self.case.name}: {self.report.document['warnings'][0]}"


@dataclass(frozen=True)
class _Search:
    """A search under way: what is run, what was asked for, and the budget of one pair or confirmation."""

    verifier: Verifier
    cases: list[Case]
    samples: int
    options: Options
    share: float

    def run(self) -> RandomPairs:
        doubts: list[str] = []
        largest = 0.0
        for case in self.cases:
            found = self._try(case)
            if found.certain:
                return self._explained(case, found, "by what a correct sampler never does, which needs no confirmation")
            if found.verdict == "nonconformant":
                again = self._try(_fresh(case), CONFIRMING)
                if again.verdict == "nonconformant":
                    return self._explained(case, again, "confirmed on fresh samples")
                doubts.append(f"{case.name} failed, and did not fail again on {CONFIRMING} times as many fresh samples")
            elif found.verdict == "inconclusive":
                doubts.append(found.doubt)
            else:
                largest = max(found.detectable, largest)
        return self._unfailing(largest, doubts)

    def _try(self, case: Case, times: int = 1, **others: Any) -> _Tried:
        options = {**self._asked, "samples": times * self.samples, **others}
        return _Tried(case, options, check(self.verifier, cases=[case], **options))

    @property
    def _asked(self) -> dict[str, Any]:
        """Give the options of a run of one pair."""
        named = {name: getattr(self.options, name) for name in ("seed", "timeout", "target")}
        return {**named, "samples": self.samples, "alpha": self.share, "only": self._only, "target_tv": ANY_POWER}

    @property
    def _only(self) -> tuple[str, ...]:
        """Give the checks that are not known to fail; all of them are ()."""
        known = self.options.known_failures
        return tuple(check for check in CHECKS if check not in known and check not in ALWAYS) if known else ()

    def _unfailing(self, largest: float, doubts: list[str]) -> RandomPairs:
        known = self.options.known_failures
        did = f"{self.verifier.name}: {len(self.cases)} random pairs of up to {self.samples:,} rows each"
        text = f"INCONCLUSIVE, {doubts[0]}" if doubts else "none failed"
        if known:
            did += f", the known failures {', '.join(known)} left out"
        if any(CHECKS[check].scope == "lossless" for check in known):
            largest = 0.0  # the checks that are left would not have seen every error of the output
        rest = len(self.cases) - len(doubts)
        if largest:
            text += (
                f"; an error of total variation {largest:.2g} or more in its output on any one of "
                f"{f'the other {rest}' if doubts else 'them'} would have been caught with probability 0.9, "
                f"a smaller one may have been missed"
            )
        elif rest:
            text += "; no error that would have been caught can be stated"
        verdict, worth = ("inconclusive", None) if doubts else ("conformant", largest or None)
        return RandomPairs(verdict, f"{did}: {text}.", len(self.cases), self.samples, worth)

    def _explained(self, case: Case, found: _Tried, proof: str) -> RandomPairs:
        """Diagnose a failure on several pairs, and show the smallest case that has it."""
        others = [other for other in self.cases if other is not case][: DIAGNOSED - 1]
        cases = [_fresh(each) for each in (case, *others)]
        seen = check(self.verifier, cases=cases, stop_early=False, **self._asked)
        diagnosis = seen.diagnosis or found.report.diagnosis
        fault = diagnosis[0]["fault"] if diagnosis else None
        shown = self._smallest(fault)
        why = self._why_smallest(fault) if shown else self._why_as_found(fault)
        shown = shown or found
        report = Report({**shown.report.document, "diagnosis": diagnosis})
        name = f"{self.verifier.name}: a random pair of target and draft fails"
        message = f"{fill(f'{name}: {case.name} of {len(self.cases)}, {proof}. {why}', WIDTH)}\n\n{report}"
        if report.document["counterexample"] is None:
            line = reproduce(plan(self.verifier, cases=[shown.case], **shown.options), shown.case)
            message += f"\n  Reproduce: {line}\n"
        return RandomPairs("nonconformant", message, len(self.cases), self.samples, None, fault, shown.case, report)

    def _smallest(self, fault: str | None) -> _Tried | None:
        """Shrink over the exact laws of a fault and run the result, which has to fail; else None."""
        alpha = self.options.alpha
        small = None if fault is None else shrink(fault, self.verifier, samples=self.samples, alpha=alpha)
        tried = None if small is None else self._try(small, alpha=alpha)
        return tried if tried is not None and tried.verdict == "nonconformant" else None

    def _why_smallest(self, fault: str | None) -> str:
        rows = f"{self.samples:,} rows show {fault} with probability {POWER:g}"
        return f"Below is the smallest case on which {rows}, found among the exact laws of that fault and then run."

    def _why_as_found(self, fault: str | None) -> str:
        """Say why the pair was not shrunk."""
        if fault is None:
            why = "No known fault fits, so that there is no exact law to shrink over"
        elif CATALOGUE[fault].may_be_of(self.verifier):
            why = f"No smaller case shows {fault} with {self.samples:,} rows"
        else:
            why = f"{fault} does not show in the law of a row, over which pairs are shrunk"
        return f"{why}: the pair is shown as found."


def _count(name: str, value: object) -> int:
    """Give a number of pairs that can be drawn and run."""
    return integer(name, value, 1, MAX_PAIRS, instead="for more pairs take other seeds")


def _share(alpha: float, pairs: int) -> float:
    """Give the budget of one run: half of alpha is for the pairs, half for their confirmations."""
    share = alpha / (2 * pairs)
    if share <= MIN_ALPHA:
        least = f"{2 * pairs * MIN_ALPHA:g}"
        raise ConfigError(f"expected alpha to be more than {least} for {pairs} pairs, got {alpha}; take fewer pairs")
    return share


def _fresh(case: Case) -> Case:
    """Give the same case with random numbers of its own."""
    return case.renamed(f"{case.name} again")
