"""A case is a pair of small conditional models, target p and draft q, whose exact laws the kit knows.

Everything that is checked is checked on cases. A case holds one array of rows per position: row ``index`` of array i is
the law of the next token after the ``index``-th prefix of length i (conditional tables), or the one law of that
position whatever came before (context-free rows, which may have very large vocabularies). Small cases written with
fractions keep them, so that exact proofs stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import index as as_index
from typing import Any

import numpy as np
import numpy.typing as npt

from specverify.arrays import FloatArray, IntArray
from specverify.errors import ConfigError
from specverify.loops import Loop
from specverify.rows import (
    Prefix,
    draft_length,
    frozen,
    is_exact,
    is_law,
    prefix_row,
    row_array,
    rows_per_position,
    table_level,
)
from specverify.tree import Tree
from specverify.wording import brief

__all__ = ["MAX_VOCAB_SIZE", "Case", "Prefix", "Row"]

MAX_VOCAB_SIZE = 262144
MAX_TABLE_CELLS = 4_000_000
MAX_BLOCKS = 200_000  # runs of tokens whose joint law is enumerated

Row = Sequence[Fraction] | Sequence[float]
_Exact = tuple[npt.NDArray[np.object_], ...]


@dataclass(frozen=True, eq=False)
class Case:
    """A target p and a draft q whose exact laws are known.

    Use :meth:`from_rows` or :meth:`from_table`; both refuse what is not a distribution.

    Attributes:
        name: Short unique name, shown in reports.
        target: num_draft_tokens + 1 arrays of float64 [n_i, V]; n_i is V**i for a contextual case, else 1.
        draft: num_draft_tokens arrays of the same form.
        description: One line: what the case is good for.
        ragged: Whether the rows of one batch have draft lengths from 0 to num_draft_tokens.
        tree: The tree of drafts, num_draft_tokens deep, of a case for tree verifiers; None for one draft per position.
        loop: What a generate loop is asked for, of a case for generators: its rows are then those of all the new
            tokens after its prompt, and num_draft_tokens is one less than their number.

    Example:
        >>> case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
        >>> case.target_row(()), case.vocab_size
        ((Fraction(3, 5), Fraction(2, 5)), 2)
    """

    name: str
    target: tuple[FloatArray, ...]
    draft: tuple[FloatArray, ...]
    description: str = ""
    ragged: bool = False
    tree: Tree | None = None
    loop: Loop | None = None
    _exact_target: _Exact | None = field(default=None, repr=False)
    _exact_draft: _Exact | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigError(f"expected the name of a case as text, got {brief(self.name)}; give it a short one")
        levels = (*self.target, *self.draft) if isinstance(self.target, tuple) and isinstance(self.draft, tuple) else ()
        if not levels or not all(map(is_law, levels)) or len(self.target) != len(self.draft) + 1:
            raise ConfigError(
                f"case {brief(self.name)}: expected tuples of float64 arrays [n, V] whose rows sum to 1, one more for "
                f"the target than for the draft; use Case.from_rows or Case.from_table"
            )
        if not isinstance(self.description, str):
            raise ConfigError(
                f"case {brief(self.name)}: expected a description as text, got {brief(self.description)}; "
                f"write one line"
            )

    @classmethod
    def from_rows(
        cls,
        name: str,
        target: Sequence[Any] | FloatArray,
        draft: Sequence[Any] | FloatArray,
        *,
        num_draft_tokens: int,
        description: str = "",
        ragged: bool = False,
    ) -> Case:
        """Build a case whose rows ignore the tokens before them.

        Args:
            name: Short unique name.
            target: One row of V probabilities for all positions, or num_draft_tokens + 1 rows. Numbers, fractions or
                strings such as "3/5"; when none is a float the case is exact.
            draft: One row, or num_draft_tokens rows.
            num_draft_tokens: Length gamma of the draft, 0 to 1024.
            description: One line: what the case is good for.
            ragged: Whether the rows of one batch have draft lengths from 0 to num_draft_tokens.

        Raises:
            ConfigError: A row is no distribution, the rows do not fit together, or the name is no text.

        Example:
            >>> Case.from_rows("coin", [0.5, 0.5], [0.9, 0.1], num_draft_tokens=2).target[2].tolist()
            [[0.5, 0.5]]
        """
        num_draft_tokens = draft_length(name, num_draft_tokens)
        p = [[row] for row in rows_per_position(name, "target", target, num_draft_tokens + 1)]
        q = [[row] for row in rows_per_position(name, "draft", draft, num_draft_tokens)]
        return cls._build(name, p, q, description, ragged)

    @classmethod
    def from_table(
        cls,
        name: str,
        target: Mapping[Prefix, Sequence[Any]],
        draft: Mapping[Prefix, Sequence[Any]],
        *,
        num_draft_tokens: int,
        description: str = "",
        ragged: bool = False,
    ) -> Case:
        """Build a case whose rows depend on the tokens before them.

        Args:
            name: Short unique name.
            target: Row of V probabilities for every prefix of up to num_draft_tokens tokens (a tuple of token ids).
            draft: Likewise for every shorter prefix; rows of longer prefixes are not used.
            num_draft_tokens: Length gamma of the draft, 0 to 1024.
            description: One line: what the case is good for.
            ragged: Whether the rows of one batch have draft lengths from 0 to num_draft_tokens.

        Raises:
            ConfigError: A prefix is missing, a row is no distribution, or the table is too large.

        Example:
            >>> rows = {(): [1, 0], (0,): [0, 1], (1,): ["1/2", "1/2"]}
            >>> Case.from_table("flip", rows, rows, num_draft_tokens=1).target_row((0,))
            (Fraction(0, 1), Fraction(1, 1))
        """
        num_draft_tokens = draft_length(name, num_draft_tokens)
        size = len(prefix_row(name, "target", target, ()))
        if size ** (num_draft_tokens + 1) > MAX_TABLE_CELLS:
            raise ConfigError(
                f"case {brief(name)}: expected a table of at most {MAX_TABLE_CELLS} cells, got V={size} with "
                f"num_draft_tokens={num_draft_tokens}; use fewer tokens or Case.from_rows"
            )
        p = [table_level(name, "target", target, size, length) for length in range(num_draft_tokens + 1)]
        q = [table_level(name, "draft", draft, size, length) for length in range(num_draft_tokens)]
        return cls._build(name, p, q, description, ragged)

    @classmethod
    def _build(cls, name: str, p: list[list[Any]], q: list[list[Any]], description: str, ragged: bool) -> Case:
        exact = all(is_exact(row) for level in (*p, *q) for row in level)
        size = len(p[0][0])
        if not 1 <= size <= MAX_VOCAB_SIZE:
            raise ConfigError(f"case {brief(name)}: expected 1 to {MAX_VOCAB_SIZE} tokens, got {size}")
        target, draft = (
            tuple(
                row_array(name, f"{model} row {{}} of position {i}", level, size, exact)
                for i, level in enumerate(levels)
            )
            for model, levels in (("target", p), ("draft", q))
        )
        return cls(
            name,
            tuple(frozen(rows) for rows in target),
            tuple(frozen(rows) for rows in draft),
            description,
            ragged,
            _exact_target=target if exact else None,
            _exact_draft=draft if exact else None,
        )

    @classmethod
    def from_loop(cls, name: str, loop: Loop, description: str = "") -> Case:
        """Build a case for generators: the rows of all new tokens, as the target and the sampling parameters make them.

        Args:
            name: Short unique name.
            loop: What the generate loop is asked for.
            description: One line: what the case is good for.

        Example:
            >>> from specverify.loops import MarkovModel
            >>> coin = MarkovModel(np.log([[[0.5, 0.5]]]), 0)
            >>> Case.from_loop("coins", Loop(coin, coin, (0,), 1, 3)).num_draft_tokens
            2
        """
        size, length = loop.vocab_size, loop.max_new_tokens
        few = f"case {brief(name)}: expected at most {MAX_BLOCKS:,} runs of new tokens, got V={size} with "
        few += f"max_new_tokens={length}; use fewer tokens"
        if size**length > MAX_TABLE_CELLS:
            raise ConfigError(few)
        target, draft = loop.levels(loop.target_laws, length), loop.levels(loop.draft_laws, length - 1)
        if all((rows == rows[0]).all() for rows in (*target, *draft)):  # the context has no say
            target, draft = (tuple(rows[:1] for rows in model) for model in (target, draft))
        elif size**length > MAX_BLOCKS:  # then their joint law could not be checked
            raise ConfigError(few)
        return cls(name, tuple(map(frozen, target)), tuple(map(frozen, draft)), description, loop=loop)

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return int(self.target[0].shape[1])

    @property
    def num_draft_tokens(self) -> int:
        """Number of drafted tokens, gamma."""
        return len(self.draft)

    @property
    def contextual(self) -> bool:
        """Whether the rows depend on the tokens before them."""
        return any(len(rows) > 1 for rows in self.target)

    @property
    def exact(self) -> bool:
        """Whether the rows are known as fractions."""
        return self._exact_target is not None

    def row_index(self, tokens: IntArray) -> IntArray:
        """Number the prefixes ``tokens`` int64 [..., i] as the rows of array i are numbered: int64 [...]."""
        index = np.zeros(tokens.shape[:-1], dtype=np.int64)
        if self.contextual:
            for position in range(tokens.shape[-1]):
                index = index * self.vocab_size + tokens[..., position]
        return index

    def target_row(self, prefix: Prefix) -> Row:
        """Give p(. | prefix), as fractions when the case is exact; a prefix that the case lacks is a ConfigError."""
        return self._row(self._exact_target or self.target, prefix)

    def draft_row(self, prefix: Prefix) -> Row:
        """Give q(. | prefix), as fractions when the case is exact; a prefix that the case lacks is a ConfigError."""
        return self._row(self._exact_draft or self.draft, prefix)

    def shortened(self, num_draft_tokens: int) -> Case:
        """Make the same case with fewer drafted tokens; 0 to the number it has.

        Example:
            >>> case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=3)
            >>> case.shortened(1).num_draft_tokens
            1
        """
        count = num_draft_tokens
        exact_target, exact_draft = self._exact_target, self._exact_draft
        return replace(
            self,
            target=self.target[: count + 1],
            draft=self.draft[:count],
            _exact_target=None if exact_target is None else exact_target[: count + 1],
            _exact_draft=None if exact_draft is None else exact_draft[:count],
        )

    def with_tree(self, tree: Tree, name: str) -> Case:
        """Make the same case with a tree of drafts instead of one draft per position.

        Raises:
            ConfigError: The tree is not num_draft_tokens deep, or the case is ragged.

        Example:
            >>> case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
            >>> case.with_tree(Tree((-1, -1), "top"), "AB-pair").tree.nodes
            2
        """
        if tree.depth != self.num_draft_tokens or self.ragged:
            raise ConfigError(
                f"case {brief(name)}: expected a tree as deep as the {self.num_draft_tokens} drafted tokens of a case "
                f"that is not ragged, got depth {tree.depth}; build the case for the depth of the tree"
            )
        return replace(self, name=name, tree=tree)

    def renamed(self, name: str) -> Case:
        """Make the same case under another name, from which its random numbers follow: fresh ones."""
        return replace(self, name=name)

    def replace_rows(self, target: Sequence[FloatArray], draft: Sequence[FloatArray]) -> Case:
        """Make the same case with other float rows of the same shapes, such as the law of rounded inputs."""
        p, q = (tuple(frozen(rows) for rows in model) for model in (target, draft))
        return replace(self, target=p, draft=q, _exact_target=None, _exact_draft=None)

    def permuted(self, order: Sequence[int], name: str) -> Case:
        """Make the same case with its tokens renamed: token v is what token ``order[v]`` was."""
        ids = _permutation(name, order, self.vocab_size)
        target, draft, exact_target, exact_draft = (
            None if model is None else tuple(self._reordered(rows, ids) for rows in model)
            for model in (self.target, self.draft, self._exact_target, self._exact_draft)
        )
        assert target is not None
        assert draft is not None
        return replace(
            self, name=name, target=target, draft=draft, _exact_target=exact_target, _exact_draft=exact_draft
        )

    def _reordered(self, rows: npt.NDArray[Any], order: list[int]) -> npt.NDArray[Any]:
        size, depth = self.vocab_size, 1
        while size ** (depth - 1) < len(rows):
            depth += 1
        renamed = rows.reshape((size,) * depth)[np.ix_(*[order] * depth)].reshape(rows.shape)
        renamed.flags.writeable = False
        return renamed

    def _row(self, model: Sequence[npt.NDArray[Any]], prefix: Prefix) -> Row:
        if len(prefix) >= len(model) or not all(0 <= token < self.vocab_size for token in prefix):
            raise ConfigError(
                f"case {brief(self.name)}: expected a prefix of fewer than {len(model)} tokens, each in "
                f"0..{self.vocab_size - 1}, got {brief(prefix)}"
            )
        index = int(self.row_index(np.asarray(prefix, dtype=np.int64)))
        return tuple(model[len(prefix)][index].tolist())


def _permutation(name: str, order: Sequence[int], size: int) -> list[int]:
    try:
        ids = [as_index(token) for token in order]
    except TypeError:
        ids = []
    if sorted(ids) != list(range(size)):
        raise ConfigError(f"case {brief(name)}: expected each of the ids 0..{size - 1} once, got {brief(order, 60)}")
    return ids
