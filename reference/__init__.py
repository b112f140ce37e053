"""The exact reference: rules written once, their exact laws, and fast kernels that are proved equal to them.

The kernels that need torch, numba or triton (``verify_token_torch``, ``verify_block_torch``,
``verify_token_seeded_torch``, ``verify_token_compiled``, ``verify_token_fast``, ``verify_token_triton``) are here too.
They are no part of ``__all__``, and are imported when first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .cells import CellPoints, CellProof, Kernel, cell_points, cell_proof
from .cpu import verify_block, verify_token, verify_token_seeded
from .law import (
    Model,
    Outcome,
    accept_tail,
    branch_law,
    completed_law,
    expected_tokens,
    outcome_law,
    round_law,
    target_law,
    total_variation,
)
from .rules import RULES, LongerRule, Row, Rule, acceptance, block, match, one_hot, residual, survival, token
from .tape import (
    Box,
    Branch,
    LazyUniform,
    Name,
    Number,
    RandomTape,
    ScriptedTape,
    Tape,
    branches,
    choose,
    flip,
)
from .tree_cpu import verify_rrs, verify_target_only
from .tree_law import TREE_MODES, sibling_law, tree_law, tree_round
from .trees import TREE_RULES, TreeRule, TreeVerified, children, rrs, target_only, traversal

if TYPE_CHECKING:
    from .compiled import verify_token_compiled as verify_token_compiled
    from .fast import verify_token_fast as verify_token_fast
    from .gpu import verify_block_torch as verify_block_torch
    from .gpu import verify_token_seeded_torch as verify_token_seeded_torch
    from .gpu import verify_token_torch as verify_token_torch
    from .triton_kernel import verify_token_triton as verify_token_triton

__all__ = [
    "RULES",
    "TREE_MODES",
    "TREE_RULES",
    "Box",
    "Branch",
    "CellPoints",
    "CellProof",
    "Kernel",
    "LazyUniform",
    "LongerRule",
    "Model",
    "Name",
    "Number",
    "Outcome",
    "RandomTape",
    "Row",
    "Rule",
    "ScriptedTape",
    "Tape",
    "TreeRule",
    "TreeVerified",
    "accept_tail",
    "acceptance",
    "block",
    "branch_law",
    "branches",
    "cell_points",
    "cell_proof",
    "children",
    "choose",
    "completed_law",
    "expected_tokens",
    "flip",
    "match",
    "one_hot",
    "outcome_law",
    "residual",
    "round_law",
    "rrs",
    "sibling_law",
    "survival",
    "target_law",
    "target_only",
    "token",
    "total_variation",
    "traversal",
    "tree_law",
    "tree_round",
    "verify_block",
    "verify_rrs",
    "verify_target_only",
    "verify_token",
    "verify_token_seeded",
]

_EXTRAS = {
    "verify_block_torch": "gpu",
    "verify_token_compiled": "compiled",
    "verify_token_fast": "fast",
    "verify_token_seeded_torch": "gpu",
    "verify_token_torch": "gpu",
    "verify_token_triton": "triton_kernel",
}
"""Kernels that need an extra, and where they are."""

if not TYPE_CHECKING:  # a type checker would take it for any name

    def __getattr__(name: str) -> object:
        """Import a kernel that needs torch, numba or triton on first use."""
        if name not in _EXTRAS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = getattr(import_module(f".{_EXTRAS[name]}", __name__), name)
        return globals()[name]


def __dir__() -> list[str]:
    """List the public names, also those not imported yet."""
    return sorted({*globals(), *_EXTRAS})
