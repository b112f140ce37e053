"""The known faults: each is one edit of a rule, from which its exact law, its fast sampler and its text follow.

``CATALOGUE`` holds the records of faults of a round by id, ``LOOP_FAULTS`` those of generate loops, which are edits of
a loop; ``fault_sampler`` makes a sampler that has the fault. The laws serve the diagnosis of a sampler that was found
to be wrong, the samplers show that the kit finds what it should.
"""

from types import MappingProxyType

from specverify.faults.acceptance import FAULTS as _ACCEPTANCE
from specverify.faults.blocks import FAULTS as _BLOCKS
from specverify.faults.coins import FAULTS as _COINS
from specverify.faults.edits import BlockEdit, Edit
from specverify.faults.forms import FAULTS as _FORMS
from specverify.faults.kernels import kernel
from specverify.faults.laws import first_token_law, outcome_law_arrays
from specverify.faults.longer import FAULTS as _LONGER
from specverify.faults.loop_fault import LoopFault
from specverify.faults.loop_processing import FAULTS as _LOOP_PROCESSING
from specverify.faults.loop_rounds import FAULTS as _LOOP_ROUNDS
from specverify.faults.loop_state import FAULTS as _LOOP_STATE
from specverify.faults.proposals import FAULTS as _PROPOSALS
from specverify.faults.record import Fault
from specverify.faults.residuals import FAULTS as _RESIDUALS
from specverify.faults.samplers import fault_sampler
from specverify.faults.tapes import exact_law, rule
from specverify.faults.tree_records import FAULTS as _TREES

__all__ = [
    "CATALOGUE",
    "KNOWN_FAULTS",
    "LOOP_FAULTS",
    "BlockEdit",
    "Edit",
    "Fault",
    "LoopFault",
    "exact_law",
    "fault_sampler",
    "first_token_law",
    "kernel",
    "outcome_law_arrays",
    "rule",
]

_FAMILIES = (_ACCEPTANCE, _RESIDUALS, _COINS, _FORMS, _LONGER, _BLOCKS, _PROPOSALS, _TREES)

CATALOGUE = MappingProxyType(
    {fault.id: fault for fault in sorted((fault for family in _FAMILIES for fault in family), key=lambda x: x.id)}
)
"""The known faults of a round by id, in the order of the ids."""

LOOP_FAULTS = MappingProxyType(
    {fault.id: fault for fault in sorted((*_LOOP_PROCESSING, *_LOOP_ROUNDS, *_LOOP_STATE), key=lambda x: x.id)}
)
"""The known faults of generate loops by id, in the order of the ids."""

KNOWN_FAULTS: MappingProxyType[str, Fault | LoopFault] = MappingProxyType({**CATALOGUE, **LOOP_FAULTS})
"""All of them."""
