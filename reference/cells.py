"""A vectorised kernel is proved equal to a rule on a table by running it inside every cell of the uniforms' cube.

The exact tape cuts the cube of uniforms into boxes with one output each. A kernel that decides every coordinate by a
threshold, and agrees near both ends and in the middle of every box, has each threshold right to within ``delta``: a
proof for that table, with total variation at most (number of thresholds) * delta. It says nothing of other tables.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np

from .draw import Doubles, Ints
from .law import Model, target_law
from .rules import Row, Rule, Verified
from .tape import Branch, Name, Tape, branches

__all__ = ["CellPoints", "CellProof", "Kernel", "cell_points", "cell_proof"]

Kernel: TypeAlias = Callable[[Ints, Doubles, Doubles, Doubles, Doubles], tuple[Ints, Ints]]


class CellPoints(NamedTuple):
    """Uniforms inside every cell of one draft, with the rule's output there (next_token -1: none)."""

    cells: int
    accept: Doubles
    final: Doubles
    num_accepted: Ints
    next_token: Ints


class CellProof(NamedTuple):
    """How many cells and points were compared, and at how many points the kernel disagrees: 0 is a proof."""

    cells: int
    points: int
    disagreements: int


def cell_points(
    rule: Rule,
    draft_tokens: Sequence[int],
    draft_probs: Sequence[Row],
    target_probs: Sequence[Row],
    *,
    delta: float = 1e-6,
) -> CellPoints:
    """Return 3^(G + 1) points of every cell of a rule on one draft of G tokens.

    Args:
        rule: a rule that reads the uniforms ("accept", i) and ("final",).
        draft_tokens: G token ids.
        draft_probs: G rows of V numbers, Fractions for exact cells.
        target_probs: G + 1 rows of V numbers.
        delta: distance of the outer points from the ends of the cell (a quarter of the cell if that is less).

    >>> from specverify.reference import token
    >>> points = cell_points(token, [0], [[0.8, 0.2]], [[0.6, 0.4], [0.6, 0.4]])
    >>> points.cells, points.accept.shape
    (3, (27, 1))
    """
    names: list[Name] = [*(("accept", i) for i in range(len(draft_tokens))), ("final",)]

    def run(tape: Tape) -> Verified:
        return rule(tape, draft_tokens, draft_probs, target_probs)

    cells = list(branches(run))
    uniforms = np.array([point for cell in cells for point in _inside(cell, names, delta)], np.float64)
    outputs = np.array([(n, -1 if token is None else token) for _, (n, token), _ in cells], np.int64)
    num_accepted, next_token = np.repeat(outputs, 3 ** len(names), axis=0).T
    return CellPoints(len(cells), uniforms[:, :-1], uniforms[:, -1], num_accepted, next_token)


def _inside(cell: Branch[Verified], names: Sequence[Name], delta: float) -> Iterator[tuple[float, ...]]:
    sides = [tuple(map(float, cell.box.get(name, (0, 1)))) for name in names]
    steps = [min(delta, (hi - lo) / 4) for lo, hi in sides]
    return product(*((lo + step, (lo + hi) / 2, hi - step) for (lo, hi), step in zip(sides, steps, strict=True)))


def cell_proof(
    rule: Rule, kernel: Kernel, target: Model, draft: Model, num_draft_tokens: int, *, delta: float = 1e-6
) -> CellProof:
    """Compare a kernel with a rule in every cell of every draft of positive probability, in one batch.

    ``kernel`` takes draft_tokens [N, G], draft_probs [N, G, V], target_probs [N, G + 1, V], accept [N, G] and final
    [N], and returns num_accepted [N] and next_token [N]. Use a delta of 1e-5 for kernels that work in float32.

    >>> from specverify.reference import token, verify_token
    >>> cell_proof(token, verify_token, lambda prefix: (0.6, 0.4), lambda prefix: (0.8, 0.2), 1)
    CellProof(cells=5, points=45, disagreements=0)
    """
    drafts = list(target_law(draft, num_draft_tokens))
    rows = [
        ([draft(x[:i]) for i in range(num_draft_tokens)], [target(x[:i]) for i in range(num_draft_tokens + 1)])
        for x in drafts
    ]
    points = [cell_points(rule, x, q, p, delta=delta) for x, (q, p) in zip(drafts, rows, strict=True)]
    repeats = [len(part.final) for part in points]
    p_rows = np.array([p for _, p in rows], np.float64)
    q_rows = np.array([q for q, _ in rows], np.float64).reshape(len(drafts), num_draft_tokens, p_rows.shape[-1])
    tokens = np.array(drafts, np.int64).reshape(len(drafts), num_draft_tokens)
    num_accepted, next_token = kernel(
        np.repeat(tokens, repeats, axis=0),
        np.repeat(q_rows, repeats, axis=0),
        np.repeat(p_rows, repeats, axis=0),
        np.concatenate([part.accept for part in points]),
        np.concatenate([part.final for part in points]),
    )
    wrong = num_accepted != np.concatenate([part.num_accepted for part in points])
    wrong |= next_token != np.concatenate([part.next_token for part in points])
    return CellProof(sum(part.cells for part in points), len(wrong), int(wrong.sum()))
