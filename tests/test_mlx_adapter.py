"""The adapter of mlx-lm: its model over a real cache, its rounds and tokens; without mlx, one line that says so."""

import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from specverify import registry
from specverify.errors import SamplerLoadError
from specverify.evidence import gof
from specverify.loop_menu import EOS, base_loop
from specverify.loops import Loop

INSTALLED = find_spec("mlx") is not None and find_spec("mlx_lm") is not None
needs_mlx = pytest.mark.skipif(not INSTALLED, reason="mlx-lm is not installed")
LEVEL = 1e-9


def called(loop: Loop, seed: int, **changed: Any) -> Any:
    """Call the adapter once."""
    asked: dict[str, Any] = {
        "num_draft_tokens": loop.num_draft_tokens,
        "max_new_tokens": loop.max_new_tokens,
        "seed": seed,
    }
    asked |= {
        "temperature": 1.0,
        "top_k": 0,
        "eos_token_id": loop.target.eos_token_id,
        "prompt": np.array([loop.prompt]),
    }
    laws = {"target_model": Rounding(loop.target), "draft_model": Rounding(loop.draft)}
    return registry.load("mlx-lm").function(**laws | asked | changed)


class Rounding:
    """A model as the kit hands one: log-probabilities in float32."""

    def __init__(self, model: Any) -> None:
        self.vocab_size, self._model = model.vocab_size, model

    def __call__(self, tokens: Any) -> Any:
        """Give log-probabilities after contexts."""
        return self._model(tokens).astype(np.float32)


def test_without_the_packages_the_name_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages are named as they are imported, and the command as they are installed."""
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    with pytest.raises(SamplerLoadError) as told:
        registry.load("mlx-lm")
    command = "pip install 'mlx[cpu]' mlx-lm"
    assert str(told.value) == f"mlx-lm needs mlx and mlx_lm, not installed here: {command}"


@needs_mlx
@pytest.mark.parametrize("drafts", [0, 1, 2, 3])
def test_rounds_add_up_to_the_tokens(drafts: int) -> None:
    """Accepted drafts and one token more come next, and the last round may go beyond the end."""
    for seed in range(40):
        made = called(base_loop(), seed, num_draft_tokens=drafts)
        text: list[int] = []
        for step in made.rounds:
            text += [
                *step.draft_tokens[0][: step.num_accepted[0]],
                made.tokens[0][min(3, len(text) + step.num_accepted[0])],
            ]
        assert text[:4] == made.tokens[0]
        assert 4 <= len(text) <= 5


@needs_mlx
def test_the_first_token_follows_the_target() -> None:
    """Drawn anew with each seed, and the same with the same one."""
    seen = np.bincount([called(base_loop(), seed).tokens[0][0] for seed in range(300)], minlength=3)
    assert gof(seen, base_loop().target_laws(np.zeros((1, 0), dtype=np.int64))[0]).p_value > LEVEL
    assert called(base_loop(), 7).tokens == called(base_loop(), 7).tokens


@needs_mlx
def test_nothing_is_reported_after_the_end_of_a_sequence() -> None:
    """Tokens after it are -1, and rounds that begin after it are left out."""
    ended = 0
    for seed in range(40):
        made = called(base_loop(EOS), seed)
        tokens = made.tokens[0]
        length = tokens.index(EOS) + 1 if EOS in tokens else 4
        assert tokens[length:] == [-1] * (4 - length)
        assert sum(step.num_accepted[0] + 1 for step in made.rounds[:-1]) < length
        ended += length < 4
    assert ended > 5


@needs_mlx
def test_a_cache_that_is_not_trimmed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the engine's rollback does nothing, other contexts are asked for than those of the text."""
    contexts: set[int] = set()

    class Noting(Rounding):
        def __call__(self, tokens: Any) -> Any:
            contexts.add(tokens.shape[1])
            return super().__call__(tokens)

    for trimmed in (True, False):
        contexts.clear()
        if not trimmed:
            monkeypatch.setattr(sys.modules["mlx_lm.generate"], "trim_prompt_cache", lambda *_: None)
        for seed in range(20):
            called(base_loop(), seed, target_model=Noting(base_loop().target))
        assert (max(contexts) <= 7) == trimmed  # three of the prompt, and four new ones
