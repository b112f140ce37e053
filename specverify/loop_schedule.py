"""How many generations each case of a generator gets, fixed before the run by the profile and its largest batch.

A loop costs far more than a verification, so that it gets fewer rows and states a larger total variation. The control
without a draft and the fresh processes stand aside: they are there to tell whose fault it is, and their rows do not
count towards what would have been caught. So do, for a loop that takes few sequences per call, the cases of all further
parameters that it asks for: a parameter that is ignored changes the law by far more than their rows need to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from specverify.cases import Case
from specverify.contract import Verifier
from specverify.loop_files import gguf_models
from specverify.loop_menu import PLAIN_CASE, loop_menu
from specverify.schedule import FEW_BATCH, Planned, given_cases

__all__ = ["loop_schedule"]

GGUF = ("loop-gguf", "loop-gguf-temperature")
TELLING = (PLAIN_CASE, "loop-temperature-top-k", "loop-end", "loop-llama", "loop-llama-temperature", *GGUF)
HEADLINES = (PLAIN_CASE, "loop-gguf")
MAX_BATCH = 2048


class _Rows(NamedTuple):
    """Rows of the headline case, of the others, and of those that stand aside; and of a loop of few sequences."""

    headline: int
    others: int
    aside: int
    few: int
    few_aside: int


ROWS = {
    "quick": _Rows(20_000, 6_000, 2_000, 5_000, 1_000),
    "ci": _Rows(120_000, 30_000, 10_000, 16_000, 2_000),
    "release": _Rows(500_000, 120_000, 40_000, 80_000, 10_000),
}


def loop_schedule(
    verifier: Verifier,
    profile: str,
    samples: int | None = None,
    cases: Sequence[Case] | None = None,
    *,
    named: bool = False,
) -> list[Planned]:
    """Plan the rows of every case for a generator.

    Args:
        verifier: The generator.
        profile: "quick", "ci" or "release".
        samples: Rows of every case, instead of those of the profile.
        cases: What is run in place of the menu.
        named: Whether it can be loaded by name, which a fresh process has to do.

    Returns:
        The cases that the generator asks the parameters of, in the order of the menu, or as given.

    Raises:
        ConfigError: A given case is not one for generators.

    Example:
        >>> from specverify.generating import generator
        >>> plain = generator(lambda target_model, prompt, max_new_tokens: None)
        >>> [planned.case.name for planned in loop_schedule(plain, "quick")][:3]
        ['loop', 'loop-one-draft', 'loop-deep']
    """
    rows, few = ROWS[profile], verifier.max_batch is not None and verifier.max_batch < FEW_BATCH
    if cases is not None:
        number = samples or (rows.few if few else rows.others)
        return [Planned(case, "tiny", number, _batch(verifier, case), True) for case in given_cases(cases, verifier)]
    planned = []
    for case in _offered(verifier):
        if not _fits(case, verifier, named) or (few and not _telling(case)):
            continue
        headline = case.name in HEADLINES
        aside = _aside(case) or (few and not headline and case.name not in TELLING)
        usual = rows.aside if aside else rows.headline if headline else rows.others
        number = (rows.few_aside if aside else rows.few) if few else usual
        size_class = "aside" if aside else "tiny"
        planned.append(Planned(case, size_class, samples or number, _batch(verifier, case), headline))
    return planned


def _offered(verifier: Verifier) -> Iterator[Case]:
    if "target_model_gguf" in verifier.asks:  # no table is such a file
        yield from gguf_models().gguf_cases()
        return
    yield from loop_menu()
    asks_models = any(name.endswith("_transformers") for name in verifier.asks)
    if asks_models and find_spec("torch") and find_spec("transformers"):
        from specverify.transformers_models import llama_cases

        yield from llama_cases()


def _aside(case: Case) -> bool:
    assert case.loop is not None
    return case.loop.num_draft_tokens == 0 or case.loop.process > 0


def _telling(case: Case) -> bool:
    """Say whether a loop of few sequences is run on a case: for what it is, or for a parameter of its own."""
    assert case.loop is not None
    return _aside(case) or case.name in TELLING or bool(case.loop.mate) or bool(case.loop.sampling.set_names)


def _fits(case: Case, verifier: Verifier, named: bool) -> bool:
    """Say whether a generator asks for what a case is about."""
    loop = case.loop
    assert loop is not None
    mates = verifier.max_batch is None or verifier.max_batch > 1 or not loop.mate
    drafts = "num_draft_tokens" in verifier.asks or loop.num_draft_tokens > 0
    return loop.sampling.set_names <= verifier.asks and mates and drafts and (named or not loop.process)


def _batch(verifier: Verifier, case: Case) -> int:
    assert case.loop is not None
    largest = min(MAX_BATCH, verifier.max_batch or MAX_BATCH)
    return max(1, largest // 2) if case.loop.mate else largest
