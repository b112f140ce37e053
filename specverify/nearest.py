"""A name that is not known is answered with the nearest names that are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

__all__ = ["did_you_mean", "nearest"]

CLOSE = 0.5


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """Order ``names`` by likeness to ``word``, most alike first.

    Example:
        >>> nearest("target_prob", ["seed", "draft_probs", "target_probs"])
        ['target_probs', 'draft_probs', 'seed']
    """
    return sorted(names, key=lambda name: -_likeness(word, name))


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Give ``"; did you mean 'x'?"`` for the nearest name, or nothing when none is close.

    Example:
        >>> did_you_mean("refrence", ["reference", "transformers"])
        "; did you mean 'reference'?"
        >>> did_you_mean("zzz", ["reference"])
        ''
    """
    close = [name for name in nearest(word, names) if _likeness(word, name) >= CLOSE]
    return f"; did you mean {close[0]!r}?" if close else ""


def _likeness(word: str, name: str) -> float:
    return SequenceMatcher(None, word.lower(), name.lower()).ratio()
