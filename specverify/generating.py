"""A generator is a whole loop: it gets two models and a prompt, and returns the new tokens.

Faults of drafting, scoring, caches, shifted rows, seeds and stopping live in the loop, where no check of a verifier can
see them. A loop that also reports its rounds is held to what it reports: drafts follow the q that it claims, and each
round follows the rule that it declares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, overload

from specverify.contract import Verifier, verifier
from specverify.declaring import (
    GeneratorName,
    asks_as_generator,
    check_options,
    check_texts,
    function_name,
    generator_parameters_asked,
)
from specverify.tolerance import DEFAULT_TOLERANCE

__all__ = ["Generation", "Round", "as_sampler", "generator"]


@dataclass(frozen=True, eq=False)
class Round:
    """What a loop reports of one round of a batch; arrays, tensors or lists.

    Attributes:
        draft_tokens: int [B, g], the drafted tokens; -1 beyond a row's own draft, and in rows that are done.
        draft_probs: float [B, g, V], the law q that the loop claims each of them was drawn from; a row of zeros where
            there is no draft.
        num_accepted: int [B], how many were accepted; -1 in rows that are done.
    """

    draft_tokens: Any
    draft_probs: Any
    num_accepted: Any


@dataclass(frozen=True, eq=False)
class Generation:
    """New tokens, and the rounds in which they came.

    Attributes:
        tokens: int [B, max_new_tokens], the new tokens only, -1 after an end of sequence.
        rounds: The rounds of the batch in order; each emits its accepted drafts and one more token.
    """

    tokens: Any
    rounds: Sequence[Round] = ()


@overload
def generator(function: Callable[..., Any], /) -> Verifier: ...
@overload
def generator(
    *,
    rule: str | None = None,
    framework: str = "numpy",
    device: str = "cpu",
    dtype: str = "float64",
    tolerance: str | None = None,
    max_batch: int | None = None,
    name: str | None = None,
    version: str = "",
) -> Callable[[Callable[..., Any]], Verifier]: ...
def generator(
    function: Any = ...,  # None is not left out, but a mistake
    /,
    *,
    rule: str | None = None,
    framework: str = "numpy",
    device: str = "cpu",
    dtype: str = "float64",
    tolerance: str | None = None,
    max_batch: int | None = None,
    name: str | None = None,
    version: str = "",
) -> Verifier | Callable[[Callable[..., Any]], Verifier]:
    """Declare a generate loop; its parameter names say what it is called with.

    It must ask for ``prompt`` int64 [B, T], ``max_new_tokens`` and a target model, and may ask for a draft model,
    ``num_draft_tokens``, ``eos_token_id``, ``seed``, ``seeds`` or ``generator``, and sampling parameters by the names
    of ``specverify.processing.Sampling``: cases with a parameter that it does not ask for are left out.
    ``target_model`` and ``draft_model`` are functions from contexts int64 [B, T] to log-probabilities float64 [B, V];
    ``target_model_transformers`` and ``draft_model_transformers`` the same laws as models of transformers.

    Args:
        function: What to declare, when used bare; it returns int [B, max_new_tokens], the new tokens only, -1 after an
            end of sequence, or a Generation.
        rule: The rule that its rounds follow: "token" or "match"; only a loop that reports rounds can be held to it.
        framework: "numpy" or "torch": what it is given and what its models take.
        device: A torch device; "cpu" for NumPy.
        dtype: Float type of its models' results.
        tolerance: A tolerance class; by default that of the dtype.
        max_batch: Largest number of prompts one call may get; 1 for loops that take one sequence.
        name: Name in reports; by default the function's.
        version: Version of the engine behind it.

    Returns:
        The sampler, or a decorator that makes it.

    Raises:
        ContractError: A parameter or option is not one on offer.

    Example:
        >>> @generator(max_batch=1)
        ... def greedy(target_model, prompt, max_new_tokens):
        ...     return [[0] * max_new_tokens]
        >>> greedy.kind, sorted(greedy.asks)
        ('generator', ['max_new_tokens', 'prompt', 'target_model'])
    """

    def declare(function: Callable[..., Any]) -> Verifier:
        given = function_name(function) if name is None else name
        label = GeneratorName(given) if isinstance(given, str) else given
        check_texts(label, name=given, device=device, version=version)
        asks = generator_parameters_asked(label, function)
        options: dict[str, Any] = {"rule": rule, "framework": framework, "device": device, "dtype": dtype}
        check_options(label, asks, **options, tolerance=tolerance, max_batch=max_batch, readonly=False, mutates=())
        return Verifier(
            function=function,
            name=given,
            asks=asks,
            **options,
            tolerance=tolerance or DEFAULT_TOLERANCE[dtype],
            max_batch=None if max_batch is None else index(max_batch),
            version=version,
            kind="generator",
        )

    return declare if function is ... else declare(function)


def as_sampler(sampler: Callable[..., Any]) -> Verifier:
    """Give a sampler as it is and declare any other callable with the default options: a loop where it asks as one.

    Raises:
        ContractError: It is no callable, or asks for something that is not on offer.

    Example:
        >>> as_sampler(lambda draft_tokens: draft_tokens).kind
        'verifier'
    """
    if isinstance(sampler, Verifier):
        return sampler
    return generator(sampler) if asks_as_generator(sampler) else verifier(sampler)
