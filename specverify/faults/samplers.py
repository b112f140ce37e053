"""Every fault that a sampler can have is there to be run: vectorised, at any batch size, from a seed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.contract import Verifier, verifier
from specverify.errors import SamplerLoadError
from specverify.faults.edits import BlockEdit, Edit, acceptance, residual
from specverify.faults.kernels import draw, round_kernel, verify
from specverify.faults.loop_fault import LoopFault
from specverify.faults.loop_samplers import loop_sampler

if TYPE_CHECKING:
    from specverify.faults.record import Fault

__all__ = ["fault_sampler", "raced_rows", "shared_rows"]

RACED = 1 / 50  # share of rows that a race spoils


def fault_sampler(fault: Fault | LoopFault) -> Verifier:
    """Make a verifier with a fault, or a generator with one of loops.

    Args:
        fault: A record of ``KNOWN_FAULTS``. Where the fault lies in the drafting the verifier drafts by itself.

    Returns:
        A verifier named "fault:ID" that declares the rule it gets wrong; a generator declares none.

    Raises:
        SamplerLoadError: It cannot be run; the message says why.

    Example:
        >>> from specverify.faults import CATALOGUE
        >>> fault_sampler(CATALOGUE["K02"]).name, sorted(fault_sampler(CATALOGUE["K13"]).asks)
        ('fault:K02', ['draft_model', 'num_draft_tokens', 'seed', 'target_model'])
    """
    if fault.not_run:
        raise SamplerLoadError(f"expected a fault that can be run, got {fault.id}: {fault.not_run}; choose another")
    name = f"fault:{fault.id}"
    if fault.build is not None:
        return fault.build(name)
    if isinstance(fault, LoopFault):
        return loop_sampler(fault.edit, name)
    if fault.edit.drafts and isinstance(fault.edit, Edit):
        return _drafting(name, fault.edit)
    rule = "block" if isinstance(fault.edit, BlockEdit) else "token"
    return _verifying(name, rule, fault.edit, lambda accept, final: (accept, final))


def _verifying(
    name: str,
    rule: str,
    edit: Edit | BlockEdit,
    spoil: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]],
) -> Verifier:
    """Make a sampler of an edit, its uniforms being spoilt before they are used."""

    @verifier(name=name, rule=rule, readonly=True)
    def sampler(
        draft_tokens: IntArray,
        num_draft_tokens: IntArray,
        draft_probs: FloatArray,
        target_probs: FloatArray,
        seed: int,
    ) -> tuple[IntArray, IntArray]:
        rng = np.random.default_rng(seed)
        accept, final = spoil(rng.random(draft_tokens.shape), rng.random(len(draft_tokens)))
        return verify(edit, draft_tokens, draft_probs, target_probs, accept, final, num_draft_tokens)

    return sampler


def _drafting(name: str, edit: Edit) -> Verifier:
    """Make a sampler of an edit that drafts by itself; shared noise is really raced twice."""

    @verifier(name=name, rule="token", readonly=True)
    def sampler(
        draft_model: Callable[[IntArray], Any],
        target_model: Callable[[IntArray], Any],
        num_draft_tokens: IntArray,
        seed: int,
    ) -> tuple[IntArray, IntArray, IntArray]:
        rng = np.random.default_rng(seed)
        shape = (len(num_draft_tokens), int(num_draft_tokens.max(initial=0)))
        if edit.shared == "noise":
            return _raced(rng, shape, draft_model, target_model)
        uniforms = rng.random(shape), rng.random(shape), rng.random(shape[0])
        return round_kernel(edit, draft_model, target_model, *uniforms)

    return sampler


def _raced(
    rng: np.random.Generator,
    shape: tuple[int, int],
    draft_model: Callable[[IntArray], Any],
    target_model: Callable[[IntArray], Any],
) -> tuple[IntArray, IntArray, IntArray]:
    """Draft by a race of exponentials, and replace a rejected draft by a race of the same ones."""
    tokens = np.empty((shape[0], 0), dtype=np.int64)
    running, kept = np.ones(shape[0], dtype=np.bool_), np.zeros(shape[0], dtype=np.int64)
    following = np.empty(shape[0], dtype=np.int64)
    for _ in range(shape[1]):
        p, q = np.exp(target_model(tokens)), np.exp(draft_model(tokens))
        noise = rng.exponential(size=q.shape)
        x = _first(noise, q)
        chance = acceptance(p[np.arange(len(x)), x], q[np.arange(len(x)), x])
        refused = running & (rng.random(len(x)) >= chance)
        following[refused] = _first(noise[refused], residual(p[refused], q[refused]))
        running &= ~refused
        kept += running
        tokens = np.hstack([tokens, x[:, None]])
    bonus = np.exp(target_model(tokens))[running]
    following[running] = draw(bonus, rng.random(len(bonus)))
    return tokens, kept, following


def _first(noise: FloatArray, rates: FloatArray) -> IntArray:
    """Give the first to finish: the smallest noise / rate."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(rates > 0, noise / rates, np.inf).argmin(axis=1))


def shared_rows(name: str) -> Verifier:
    """Make a token sampler in which every row gets the first row's uniforms.

    Args:
        name: Its name.
    """

    def spoil(accept: FloatArray, final: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.broadcast_to(accept[:1], accept.shape), np.repeat(final[:1], len(final))

    return _verifying(name, "token", Edit(), spoil)


def raced_rows(name: str) -> Verifier:
    """Make a token sampler in which some rows get their neighbour's uniforms, others when the call is repeated.

    Args:
        name: Its name.
    """
    calls = count()

    def spoil(accept: FloatArray, final: FloatArray) -> tuple[FloatArray, FloatArray]:
        lost = np.random.default_rng(next(calls)).random(len(final)) < RACED
        return np.where(lost[:, None], np.roll(accept, 1, axis=0), accept), np.where(lost, np.roll(final, 1), final)

    return _verifying(name, "token", Edit(), spoil)
