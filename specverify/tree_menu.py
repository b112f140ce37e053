"""The built-in cases of tree verifiers: the telling small cases again, with several drafts per position.

Each tree comes in the ways of drawing siblings that a verifier can be held to. No level has more nodes than its draft
has tokens left, so that every node exists.
"""

from __future__ import annotations

from functools import cache

from specverify.cases import Case
from specverify.menu import menu, softmax_case
from specverify.tree import Tree

__all__ = ["TREE_HEADLINE", "TREE_TELLING", "TREE_WITNESS", "tree_menu"]

SHAPES = {
    "pair": (-1, -1),
    "triple": (-1, -1, -1),
    "binary": (-1, -1, 0, 0, 1, 1),
    "lopsided": (-1, 0, 0, -1),  # not breadth first
}

_TREES = (
    ("AB", "pair", ("with_replacement", "without_replacement", "top")),
    ("AB", "triple", ("with_replacement",)),
    ("T3", "pair", ("with_replacement", "without_replacement", "top")),
    ("T3", "triple", ("with_replacement", "without_replacement")),
    ("zeros", "pair", ("with_replacement", "without_replacement", "top")),
    ("C3", "lopsided", ("with_replacement", "top")),
    ("W402", "binary", ("with_replacement", "without_replacement", "top")),
    ("W637", "pair", ("with_replacement", "without_replacement", "top")),
    ("W637", "lopsided", ("with_replacement", "without_replacement", "top")),
    ("W637", "binary", ("with_replacement", "without_replacement", "top")),
    ("softmax-1024", "pair", ("with_replacement", "without_replacement", "top")),
)

TREE_HEADLINE = "W637-binary"
"""The tree with the most rows, in the first of a verifier's modes."""

TREE_WITNESS = "W637-pair"
"""The tree that is run again in small calls."""

TREE_TELLING = ("AB-pair", "W637-pair", "W637-lopsided", "W637-binary", "softmax-1024-pair")
"""The trees that samplers of few rows get."""


@cache
def tree_menu(modes: tuple[str, ...]) -> tuple[Case, ...]:
    """Give the built-in cases of trees whose siblings are drawn in one of these ways, small vocabularies first.

    Args:
        modes: Some of specverify.reference.TREE_MODES.

    Example:
        >>> [case.name for case in tree_menu(("top",))][:3]
        ['AB-pair-top', 'T3-pair-top', 'zeros-pair-top']
    """
    return tuple(_case(base, shape, mode) for base, shape, own in _TREES for mode in own if mode in modes)


def _case(base: str, shape: str, mode: str) -> Case:
    tree = Tree(SHAPES[shape], mode)
    name = f"{base}-{shape}-{mode.replace('_', '-')}"
    return _cut(base, tree.depth).with_tree(tree, name)


@cache
def _cut(base: str, depth: int) -> Case:
    """Give a case of the menu with so many drafted tokens."""
    if base == "softmax-1024":
        return softmax_case(base, 1024, depth, 2.0)
    return next(case for case in menu() if case.name == base).shortened(depth)
