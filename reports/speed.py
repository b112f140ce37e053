"""Acceptance is told as what it is: how fast a sampler can be, over tested drafts, and no proof of anything else."""

from collections.abc import Iterator
from typing import Final

from .claims import Document

__all__ = ["NOT_FASTER", "headroom", "sentences"]

NOT_FASTER: Final = (
    "An acceptance rate of 80% is not 80% faster: with 4 drafted tokens at a constant rate of 80%, drafts that cost "
    "0.05 of a target step each make a speed-up of 2.80, drafts that cost 0.5 one of 1.12."
)
"""The sentence that every view prints beside an acceptance rate."""

_NAMES: Final = {
    "one_hot": "one-hot draft",
    "full_joint": "bound for every lossless rule with these drafts",
    "one_draft": "bound at one position, one draft",
    "two_drafts": "bound at one position, two independent drafts",
}
_BOUNDS: Final = ("full_joint", "one_draft", "two_drafts")


def sentences(document: Document) -> list[str]:
    """Say what the acceptance of a report means, what is wrong with the sampler first.

    Args:
        document: a report document with an acceptance.

    Returns:
        sentences, each complete by itself.
    """
    found = document["acceptance"]
    tested, accepted, tokens = found["tested"], found["accepted"], found["expected_tokens_per_call"]
    saved = max(0.0, 1 - 1 / tokens) if tokens else 0.0
    return [
        *_reservations(document),
        f"Of the drafted tokens that were tested, {accepted / tested:.1%} were accepted ({accepted:,} of {tested:,}); "
        f"drafts after a rejection were never tested and do not count. The token rule would accept "
        f"{found['mean_overlap']:.1%} of the same.",
        f"A call of the target gives {tokens:.2f} tokens in the mean, replacement or bonus included, where plain "
        f"decoding gives 1: {saved:.0%} of the target's calls are saved, before the drafts are paid for.",
        NOT_FASTER,
    ]


def _reservations(document: Document) -> Iterator[str]:
    """Say that speed means nothing for a wrong sampler, and little for one that is not known to be right."""
    if document["lossless"] is False:
        yield "This sampler failed losslessness: its output is wrong, so these numbers are no speed."
    elif document["lossless"] is None:
        yield "Whether this sampler is lossless was not decided; if it is not, these numbers are no speed."
    if document["rule"]["conforms"] is False and document["lossless"] is not False:
        yield f"It does not follow the rule that it declares ({document['rule']['declared']})."


def headroom(acceptance: Document) -> list[tuple[str, float]]:
    """List what was seen on the headroom case, what each rule reaches there, and what nothing exceeds.

    Args:
        acceptance: the acceptance of a report document.

    Returns:
        name and tokens per call; empty where the report lacks them.

    >>> headroom({"headroom": {"token": 2.23}, "headroom_observed": 2.2})
    [('this sampler, observed', 2.2), ('token rule', 2.23)]
    """
    rules = [(_NAMES.get(name, f"{name} rule"), value) for name, value in acceptance.get("headroom", {}).items()]
    seen = acceptance.get("headroom_observed")
    known = acceptance.get("headroom_bounds", {})
    bounds = [(_NAMES[name], known[name]) for name in _BOUNDS if name in known]  # a later version may add others
    return [("this sampler, observed", seen), *rules, *bounds] if rules and seen is not None else [*rules, *bounds]
