"""Token and block verification of whole batches on given uniforms, in NumPy: the rules again, fast.

Here is what depends on the rule: which drafted tokens are accepted, and from which weights the next token is drawn
(``draw`` does that). Inputs are never written and never copied whole.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .draw import NONE, UNIT, Doubles, Floats, Ints, Weights, draw, masses
from .philox import philox_draws
from .refusals import demand_shapes, no_mass, outside

__all__ = ["verify_block", "verify_token", "verify_token_seeded"]

_UNIT = np.float64(UNIT)


def verify_token(
    draft_tokens: Ints,
    draft_probs: Floats,
    target_probs: Floats,
    accept: Floats,
    final: Floats,
    num_draft_tokens: Ints | None = None,
) -> tuple[Ints, Ints]:
    """Verify every row by the token rule: accept while ``accept * q[x] < p[x]``, then draw from (p - q)+ or the bonus.

    Args:
        draft_tokens: int [B, G], in [0, V); whatever lies beyond a row's own length is not read.
        draft_probs: float64, float32 or float16 [B, G, V]; may be a read-only broadcast view.
        target_probs: the same of shape [B, G + 1, V]; row ``num_draft_tokens`` is the bonus row.
        accept: float [B, G], uniforms in [0, 1); one per drafted token.
        final: float [B], uniforms in [0, 1); one per row, for the emitted token.
        num_draft_tokens: int [B] in 0 .. G, a row's own draft length; G everywhere if left out.

    Returns:
        num_accepted int64 [B] and next_token int64 [B].

    Raises:
        ValueError: the shapes do not fit, a token or uniform is out of range, or the weights that an emitted token
            is drawn from are NaN, negative, all zero, or sum to 2 or more.

    >>> p, q = np.array([[[0.6, 0.4], [0.6, 0.4]]]), np.array([[[0.8, 0.2]]])
    >>> verify_token(np.array([[0]]), q, p, np.array([[0.8]]), np.array([0.5]))
    (array([0]), array([1]))
    """
    drafted = _drafted(draft_tokens, draft_probs, target_probs, accept, final, num_draft_tokens)
    num_accepted = _accepted(drafted, accept)
    return num_accepted, _emit(draft_probs, target_probs, _bits(final), num_accepted, drafted.lengths, None)


def verify_token_seeded(
    draft_tokens: Ints,
    draft_probs: Floats,
    target_probs: Floats,
    seed: int,
    first_trial: int = 0,
    num_draft_tokens: Ints | None = None,
) -> tuple[Ints, Ints]:
    """Verify every row by the token rule with the words of ``philox``: the same seed and trial give the same tokens.

    Args:
        draft_tokens: as for ``verify_token``, and so ``draft_probs``, ``target_probs`` and ``num_draft_tokens``.
        draft_probs: see there.
        target_probs: see there.
        seed: in [0, 2**64).
        first_trial: trial of row 0; row k is trial ``first_trial + k``, whatever the batch is.
        num_draft_tokens: see there.

    Returns:
        num_accepted int64 [B] and next_token int64 [B].

    Raises:
        ValueError: as ``verify_token`` does, or the seed or a trial is no number of 64 bits.

    >>> p, q = np.array([[[0.6, 0.4], [0.6, 0.4]]] * 3), np.array([[[0.8, 0.2]]] * 3)
    >>> verify_token_seeded(np.array([[0], [0], [1]]), q, p, seed=5)
    (array([0, 1, 1]), array([1, 1, 0]))
    """
    size, gamma = draft_tokens.shape
    accept, bits = philox_draws(seed, size, gamma, first_trial)
    drafted = _drafted(draft_tokens, draft_probs, target_probs, accept, bits[:, 0], num_draft_tokens)
    num_accepted = _accepted(drafted, accept)
    drawn = bits[np.arange(len(bits)), num_accepted]
    return num_accepted, _emit(draft_probs, target_probs, drawn, num_accepted, drafted.lengths, None)


def verify_block(
    draft_tokens: Ints,
    draft_probs: Floats,
    target_probs: Floats,
    accept: Floats,
    final: Floats,
    num_draft_tokens: Ints | None = None,
) -> tuple[Ints, Ints]:
    """Verify every row by the block rule: the last i with ``accept < h_i`` counts, every position being looked at.

    Arguments, results and errors are those of ``verify_token``; source as in the rule ``block``.
    """
    drafted = _drafted(draft_tokens, draft_probs, target_probs, accept, final, num_draft_tokens)
    w = _joint_weights(drafted)
    passed = (accept < _survival(draft_probs, target_probs, w, drafted.lengths)) & drafted.own
    num_accepted = (passed * np.arange(1, passed.shape[1] + 1)).max(axis=1, initial=0)
    kept = w[np.arange(len(w)), num_accepted]
    return num_accepted, _emit(draft_probs, target_probs, _bits(final), num_accepted, drafted.lengths, kept)


class _Drafted(NamedTuple):
    """What the accept tests read: each drafted token's p and q, times 2^62, and which positions are a row's own.

    The scaling is exact and takes part in no result, except that no product with a subnormal q can round up to q.
    """

    p: Doubles
    q: Doubles
    own: npt.NDArray[np.bool_] | np.bool_
    lengths: Ints


def _drafted(
    draft_tokens: Ints,
    draft_probs: Floats,
    target_probs: Floats,
    accept: Floats,
    final: npt.NDArray[Any],
    num_draft_tokens: Ints | None,
) -> _Drafted:
    lengths = np.full(*draft_tokens.shape) if num_draft_tokens is None else np.asarray(num_draft_tokens, np.int64)
    size, gamma, vocab = demand_shapes(draft_tokens, draft_probs, target_probs, accept, final, lengths)
    rows, positions = np.arange(size)[:, None], np.arange(gamma)
    own: npt.NDArray[np.bool_] | np.bool_ = np.True_
    tokens = draft_tokens.astype(np.int64, casting="same_kind", copy=False)
    if num_draft_tokens is not None:
        _demand("num_draft_tokens", (lengths >= 0) & (lengths <= gamma), f"0 .. {gamma}")
        own = positions < lengths[:, None]
        tokens = np.where(own, tokens, 0)
    _demand("draft_tokens", tokens.view(np.uint64) < vocab, f"[0, {vocab})")  # a negative one is a very large one
    with np.errstate(over="ignore"):
        p = target_probs[rows, positions, tokens] * _UNIT
        q = draft_probs[rows, positions, tokens] * _UNIT
    return _Drafted(p, q, own, lengths)


def _demand(what: str, holds: npt.NDArray[np.bool_], domain: str) -> None:
    if not holds.all():
        raise outside(what, domain, int(np.argwhere(~holds)[0][0]))


def _joint_weights(drafted: _Drafted) -> Doubles:
    size, gamma = drafted.p.shape
    w = np.ones((size, gamma + 1))
    for i in range(gamma):
        p, q = w[:, i] * drafted.p[:, i], drafted.q[:, i]
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = np.divide(p, q, out=(p > 0).astype(np.float64), where=q > 0)
        w[:, i + 1] = np.minimum(ratio, 1)
    return w


def _survival(draft_probs: Floats, target_probs: Floats, w: Doubles, lengths: Ints) -> Doubles:
    h = w[:, 1:].copy()
    rows, positions = np.nonzero(np.arange(1, h.shape[1]) < lengths[:, None])
    positions += 1
    weights = w[rows, positions]
    owed = masses(Weights(target_probs, draft_probs, rows, positions, weights))
    failed = owed + (1 - weights)
    h[rows, positions - 1] = np.divide(owed, failed, out=np.ones(len(owed)), where=failed > 0)
    return h


def _accepted(drafted: _Drafted, accept: Floats) -> Ints:
    passed = (np.asarray(accept, np.float64) * drafted.q < drafted.p) & drafted.own
    num_accepted: Ints = np.logical_and.accumulate(passed, axis=1).sum(axis=1)
    return num_accepted


def _bits(final: Floats) -> npt.NDArray[np.uint64]:
    _demand("final", (final >= 0) & (final < 1), "[0, 1)")
    return np.ldexp(final.astype(np.float64), 64).astype(np.uint64)


def _emit(
    draft_probs: Floats,
    target_probs: Floats,
    bits: npt.NDArray[np.uint64],
    num_accepted: Ints,
    lengths: Ints,
    kept: Doubles | None,
) -> Ints:
    """Draw from (kept p - q)+ after a rejection, from p after none or where that residual is empty."""
    next_token = np.full(len(bits), NONE)
    rejected = (num_accepted < lengths).nonzero()[0]
    if len(rejected):
        scale = None if kept is None else kept[rejected]
        residual = Weights(target_probs, draft_probs, rejected, num_accepted[rejected], scale)
        next_token[rejected] = draw(residual, bits[rejected])
    plain = (next_token == NONE).nonzero()[0]
    if len(plain):
        next_token[plain] = draw(Weights(target_probs, None, plain, num_accepted[plain], None), bits[plain])
        if (next_token == NONE).any():
            raise no_mass(int((next_token == NONE).argmax()))
    return next_token
