"""A probe is one check on one case: a partition of the trace space whose null probabilities are known exactly.

The cell of a trace is defined once, as a function of the trace. Its null probability is found by sending the exactly
enumerated law of the case through that same function, so the two cannot disagree, whatever the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case
from specverify.distinct import Blocks, Outcomes, first_tokens
from specverify.lumping import Law, Lumping, View, block_law, lump, lump_further, rule_law, rules_of
from specverify.partition import Partition, identity, index, mass, ratio
from specverify.reference import RULES, Rule, TreeRule
from specverify.round_views import CELLS, RoundView, round_questions
from specverify.trace import ROUNDS, Trace
from specverify.views import Question, block_question, draft_question, outcome_question, rule_questions

__all__ = ["CaseProbes", "Probe", "case_probes"]

Views: TypeAlias = dict[str, Any]
"""A trace through every lens, by name: each a View, or a RoundView."""

FIRST_TOKEN_CELLS = 16
RULE_CELLS = 8
MAX_BLOCK_CELLS = 128
MAX_CELLS = 512  # cells of one probe; more are merged
MAX_OUTCOME_SPACE = 2**20
IMPOSSIBLE = 1e-9  # null probability lent to what cannot happen, so that one rounding accident convicts nobody


@dataclass(frozen=True, eq=False)
class Probe:
    """One check on one case.

    Attributes:
        case: Name of the case.
        question: What is asked of a trace.
        labels: What each cell holds.
        probs: float64 [K], exact null probability of each cell; the last cell holds what cannot happen.
        lookup: int64, from the question's answer to the cell.
        draft_probs: float64 [K], what each cell would have if the first token came from the draft, over the same
            total as in ``probs``; None for other questions than the first token.
    """

    case: str
    question: Question
    labels: tuple[str, ...]
    probs: FloatArray
    lookup: IntArray
    draft_probs: FloatArray | None = None

    @property
    def check(self) -> str:
        """Give the id of the check."""
        return self.question.check

    @property
    def cells(self) -> int:
        """Give the number of cells that are possible."""
        return len(self.probs) - 1

    @property
    def key(self) -> str:
        """Give the unique name, such as ``SV-ACC-001@1 on W402``."""
        at = "" if self.question.position is None else f"@{self.question.position}"
        return f"{self.check}{at} on {self.case}"

    def count(self, views: Views) -> IntArray:
        """Count the rows of a trace in each cell: int64 [K]; none where it has no such view."""
        if self.question.lens not in views:
            return np.zeros(len(self.probs), dtype=np.int64)
        view = views[self.question.lens]
        answers = np.minimum(self.question.ask(view), len(self.lookup) - 1)
        counts: IntArray = view.sums(np.where(answers < 0, -1, self.lookup[answers]), len(self.probs))
        return counts

    def recount(self, answers: IntArray) -> IntArray:
        """Give the cell counts from the counts of all answers, int64 [number of answers] to int64 [K]."""
        cells = self.lookup[np.minimum(np.arange(len(answers)), len(self.lookup) - 1)]
        return np.bincount(cells, weights=answers, minlength=len(self.probs)).astype(np.int64)

    def mass(self, law: FloatArray) -> FloatArray:
        """Give the probability float64 [K] of each cell under a law over answers, given that the question arises.

        A law under which it never arises says nothing of the cells: it is given their null probabilities.
        """
        cells = self.lookup[np.minimum(np.arange(len(law)), len(self.lookup) - 1)]
        mass = np.bincount(cells, weights=law, minlength=len(self.probs))
        return np.asarray(mass / mass.sum()) if mass.any() else self.probs


class CaseProbes:
    """All partition probes of one case, and the views of a trace that they count.

    Args:
        case: The case whose law is the null law: that of the arrays as they were handed over.
        tau: Relative tolerance within which rounding decides whether p exceeds q.
        rule: Name of the declared rule, or None: then the rule checks do not apply.
        drafts: Whether the sampler drafts by itself, so that its drafts are checked too.

    Example:
        >>> case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
        >>> sorted({probe.check for probe in CaseProbes(case, 1e-12, None).probes})
        ['SV-JNT-001', 'SV-TOK-001']
    """

    def __init__(self, case: Case, tau: float, rule: str | None, drafts: bool = False) -> None:
        self.case = case
        self.tau = tau
        self.rule_lens = lump(case, RULE_CELLS, tau)
        further = self._further()
        self.block_lens = self.rule_lens
        if self.rule_lens is not None and further is not None:
            self.block_lens = self.rule_lens.then(further)
        self.outcome_space = 0 if self.rule_lens is None or case.loop is not None else _outcome_space(self.rule_lens)
        held = self._rounds(rule) if case.loop is not None else self._rule(rule, drafts)
        made = (*self._first_token(), self._block(), *held)
        self.probes = tuple(probe for probe in made if probe is not None)
        asked = {probe.question.lens for probe in self.probes}
        finely = "rule" in asked or self.outcome_space > 0
        self.lens = self.rule_lens if finely else self.block_lens
        self._outcomes = self._blocks = None
        if self.lens is not None:
            self._outcomes = Outcomes(self.lens, case.vocab_size)
            if "block" in asked:
                self._blocks = Blocks(self.lens, (further if finely else None) or self.lens)

    def _further(self) -> Lumping | None:
        """Lump the cells of rules further where whole blocks of them are too many."""
        lens, width = self.rule_lens, self.case.num_draft_tokens + 1
        if lens is None or lens.tables is None or self.case.vocab_size**width <= MAX_BLOCK_CELLS:
            return None
        return lump_further(lens.case, int(MAX_BLOCK_CELLS ** (1 / width)) - 1, self.tau)

    def views(self, trace: Trace, rng: np.random.Generator) -> Views:
        """See a trace of the case through every lens, each distinct outcome once; reported rounds row by row.

        Args:
            trace: The trace.
            rng: Source of the draws from the target that complete its blocks.
        """
        views: Views = {"token": first_tokens(trace, self.case.vocab_size)}
        if trace.rounds is not None:
            views["rounds"] = RoundView.of(self.case, trace, trace.rounds, self.tau)
        if self._outcomes is not None:
            views["rule"] = self._outcomes.view(trace)
        if self._blocks is not None:
            views["block"] = self._blocks.view(views["rule"], rng)
        return views

    def law(self, rule: Rule | TreeRule) -> Law | None:
        """Enumerate a rule on the case; None where its law cannot be known: lumped tokens, any rule but token."""
        lens = self.rule_lens
        if (
            lens is None
            or self.case.loop is not None
            or (lens.tables is not None and (self.case.tree is not None or rule is not RULES["token"]))
        ):
            return None
        return rule_law(rule, lens)

    def outcome_probe(self, rule: Rule | TreeRule) -> Probe | None:
        """Make the probe of the joint law of (draft, accepted length, next token) under a rule."""
        law, lens = self.law(rule), self.rule_lens
        if law is None or lens is None or len(law.weights) > MAX_CELLS:
            return None
        return self._sent(outcome_question(lens), law)

    def count_outcomes(self, views: Views) -> IntArray:
        """Count every whole outcome of a trace: int64 [outcome_space], which is empty where tokens are lumped."""
        if self.rule_lens is None or not self.outcome_space:
            return np.zeros(0, dtype=np.int64)
        view: View = views["rule"]
        return view.sums(outcome_question(self.rule_lens).ask(view), self.outcome_space)

    def outcome_probs(self, law: Law) -> FloatArray:
        """Give the probability of every whole outcome under a law: float64 [outcome_space]."""
        assert self.rule_lens is not None
        answers = outcome_question(self.rule_lens).ask(law.view)
        inside = answers >= 0
        probs = np.bincount(answers[inside], weights=law.weights[inside], minlength=self.outcome_space)
        return np.asarray(probs, dtype=np.float64)

    def outcome_label(self, answer: int) -> str:
        """Say what a whole outcome is."""
        assert self.rule_lens is not None
        return outcome_question(self.rule_lens).label(answer)

    def _first_token(self) -> Iterator[Probe | None]:
        target = self.case.target[0][0]
        if self.case.vocab_size <= FIRST_TOKEN_CELLS:
            yield self._token_probe("SV-TOK-001", identity(target))
            return
        if self.case.draft:
            yield self._token_probe("SV-TOK-001", ratio(target, self.case.draft[0][0], FIRST_TOKEN_CELLS, self.tau))
        yield self._token_probe("SV-TOK-002", mass(target, FIRST_TOKEN_CELLS))
        yield self._token_probe("SV-TOK-003", index(target, FIRST_TOKEN_CELLS))

    def _token_probe(self, check: str, part: Partition) -> Probe | None:
        ask: Callable[[View], IntArray] = lambda view: part.table[view.trace.completed[:, 0]]  # noqa: E731
        question = Question(check, None, "token", ask, part.labels.__getitem__)
        made = _made(self.case.name, question, np.arange(len(part.probs)), part.probs)
        if made is None or not self.case.draft:
            return made
        return replace(made, draft_probs=(1 - IMPOSSIBLE) * made.mass(part.sums(self.case.draft[0][0])))

    def _block(self) -> Probe | None:
        lens = self.block_lens
        law = block_law(lens) if lens is not None and self.case.num_draft_tokens else None
        return None if lens is None or law is None else self._sent(block_question(lens), law)

    def _rule(self, rule: str | None, drafts: bool) -> Iterator[Probe | None]:
        declared = None if rule is None else rules_of(tree=self.case.tree is not None)[rule]
        law = None if declared is None else self.law(declared)
        if declared is None or law is None or self.rule_lens is None:
            return
        yield self.outcome_probe(declared)
        if drafts and self.case.num_draft_tokens:
            yield self._sent(draft_question(self.rule_lens), law)
        for question in rule_questions(self.rule_lens):
            if self.case.tree is None or question.check == "SV-LEN-001":  # the others ask about one draft per position
                yield self._sent(question, law)

    def _rounds(self, rule: str | None) -> Iterator[Probe]:
        """Make the probes of reported rounds, each of them uniform over its cells whatever the laws of the rows."""
        assert self.case.loop is not None
        null = np.append(np.full(CELLS, (1 - IMPOSSIBLE) / CELLS), IMPOSSIBLE)
        for asked in round_questions(ROUNDS, self.case.loop.num_draft_tokens, rule):
            labels = tuple(asked.label(cell) for cell in range(CELLS))
            question = Question(asked.check, asked.number, "rounds", asked.ask, asked.label)
            yield Probe(self.case.name, question, (*labels, "what cannot happen"), null, np.arange(CELLS + 1))

    def _sent(self, question: Question, law: Law) -> Probe | None:
        return _made(self.case.name, question, question.ask(law.view), law.weights)


@lru_cache(maxsize=256)
def case_probes(case: Case, tau: float, rule: str | None, drafts: bool = False) -> CaseProbes:
    """Give the probes of a case, made once for all runs of a process; the arguments are those of CaseProbes."""
    return CaseProbes(case, tau, rule, drafts)


def _made(case: str, question: Question, answers: IntArray, weights: FloatArray) -> Probe | None:
    """Send a law through a question; None when fewer than two answers are possible: then there is nothing to test."""
    inside = answers >= 0
    summed = np.bincount(answers[inside], weights=weights[inside], minlength=1)
    possible = np.flatnonzero(summed > 0)
    if len(possible) < 2:
        return None
    cells = min(len(possible), MAX_CELLS)
    lookup = np.full(len(summed) + 1, cells, dtype=np.int64)
    lookup[possible] = np.arange(len(possible)) % cells
    probs = np.bincount(lookup[possible], weights=summed[possible])
    null = np.append(probs / probs.sum() * (1 - IMPOSSIBLE), IMPOSSIBLE)
    labels = [question.label(int(answer)) for answer in possible[:cells]]
    return Probe(case, question, (*labels, "what cannot happen"), null, lookup)


def _outcome_space(lens: Lumping) -> int:
    size, full = lens.case.vocab_size, lens.case.num_draft_tokens
    space = (size + 1) ** (full + 1) * (full + 1)
    return space if lens.tables is None and space <= MAX_OUTCOME_SPACE else 0
