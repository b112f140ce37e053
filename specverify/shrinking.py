"""The smallest case that shows a fault is searched among the exact laws, so that no noise has a say in it.

Shrinking by running the sampler again and again would keep whatever failed by luck, and spend error budget on every
try. The law of a known fault is exact: whether a plan of so many rows would prove it on a case is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from specverify.cases import Case, Row
from specverify.contract import Verifier
from specverify.faults import CATALOGUE
from specverify.foreseen import foresee
from specverify.plan import plan

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["POWER", "apart", "power", "shrink"]

T = TypeVar("T")

POWER = 0.99
"""Probability with which the smallest case shows the fault."""

SIZES = ((2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2))  # tokens and drafted tokens, from small to large
TRIED = 50  # random cases of each size and form that have to fail before the next is tried
NAME = "smallest"


def apart(search: Callable[[], T]) -> T:
    """Run a search of Hypothesis in a thread of its own, so that it may also be asked for within a test.

    There a second search is refused, whatever its settings: only those of the test around it, which are the caller's,
    could allow it.

    Args:
        search: What draws the examples.

    Returns:
        What it returns.

    Example:
        >>> from hypothesis import find, strategies
        >>> apart(lambda: find(strategies.integers(), lambda number: number > 3))
        4
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(search).result()


def power(fault: str, case: Case, verifier: Verifier, *, samples: int, alpha: float = 1e-6) -> float:
    """Give the probability that a run on one case proves a known fault, by its exact law.

    Args:
        fault: Id of the fault.
        case: The case.
        verifier: The sampler; only its form counts.
        samples: Rows of the run.
        alpha: Error budget of the run.

    Returns:
        The probability; 0 for a fault that a sampler of this form cannot have.

    Example:
        >>> from specverify.registry import load
        >>> case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
        >>> [round(power(name, case, load("reference"), samples=20_000), 3) for name in ("K02", "K12")]
        [1.0, 0.0]
    """
    found = foresee(plan(verifier, cases=[case], samples=samples, alpha=alpha), [fault])
    return found[0].power if found else 0.0


def shrink(fault: str, verifier: Verifier, *, samples: int, alpha: float = 1e-6) -> Case | None:
    """Find the smallest case, of few tokens, few drafts and no context, on which a run proves a known fault.

    Args:
        fault: Id of the fault.
        verifier: The sampler; only its form counts.
        samples: Rows of the run.
        alpha: Error budget of the run.

    Returns:
        An exact case named "smallest" on which the probability of that is .99; None where none of up to four tokens and
        two drafts was found.

    Example:
        >>> from specverify.registry import load
        >>> case = shrink("K02", load("reference"), samples=20_000)
        >>> [str(x) for x in case.target_row(())], [str(x) for x in case.draft_row(())], case.num_draft_tokens
        (['3/5', '2/5'], ['4/5', '1/5'], 1)
    """
    from hypothesis import find, settings
    from hypothesis.errors import NoSuchExample

    from specverify.properties import reproducible

    def shown(case: Case) -> bool:
        return power(fault, case, verifier, samples=samples, alpha=alpha) >= POWER

    search = settings(reproducible, max_examples=TRIED)
    for cases in _cases() if CATALOGUE[fault].may_be_of(verifier) else ():
        with suppress(NoSuchExample):
            return _plain(apart(partial(find, cases, shown, settings=search)))
    return None


def _cases() -> Iterator[SearchStrategy[Case]]:
    """Give strategies for cases of each size, first those whose rows ignore the context."""
    from specverify.properties import conditional_tables, pairs

    for size, length in SIZES:
        yield pairs(size).map(partial(_of_rows, length))
        yield conditional_tables(
            min_vocab_size=size, max_vocab_size=size, min_num_draft_tokens=length, max_num_draft_tokens=length
        )


def _of_rows(length: int, pair: tuple[Row, Row]) -> Case:
    return Case.from_rows(NAME, *pair, num_draft_tokens=length)


def _plain(case: Case) -> Case:
    """Give the case its name, and rows that ignore the context where those of every position are all the same."""
    levels = (*case.target, *case.draft)
    if case.contextual and all((rows == rows[0]).all() for rows in levels):
        target, draft = (
            [row_of((0,) * i) for i in range(depth)]
            for row_of, depth in ((case.target_row, case.num_draft_tokens + 1), (case.draft_row, case.num_draft_tokens))
        )
        return Case.from_rows(NAME, target, draft, num_draft_tokens=case.num_draft_tokens)
    return case.renamed(NAME)
