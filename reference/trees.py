"""The rules for several drafts per position, each written once: one recursion settles a tree of drafted tokens.

A tree rule takes a tape, the parent of every node (-1: the root, what is there already), the drafted token of every
node (-1: the node does not exist), for every node the law it was drawn from given its earlier siblings, and the target
rows (row 0 at the root, row i + 1 after node i). Parents come before their children, siblings in the order in which
they were drawn. The rule returns the accepted nodes, from the root on, and the token that it emits after them.
"""
# ruff: noqa: ARG001 - every rule takes the same five arguments, whether it reads them or not

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from .rules import Row, Rows, acceptance
from .tape import Number, Tape, choose, flip

__all__ = ["TREE_RULES", "TreeRule", "TreeVerified", "children", "rrs", "target_only", "traversal"]

TreeVerified: TypeAlias = tuple[tuple[int, ...], int]
TreeRule: TypeAlias = Callable[[Tape, Sequence[int], Sequence[int], Rows, Rows], TreeVerified]


class _Drafted(NamedTuple):
    tape: Tape
    parents: Sequence[int]
    tokens: Sequence[int]
    draft_probs: Rows
    target_probs: Rows


def children(parents: Sequence[int], node: int) -> list[int]:
    """Return the children of a node (-1: of the root) in their order.

    >>> children((-1, 0, 0, -1), -1)
    [0, 3]
    """
    return [child for child, parent in enumerate(parents) if parent == node]


def rrs(
    tape: Tape, parents: Sequence[int], draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows
) -> TreeVerified:
    """Recursive rejection sampling: test the siblings in turn, each against what its earlier ones left of the target.

    It covers drafts with and without replacement, from one drafter or several, and point masses, since each node comes
    with the law it was drawn from given its earlier siblings.

    Source: Miao et al., arXiv 2305.09781, Algorithm 2; without replacement Chen et al., arXiv 2402.12374, and Jeon et
    al., arXiv 2402.14160.

    >>> from specverify.reference import ScriptedTape
    >>> script = ScriptedTape({("accept", 0): 0.8, ("accept", 1): 0.9, ("final",): 0.5})
    >>> rrs(script, [-1, -1], [0, 1], [[0.8, 0.2], [0.8, 0.2]], [[0.6, 0.4], [0.6, 0.4], [1.0, 0.0]])
    ((1,), 0)
    """
    found = _settle(_Drafted(tape, parents, draft_tokens, draft_probs, target_probs), -1, 1, late=False)
    assert found is not None
    return found


def traversal(
    tape: Tape, parents: Sequence[int], draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows
) -> TreeVerified:
    """Traversal verification: a node is kept or given back only when everything below it has failed.

    On a chain it is block verification. Derived from the recursion that both share; in the spirit of Weng et al., arXiv
    2505.12398.
    """
    found = _settle(_Drafted(tape, parents, draft_tokens, draft_probs, target_probs), -1, 1, late=True)
    assert found is not None  # the root is owed with weight 1 and never given back
    return found


def _settle(drafted: _Drafted, node: int, weight: Number, *, late: bool) -> TreeVerified | None:
    """Continue after a node that is owed with this weight; None gives the node back to its parent."""
    w, t = weight, drafted.target_probs[node + 1]
    for child in children(drafted.parents, node):
        x = drafted.tokens[child]
        if x < 0:
            continue
        s = drafted.draft_probs[child]
        a = acceptance(w * t[x], s[x])
        found = None
        if late:
            found = _settle(drafted, child, a, late=True)
        elif flip(drafted.tape, ("accept", child), a):
            found = _settle(drafted, child, 1, late=False)
        if found is not None:
            return (child, *found[0]), found[1]
        w, t = _owed(w, t, s)
    if late and node >= 0 and not flip(drafted.tape, ("accept", node), w):
        return None
    return (), choose(drafted.tape, ("final",), t)


def _owed(w: Number, t: Row, s: Row) -> tuple[Number, Row]:
    """Return the weight and the law of what is owed after a child of law s has failed."""
    rest = [max(w * a - b, 0) for a, b in zip(t, s, strict=True)]
    owed = sum(rest)
    failed = owed + (1 - w)
    return (owed / failed if failed > 0 else 1), ([a / owed for a in rest] if owed > 0 else t)


def target_only(
    tape: Tape, parents: Sequence[int], draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows
) -> TreeVerified:
    """Walk down by one coin per level: take the first of the distinct siblings at which the summed target exceeds it.

    The draft's law is not used. One coin per level, named after the level's first node; if no sibling is taken, the
    next token comes from the target without the siblings.

    Source: the lossless setting of SGLang's tree kernel; the same law as ``rrs`` of point masses.

    >>> from specverify.reference import ScriptedTape
    >>> script = ScriptedTape({("accept", 0): 0.7, ("final",): 0.5})
    >>> target_only(script, [-1, -1], [0, 1], [], [[0.5, 0.3, 0.2], [0, 1, 0], [0, 0, 1]])
    ((1,), 2)
    """
    path: tuple[int, ...] = ()
    while level := children(parents, path[-1] if path else -1):
        p = target_probs[path[-1] + 1 if path else 0]
        taken: Number = 0
        tried = set()
        for child in level:
            x = draft_tokens[child]
            if x >= 0:
                taken += p[x]
                tried.add(x)
                if tape.uniform(("accept", level[0])) < taken:
                    path += (child,)
                    break
        else:
            rest = [0 if x in tried else chance for x, chance in enumerate(p)]
            return path, choose(tape, ("final",), rest if any(rest) else p)
    return path, choose(tape, ("final",), target_probs[path[-1] + 1 if path else 0])


TREE_RULES: dict[str, TreeRule] = {"rrs": rrs, "target_only": target_only, "traversal": traversal}
