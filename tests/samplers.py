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
BLOCK = 256


def ratio(p: Array, q: Array) -> Array:
    """Acceptance probability min(1, p/q) of the drafted tokens."""
    return np.asarray(np.minimum(1.0, p / np.maximum(q, np.finfo(q.dtype).tiny)))


def positive_part(p: Array, q: Array) -> Array:
    """Weights of the replacement: the residual (p - q)+."""
    return np.asarray(np.maximum(p - q, 0.0))


def draw(weights: Array, u: Any) -> Array:
    """Inverse distribution function of each row of ``weights`` at ``u``; never a token of weight zero.

    A wide row is searched by the masses of its blocks, and then within one block.
    """
    width = weights.shape[1]
    if width <= 4 * BLOCK:
        return _inverse(np.cumsum(weights, axis=1), weights > 0, u)
    starts, rows = np.arange(0, width, BLOCK), np.arange(len(weights))
    masses = np.add.reduceat(weights, starts, axis=1)
    ends = np.cumsum(masses, axis=1)
    block = _inverse(ends, masses > 0, u)
    mass = masses[rows, block]
    left = np.clip((u * ends[:, -1] - (ends[rows, block] - mass)) / mass, 0.0, 1.0)
    within = starts[block][:, None] + np.arange(BLOCK)
    inside = np.where(within < width, weights[rows[:, None], np.minimum(within, width - 1)], 0)
    return np.asarray(starts[block] + _inverse(np.cumsum(inside, axis=1), inside > 0, left))


def _inverse(cumulative: Array, positive: Array, u: Any) -> Array:
    found = (cumulative <= (u * cumulative[:, -1])[:, None]).sum(axis=1)
    last = positive.shape[1] - 1 - np.argmax(positive[:, ::-1], axis=1)
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
        weights = target_probs[rows, stop]
        refused, full = np.flatnonzero(stop < length), np.flatnonzero(stop == length)
        weights[refused] = replacement(weights[refused], draft_probs[refused, stop[refused]])
        if bonus_from_draft and length:
            weights[full] = draft_probs[full, length - 1]
        fresh = rng.random(batch, dtype=np.dtype(dtype).type)
        if reuse_coin:
            fresh[refused] = coins[refused, stop[refused]]
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
    weights = target_probs[rows, stop]
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


@verifier(name="N3", readonly=True)
def truncated_sampler(draft_model: Any, target_model: Any, num_draft_tokens: Array, seed: int) -> tuple[Array, ...]:
    """Control N3: drafts at temperature 1/2 without the unlikely tokens, scored by that very law."""
    rng = np.random.default_rng(seed)
    batch, length = len(num_draft_tokens), int(num_draft_tokens.max(initial=0))
    tokens = np.zeros((batch, length), dtype=np.int64)
    laws, stop, going = [], np.zeros(batch, dtype=np.int64), np.ones(batch, dtype=np.bool_)
    for i in range(length):
        q = np.asarray(draft_model(tokens[:, :i])) * 2
        np.exp(q, out=q)
        q[q < 0.2 * q.max(axis=1, keepdims=True)] = 0.0
        q /= q.sum(axis=1, keepdims=True)
        tokens[:, i] = draw(q, rng.random(batch))
        laws.append(q)
    rows, weights = np.arange(batch), np.empty((batch, target_model.vocab_size))
    for i in range(length + 1):
        scores = np.asarray(target_model(tokens[:, :i]))
        if i < length:
            x = tokens[:, i]
            accepted = rng.random(batch) < ratio(np.exp(scores[rows, x]), laws[i][rows, x])
            refused = np.flatnonzero(going & ~accepted)
            going &= accepted
            stop += going
            weights[refused] = positive_part(np.exp(scores[refused]), laws[i][refused])
    weights[going] = np.exp(scores[going])
    return tokens, stop, draw(weights, rng.random(batch))


@verifier(name="N5", readonly=True)
def no_bonus_sampler(draft_tokens: Array, draft_probs: Array, target_probs: Array, seed: int) -> tuple[Array, Array]:
    """Control N5: no bonus; the next round draws that token."""
    stop, following = token_sampler().function(draft_tokens, draft_probs, target_probs, seed)
    return stop, np.where(stop < draft_tokens.shape[1], following, -1)


@verifier(name="N5-cap", readonly=True)
def capped_sampler(draft_tokens: Array, draft_probs: Array, target_probs: Array, seed: int) -> tuple[Array, Array]:
    """Control N5: at most one draft is accepted, and the token after it is a fresh draw from the target."""
    stop, following = token_sampler().function(draft_tokens, draft_probs, target_probs, seed)
    rows = np.flatnonzero((stop > 1) | ((stop == 1) & (draft_tokens.shape[1] > 1)))
    rng = np.random.default_rng([seed, 1])
    following[rows] = draw(target_probs[rows, np.minimum(1, stop[rows])], rng.random(len(rows)))
    return np.minimum(stop, 1), following


@verifier(name="race", rule="token", readonly=True)
def race_sampler(draft_tokens: Array, draft_probs: Array, target_probs: Array, seed: int) -> tuple[Array, Array]:
    """Draw the replacement and the bonus by a race of exponentials, fresh ones, as engines do."""
    rng = np.random.default_rng(seed)
    batch, length = draft_tokens.shape
    rows = np.arange(batch)
    drafted = rows[:, None], np.arange(length), draft_tokens
    accepted = rng.random((batch, length)) < ratio(target_probs[drafted], draft_probs[drafted])
    stop = np.cumprod(accepted, axis=1).sum(axis=1)
    weights = target_probs[rows, stop]
    refused = np.flatnonzero(stop < length)
    weights[refused] = positive_part(weights[refused], draft_probs[refused, stop[refused]])
    with np.errstate(divide="ignore", over="ignore"):
        return stop, np.where(weights > 0, rng.exponential(size=weights.shape) / weights, np.inf).argmin(axis=1)


def mixed(seeds: Array, place: int) -> Array:
    """Make a uniform from each row's own seed and a place, by the finalizer of SplitMix64."""
    with np.errstate(over="ignore"):
        x = seeds.astype(np.uint64) * np.uint64(2**20) + np.uint64(place + 1)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        x ^= x >> np.uint64(31)
    return np.asarray((x >> np.uint64(11)) * 2.0**-53)


@verifier(name="seeds", rule="token", readonly=True)
def seeds_sampler(draft_tokens: Array, draft_probs: Array, target_probs: Array, seeds: Array) -> tuple[Array, Array]:
    """Give every row a stream of its own, from its own seed, wherever it stands in the batch."""
    batch, length = draft_tokens.shape
    stop, going = np.zeros(batch, dtype=np.int64), np.ones(batch, dtype=np.bool_)
    rows = np.arange(batch)
    for i in range(length):
        x = draft_tokens[:, i]
        going &= mixed(seeds, i) < ratio(target_probs[rows, i, x], draft_probs[rows, i, x])
        stop += going
    weights = target_probs[rows, stop]
    refused = np.flatnonzero(stop < length)
    weights[refused] = positive_part(weights[refused], draft_probs[refused, stop[refused]])
    return stop, draw(weights, mixed(seeds, length))


@verifier(name="logits", rule="token", readonly=True)
def logits_sampler(draft_tokens: Array, draft_logits: Array, target_logits: Array, seed: int) -> tuple[Array, Array]:
    """Take logits, and make the laws from them."""
    laws = [_softmax(logits) for logits in (draft_logits, target_logits)]
    result: tuple[Array, Array] = token_sampler().function(draft_tokens, *laws, seed)
    return result


def _softmax(logits: Array) -> Array:
    one = logits[:1] if logits.strides[0] == 0 else logits  # rows that are one in memory need one law
    laws = np.exp(one - one.max(axis=2, keepdims=True))
    return np.broadcast_to(laws / laws.sum(axis=2, keepdims=True), logits.shape)


@verifier(name="lists", rule="token", max_batch=1, readonly=True)
def lists_sampler(
    draft_tokens: Array, draft_probs: Array, target_probs: Array, generator: np.random.Generator
) -> list[list[int]]:
    """Take one sequence at a time, in plain Python, and return its tokens as lists."""
    rows = zip(draft_tokens.tolist(), draft_probs.tolist(), target_probs.tolist(), strict=True)
    return [_verified(drafted, q, p, generator) for drafted, q, p in rows]


def _verified(drafted: list[int], q: list[Any], p: list[Any], generator: np.random.Generator) -> list[int]:
    emitted: list[int] = []
    for i, x in enumerate(drafted):
        if generator.random() * q[i][x] >= p[i][x]:
            rest = [max(a - b, 0.0) for a, b in zip(p[i], q[i], strict=True)]
            return [*emitted, _one(rest, generator.random()), *[-1] * (len(drafted) - i)]
        emitted.append(x)
    return [*emitted, _one(p[len(emitted)], generator.random())]


def _one(weights: list[float], u: float) -> int:
    left = u * sum(weights)
    for x, weight in enumerate(weights):
        left -= weight
        if left < 0 < weight:
            return x
    return max(x for x, weight in enumerate(weights) if weight > 0)


CONTROLS = {
    "correct": token_sampler(),
    "float32": token_sampler("float32", dtype="float32"),
    "N1": match_sampler,
    "N2": one_hot_sampler,
    "N3": truncated_sampler,
    "N5": no_bonus_sampler,
    "N5-cap": capped_sampler,
    "global": global_sampler,
    "race": race_sampler,
    "seeds": seeds_sampler,
    "logits": logits_sampler,
    "lists": lists_sampler,
}
"""Correct samplers, some of them unusual, that must never fail."""
