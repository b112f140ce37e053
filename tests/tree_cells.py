"""Every cell of a tree rule on every draft: uniforms inside it, and the tokens that the rule emits there."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from tree_inputs import models

from specverify.reference import Model, Row, Tape, TreeRule, branches, sibling_law

Array = npt.NDArray[Any]
Kernel = Callable[[Sequence[int], Array, Array, Array, Array, Array], Array]
DELTA = 1e-6


def trees(parents: Sequence[int], mode: str, draft: Model, vocab: int) -> Iterator[tuple[tuple[int, ...], list[Row]]]:
    """Yield every draft of a tree that has positive probability, with the law of each node."""
    for tokens in product(range(vocab), repeat=len(parents)):
        laws = []
        for node, parent in enumerate(parents):
            prefix: tuple[int, ...] = ()
            above = parent
            while above >= 0:
                prefix = (tokens[above], *prefix)
                above = parents[above]
            earlier = [tokens[i] for i in range(node) if parents[i] == parent]
            laws.append(sibling_law(mode, draft(prefix), earlier))
        if all(law[x] > 0 for law, x in zip(laws, tokens, strict=True)):
            yield tokens, laws


def rows_of(parents: Sequence[int], tokens: Sequence[int], target: Model) -> list[Row]:
    """Return the target rows of a tree: at the root, then after each node."""
    prefixes: list[tuple[int, ...]] = []
    for node, parent in enumerate(parents):
        prefixes.append((*(prefixes[parent] if parent >= 0 else ()), tokens[node]))
    return [target(()), *(target(prefix) for prefix in prefixes)]


def points(
    rule: TreeRule, parents: Sequence[int], tokens: tuple[int, ...], laws: list[Row], target_rows: list[Row]
) -> tuple[Array, Array]:
    """Return uniforms in every cell of a rule on one draft, and the tokens that it emits there.

    Coordinates that a cell reads stand near both ends and in the middle; those it does not read share three values.
    """
    depth = max(len(path) for path in _paths(parents))
    names = [*(("accept", i) for i in range(len(parents))), ("final",)]
    given, due = [], []

    def run(tape: Tape) -> tuple[tuple[int, ...], int]:
        return rule(tape, parents, tokens, laws, target_rows)

    for cell in branches(run):
        path, last = cell.output
        emitted = [*(tokens[node] for node in path), last]
        read = [name for name in names if name in cell.box]
        sides = [tuple(map(float, cell.box[name])) for name in read]
        steps = [min(DELTA, (hi - lo) / 4) for lo, hi in sides]
        choices = [(lo + step, (lo + hi) / 2, hi - step) for (lo, hi), step in zip(sides, steps, strict=True)]
        for inside in product((DELTA, 0.5, 1 - DELTA), *choices):
            values = dict(zip(read, inside[1:], strict=True))
            given.append([values.get(name, inside[0]) for name in names])
            due.append(emitted + [-1] * (depth + 1 - len(emitted)))
    return np.array(given), np.array(due)


def _paths(parents: Sequence[int]) -> list[list[int]]:
    paths: list[list[int]] = []
    for node, parent in enumerate(parents):
        paths.append([*(paths[parent] if parent >= 0 else []), node])
    return paths


def disagreements(rule: TreeRule, kernel: Kernel, parents: Sequence[int], mode: str, name: str) -> tuple[int, int]:
    """Return how many points were compared, and at how many the kernel differs from the rule."""
    target, draft = models(name)
    compared = wrong = 0
    for tokens, laws in trees(parents, mode, draft, len(target(()))):
        target_rows = rows_of(parents, tokens, target)
        uniforms, due = points(rule, parents, tokens, laws, target_rows)
        draft_probs, target_probs = (np.array([rows] * len(due), np.float64) for rows in (laws, target_rows))
        draws = np.tile(np.array(tokens), (len(due), 1))
        got = kernel(parents, draws, draft_probs, target_probs, uniforms[:, :-1], uniforms[:, -1])
        compared += len(due)
        wrong += int((got != due).any(axis=1).sum())
    return compared, wrong
