"""Samplers to be judged: a plain vectorised token rule, the edits that make it faulty, and correct but unusual ones.

They share no code with the reference: acceptance by division and a float inverse distribution function, as engines
have it. A fault is one argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from specverify.contract import Verifier, verifier

Array = npt.NDArray[Any]


def ratio(p: Array, q: Array) -> Array:
    """Acceptance probability min(1, p/q) of the drafted tokens."""
    return np.asarray(np.minimum(1.0, p / np.maximum(q, np.finfo(q.dtype).tiny)))


def positive_part(p: Array, q: Array) -> Array:
    """Weights of the replacement: the residual (p - q)+."""
    return np.asarray(np.maximum(p - q, 0.0))


def draw(weights: Array, u: Any) -> Array:
    """Inverse distribution function of each row of ``weights`` at ``u``; never a token of weight zero."""
    cumulative = np.cumsum(weights, axis=1)
    found = (cumulative <= (u * cumulative[:, -1])[:, None]).sum(axis=1)
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    return np.asarray(np.minimum(found, last))


def token_sampler(
    name: str = "correct",
    *,
    accept: Callable[[Array, Array], Array] = ratio,
    replacement: Callable[[Array, Array], Array] = positive_part,
    one_coin: bool = False,
    reuse_coin: bool = False,
    bonus_from_draft: bool = False,
    dtype: str = "float64",
) -> Verifier:
    """Make a batched token verifier with the given edits."""

    @verifier(name=name, rule="token", dtype=dtype, readonly=True)
    def sampler(draft_tokens: Array, draft_probs: Array, target_probs: Array, seed: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(seed)
        batch, length = draft_tokens.shape
        rows = np.arange(batch)
        coins = rng.random((batch, 1 if one_coin else length), dtype=np.dtype(dtype).type) * np.ones((1, length))
        drafted = rows[:, None], np.arange(length), draft_tokens
        accepted = coins < accept(target_probs[drafted], draft_probs[drafted])
        stop = np.cumprod(accepted, axis=1).sum(axis=1)
        target = target_probs[rows, stop]
        if length == 0:
            return stop, draw(target, rng.random(batch))
        draft = draft_probs[rows, np.minimum(stop, length - 1)]
        full = (stop == length)[:, None]
        weights = np.where(full, draft if bonus_from_draft else target, replacement(target, draft))
        fresh = rng.random(batch, dtype=np.dtype(dtype).type)
        if reuse_coin:
            fresh = np.where(stop < length, coins[rows, np.minimum(stop, length - 1)], fresh)
        return stop, draw(weights, fresh)

    return sampler


def _mode(p: Array, q: Array) -> Array:
    rest = positive_part(p, q)
    return np.asarray(np.arange(rest.shape[1]) == rest.argmax(axis=1)[:, None], dtype=rest.dtype)


FAULTS = {
    "K01": token_sampler("K01", accept=lambda p, _: np.ones_like(p)),
    "K02": token_sampler("K02", replacement=lambda p, _: p),
    "K03a": token_sampler("K03a", replacement=lambda p, q: np.abs(p - q)),
    "K05": token_sampler("K05", replacement=_mode),
    "K07": token_sampler("K07", accept=lambda p, q: ratio(q, p)),
    "K12": token_sampler("K12", reuse_coin=True),
    "K15": token_sampler("K15", one_coin=True),
    "K31": token_sampler("K31", bonus_from_draft=True),
}
"""One-line faults by the id of the catalogue."""


@verifier(name="N1", rule="match", readonly=True)
def match_sampler(draft_tokens: Array, target_probs: Array, seed: int) -> tuple[Array, Array]:
    """Control N1: emit the target's own draw, go on while it equals the draft."""
    rng = np.random.default_rng(seed)
    batch, length = draft_tokens.shape
    rows = np.arange(batch)
    own = np.stack([draw(target_probs[:, i], rng.random(batch)) for i in range(length + 1)], axis=1)
    stop = np.cumprod(own[:, :length] == draft_tokens, axis=1).sum(axis=1)
    return stop, own[rows, stop]


@verifier(name="N2", rule="one_hot", readonly=True)
def one_hot_sampler(draft_tokens: Array, target_probs: Array, seed: int) -> tuple[Array, Array]:
    """Control N2: a sampled draft scored as a point mass: accept with p(x), else p without x."""
    rng = np.random.default_rng(seed)
    batch, length = draft_tokens.shape
    rows = np.arange(batch)
    accepted = rng.random((batch, length)) < target_probs[rows[:, None], np.arange(length), draft_tokens]
    stop = np.cumprod(accepted, axis=1).sum(axis=1)
    weights = target_probs[rows, stop].copy()
    refused = np.flatnonzero(stop < length)
    weights[refused, draft_tokens[refused, stop[refused]]] = 0.0
    return stop, draw(weights, rng.random(batch))


@verifier(name="global", rule="token", readonly=True)
def global_sampler(draft_tokens: Array, draft_probs: Array, target_probs: Array) -> tuple[Array, Array]:
    """Draw from the global generator, as older code does."""
    result: tuple[Array, Array] = token_sampler().function(
        draft_tokens,
        draft_probs,
        target_probs,
        np.random.randint(2**31),  # noqa: NPY002 - that is the point
    )
    return result


CONTROLS = {
    "correct": token_sampler(),
    "float32": token_sampler("float32", dtype="float32"),
    "N1": match_sampler,
    "N2": one_hot_sampler,
    "global": global_sampler,
}
"""Correct samplers, some of them unusual, that must never fail."""
