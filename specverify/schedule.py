"""How many rows each case gets, fixed before the run by the profile, V and the sampler's largest batch.

Small vocabularies are sampled far ahead of large ones, because a row costs hundreds of times less there: small errors
are convicted sooner. One headline case per size class carries the stated detectable total variation. A sampler that
takes one sequence per call gets few, telling cases and a larger stated total variation, never a silent pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from specverify.cases import Case
from specverify.contract import Verifier
from specverify.errors import ConfigError
from specverify.loops import Loop
from specverify.menu import menu
from specverify.nearest import did_you_mean
from specverify.reference import TREE_MODES
from specverify.tolerance import allowance
from specverify.tree_menu import TREE_HEADLINE, TREE_TELLING, TREE_WITNESS, tree_menu
from specverify.wording import brief

__all__ = ["FEW_BATCH", "PROFILES", "Planned", "Profile", "given_cases", "look_fractions", "schedule"]

GROWTH = 1.6
LOOKS = 12
FEW_BATCH = 8  # samplers below this batch size get the telling cases only
MAX_BATCH = 8192
SMALL_CALLS = (1, 5)
MAX_ELEMENTS = 2**23  # probabilities handed over in one call

SIZES = MappingProxyType({"tiny": 8, "small": 64, "middle": 4096, "large": 2**30})
"""Largest vocabulary of each size class."""

HEADLINES = MappingProxyType(
    {"tiny": "W402", "small": "softmax-32", "middle": "softmax-1024", "large": "softmax-32000"}
)
TELLING = (
    "AB",
    "W402",
    "W402-reversed",
    "W637",
    "W637-ragged",
    "T3",
    "last-empty",
    "overconfident",
    "zeros",
    "no-draft",
    "softmax-1024",
)


@dataclass(frozen=True)
class Profile:
    """Sample counts of one profile: rows by size class, of the headline case and of the others.

    Attributes:
        headline: Rows of the headline case of each size class.
        others: Rows of every other case of the class.
        calls: Most calls that one case gets, whatever the rows.
        target_tv: Total variation that must be detectable for the verdict "conformant".
    """

    headline: MappingProxyType[str, int]
    others: MappingProxyType[str, int]
    calls: int
    target_tv: float


def _profile(headline: tuple[int, ...], others: tuple[int, ...], calls: int, target_tv: float) -> Profile:
    by_class = [MappingProxyType(dict(zip(SIZES, rows, strict=True))) for rows in (headline, others)]
    return Profile(by_class[0], by_class[1], calls, target_tv)


PROFILES = MappingProxyType(
    {
        "quick": _profile((640_000, 200_000, 224_000, 25_000), (100_000, 100_000, 40_000, 8_000), 5_000, 0.10),
        "ci": _profile((2_400_000, 2_400_000, 900_000, 100_000), (400_000, 400_000, 200_000, 40_000), 20_000, 0.05),
        "release": _profile(
            (10_000_000, 10_000_000, 3_600_000, 400_000), (2_000_000, 2_000_000, 800_000, 160_000), 100_000, 0.02
        ),
    }
)
"""The profiles by name."""

_LEAD = MappingProxyType({"tiny": 16.0, "small": 16.0, "middle": 4.0, "large": 1.0, "aside": 1e6})


@dataclass(frozen=True)
class Planned:
    """One case of the schedule.

    Attributes:
        case: The case as defined, before rounding.
        size_class: A key of SIZES, "stage" for the independence stage, or "aside" for a case that is run at the first
            look and does not count towards what would have been caught.
        rows: Rows planned.
        batch: Largest number of rows in one call.
        headline: Whether it carries the detectable total variation of its size class.
    """

    case: Case
    size_class: str
    rows: int
    batch: int
    headline: bool

    def rows_at(self, look: int) -> int:
        """Give the rows due at a look, counted from 0."""
        share = min(1.0, look_fractions()[look] * _LEAD[self.size_class])
        return min(self.rows, math.ceil(self.rows * share))


class _Offered(NamedTuple):
    """The cases of one form of sampler, those that tell most, the headlines by size class, and one for small calls."""

    cases: tuple[Case, ...]
    telling: tuple[str, ...]
    headlines: Mapping[str, str]
    witness: str


def look_fractions() -> tuple[float, ...]:
    """Give the progress of the large cases at each look; it grows by a factor of 1.6 up to 1.

    Example:
        >>> len(look_fractions()), look_fractions()[-1]
        (12, 1.0)
    """
    return tuple(GROWTH ** (look + 1 - LOOKS) for look in range(LOOKS))


def schedule(
    verifier: Verifier, profile: str, samples: int | None = None, cases: Sequence[Case] | None = None
) -> list[Planned]:
    """Plan the rows of every case for a sampler.

    Args:
        verifier: The sampler.
        profile: "quick", "ci" or "release".
        samples: Rows of every case, instead of those of the profile.
        cases: What is run in place of the menu.

    Returns:
        The cases in the order of the menu, or as given.

    Raises:
        ConfigError: The profile is unknown, samples is not positive, or a case is not one for this sampler.

    Example:
        >>> one = Verifier(print, "one", frozenset({"draft_tokens"}), max_batch=1)
        >>> sum(planned.rows for planned in schedule(one, "quick"))
        50000
    """
    if not isinstance(profile, str) or profile not in PROFILES:
        close = did_you_mean(str(profile), PROFILES)
        raise ConfigError(f"expected a profile of {', '.join(PROFILES)}, got {profile!r}{close}")
    if samples is not None and (isinstance(samples, bool) or not isinstance(samples, int) or samples < 1):
        raise ConfigError(f"expected samples to be an integer of at least 1, got {samples!r}")
    planned = _planned if cases is None else partial(_given, cases)
    return list(planned(verifier, PROFILES[profile], samples))


def _planned(verifier: Verifier, profile: Profile, samples: int | None) -> Iterator[Planned]:
    few = verifier.max_batch is not None and verifier.max_batch < FEW_BATCH
    offered = _offered(verifier)
    for case in offered.cases:
        if (few and case.name not in offered.telling) or (
            case.ragged and ("num_draft_tokens" not in verifier.asks or verifier.drafts)
        ):
            continue
        size_class = _size_class(case.vocab_size)
        headline = offered.headlines.get(size_class) == case.name
        batch = _batch(verifier, case)
        rows = (profile.headline if headline else profile.others)[size_class] // _nodes(case)
        rows = samples or min(rows, profile.calls * (verifier.max_batch or rows))
        rows = min(rows, _resolution(verifier, case))
        yield Planned(case, size_class, rows, batch, headline)
    yield from _small_calls(verifier, profile, samples, next(c for c in offered.cases if c.name == offered.witness))


def _given(cases: Sequence[Case], verifier: Verifier, profile: Profile, samples: int | None) -> Iterator[Planned]:
    """Plan the cases of the caller, each of which then states its own detectable total variation."""
    for case in given_cases(cases, verifier):
        size_class = _size_class(case.vocab_size)
        rows = min(samples or profile.others[size_class], _resolution(verifier, case))
        yield Planned(case, size_class, rows, _batch(verifier, case), True)


def given_cases(cases: object, verifier: Verifier) -> list[Case]:
    """List the cases of the caller.

    Raises:
        ConfigError: They are no cases, not for this sampler, or two of them have one name.
    """
    found, names = _listed(cases), set()
    for case in found:
        _require_fit(case, verifier)
        if case.name in names:
            raise ConfigError(f"expected cases of different names, got {brief(case.name)} twice; rename one")
        names.add(case.name)
    return found


def _listed(cases: object) -> list[Case]:
    found = list(cases) if isinstance(cases, Iterable) else []
    if not found or not all(isinstance(case, Case) for case in found):
        raise ConfigError(f"expected cases to be a list of Case objects, got {brief(cases)}; see specverify.Case")
    return found


def _require_fit(case: Case, verifier: Verifier) -> None:
    if (case.loop is not None) != verifier.loops:
        wanted, got = ("a loop", "rows") if verifier.loops else ("rows", "a loop")
        raise ConfigError(
            f"expected a case of {wanted} for the {verifier.kind} {brief(verifier.name)}, got {brief(case.name)} with "
            f"{got}; build it by Case.{'from_loop' if verifier.loops else 'from_rows or Case.from_table'}"
        )
    if case.loop is not None:
        _require_loop_fit(case, case.loop, verifier)
    if (case.tree is not None) != verifier.tree:
        wanted, got = ("a tree", "one draft per position") if verifier.tree else ("one draft per position", "a tree")
        raise ConfigError(f"expected a case of {wanted} for {brief(verifier.name)}, got {brief(case.name)} with {got}")
    if case.ragged and ("num_draft_tokens" not in verifier.asks or verifier.drafts):
        raise ConfigError(
            f"expected a case that is not ragged, got {brief(case.name)}: {brief(verifier.name)} takes drafts of one "
            f"length only; ask for num_draft_tokens"
        )


def _require_loop_fit(case: Case, loop: Loop, verifier: Verifier) -> None:
    missing = sorted(loop.sampling.set_names - verifier.asks)
    if missing:
        raise ConfigError(
            f"expected cases that {brief(verifier.name)} can follow, got {brief(case.name)}, which sets {missing[0]}; "
            f"ask for {missing[0]}, or leave the case out"
        )
    if loop.mate and verifier.max_batch == 1:
        raise ConfigError(
            f"expected cases of one sequence for {brief(verifier.name)}, got {brief(case.name)} with batch mates; "
            f"leave it out, or declare a larger max_batch"
        )


def _tree_modes(verifier: Verifier) -> tuple[str, ...]:
    """Give the ways in which the siblings of a tree may be drawn for a verifier.

    Siblings drawn with replacement may be equal, which only a verifier that is told their law can score. Laws without
    the earlier siblings are rounded again, which shows in 16 bits.
    """
    told = not verifier.asks.isdisjoint({"draft_probs", "draft_logits"})
    unfit = set() if told and verifier.rule != "target_only" else {"with_replacement"}
    if told and verifier.dtype in ("bfloat16", "float16"):
        unfit.add("without_replacement")
    return tuple(mode for mode in TREE_MODES if mode not in unfit)


def _offered(verifier: Verifier) -> _Offered:
    if not verifier.tree:
        return _Offered(menu(), TELLING, HEADLINES, HEADLINES["tiny"])
    modes = _tree_modes(verifier)
    endings = [mode.replace("_", "-") for mode in modes]
    telling = tuple(f"{name}-{ending}" for name in TREE_TELLING for ending in endings)
    headlines = {"tiny": f"{TREE_HEADLINE}-{endings[0]}"}
    return _Offered(tree_menu(modes), telling, headlines, f"{TREE_WITNESS}-{endings[0]}")


def _nodes(case: Case) -> int:
    """Give by how much dearer a row of a tree is than one of a single draft."""
    return 1 if case.tree is None else case.tree.nodes


def _small_calls(verifier: Verifier, profile: Profile, samples: int | None, witness: Case) -> Iterator[Planned]:
    """Plan the witness table again in calls of one row and of a few.

    Faults tied to a batch size, or to the first or last row of a call, drown in large calls.
    """
    for batch in SMALL_CALLS:
        if verifier.max_batch is None or verifier.max_batch > batch:
            case = replace(witness, name=f"{witness.name}-calls-of-{batch}")
            rows = min(samples or batch * profile.calls, _resolution(verifier, case))
            yield Planned(case, "tiny", rows, batch, False)


def _size_class(vocab_size: int) -> str:
    return next(name for name, largest in SIZES.items() if vocab_size <= largest)


def _batch(verifier: Verifier, case: Case) -> int:
    drafted = case.num_draft_tokens if case.tree is None else case.tree.nodes
    per_row = (2 * drafted + 1) * case.vocab_size
    fitting = max(1, MAX_ELEMENTS // per_row)
    return min(fitting, MAX_BATCH, verifier.max_batch or MAX_BATCH)


def _resolution(verifier: Verifier, case: Case) -> int:
    """Rows beyond which the error that the tolerance class forgives would itself be seen."""
    forgiven = allowance(verifier.tolerance, case.vocab_size)
    return max(1, int(1 / (4 * forgiven**2)))
