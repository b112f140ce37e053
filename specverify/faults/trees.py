"""Faults of several drafts per position: each is an edit of a tree rule, with its exact law and a fast sampler.

``TREE_FAULT_RULES`` stand in the place of a correct tree rule on trees that the kit draws. ``TREE_ROUNDS`` play whole
rounds of those that lie in the drafting, where siblings are chosen, or scored with a law that they were not drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.contract import Verifier, verifier
from specverify.faults.edits import Array, acceptance, as_array, normalised, residual
from specverify.faults.kernels import draw
from specverify.reference import (
    LazyUniform,
    Model,
    Name,
    Row,
    Tape,
    TreeRule,
    TreeVerified,
    children,
    choose,
    flip,
    rrs,
    sibling_law,
    target_only,
    token,
    verify_rrs,
    verify_target_only,
)
from specverify.tree import Tree

__all__ = ["TREE_FAULT_RULES", "TREE_ROUNDS", "TreeRound", "tree_fault_sampler", "verify_tree_fault"]

Rows: TypeAlias = Sequence[Row]
TreeRound: TypeAlias = Callable[[Tape, Model, Model], tuple[int, ...]]


def _kept(p: Array, left: Array, s: Array) -> Array:  # noqa: ARG001
    return p


def _residual(p: Array, left: Array, s: Array) -> Array:  # noqa: ARG001
    return normalised(residual(left, s))


def _raw(p: Array, left: Array, s: Array) -> Array:  # noqa: ARG001
    return np.asarray(np.maximum(left - s, 0))


def _last(p: Array, left: Array, s: Array, tried: Array) -> Array:  # noqa: ARG001
    return np.where(left.sum(axis=-1, keepdims=True) > 0, left, p)


def _from_target(p: Array, left: Array, s: Array, tried: Array) -> Array:  # noqa: ARG001
    return p


def _first_residual(p: Array, left: Array, s: Array, tried: Array) -> Array:  # noqa: ARG001
    return residual(p, s)


def _kseq(p: Array, left: Array, s: Array, tried: Array) -> Array:  # noqa: ARG001
    """Give what K-SEQ with rho = 1 owes after all siblings, p - min(q, p) (1 - (1 - b)^k) / b, clipped at 0."""
    shared = np.minimum(p, s)
    b = shared.sum(axis=-1, keepdims=True)
    every = np.where(b > 0, (1 - (1 - b) ** tried[..., None]) / np.where(b > 0, b, 1), 0)
    rest = np.maximum(p - shared * every, 0)
    return np.where(rest.sum(axis=-1, keepdims=True) > 0, rest, p)


@dataclass(frozen=True)
class _LevelEdit:
    """The recursive rule with what one level does after rejections replaced; all functions work on rows [..., V].

    Attributes:
        left: From p, the row that the sibling was tested against, and its law, to the row of the next test.
        last: From p, the row left after the last sibling, its law and how many were tried, to the weights of the draw.
    """

    left: Callable[[Array, Array, Array], Array]
    last: Callable[[Array, Array, Array, Array], Array]


_LEVELS = {
    "M02": _LevelEdit(_raw, _last),
    "M03": _LevelEdit(_kept, _first_residual),
    "M04": _LevelEdit(_residual, _from_target),
    "M09": _LevelEdit(_kept, _kseq),
}


def _edited(
    edit: _LevelEdit, tape: Tape, parents: Sequence[int], tokens: Sequence[int], draft_probs: Rows, target_probs: Rows
) -> TreeVerified:
    path: tuple[int, ...] = ()
    while True:
        node = path[-1] if path else -1
        p = weights = left = as_array(target_probs[node + 1])
        level = [child for child in children(parents, node) if tokens[child] >= 0]
        for tried, child in enumerate(level, start=1):
            s = as_array(draft_probs[child])
            if flip(tape, ("accept", child), acceptance(left, s).tolist()[tokens[child]]):
                path += (child,)
                break
            left = edit.left(p, left, s)
            weights = edit.last(p, left, s, np.array(tried))
        else:
            return path, choose(tape, ("final",), weights.tolist())


def _edited_kernel(
    edit: _LevelEdit,
    parents: Sequence[int] | IntArray,
    draft_tokens: IntArray,
    draft_probs: FloatArray,
    target_probs: FloatArray,
    accept: FloatArray,
    final: FloatArray,
) -> IntArray:
    rows = np.arange(len(final))
    at, depth = np.full(len(final), -1), np.zeros(len(final), dtype=np.int64)
    tried = np.zeros(len(final), dtype=np.int64)
    emitted = np.full((len(final), len(parents) + 1), -1)
    p, left = target_probs[:, 0].copy(), target_probs[:, 0].copy()
    law = np.zeros_like(p)
    for node, parent in enumerate(parents):
        here = np.flatnonzero((at == parent) & (draft_tokens[:, node] >= 0))
        x, s = draft_tokens[here, node], draft_probs[here, node]
        passed = accept[here, node] < acceptance(left[here], s)[np.arange(len(here)), x]
        taken, refused = here[passed], here[~passed]
        emitted[taken, depth[taken]] = x[passed]
        at[taken], tried[taken] = node, 0
        depth[taken] += 1
        p[taken] = left[taken] = target_probs[taken, node + 1]
        left[refused] = edit.left(p[refused], left[refused], s[~passed])
        law[refused] = s[~passed]
        tried[refused] += 1
    weights = np.where(tried[:, None] > 0, edit.last(p, left, law, tried), p)
    emitted[rows, depth] = draw(weights, final)
    return emitted[:, : Tree(tuple(parents), "top").depth + 1]


class _Renamed(Tape):
    """A tape on which several names stand for one uniform."""

    def __init__(self, tape: Tape, rename: Callable[[Name], Name]) -> None:
        super().__init__(lambda name: tape.uniform(rename(name)))

    def uniform(self, name: Name) -> LazyUniform:
        """Return the uniform that this name stands for."""
        return self._make(name)


def _firsts(parents: Sequence[int] | IntArray) -> list[int]:
    """Give the first sibling of each node."""
    listed = [int(parent) for parent in parents]
    return [listed.index(parent) for parent in listed]


def _shared_coin(
    tape: Tape, parents: Sequence[int], tokens: Sequence[int], draft_probs: Rows, target_probs: Rows
) -> TreeVerified:
    first = _firsts(parents)
    coins = _Renamed(tape, lambda name: ("accept", first[int(name[1])]) if name[0] == "accept" else name)
    return rrs(coins, parents, tokens, draft_probs, target_probs)


def _one_coin(
    tape: Tape, parents: Sequence[int], tokens: Sequence[int], draft_probs: Rows, target_probs: Rows
) -> TreeVerified:
    coin = _Renamed(tape, lambda name: ("accept", 0) if name[0] == "accept" else name)
    return target_only(coin, parents, tokens, draft_probs, target_probs)


def _merged(
    tape: Tape, parents: Sequence[int], tokens: Sequence[int], draft_probs: Rows, target_probs: Rows
) -> TreeVerified:
    once = [-1 if tokens[i] in _before(parents, tokens, i) else tokens[i] for i in range(len(parents))]
    return rrs(tape, parents, once, draft_probs, target_probs)


def _before(parents: Sequence[int], tokens: Sequence[int], node: int) -> list[int]:
    return [tokens[i] for i in range(node) if parents[i] == parents[node]]


def _scored_with_q(
    tape: Tape, parents: Sequence[int], tokens: Sequence[int], draft_probs: Rows, target_probs: Rows
) -> TreeVerified:
    return rrs(tape, parents, tokens, [draft_probs[first] for first in _firsts(parents)], target_probs)


TREE_FAULT_RULES: dict[str, TreeRule] = {
    "M01": _merged,
    **{name: partial(_edited, edit) for name, edit in _LEVELS.items()},
    "M05": _shared_coin,
    "M06": _scored_with_q,
    "M12": _one_coin,
}
"""By id: what a tree verifier with the fault does. M01 to M06 and M09 edit the rule ``rrs``, M12 ``target_only``."""


def verify_tree_fault(
    name: str,
    parents: Sequence[int] | IntArray,
    tokens: IntArray,
    draft_probs: FloatArray,
    target_probs: FloatArray,
    accept: FloatArray,
    final: FloatArray,
) -> IntArray:
    """Verify a batch as a fault does, on given uniforms.

    Args:
        name: An id of ``TREE_FAULT_RULES``.
        parents: The N parents.
        tokens: int64 [B, N], the drafted tokens, -1 where a node does not exist.
        draft_probs: float64 [B, N, V].
        target_probs: float64 [B, N + 1, V].
        accept: float64 [B, N], uniforms in [0, 1).
        final: float64 [B], uniforms in [0, 1).

    Returns:
        tokens int64 [B, depth + 1], padded with -1.

    Example:
        >>> q, p = np.array([[[0.8, 0.2]] * 2]), np.array([[[0.6, 0.4]] * 3])
        >>> verify_tree_fault("M05", [-1, -1], np.array([[0, 1]]), q, p, np.array([[0.8, 0.0]]), np.zeros(1)).tolist()
        [[1, 0]]
    """
    first = _firsts(parents)
    if name in _LEVELS:
        return _edited_kernel(_LEVELS[name], parents, tokens, draft_probs, target_probs, accept, final)
    if name == "M12":
        return verify_target_only(parents, tokens, target_probs, np.broadcast_to(accept[:, :1], accept.shape), final)
    if name == "M01":
        siblings = np.equal.outer(parents, parents)
        twice = (tokens[:, :, None] == tokens[:, None]) & siblings
        tokens = np.where(np.tril(twice, -1).any(axis=2), -1, tokens)
    if name == "M05":
        accept = accept[:, first]
    if name == "M06":
        draft_probs = draft_probs[:, first]
    return verify_rrs(parents, tokens, draft_probs, target_probs, accept, final)


def tree_fault_sampler(name: str) -> Verifier:
    """Make a tree verifier that has a fault.

    Args:
        name: An id of ``TREE_FAULT_RULES``.

    Returns:
        A verifier named "fault:ID" that declares the rule it gets wrong.

    Example:
        >>> tree_fault_sampler("M05").rule, tree_fault_sampler("M12").rule
        ('rrs', 'target_only')
    """

    @verifier(name=f"fault:{name}", rule="target_only" if name == "M12" else "rrs", readonly=True)
    def sampler(
        parents: IntArray, draft_tokens: IntArray, draft_probs: FloatArray, target_probs: FloatArray, seed: int
    ) -> IntArray:
        rng = np.random.default_rng(seed)
        uniforms = rng.random(draft_tokens.shape), rng.random(len(draft_tokens))
        return verify_tree_fault(name, parents, draft_tokens, draft_probs, target_probs, *uniforms)

    return sampler


BINARY = (-1, -1, 0, 0, 1, 1)


def _chosen_scored_with_q(tape: Tape, target: Model, draft: Model) -> tuple[int, ...]:
    """M07: the two likeliest tokens are siblings, scored as if each had been drawn from q."""
    tokens = _likeliest(draft(()), 2)
    path, last = rrs(tape, (-1, -1), tokens, [draft(())] * 2, [target(()), *(target((x,)) for x in tokens)])
    return (*(tokens[node] for node in path), last)


def _best_of_two(tape: Tape, target: Model, draft: Model) -> tuple[int, ...]:
    """M08: of two drafts the likelier one is verified as a single draw from q."""
    q = draft(())
    x = max((choose(tape, ("draft", i), q) for i in range(2)), key=lambda y: q[y])  # of equals the first
    accepted, last = token(tape, (x,), [q], [target(()), target((x,))])
    return (*((x,) * accepted), *(() if last is None else (last,)))


def _draft_subtracted(tape: Tape, target: Model, draft: Model) -> tuple[int, ...]:
    """M10: the target-only rule on the two likeliest tokens per node, q being subtracted where zeros belong."""
    emitted: tuple[int, ...] = ()
    for level in range(2):
        p, q, taken = target(emitted), draft(emitted), 0 * target(emitted)[0]
        level_tokens = _likeliest(q, 2)
        for x in level_tokens:
            taken += p[x]
            if tape.uniform(("accept", level)) < taken:
                emitted += (x,)
                break
        else:
            rest = [0 if x in level_tokens else max(a - b, 0) for x, (a, b) in enumerate(zip(p, q, strict=True))]
            return (*emitted, choose(tape, ("final",), rest if any(rest) else p))
    return (*emitted, choose(tape, ("final",), target(emitted)))


def _twice(tape: Tape, target: Model, draft: Model) -> tuple[int, ...]:
    """M11: the target-only rule on a tree whose two siblings are both the likeliest token."""
    first = _likeliest(draft(()), 1)[0]
    second = _likeliest(draft((first,)), 1)[0]
    tokens = (first, first, *(second,) * 4)
    rows = [target(()), *(target((first,)),) * 2, *(target((first, second)),) * 4]
    path, last = target_only(tape, BINARY, tokens, [], rows)
    return (*(tokens[node] for node in path), last)


def _likeliest(q: Row, count: int) -> tuple[int, ...]:
    tokens: list[int] = []
    for _ in range(count):
        tokens.append(list(sibling_law("top", q, tokens)).index(1))
    return tuple(tokens)


TREE_ROUNDS: dict[str, TreeRound] = {
    "M07": _chosen_scored_with_q,
    "M08": _best_of_two,
    "M10": _draft_subtracted,
    "M11": _twice,
}
"""By id: the tokens that one round of a fault emits, with two siblings; M10 and M11 are two levels deep."""
