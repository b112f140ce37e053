"""What a generator gets: a prompt in every row, two models as functions or of transformers, and what is asked of them.

Models take any context, as an engine's do, and give the case's laws in the sampler's dtype; the null law is the law of
those rounded numbers. Where rows have batch mates, every other prompt is another one, whose tokens are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.errors import SamplerLoadError, SpecverifyError
from specverify.handing import Batch, Handed
from specverify.loop_files import gguf_models
from specverify.loops import LanguageModel
from specverify.placing import Placed, require_device
from specverify.processing import Grammar, Sampling
from specverify.randomness import make_generator, row_seeds
from specverify.reading import on_host
from specverify.rounding import rounded
from specverify.wording import brief, clip

__all__ = ["AnyHanded", "HandedLoop", "hand"]

MODELS = ("target_model", "draft_model")
LONGEST = 200
SAMPLING = tuple(Sampling.__dataclass_fields__)


@dataclass(frozen=True, eq=False)
class _Rounded:
    """A model whose log-probabilities are those of a float type."""

    model: LanguageModel
    dtype: str

    @property
    def vocab_size(self) -> int:
        return self.model.vocab_size

    @property
    def eos_token_id(self) -> int | None:
        return self.model.eos_token_id

    def __call__(self, tokens: IntArray) -> FloatArray:
        handed: Any = rounded(np.exp(self.model(tokens)), self.dtype, "logits")
        return np.asarray(handed, dtype=np.float64)


class _Callable:
    """A model as a function of contexts: what a generator calls."""

    def __init__(self, name: str, model: LanguageModel, placed: Placed) -> None:
        self.vocab_size = model.vocab_size
        self.eos_token_id = model.eos_token_id
        self._name, self._model, self._placed = name, model, placed

    def __call__(self, tokens: Any) -> Any:
        """Give log p(. | tokens), float [B, V], for contexts int [B, T] that begin with the prompt."""
        contexts = np.asarray(on_host(tokens))
        if contexts.ndim != 2 or contexts.dtype.kind not in "iu" or contexts.shape[1] == 0:
            raise SpecverifyError(
                f"{self._name}: expected contexts int [B, T], the prompt and what follows it, got {contexts.dtype} of "
                f"shape {list(contexts.shape)}; pass whole contexts"
            )
        if contexts.size and not 0 <= contexts.min() <= contexts.max() < self.vocab_size:
            raise SpecverifyError(
                f"{self._name}: expected tokens in 0..{self.vocab_size - 1}, got {contexts.min()} to {contexts.max()}; "
                f"pass no padding"
            )
        return self._placed(self._model(contexts.astype(np.int64)))


class _Allowed:
    """A grammar as a function of generated tokens: what a generator calls that works on tensors."""

    def __init__(self, grammar: Grammar, device: str) -> None:
        self.free, self._grammar, self._device = grammar.free, grammar, device

    def __call__(self, generated: Any) -> Any:
        """Say which tokens may follow the tokens generated so far, int [B, t]: bool [B, V] on the sampler's device."""
        import torch

        return torch.from_numpy(self._grammar(generated)).to(self._device)


class HandedLoop:
    """A case as one generator gets it.

    Args:
        case: A case with a loop.
        verifier: The generator.

    Attributes:
        given: The case as it was given.
        case: The case of the law that is then the null: that of the rounded numbers.

    Raises:
        SamplerLoadError: It asks for a package that is not installed.
        ContractError: Torch cannot use its device.

    Example:
        >>> from specverify.generating import generator
        >>> from specverify.loop_menu import loop_menu
        >>> zeros = generator(lambda target_model, prompt, max_new_tokens: [[0] * max_new_tokens] * len(prompt))
        >>> HandedLoop(loop_menu()[0], zeros).batch(np.full((2, 3), -1), np.full(2, 3), 0).arguments["prompt"].tolist()
        [[1, 0, 2], [1, 0, 2]]
    """

    def __init__(self, case: Case, verifier: Verifier) -> None:
        assert case.loop is not None
        require_device(verifier)
        self.given, self.verifier, self._placed = case, verifier, Placed(verifier)
        self.loop, self.case = case.loop, case
        if verifier.dtype != "float64":
            target, draft = (_Rounded(model, verifier.dtype) for model in (case.loop.target, case.loop.draft))
            self.loop = replace(case.loop, target=target, draft=draft)
            self.case = Case.from_loop(case.name, self.loop, case.description)
        self._models = self._functions() | self._transformers() | self._files()

    def batch(
        self,
        draft_tokens: IntArray,
        num_draft_tokens: IntArray,  # noqa: ARG002 - as a verifier's case takes them
        seed: int,
        seeds: IntArray | None = None,
    ) -> Batch:
        """Build the arguments of one call; of the drafts, which a generator makes itself, only the rows count."""
        loop, asks = self.loop, self.verifier.asks
        prompts = np.tile(np.array(loop.prompt, dtype=np.int64), (len(draft_tokens), 1))
        if loop.mate:
            mates = np.tile(np.array(loop.mate, dtype=np.int64), (len(draft_tokens), 1))
            prompts = np.stack([prompts, mates], axis=1).reshape(-1, len(loop.prompt))
        integers = {"prompt": prompts}
        if "seeds" in asks:
            own = row_seeds(seed, len(prompts))
            if seeds is not None:
                own[:: len(prompts) // len(draft_tokens)] = seeds
            integers["seeds"] = own
        arguments = self._plain(seed) | self._models
        if "logit_bias" in arguments:
            arguments["logit_bias"] = self._placed(arguments["logit_bias"])
        if "allowed_tokens" in arguments and self.verifier.framework == "torch":
            arguments["allowed_tokens"] = _Allowed(arguments["allowed_tokens"], self.verifier.device)
        if "generator" in asks:
            arguments["generator"] = make_generator(seed, self.verifier.framework, self.verifier.device)
        arguments |= {name: self._placed(array.copy()) for name, array in integers.items() if name in asks}
        return Batch(arguments, {**integers, "draft_tokens": draft_tokens}, None, None)

    def _plain(self, seed: int) -> dict[str, Any]:
        """Give the numbers and sampling parameters that are asked for."""
        loop = self.loop
        plain: dict[str, Any] = {
            "num_draft_tokens": loop.num_draft_tokens,
            "max_new_tokens": loop.max_new_tokens,
            "eos_token_id": loop.target.eos_token_id,
            "seed": seed,
            **{name: loop.sampling.argument(name, loop.vocab_size) for name in SAMPLING},
        }
        return {name: value for name, value in plain.items() if name in self.verifier.asks}

    def described(self, rows: int, seed: int) -> str:
        """Say in one line what a call of so many rows asks for: the prompt, the numbers, and every parameter set."""
        loop, asks = self.loop, self.verifier.asks
        unset = set(SAMPLING) - loop.sampling.set_names
        given = {name: value for name, value in self._plain(seed).items() if name not in unset}
        given |= {name: getattr(loop.sampling, name) for name in given.keys() & {"logit_bias", "allowed_tokens"}}
        beside = f" beside {list(loop.mate)}" if loop.mate else ""
        values = {"prompt": f"{list(loop.prompt)}{beside}", **given, "seed": seed}
        told = [f"{name} {clip(str(value), LONGEST)}" for name, value in values.items()]
        told += [f"{', '.join(sorted(unset & asks))} not set"] * bool(unset & asks)
        return f"with case {self.case.name!r}, {rows} row(s), {', '.join(told)}"

    def changed(self, batch: Batch) -> list[str]:
        """Name the arguments that the generator changed."""
        own = {name: array for name, array in batch.integers.items() if name in batch.arguments}
        now = {name: np.asarray(on_host(batch.arguments[name])) for name in own}
        return sorted(name for name, array in own.items() if not np.array_equal(now[name], array))

    def _functions(self) -> dict[str, Any]:
        asked = (name for name in MODELS if name in self.verifier.asks)
        return {name: _Callable(name, self._model(name), self._placed) for name in asked}

    def _transformers(self) -> dict[str, Any]:
        asked = {f"{name}_transformers": name for name in MODELS if f"{name}_transformers" in self.verifier.asks}
        if not asked:
            return {}
        try:
            from specverify.transformers_models import as_transformers
        except ImportError:
            raise SamplerLoadError(
                f"{brief(self.verifier.name)} asks for {next(iter(asked))}, which needs torch and transformers, not "
                f"installed here: pip install 'specverify[transformers]'"
            ) from None
        return {name: as_transformers(self._model(model, given=True)) for name, model in asked.items()}

    def _files(self) -> dict[str, Any]:
        if "target_model_gguf" not in self.verifier.asks:
            return {}
        return {"target_model_gguf": gguf_models().as_gguf(self._model("target_model", given=True))}

    def _model(self, name: str, *, given: bool = False) -> LanguageModel:
        loop = self.given.loop if given else self.loop
        assert loop is not None
        return loop.target if name == "target_model" else loop.draft


AnyHanded: TypeAlias = Handed | HandedLoop
"""A case as a sampler of either kind gets it."""


def hand(case: Case, verifier: Verifier) -> AnyHanded:
    """Give a case as a sampler gets it; errors are those of the classes."""
    return Handed(case, verifier) if case.loop is None else HandedLoop(case, verifier)
