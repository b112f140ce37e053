"""A tree of drafts has several drafted tokens per position: its shape is the same in every row, its tokens are drawn.

Nodes are numbered so that parents come before their children, and siblings in the order in which they are drawn. A
path is numbered as the prefixes of a case are, so that the rows after every node are found in the same tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.errors import ConfigError
from specverify.reference import TREE_MODES
from specverify.wording import brief

__all__ = ["Tree", "sibling_rows"]


@dataclass(frozen=True)
class Tree:
    """The shape of a tree of drafts, and how its siblings are drawn.

    Attributes:
        parents: The parent of each node, an earlier node or -1 for the root.
        mode: How siblings are drawn, one of specverify.reference.TREE_MODES; the ties of "top" go to the lower id.

    Raises:
        ConfigError: A parent does not come before its child, or the mode is unknown.

    Example:
        >>> tree = Tree((-1, 0, 0, -1), "top")
        >>> tree.depth, tree.depths.tolist(), tree.earlier(3)
        (2, [0, 1, 2, 2, 1], [0])
    """

    parents: tuple[int, ...]
    mode: str

    def __post_init__(self) -> None:
        if not self.parents or not all(-1 <= parent < node for node, parent in enumerate(self.parents)):
            raise ConfigError(
                f"expected the parent of each node to be -1 or an earlier node, got {brief(self.parents, 60)}; "
                f"number parents before their children"
            )
        if self.mode not in TREE_MODES:
            raise ConfigError(f"expected a mode of {', '.join(TREE_MODES)}, got {brief(self.mode)}")

    @classmethod
    def chain(cls, length: int) -> Tree:
        """Make the tree that has one node at each of ``length`` positions."""
        return cls(tuple(range(-1, length - 1)), "with_replacement")

    @property
    def nodes(self) -> int:
        """Number N of nodes."""
        return len(self.parents)

    @property
    def depth(self) -> int:
        """Length of the longest path."""
        return int(self.depths.max())

    @cached_property
    def depths(self) -> IntArray:
        """Number of drafted tokens on the way to the root (0) and to each node: int64 [N + 1]."""
        depths = np.zeros(self.nodes + 1, dtype=np.int64)
        for node, parent in enumerate(self.parents):
            depths[node + 1] = depths[parent + 1] + 1
        return depths

    def earlier(self, node: int) -> list[int]:
        """List the siblings that are drawn before a node."""
        return [other for other in range(node) if self.parents[other] == self.parents[node]]

    def numbers(self, draft_tokens: IntArray, base: int) -> IntArray:
        """Number the paths to the root and to each node, among those of the same length.

        Args:
            draft_tokens: int64 [B, N], -1 where a node does not exist.
            base: Number of tokens V of a case whose rows depend on the prefix; 0 where they do not.

        Returns:
            int64 [B, N + 1]; -1 where a node does not exist.

        Example:
            >>> Tree((-1, 0, 0), "top").numbers(np.array([[2, 1, -1]]), 3).tolist()
            [[0, 2, 7, -1]]
        """
        numbers = np.zeros((len(draft_tokens), self.nodes + 1), dtype=np.int64)
        for node, parent in enumerate(self.parents):
            above, token = numbers[:, parent + 1], draft_tokens[:, node]
            numbers[:, node + 1] = np.where((above < 0) | (token < 0), -1, (above * base + token) if base else 0)
        return numbers

    def matched(self, draft_tokens: IntArray, tokens: IntArray) -> IntArray:
        """Count how many of the first tokens of each row are a path from the root; equal siblings are all followed.

        Args:
            draft_tokens: int64 [B, N].
            tokens: int64 [B, at least depth].

        Example:
            >>> Tree((-1, -1, 1), "top").matched(np.array([[2, 2, 0]]), np.array([[2, 0, 1]])).tolist()
            [2]
        """
        on = np.ones((len(tokens), self.nodes + 1), dtype=np.bool_)
        for node, parent in enumerate(self.parents):
            same = (draft_tokens[:, node] >= 0) & (draft_tokens[:, node] == tokens[:, self.depths[node + 1] - 1])
            on[:, node + 1] = on[:, parent + 1] & same
        return np.asarray((on * self.depths).max(axis=1))


def sibling_rows(rows: FloatArray, earlier: Sequence[IntArray]) -> FloatArray:
    """Give draft rows without the tokens of earlier siblings, renormalised; zeros where nothing is left.

    Args:
        rows: float64 [B, V].
        earlier: For each earlier sibling int64 [B], -1 where it does not exist.

    Example:
        >>> sibling_rows(np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]), [np.array([0, 0])]).tolist()
        [[0.0, 0.5, 0.5], [0.0, 0.0, 0.0]]
    """
    left = np.array(rows)
    for tokens in earlier:
        there = np.flatnonzero(tokens >= 0)
        left[there, tokens[there]] = 0
    total = left.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(left, total, out=left, where=total > 0))
