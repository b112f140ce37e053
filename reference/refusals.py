"""What the kernels of one draft per position refuse, in the same words whatever their arrays are made of."""

from typing import Any

__all__ = [
    "EMPTY",
    "FINE",
    "LENGTH",
    "TOKEN",
    "UNFIT",
    "demand_shapes",
    "demand_verified",
    "no_mass",
    "outside",
    "seed_outside",
    "unfit",
]

FINE, LENGTH, TOKEN, UNFIT, EMPTY = range(5)
"""What compiled kernels, which cannot raise, say of a row."""


def demand_shapes(
    draft_tokens: Any, draft_probs: Any, target_probs: Any, accept: Any, final: Any, lengths: Any
) -> tuple[int, int, int]:
    """Return B, G and V, or raise a ValueError unless the shapes of the arguments fit together."""
    size, gamma = draft_tokens.shape
    vocab = target_probs.shape[-1]
    shapes = [tuple(a.shape) for a in (draft_probs, target_probs, accept, final, lengths)]
    due = [(size, gamma, vocab), (size, gamma + 1, vocab), (size, gamma), (size,), (size,)]
    if shapes != due:
        raise ValueError(f"expected shapes {due} for draft_tokens {(size, gamma)}, got {shapes}: align the arguments")
    return size, gamma, vocab


def outside(what: str, domain: str, row: int) -> ValueError:
    """Return the error for an argument that is out of its domain in a row."""
    return ValueError(f"expected {what} in {domain}, got a value outside it in row {row}: correct the argument")


def unfit(row: int) -> ValueError:
    """Return the error for weights of a row that sums of int64 cannot hold."""
    return ValueError(f"expected weights >= 0 of sum below 2 in row {row}, got others or NaN: pass probabilities")


def no_mass(row: int) -> ValueError:
    """Return the error for a target row without a token to give."""
    return ValueError(f"expected a target row with mass to draw from in row {row}, got zeros: pass probabilities")


def seed_outside(what: str, value: int) -> ValueError:
    """Return the error for a seed or a trial that is no number of 64 bits."""
    return ValueError(f"expected {what} in 0 .. 2**64 - 1, got {value}: take smaller numbers, none below 0")


def demand_verified(fault: int, row: int, gamma: int, vocab: int) -> None:
    """Raise the ValueError for what a compiled kernel says of a row, unless that is FINE."""
    if fault != FINE:
        raise {
            LENGTH: outside("num_draft_tokens", f"0 .. {gamma}", row),
            TOKEN: outside("draft_tokens", f"[0, {vocab})", row),
            UNFIT: unfit(row),
            EMPTY: no_mass(row),
        }[fault]
