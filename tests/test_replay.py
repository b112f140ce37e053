"""A call made again gives what it gave: races in few rows, ignored seeds and rows that feel their neighbours show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samplers import CONTROLS, draw

from specverify.contract import Verifier, verifier
from specverify.hard import Violation
from specverify.replay import replay

Array = Any


def seeded(uniforms: Callable[[Array], Array], max_batch: int | None = None) -> Verifier:
    """Make a sampler that emits the target's own draw, from uniforms [B] that follow from the rows' seeds."""

    @verifier(name="seeded", readonly=True, max_batch=max_batch)
    def sampler(target_probs: Array, seeds: Array) -> Array:
        tokens = draw(target_probs[:, 0], uniforms(seeds))
        return np.pad(tokens[:, None], ((0, 0), (0, target_probs.shape[1] - 1)), constant_values=-1)

    return sampler


def own(seeds: Array) -> Array:
    """Draw one uniform per row from its own seed."""
    return np.array([np.random.default_rng(int(seed)).random() for seed in seeds])


def messages(sampler: Verifier, seed: int = 3) -> list[str]:
    """Give what replay objects to, having checked that it is a matter of replay."""
    violations, warnings = replay(sampler, seed)
    assert all(isinstance(found, Violation) and found.check == "SV-RPL-001" for found in violations)
    assert warnings == []
    return [found.message for found in violations]


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_replay(name: str) -> None:
    """Correct samplers, also one that draws from the global generators, give again what they gave."""
    assert replay(CONTROLS[name], 3) == ([], [])


@pytest.mark.parametrize("max_batch", [None, 1])
def test_rows_that_follow_from_their_own_seeds_replay(max_batch: int | None) -> None:
    """Order, neighbours and company make no difference to such rows."""
    assert messages(seeded(own, max_batch)) == []


@pytest.mark.parametrize("place", [0, 1])
def test_rows_of_tensors_replay_from_their_own_seeds(place: int) -> None:
    """Rows in another order are handed over as tensors too; a draw that follows from the place as well is found."""
    torch = pytest.importorskip("torch", reason="torch is not installed")

    @verifier(framework="torch")
    def sampler(draft_tokens: Array, target_probs: Array, seeds: Array) -> Array:
        uniforms = own((seeds + place * torch.arange(len(seeds))).numpy())
        tokens = torch.from_numpy(draw(target_probs[:, 0].numpy(), uniforms))
        return torch.zeros(len(draft_tokens), dtype=torch.int64), tokens

    assert [message.partition(",")[0] for message in messages(sampler)][:1] == ["rows in another order"] * place


def test_a_row_that_takes_its_place_into_account_does_not_replay() -> None:
    """A coin keyed to the place in the batch as well: another order shows it, and so does no other test."""
    found = messages(seeded(lambda seeds: own(seeds + np.arange(len(seeds)))))
    assert found[0] == "rows in another order, each with its own seed, gave other results"
    assert "rows among others, each with its own seed, gave other results" not in found


def test_a_row_that_feels_its_neighbours_does_not_replay() -> None:
    """A coin that depends on all seeds of the call, whatever their order: other neighbours show it."""
    found = messages(seeded(lambda seeds: own(seeds ^ np.bitwise_xor.reduce(seeds))))
    assert found == [
        "rows among others, each with its own seed, gave other results",
        "a row alone, with its own seed, gave another result than in the batch",
    ]


def test_a_row_that_is_treated_otherwise_when_alone_does_not_replay() -> None:
    """A path of its own for one row, as engines have it, with other coins."""
    found = messages(seeded(lambda seeds: own(seeds + (len(seeds) == 1))))
    assert found == ["a row alone, with its own seed, gave another result than in the batch"]


@pytest.mark.parametrize("every", [50, 2000])
def test_a_race_in_few_rows_is_found(every: int) -> None:
    """One row in fifty, or in 2000, of all rows of all calls takes its neighbour's uniform: repeated calls show it."""
    rows_seen = 0

    @verifier(name="race", readonly=True)
    def race(target_probs: Array, seed: int) -> Array:
        nonlocal rows_seen
        batch = len(target_probs)
        u = np.random.default_rng(seed).random(batch)
        hit = (rows_seen + np.arange(batch)) % every == every - 1
        rows_seen += batch + 7
        tokens = draw(target_probs[:, 0], np.where(hit, np.roll(u, 1), u))
        return np.pad(tokens[:, None], ((0, 0), (0, target_probs.shape[1] - 1)), constant_values=-1)

    (message,) = messages(race)
    assert message.startswith("the same inputs and seed gave two different results: on case ")
    assert " differs from the first in " in message


def test_a_race_that_needs_a_large_vocabulary_is_found() -> None:
    """What differs at 1024 tokens only is found there."""
    state = np.random.default_rng(0)

    @verifier(name="race", readonly=True)
    def race(target_probs: Array, seed: int) -> Array:
        batch, width, size = target_probs.shape
        rng = state if size == 1024 else np.random.default_rng(seed)
        tokens = draw(target_probs[:, 0], rng.random(batch))
        return np.pad(tokens[:, None], ((0, 0), (0, width - 1)), constant_values=-1)

    (message,) = messages(race)
    assert "on case softmax-1024 call 2 differs" in message
    assert message.endswith("of 64 rows")


def test_an_ignored_seed_is_found() -> None:
    """Sixteen seeds, one result."""

    @verifier(name="deaf", readonly=True)
    def deaf(target_probs: Array, seed: int) -> Array:
        tokens = draw(target_probs[:, 0], np.random.default_rng(0 * seed).random(len(target_probs)))
        return np.pad(tokens[:, None], ((0, 0), (0, target_probs.shape[1] - 1)), constant_values=-1)

    assert messages(deaf) == ["16 different seeds gave one and the same result"]
