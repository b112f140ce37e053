"""The adapter of llama.cpp: files with known laws, drafts and rounds; without the packages, one line that says so."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import specverify
from specverify import registry
from specverify.errors import ConfigError, SamplerLoadError
from specverify.evidence import gof
from specverify.loop_menu import base_loop, flat_loop

INSTALLED = find_spec("llama_cpp") is not None and find_spec("gguf") is not None
needs_llama = pytest.mark.skipif(not INSTALLED, reason="llama-cpp-python or gguf is not installed")
LEVEL = 1e-9
NONE = np.zeros((1, 0), dtype=np.int64)


@pytest.mark.parametrize("name", ["llama-cpp", "llama-cpp-processors"])
def test_without_the_packages_the_name_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages are named as they are imported, and the command as they are installed."""
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    with pytest.raises(SamplerLoadError) as told:
        registry.load(name)
    command = "pip install llama-cpp-python gguf"
    assert str(told.value) == f"{name} needs llama_cpp and gguf, not installed here: {command}"


@pytest.mark.skipif(INSTALLED, reason="llama-cpp-python and gguf are installed")
def test_a_loop_that_asks_for_a_file_is_told_what_to_install() -> None:
    """Any loop may ask for one, and gets one line where none can be made."""

    @specverify.generator
    def asking(target_model_gguf: str, prompt: Any, max_new_tokens: int) -> Any:
        raise AssertionError((target_model_gguf, prompt, max_new_tokens))

    with pytest.raises(SamplerLoadError, match="pip install llama-cpp-python gguf"):
        specverify.check(asking)


def called(seed: int, **changed: Any) -> Any:
    """Call the adapter once on two random Llamas."""
    from specverify.gguf_models import PROMPT, SEEDS, random_gguf

    target, draft = (random_gguf(4, seed) for seed in SEEDS)
    asked = {"target_model_gguf": target.path, "draft_model": draft, "prompt": np.array([PROMPT]), "seed": seed}
    asked |= {"num_draft_tokens": 2, "max_new_tokens": 4, "temperature": 1.0, "top_k": 0}
    return registry.load("llama-cpp").function(**asked | changed)


@needs_llama
def test_files_have_the_laws_that_they_were_made_with() -> None:
    """A model without a memory is written exactly, one with a memory is refused, and a random one has far rows."""
    from specverify.gguf_models import GgufModel, as_gguf, random_gguf

    fair = flat_loop(256).loop
    assert fair is not None
    laws = np.exp(GgufModel(as_gguf(fair.draft), 256)(np.array([[0, 3], [7, 7]])))
    np.testing.assert_allclose(laws, np.exp(fair.draft(np.array([[0, 3], [7, 7]]))), rtol=1e-4)
    rows = np.exp(random_gguf(4, 2)(np.array([[1, 0, 3], [0, 1, 3], [3, 3, 3]])))
    assert np.abs(rows[:, None] - rows[None]).sum(axis=2)[~np.eye(3, dtype=bool)].min() > 0.05
    with pytest.raises(ConfigError, match="order 0"):
        as_gguf(base_loop().target)


@needs_llama
@pytest.mark.parametrize("drafts", [0, 1, 3])
def test_the_first_token_follows_the_target_and_rounds_add_up(drafts: int) -> None:
    """The first token comes without a draft; accepted drafts and one token more come next."""
    from specverify.gguf_models import PROMPT, SEEDS, random_gguf

    made = [called(seed, num_draft_tokens=drafts) for seed in range(200)]
    seen = np.bincount([one.tokens[0][0] for one in made], minlength=4)
    assert gof(seen, np.exp(random_gguf(4, SEEDS[0])(np.array([PROMPT]))[0])).p_value > LEVEL
    for one in made:
        assert len(one.tokens[0]) == 4
        assert not drafts or 4 <= sum(step.num_accepted[0] + 1 for step in one.rounds) <= 4 + drafts
    assert called(7).tokens == called(7).tokens


class Told:
    """The target of a processor, which notes what it is told, and may be told the tokens up to the place alone."""

    def __init__(self, cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        import llama_cpp

        self.loop, self.vocab_size, self.place, self.longest = base_loop(), 3, 0, 0
        self._cut, self._sample = cut, llama_cpp.Llama.sample
        monkeypatch.setattr(llama_cpp.Llama, "sample", lambda model, **options: self._noting(model, options))

    def _noting(self, model: Any, options: dict[str, Any]) -> Any:
        self.place = options["idx"] + 1
        return self._sample(model, **options)

    def __call__(self, before: Any) -> Any:
        """Give log-probabilities after what is told."""
        self.longest = max(self.longest, before.shape[1] - self.place)
        return self.loop.target(before[:, : self.place] if self._cut else before).astype(np.float32)


def made_with(told: Told, drafts: int) -> Any:
    """Call the adapter with a processor many times: the law of two new tokens, counted."""
    given = {"target_model": told, "draft_model": told.loop.draft, "prompt": np.array([told.loop.prompt])}
    given |= {"num_draft_tokens": drafts, "max_new_tokens": 2, "temperature": 1.0, "top_k": 0, "eos_token_id": None}
    function = registry.load("llama-cpp-processors").function
    tokens = np.array([function(**given, seed=seed)[0] for seed in range(1500)])
    return np.bincount(tokens @ [3, 1], minlength=9)


@needs_llama
@pytest.mark.parametrize(("drafts", "cut"), [(0, False), (2, True), (2, False)])
def test_a_processor_is_told_drafts_that_come_later(drafts: int, cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without drafts the law is right, and with them where only the tokens up to the place are told; else it is not."""
    told = Told(cut, monkeypatch)
    seen = made_with(told, drafts)
    first = told.loop.target_laws(NONE)[0]
    second = told.loop.target_laws(np.arange(3)[:, None])
    fits = gof(seen, (first[:, None] * second).ravel()).p_value > LEVEL
    assert (fits, told.longest) == ((True, 0) if drafts == 0 else (cut, 2))
