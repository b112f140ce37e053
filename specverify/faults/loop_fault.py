"""A record of a fault of a generate loop, whose law is that of a whole block of new tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from specverify.arrays import FloatArray
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.errors import ConfigError
from specverify.faults.loop_law import block_law, first_token_law
from specverify.faults.loop_steps import LoopEdit
from specverify.faults.record import SHOWS, Record
from specverify.wording import brief

__all__ = ["LoopFault", "due_law"]

CORRECT = LoopEdit()
ROUNDING = 1e-12  # laws closer than this are one


@dataclass(frozen=True)
class LoopFault(Record):
    """One known fault of a generate loop.

    Attributes:
        case: Name of the built-in case that shows it best.
        edit: What it changes in the loop.

    Example:
        >>> from specverify.faults import LOOP_FAULTS
        >>> LOOP_FAULTS["G06"].name, LOOP_FAULTS["G06"].case
        ('bonus_argmax', 'loop')
    """

    case: str = ""
    edit: LoopEdit = CORRECT

    def may_be_of(self, verifier: Verifier) -> bool:
        """Say whether a generator can have it so that its law can be seen in the tokens that come."""
        return verifier.loops and self.shows == "law"

    def law(self, case: Case, *, overdrafts: bool = False) -> FloatArray:
        """Give the exact law of all new tokens, float64 [V ** L]; see ``loop_law.block_law``.

        Args:
            case: A case of a loop.
            overdrafts: Whether the loop drafts its full length in the last round too, and cuts.

        Raises:
            ConfigError: The case asks for no loop.
        """
        return _law(self.edit, case, overdrafts)

    def first_token_law(self, case: Case) -> FloatArray:
        """Give the exact law of the first new token, float64 [V].

        Args:
            case: A case of a loop, perhaps of too many tokens for the law of all new ones.
        """
        assert case.loop is not None
        return first_token_law(self.edit, case.loop)

    def distance(self, case: Case) -> float:
        """Give the total variation between the law of all new tokens and the one that is due.

        Args:
            case: A case of a loop.
        """
        return float(np.abs(self.law(case) - due_law(case)).sum() / 2)

    def _laws(self) -> list[tuple[str, str]]:
        from specverify.loop_menu import loop_menu  # only who asks for laws needs the cases

        if self.shows != "law":
            return [("Law", f"that of the correct loop; it shows {SHOWS[self.shows]}.")]
        apart = {case.name: self.distance(case) for case in loop_menu() if case.loop and not case.loop.process}
        listed = "; ".join(f"{name} {distance:.6g}" for name, distance in apart.items() if distance > ROUNDING)
        return [("Blocks", f"distance of all new tokens: {listed}."), ("Case", f"{self.case}.")]


@lru_cache(maxsize=2**12)
def _law(edit: LoopEdit, case: Case, overdrafts: bool) -> FloatArray:
    if case.loop is None:
        raise ConfigError(f"case {brief(case.name)}: expected a case of a loop, got one of a round; use Case.from_loop")
    law = block_law(replace(edit, overdrafts=edit.overdrafts or overdrafts), case.loop)
    law.flags.writeable = False
    return law


@lru_cache(maxsize=2**8)
def due_law(case: Case) -> FloatArray:
    """Give the law of all new tokens that is due, float64 [V ** L], numbered as ``loop_law.block_law`` does.

    Args:
        case: A case of a loop.

    Example:
        >>> from specverify.loop_menu import flat_loop
        >>> due_law(flat_loop(2)).round(12).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    law = np.ones(1)
    for rows in case.target:
        law = (law[:, None] * rows).ravel()
    law.flags.writeable = False
    return law
