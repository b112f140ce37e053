"""Verification of whole batches of trees on given uniforms, in NumPy: the tree rules again, fast.

All rows share one tree. Nodes are visited in their order, which puts parents before children and siblings in the order
of their tests: each row stands at one node, and what is visited there is its next child. Inputs are never written.
"""

from collections.abc import Sequence

import numpy as np

from .draw import NONE, Doubles, Floats, Ints, Weights, draw
from .trees import children

__all__ = ["verify_rrs", "verify_target_only"]


def verify_rrs(
    parents: Sequence[int] | Ints,
    draft_tokens: Ints,
    draft_probs: Floats,
    target_probs: Floats,
    accept: Floats,
    final: Floats,
) -> Ints:
    """Verify every row by the rule ``rrs``: node i is accepted where ``accept[:, i] * s[x] < t[x]``.

    Args:
        parents: N integers, the parent of each node: an earlier node, or -1 for the root.
        draft_tokens: int [B, N], in [0, V), or -1 where a node does not exist.
        draft_probs: float [B, N, V], the law s of each node given its earlier siblings; zeros where it does not exist.
        target_probs: float [B, N + 1, V], row 0 at the root and row i + 1 after node i.
        accept: float [B, N], uniforms in [0, 1); one per node.
        final: float [B], uniforms in [0, 1); one per row, for the emitted token.

    Returns:
        tokens int64 [B, depth + 1]: the accepted path, the token after it, then -1.

    Raises:
        ValueError: The shapes do not fit, a parent, token or uniform is out of range, or nothing can be drawn.

    >>> q, p = np.array([[[0.8, 0.2]] * 2]), np.array([[[0.6, 0.4]] * 3])
    >>> verify_rrs([-1, -1], np.array([[0, 1]]), q, p, np.array([[0.8, 0.9]]), np.array([0.5]))
    array([[1, 0]])
    """
    walk = _Walk(parents, draft_tokens, target_probs, accept, final)
    if draft_probs.shape != (*draft_tokens.shape, target_probs.shape[-1]):
        raise ValueError(f"expected draft_probs for {draft_tokens.shape} nodes, got {draft_probs.shape}: align them")
    left = target_probs[:, 0].astype(np.float64)
    for node in range(len(walk.parents)):
        rows, x = walk.tested(node)
        if not len(rows):
            continue
        s = draft_probs[rows, node].astype(np.float64)
        passed = accept[rows, node] * s[np.arange(len(rows)), x] < left[rows, x]
        taken, refused = rows[passed], rows[~passed]
        walk.take(node, taken)
        left[taken] = target_probs[taken, node + 1]
        rest = np.maximum(left[refused] - s[~passed], 0)
        owed = rest.sum(axis=1)
        left[refused[owed > 0]] = rest[owed > 0] / owed[owed > 0, None]
    return walk.ended(left)


def verify_target_only(
    parents: Sequence[int] | Ints, draft_tokens: Ints, target_probs: Floats, accept: Floats, final: Floats
) -> Ints:
    """Verify every row by the rule ``target_only``, with ``accept[:, i]`` of a level's first node i as its one coin.

    Arguments, results and errors are those of ``verify_rrs``; siblings must be distinct.

    >>> p = np.array([[[0.5, 0.3, 0.2]] * 3])
    >>> verify_target_only([-1, -1], np.array([[0, 1]]), p, np.array([[0.7, 0.0]]), np.array([0.5]))
    array([[1, 1]])
    """
    walk = _Walk(parents, draft_tokens, target_probs, accept, final)
    left, summed = target_probs[:, 0].astype(np.float64), np.zeros(len(final))
    for node, parent in enumerate(walk.parents):
        rows, x = walk.tested(node)
        if not len(rows):
            continue
        summed[rows] += target_probs[rows, parent + 1, x]
        passed = accept[rows, children(walk.parents, parent)[0]] < summed[rows]
        taken, refused = rows[passed], rows[~passed]
        walk.take(node, taken)
        summed[taken] = 0
        left[taken] = target_probs[taken, node + 1]
        left[refused, x[~passed]] = 0
    empty = np.flatnonzero(left.max(axis=1) == 0)  # the siblings cover the target, up to rounding
    left[empty] = target_probs[empty, walk.at[empty] + 1]
    return walk.ended(left)


class _Walk:
    """Where each row stands in the tree, and what it has accepted on the way."""

    def __init__(
        self, parents: Sequence[int] | Ints, draft_tokens: Ints, target_probs: Floats, accept: Floats, final: Floats
    ) -> None:
        size, nodes = draft_tokens.shape
        shapes = [(len(parents),), target_probs.shape[:2], accept.shape, final.shape]
        due = [(nodes,), (size, nodes + 1), (size, nodes), (size,)]
        if shapes != due:
            raise ValueError(f"expected shapes {due} for draft_tokens {(size, nodes)}, got {shapes}: align them")
        self.parents = [int(parent) for parent in parents]
        self._depth = np.zeros(nodes + 1, np.int64)  # the root's comes last, where -1 finds it
        for node, parent in enumerate(self.parents):
            if not -1 <= parent < node:
                raise ValueError(
                    f"expected the parent of node {node} in -1 .. {node - 1}, got {parent}: sort the nodes"
                )
            self._depth[node] = self._depth[parent] + 1
        _demand("draft_tokens", draft_tokens, -1, target_probs.shape[-1])
        _demand("accept", accept, 0, 1)
        _demand("final", final, 0, 1)
        self._tokens, self._final = draft_tokens, final
        self.at = np.full(size, -1, np.int64)
        self._path = np.full((size, int(self._depth.max()) + 1), -1, np.int64)

    def tested(self, node: int) -> tuple[Ints, Ints]:
        """Return the rows that test a node, and its token in each of them."""
        rows = np.flatnonzero((self.at == self.parents[node]) & (self._tokens[:, node] >= 0))
        return rows, self._tokens[rows, node]

    def take(self, node: int, rows: Ints) -> None:
        """Let rows accept a node."""
        self.at[rows] = node
        self._path[rows, self._depth[node] - 1] = self._tokens[rows, node]

    def ended(self, left: Doubles) -> Ints:
        """Return the paths, each with a token drawn from what is left [B, V] after it."""
        rows = np.arange(len(left))
        bits = np.ldexp(self._final.astype(np.float64), 64).astype(np.uint64)
        last = draw(Weights(left[:, None], None, rows, np.zeros(len(left), np.int64), None), bits)
        if (last == NONE).any():
            row = int((last == NONE).argmax())
            raise ValueError(f"expected a target row with mass in row {row}, got zeros: pass probabilities")
        self._path[rows, self._depth[self.at]] = last
        return self._path


def _demand(what: str, values: Floats | Ints, least: int, end: int) -> None:
    outside = ~((values >= least) & (values < end))
    if outside.any():
        row = int(np.argwhere(outside)[0][0])
        raise ValueError(f"expected {what} in [{least}, {end}), got a value outside it in row {row}: correct it")
