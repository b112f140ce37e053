"""A case with many tokens is seen as a small one whose exact law is enumerated; no null probability is written by hand.

Tokens are lumped into cells that never straddle p = q. The token rule on such cells is exactly the token rule on tokens
seen through the cells, so the same enumeration serves two tokens and a quarter of a million. Other rules are enumerated
where every token is a cell of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

import numpy as np

from specverify.arrays import BoolArray, FloatArray, IntArray
from specverify.cases import MAX_BLOCKS, Case
from specverify.partition import identity, index, ratio, ties
from specverify.reference import RULES, TREE_RULES, Model, Number, Outcome, Rule, TreeRule, outcome_law, tree_law
from specverify.trace import Trace

__all__ = ["Law", "Lumping", "View", "block_law", "case_models", "lump", "lump_further", "rule_law", "rules_of"]

MAX_IDENTITY = 8  # vocabularies up to this size are never lumped
MAX_DRAFTS = 1024  # drafts enumerated for one rule on one case
NEGLIGIBLE = 1e-15  # weights below this are rounding, not probability


@dataclass(frozen=True)
class View:
    """A trace with its tokens lumped, and where rounding decided.

    Attributes:
        trace: The lumped trace.
        tied_draft: bool [n]; the rejected draft has p and q equal to within rounding, so it need not be rejected.
        tied_next: bool [n]; the token put in its place has, so that it has no residual mass to speak of.
        times: int64 [n], how often each row came; None where each came once.
    """

    trace: Trace
    tied_draft: BoolArray
    tied_next: BoolArray
    times: IntArray | None = None

    @property
    def repeats(self) -> IntArray:
        """How often each row came: int64 [n]."""
        return np.ones(len(self.trace), dtype=np.int64) if self.times is None else self.times

    def sums(self, cells: IntArray, size: int) -> IntArray:
        """Count the rows by their cells int64 [n], -1 being none: int64 [at least size]."""
        inside = cells >= 0
        times = None if self.times is None else self.times[inside]
        return np.bincount(cells[inside], times, size).astype(np.int64)  # as floats, counts are exact below 2**53


@dataclass(frozen=True)
class Law:
    """All possible outcomes and their exact probabilities: a view with a weight float64 [n] for each row."""

    view: View
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Lumping:
    """How the tokens of a case are lumped, and the small case that results.

    Attributes:
        case: The small case, tokens being cells.
        labels: For each position, what each cell holds.
        tables: For each position int64 [V], the cell of each token; None when nothing is lumped.
        tied: For each drafted position bool [n_i, K], cells where p and q agree to within rounding.
    """

    case: Case
    labels: tuple[tuple[str, ...], ...]
    tables: tuple[IntArray, ...] | None
    tied: tuple[BoolArray, ...]

    def view(self, trace: Trace) -> View:
        """See a trace of the full case through the cells."""
        if self.tables is not None:
            trace = replace(
                trace,
                draft_tokens=self._columns(trace.draft_tokens),
                completed=self._columns(trace.completed),
                next_token=self._at_stop(trace.next_token, trace.num_accepted),
            )
        return View(trace, self._tied(trace, trace.drafted_at(trace.num_accepted)), self._tied(trace, trace.next_token))

    def then(self, further: Lumping) -> Lumping:
        """Lump the tokens into the cells that their cells are lumped into."""
        assert further.tables is not None
        if self.tables is None:
            return further
        pairs = zip(self.tables, further.tables, strict=True)
        return replace(further, tables=tuple(cells[table] for table, cells in pairs))

    def _columns(self, tokens: IntArray) -> IntArray:
        assert self.tables is not None
        columns = [np.where(tokens[:, i] < 0, -1, self.tables[i][tokens[:, i]]) for i in range(tokens.shape[1])]
        return np.stack(columns, axis=1) if columns else tokens

    def _at_stop(self, tokens: IntArray, stops: IntArray) -> IntArray:
        assert self.tables is not None
        result = tokens.copy()
        for position, table in enumerate(self.tables):
            here = (stops == position) & (tokens >= 0)
            result[here] = table[tokens[here]]
        return result

    def _tied(self, trace: Trace, tokens: IntArray) -> BoolArray:
        """Look up each rejected row's token at its stop among the ties there; absent tokens are False."""
        tied = np.zeros(len(trace), dtype=np.bool_)
        for position, band in enumerate(self.tied):
            if band.any():
                here = np.flatnonzero(trace.rejected & (trace.num_accepted == position) & (tokens >= 0))
                tied[here] = band[self.case.row_index(trace.draft_tokens[here, :position]), tokens[here]]
        return tied


def lump(case: Case, cells: int, tau: float) -> Lumping | None:
    """Lump the tokens of a case into about ``cells`` cells per position.

    Args:
        case: Any case.
        cells: Cells aimed at for each position; vocabularies of up to 8 tokens are kept as they are, and larger ones
            where the rows depend on the tokens before them.
        tau: Relative tolerance within which rounding decides whether p exceeds q.

    Returns:
        The lumping, or None for a contextual case of too many blocks (its laws do not survive lumping).
    """
    enumerable = case.vocab_size ** (case.num_draft_tokens + 1) <= MAX_BLOCKS
    if case.vocab_size <= MAX_IDENTITY or (case.contextual and enumerable):
        names = identity(case.target[0][0]).labels
        bands = tuple(ties(p, q, tau) for p, q in zip(case.target, case.draft, strict=False))
        return Lumping(case, (names,) * (case.num_draft_tokens + 1), None, bands)
    return None if case.contextual else lump_further(case, cells, tau)


def lump_further(case: Case, cells: int, tau: float) -> Lumping:
    """Lump the tokens of a case without contexts into about ``cells`` cells per position, however few they are."""
    parts = [ratio(p[0], q[0], cells, tau) for p, q in zip(case.target, case.draft, strict=False)]
    last = case.target[-1][0]
    parts.append(ratio(last, case.draft[-1][0], cells, tau) if case.draft else index(last, cells))
    width = max(len(part.probs) for part in parts)
    target = [_padded(part.sums(p[0]), width) for part, p in zip(parts, case.target, strict=True)]
    draft = [_padded(part.sums(q[0]), width) for part, q in zip(parts, case.draft, strict=False)]
    tied = tuple(ties(p, q, tau) for p, q in zip(target, draft, strict=False))
    small = case.replace_rows(target, draft)
    return Lumping(small, tuple(p.labels for p in parts), tuple(p.table for p in parts), tied)


def _padded(row: FloatArray, width: int) -> FloatArray:
    return np.pad(row, (0, width - len(row)))[None, :]


def rules_of(*, tree: bool) -> Mapping[str, Rule | TreeRule]:
    """Give the rules of the reference by name, for trees or for one draft per position.

    Example:
        >>> sorted(rules_of(tree=True))
        ['rrs', 'target_only', 'traversal']
    """
    return TREE_RULES if tree else RULES


@lru_cache(maxsize=512)
def rule_law(rule: Rule | TreeRule, lumping: Lumping) -> Law | None:
    """Enumerate what a rule does on a lumped case: every (draft, accepted length, next token) and its probability.

    In the case of a tree the accepted path stands for the draft.

    Args:
        rule: A verification rule of the reference, or an edited one.
        lumping: The lumped case. Where tokens were lumped the law is that of the token rule only.

    Returns:
        The law, or None when there are too many drafts to enumerate.
    """
    case = lumping.case
    if case.vocab_size ** (case.num_draft_tokens if case.tree is None else case.tree.nodes) > MAX_DRAFTS:
        return None
    lengths = range(case.num_draft_tokens + 1) if case.ragged else [case.num_draft_tokens]
    rows: list[list[int]] = []
    weights: list[float] = []
    for length in lengths:
        for (draft_tokens, num_accepted, next_token, _), weight in _outcomes(rule, case, length).items():
            if weight > NEGLIGIBLE:
                padding = [-1] * (case.num_draft_tokens - len(draft_tokens))
                rows.append([*draft_tokens, *padding, length, num_accepted, -1 if next_token is None else next_token])
                weights.append(float(weight) / len(lengths))
    table = np.array(rows, dtype=np.int64)
    nothing = np.full((len(rows), case.num_draft_tokens + 1), -1, dtype=np.int64)
    trace = Trace(table[:, :-3], table[:, -3], table[:, -2], table[:, -1], nothing)
    return Law(replace(lumping, tables=None).view(trace), np.array(weights))


def _outcomes(rule: Rule | TreeRule, case: Case, length: int) -> dict[Outcome, Number]:
    models = case_models(case)
    if case.tree is None:
        return outcome_law(cast(Rule, rule), *models, length)
    return tree_law(cast(TreeRule, rule), case.tree.parents, case.tree.mode, *models)


def case_models(case: Case) -> tuple[Model, Model]:
    """Give target and draft of a case as functions from prefixes to rows of floats."""
    return _model(case, case.target), _model(case, case.draft)


def _model(case: Case, levels: tuple[FloatArray, ...]) -> Model:
    rows = [level.tolist() for level in levels]
    return lambda prefix: rows[len(prefix)][int(case.row_index(np.array(prefix, dtype=np.int64)))]


@lru_cache(maxsize=512)
def block_law(lumping: Lumping) -> Law | None:
    """Enumerate the target's joint law of a completed block, the law due under any lossless rule.

    Args:
        lumping: The lumped case.

    Returns:
        The law of num_draft_tokens + 1 tokens (in ``completed``), or None when there are too many blocks.
    """
    case = lumping.case
    if case.vocab_size ** (case.num_draft_tokens + 1) > MAX_BLOCKS:
        return None
    blocks, weights = np.zeros((1, 0), dtype=np.int64), np.ones(1)
    for rows in case.target:
        law = rows[case.row_index(blocks)]
        weights = (weights[:, None] * law).ravel()
        token = np.tile(np.arange(case.vocab_size), len(blocks))[:, None]
        blocks = np.hstack([np.repeat(blocks, case.vocab_size, axis=0), token])
    zero, never = np.zeros(len(blocks), dtype=np.int64), np.zeros(len(blocks), dtype=np.bool_)
    drafts = np.full((len(blocks), case.num_draft_tokens), -1, dtype=np.int64)
    return Law(View(Trace(drafts, zero, zero, zero - 1, blocks), never, never), weights)
