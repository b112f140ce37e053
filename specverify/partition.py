"""A partition cuts the vocabulary into cells whose probabilities follow exactly from p and q.

For most faults the wrong law over the right one depends on p/q only, so a few cells ordered by that ratio keep nearly
all of the evidence and the vocabulary size drops out of the number of samples needed. Cells by p find wrong
temperatures and lost tails, cells by token id find inverse-distribution faults. Partitions are fixed from (p, q) before
any sample is seen. Products of cells (pairs, blocks, whole outcomes) are formed by the modules views and lumping.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specverify.arrays import BoolArray, FloatArray, IntArray

__all__ = ["Partition", "identity", "index", "mass", "ratio", "ties"]

TAIL_MASSES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


@dataclass(frozen=True)
class Partition:
    """Cells of a vocabulary.

    Attributes:
        table: int64 [V], the cell of each token.
        probs: float64 [K], probability of each cell under the law that the partition was made for.
        labels: What each cell holds, for people.
    """

    table: IntArray
    probs: FloatArray
    labels: tuple[str, ...]

    def sums(self, law: FloatArray) -> FloatArray:
        """Give the probability of every cell under another law: float64 [V] to float64 [K]."""
        return _summed(self.table, law, len(self.probs))


def identity(law: FloatArray) -> Partition:
    """Make one cell per token.

    Example:
        >>> identity(np.array([0.6, 0.4])).labels
        ('token 0', 'token 1')
    """
    return Partition(
        np.arange(len(law)), np.asarray(law, dtype=np.float64), tuple(f"token {token}" for token in range(len(law)))
    )


def ties(target: FloatArray, draft: FloatArray, tau: float) -> BoolArray:
    """Mark tokens whose p and q agree to within the relative tolerance ``tau``, where rounding decides acceptance."""
    return np.asarray((np.abs(target - draft) <= tau * draft) & (draft > 0))


def ratio(target: FloatArray, draft: FloatArray, cells: int, tau: float = 1e-12) -> Partition:
    """Make about ``cells`` cells of tokens with like ratio p/q, none of them holding tokens on both sides of 1.

    Because no cell straddles p = q, sums of min(p, q) and of the residual (p - q)+ over a cell are those of the sums of
    p and q: the token rule on cells is exactly the token rule on tokens, seen through the cells. Tokens tied within
    ``tau`` have a cell of their own.

    Args:
        target: float64 [V], p.
        draft: float64 [V], q.
        cells: Number of cells aimed at, 2 or more.
        tau: Relative tolerance of a tie.

    Returns:
        The partition, with probabilities under p. Tokens that neither p nor q can give are in the cell of p < q.

    Example:
        >>> ratio(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6]), 4).table.tolist()
        [2, 1, 0]
    """
    tied = ties(target, draft, tau)
    groups = [
        (np.flatnonzero(~tied & (target < draft) | (target + draft == 0)), draft, "p < q"),
        (np.flatnonzero(tied), target, "p = q"),
        (np.flatnonzero(~tied & (target > draft)), target, "p > q"),
    ]
    table = np.zeros(len(target), dtype=np.int64)
    labels: list[str] = []
    for tokens, weight, name in groups:
        if len(tokens):
            share = 1 if name == "p = q" else max(1, cells // 2)
            with np.errstate(divide="ignore", invalid="ignore"):
                order = tokens[np.argsort(np.nan_to_num(target[tokens] / draft[tokens], posinf=np.inf), kind="stable")]
            slices = _equal_mass(weight[order], share)
            table[order] = len(labels) + slices
            labels += [f"{name}, ratio group {group + 1}" for group in range(int(slices[-1]) + 1)]
    return _made(table, target, labels)


def mass(target: FloatArray, cells: int) -> Partition:
    """Make cells of equal probability ordered by p, and tail cells of the rarest tokens from 1e-2 down to 1e-6.

    Example:
        >>> len(mass(np.full(64, 1 / 64), 8).probs)
        8
    """
    order = np.argsort(target, kind="stable")
    below = np.cumsum(target[order])
    tail = np.searchsorted(-np.array(TAIL_MASSES), -below, side="left")  # 5 for the rarest, 0 for the bulk
    bulk = tail == 0
    slices = np.empty(len(order), dtype=np.int64)
    slices[~bulk] = len(TAIL_MASSES) - tail[~bulk]
    slices[bulk] = len(TAIL_MASSES) + _equal_mass(target[order][bulk], cells) if bulk.any() else 0
    used, compact = np.unique(slices, return_inverse=True)
    table = np.empty(len(order), dtype=np.int64)
    table[order] = compact
    labels = [f"rarest {TAIL_MASSES[-1 - s]:g}" if s < len(TAIL_MASSES) else f"p rank group {s}" for s in used.tolist()]
    return _made(table, target, labels)


def index(target: FloatArray, cells: int) -> Partition:
    """Make cells of equal probability in the order of token ids, the last possible token in a cell of its own.

    Example:
        >>> index(np.full(8, 1 / 8), 2).table.tolist()
        [0, 0, 0, 0, 1, 1, 1, 2]
    """
    table = _equal_mass(target, cells)
    last = len(target) - 1 - int(np.argmax(target[::-1] > 0))
    table[last:] = table[last - 1] + 1 if last else 0
    firsts = [int(np.argmax(table == cell)) for cell in range(int(table[-1]) + 1)]
    return _made(table, target, [f"ids from {first}" for first in firsts])


def _equal_mass(weights: FloatArray, cells: int) -> IntArray:
    """Cut ordered weights into at most ``cells`` runs of about equal sum; run numbers are consecutive from 0."""
    total = float(weights.sum())
    if total <= 0:
        return np.zeros(len(weights), dtype=np.int64)
    middle = np.cumsum(weights) - weights / 2
    raw = np.minimum((middle / total * cells).astype(np.int64), cells - 1)
    return np.asarray(np.unique(raw, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def _made(table: IntArray, law: FloatArray, labels: list[str]) -> Partition:
    return Partition(table, _summed(table, law, len(labels)), tuple(labels))


def _summed(table: IntArray, law: FloatArray, cells: int) -> FloatArray:
    return np.asarray(np.bincount(table, weights=law, minlength=cells), dtype=np.float64)
