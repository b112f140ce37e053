"""Trees are drawn in three ways, and the exact law of a tree rule follows by drawing each node when it is looked at.

The accepted tokens stand in the outcome for the drafted ones: what a round emits, its mean length and its completed
law are then those of ``law``.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar, overload

from .law import Model, Outcome, branch_law
from .rules import Row
from .tape import Number, Tape, choose
from .trees import TreeRule

__all__ = ["TREE_MODES", "sibling_law", "tree_law", "tree_round"]

TREE_MODES = ("with_replacement", "without_replacement", "top")
"""How siblings are drawn: each from q, from q without the earlier ones, or the likeliest under q."""

T = TypeVar("T")
Tokens: TypeAlias = tuple[int, ...]


def sibling_law(mode: str, draft_row: Row, earlier: Sequence[int]) -> Row:
    """Return the law of a node given its earlier siblings; all zeros where nothing is left to draw.

    Args:
        mode: One of ``TREE_MODES``; "top" takes the likeliest token left, ties going to the lower id.
        draft_row: V numbers, q after the parent.
        earlier: The tokens of the earlier siblings.

    Raises:
        ValueError: The mode is not one of ``TREE_MODES``.

    >>> from fractions import Fraction
    >>> [str(x) for x in sibling_law("without_replacement", [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)], [0])]
    ['0', '2/3', '1/3']
    """
    if mode == "with_replacement":
        return draft_row
    left = [x for x in range(len(draft_row)) if x not in earlier]
    if mode == "top":
        best = max(left, key=lambda x: draft_row[x], default=-1)
        return [int(x == best) for x in range(len(draft_row))]
    if mode != "without_replacement":
        raise ValueError(f"expected a mode of {', '.join(TREE_MODES)}, got {mode!r}: choose one of these")
    if not earlier:
        return draft_row
    total = sum(draft_row[x] for x in left)
    return [draft_row[x] / total if x in left and total > 0 else 0 for x in range(len(draft_row))]


def tree_round(tape: Tape, rule: TreeRule, parents: Sequence[int], mode: str, target: Model, draft: Model) -> Outcome:
    """Play one round: draw the nodes by the uniforms ("draft", i), as far as the rule looks, and settle the tree.

    Args:
        tape: Where the uniforms come from.
        rule: A tree rule.
        parents: The parent of each of N nodes, -1 for the root.
        mode: One of ``TREE_MODES``.
        target: Gives the target row after a prefix.
        draft: Gives the draft row after a prefix.

    Returns:
        The accepted tokens (as drafted tokens), their number, and the token after them.
    """
    nodes = _Nodes(tape, parents, mode, draft)
    tokens, size = _Lazy(nodes.token, len(parents)), len(parents)
    target_probs = _Lazy(lambda row: target(nodes.prefix(row - 1)), size + 1)
    path, next_token = rule(tape, parents, tokens, _Lazy(nodes.law, size), target_probs)
    return Outcome(tuple(tokens[node] for node in path), len(path), next_token)


def tree_law(rule: TreeRule, parents: Sequence[int], mode: str, target: Model, draft: Model) -> dict[Outcome, Number]:
    """Return the law of (accepted tokens, their number, next token) in one round of a tree rule.

    Args:
        rule: A tree rule.
        parents: The parent of each of N nodes, -1 for the root.
        mode: One of ``TREE_MODES``.
        target: Gives the target row after a prefix.
        draft: Gives the draft row after a prefix.

    >>> from fractions import Fraction
    >>> from specverify.reference import expected_tokens, rrs
    >>> p, q = (Fraction(3, 5), Fraction(2, 5)), (Fraction(4, 5), Fraction(1, 5))
    >>> str(expected_tokens(tree_law(rrs, [-1, -1], "with_replacement", lambda prefix: p, lambda prefix: q)))
    '46/25'
    """
    return branch_law(lambda tape: tree_round(tape, rule, parents, mode, target, draft))


class _Lazy(Sequence[T], Generic[T]):
    """A sequence whose items are made when they are first asked for."""

    def __init__(self, make: Callable[[int], T], size: int) -> None:
        self._make = make
        self._size = size
        self._made: dict[int, T] = {}

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(self._size))]
        if not 0 <= place < self._size:
            raise IndexError(place)
        if place not in self._made:
            self._made[place] = self._make(place)
        return self._made[place]


class _Nodes:
    """The nodes of one tree, each drawn when it is first looked at."""

    def __init__(self, tape: Tape, parents: Sequence[int], mode: str, draft: Model) -> None:
        self._tape = tape
        self._parents = parents
        self._mode = mode
        self._draft = draft
        self._tokens: dict[int, int] = {}

    def token(self, node: int) -> int:
        """Return the token of a node, -1 where it does not exist."""
        if node not in self._tokens:
            law = self.law(node)
            self._tokens[node] = choose(self._tape, ("draft", node), law) if any(law) else -1
        return self._tokens[node]

    def law(self, node: int) -> Row:
        """Return the law of a node given its earlier siblings."""
        prefix = self.prefix(self._parents[node])
        if -1 in prefix:
            return [0 for _ in self._draft(())]
        before = [i for i in range(node) if self._parents[i] == self._parents[node]]
        earlier = [] if self._mode == "with_replacement" else [self.token(i) for i in before]
        return sibling_law(self._mode, self._draft(prefix), earlier)

    def prefix(self, node: int) -> Tokens:
        """Return the tokens from the root to a node, that of the node included."""
        return () if node < 0 else (*self.prefix(self._parents[node]), self.token(node))
