"""A record says of one known fault what it does, why that is wrong, what repairs it, and what its exact law is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias

from specverify.arrays import FloatArray
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.faults import tapes
from specverify.faults.edits import BlockEdit, Edit
from specverify.faults.laws import first_token_law, outcome_law_arrays
from specverify.faults.rounds import round_law
from specverify.lumping import Law
from specverify.reference import (
    LongerRule,
    Model,
    Number,
    Outcome,
    Rule,
    completed_law,
    outcome_law,
    target_law,
    total_variation,
)
from specverify.tolerance import TIE_TOLERANCE

__all__ = ["Fault", "Record", "Shows"]

Shows: TypeAlias = Literal["law", "structure", "sharing", "replay", "numerics"]
UNEDITED = Edit()
SHOWS = {
    "structure": "in the form of what is returned",
    "sharing": "in what rows or calls have in common",
    "replay": "when a call is repeated",
    "numerics": "on special numbers",
}
LONGEST = 16  # characters up to which a fraction is written out


@dataclass(frozen=True)
class Record(ABC):
    """What is said of a known fault, whatever has it.

    Attributes:
        id: Stable id, such as K02; its letter is the level: K one draft per position, M several, Q the draft's law, L
            the processing of rows, G the generate loop, C what it is called with. K02-loop is K02 in a loop.
        name: Short name.
        claim: What the sampler seems to do, to follow "it".
        wrong: Why that is wrong.
        advice: What to change.
        exposed_by: The smallest input that shows it.
        hidden_by: Inputs or tests that cannot show it; empty where none is known.
        provenance: Public reports of the mechanism, as repository#number, or what else it is known from.
        shows: Where it can be seen: in the law of outcomes, in the structure of what is returned, in randomness shared
            between rows or calls, when a call is replayed, or only by special numbers.
        build: Makes its sampler, given a name, where that is not simply the edit.
        not_run: Why it cannot be run; empty where it can.
    """

    id: str
    name: str
    claim: str
    wrong: str
    advice: str
    exposed_by: str
    hidden_by: str = ""
    provenance: str = "a negative control, not reported in this form"
    shows: Shows = "law"
    build: Callable[[str], Verifier] | None = None
    not_run: str = ""

    @property
    def level(self) -> str:
        """Give the letter of its id."""
        return self.id[0]

    @property
    def runnable(self) -> bool:
        """Whether a sampler with this fault can be made."""
        return not self.not_run

    @abstractmethod
    def may_be_of(self, verifier: Verifier) -> bool:
        """Say whether a verifier can have it, by its form, so that its law can be seen in what it returns."""

    @property
    def explain(self) -> str:
        """Give the whole record as text, its exact laws included."""
        lines = [("Mechanism", f"it {self.claim}."), ("Wrong", f"{self.wrong}."), ("Repair", f"{self.advice}.")]
        lines += [*self._laws(), ("Reported", f"{self.provenance}."), ("Exposed", f"by {self.exposed_by}.")]
        lines += [("Hidden", f"from {self.hidden_by}.")] * bool(self.hidden_by)
        return f"{self.id}  {self.name}\n\n" + "\n".join(f"{label + ':':<11}{text}" for label, text in lines)

    @abstractmethod
    def _laws(self) -> list[tuple[str, str]]:
        """Give the lines on its exact laws."""


@dataclass(frozen=True)
class Fault(Record):
    """One known fault of a round.

    Attributes:
        edit: What it changes in the token or the block rule; nothing where the law of a row is not touched.
        longer: A rule that emits more tokens than the contract allows, for faults that do.
        tree: From target and draft to the exact law of one round, for faults of trees.
        plays: Whether such a fault of trees lies in drafting them, so that its sampler drafts and shows the text alone.

    Example:
        >>> from specverify.faults import CATALOGUE
        >>> CATALOGUE["K02"].name, CATALOGUE["K02"].level, CATALOGUE["K02"].shows
        ('residual_target', 'K', 'law')
    """

    edit: Edit | BlockEdit = UNEDITED
    longer: LongerRule | None = None
    tree: Callable[[Model, Model], dict[Outcome, Number]] | None = None
    plays: bool = False

    @cached_property
    def rule(self) -> Rule:
        """Give the rule that it is for drafts that are given; what is emitted beyond the contract is left out."""
        return tapes.rule(self.edit)

    @property
    def has_law(self) -> bool:
        """Whether it shows in the law of what a sampler of chains returns."""
        return self.shows == "law" and (self.tree is None or self.plays)

    @property
    def drafts(self) -> bool:
        """Whether only a sampler that drafts by itself can have it."""
        return self.edit.drafts or self.plays

    def may_be_of(self, verifier: Verifier) -> bool:
        """Say whether a verifier of chains can have it, by its form, so that its law can be seen in what it returns."""
        form = verifier.drafts or not self.drafts
        return self.has_law and form and not verifier.loops and not (self.plays and verifier.rule is not None)

    def law(self, case: Case, tau: float = TIE_TOLERANCE["float64"]) -> Law | None:
        """Give the law of (drafted tokens, accepted length, next token) on a case; see ``outcome_law_arrays``.

        A fault of trees has none, None; one that plays has that of the text alone, see ``round_law``.
        """
        if self.plays:
            return round_law(self.id, case)
        return None if self.tree is not None else outcome_law_arrays(self.edit, case, tau)

    def first_token_law(self, p: FloatArray, q: FloatArray | None) -> FloatArray | None:
        """Give the law float64 [V] of the first token, see the function of that name; None for a fault of trees."""
        return None if self.tree is not None else first_token_law(self.edit, p, q)

    def exact_law(self, target: Model, draft: Model, num_draft_tokens: int) -> dict[Outcome, Number]:
        """Enumerate one round, what is emitted beyond the contract included.

        Args:
            target: Gives the target row after a prefix.
            draft: Gives the draft row after a prefix.
            num_draft_tokens: How many tokens are drafted; not read for a fault of trees, which has a tree of its own.

        Returns:
            The probability of every outcome, exact for rows of Fractions; of a tree the accepted tokens only.
        """
        if self.tree is not None:
            return self.tree(target, draft)
        if self.longer is not None:
            return outcome_law(self.longer, target, draft, num_draft_tokens)
        return tapes.exact_law(self.edit, target, draft, num_draft_tokens)

    def _laws(self) -> list[tuple[str, str]]:
        if self.tree is not None:
            names = ("AB", "C3", "T3", "W637")
            return [
                ("First", f"law of the first token, two siblings: {_listed(self._first, *names)}."),
                ("Joint", f"distance of three tokens: {_listed(self._joint, *names)}."),
            ]
        if self.edit is not UNEDITED or self.longer is not None:
            return [
                ("First", f"law of the first token, one drafted: {_listed(self._first, 'AB', 'C2', 'C3', 'T3')}."),
                ("Joint", f"distance of three tokens, two drafted: {_listed(self._joint, 'AB', 'C3', 'T3', 'W402')}."),
            ]
        return [("Law", f"that of the correct rule, row by row; it shows {SHOWS[self.shows]}.")]

    def _first(self, target: Model, draft: Model) -> str:
        law = completed_law(self.exact_law(target, draft, 1), target, 1)
        shown = ", ".join(_shown(law.get((x,), 0)) for x in range(len(target(()))))
        distance = total_variation(law, target_law(target, 1))
        return f"({shown})" + (f" at distance {_shown(distance)}" if distance else ", which is exact")

    def _joint(self, target: Model, draft: Model) -> str:
        law = completed_law(self.exact_law(target, draft, 2), target, 3)
        return _shown(total_variation(law, target_law(target, 3)))


def _listed(value: Callable[[Model, Model], str], *names: str) -> str:
    from specverify.menu import menu

    cases = {case.name: case for case in menu()}
    return "; ".join(f"{name} {value(*_models(cases[name]))}" for name in names)


def _models(case: Case) -> tuple[Model, Model]:
    if case.contextual:
        return case.target_row, case.draft_row
    return lambda _: case.target_row(()), lambda _: case.draft_row(())


def _shown(number: Number) -> str:
    exact = str(Fraction(number))
    return exact if len(exact) <= LONGEST else f"{float(number):.6g}"
