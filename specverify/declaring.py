"""What a declaration may say: parameter names, option values, and which of them exclude each other.

Each check names the verifier, what was expected, what was got and what to do, in one line.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Any

from specverify.errors import ContractError
from specverify.nearest import did_you_mean, nearest
from specverify.tolerance import DEFAULT_TOLERANCE, TOLERANCES

__all__ = ["PARAMETERS", "RANDOMNESS", "check_options", "function_name", "parameters_asked"]

ARRAYS = (
    "draft_tokens",
    "num_draft_tokens",
    "draft_probs",
    "draft_logits",
    "target_probs",
    "target_logits",
    "bonus_tokens",
    "seeds",
)

RANDOMNESS = ("seed", "seeds", "generator", "uniforms")
"""Parameters that carry the randomness; a verifier that asks for none draws from the global generators."""

PARAMETERS = tuple(dict.fromkeys((*ARRAYS, *RANDOMNESS)))
"""Every parameter name that a verifier may ask for."""

FRAMEWORKS = ("numpy", "torch")


def function_name(function: object) -> str:
    """Give the name of a function, of what a functools.partial wraps, or of a callable object's class."""
    inner = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))


def parameters_asked(label: str, function: Callable[..., Any]) -> frozenset[str]:
    """Read from a signature the known parameters that are to be passed.

    Args:
        label: Name for messages.
        function: Any callable but a class.

    Raises:
        ContractError: A parameter cannot be supplied, or neither drafts nor target are asked for.

    Example:
        >>> sorted(parameters_asked("f", lambda draft_tokens, seed=None, verbose=False: None))
        ['draft_tokens', 'seed']
    """
    parameters = [parameter for parameter in _signature(label, function) if parameter.name not in _bound(function)]
    for parameter in parameters:
        _check_parameter(label, parameter)
    asks = frozenset(parameter.name for parameter in parameters) & frozenset(PARAMETERS)
    if asks.isdisjoint({"draft_tokens", "target_probs", "target_logits"}):
        raise ContractError(
            f"verifier {label!r}: expected it to ask for draft_tokens, target_probs or target_logits, got parameters "
            f"{sorted(asks)}; add the arguments it verifies with, by name"
        )
    return asks


def check_options(
    label: str,
    asks: frozenset[str],
    *,
    rule: str | None,
    framework: str,
    device: str,
    dtype: str,
    tolerance: str | None,
    max_batch: int | None,
    readonly: bool,
    mutates: Collection[str],
) -> None:
    """Check the options of a declaration one by one and against each other.

    Raises:
        ContractError: An option has a value that is not on offer, or two of them exclude each other.
    """
    _check_choice(label, "framework", framework, FRAMEWORKS)
    _check_choice(label, "dtype", dtype, tuple(DEFAULT_TOLERANCE))
    if tolerance is not None:
        _check_choice(label, "tolerance", tolerance, tuple(TOLERANCES))
    if rule is not None:
        from specverify.reference import RULES  # the reference is loaded only for those who claim a rule

        _check_choice(label, "rule", rule, tuple(RULES))
    _check_arithmetic(label, framework, device, dtype, asks)
    _check_max_batch(label, max_batch)
    for name in mutates:
        _check_choice(label, "mutates", name, [array for array in ARRAYS if array in asks])
    if readonly and mutates:
        raise ContractError(
            f"verifier {label!r}: expected readonly=True or mutates, got both; a verifier that writes is not read-only"
        )


def _signature(label: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    if isinstance(function, type) or not callable(function):
        raise ContractError(
            f"verifier {label!r}: expected a function or a callable object, got {function!r}; options are given by "
            f"keyword, and of a class an instance"
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        raise ContractError(
            f"verifier {label!r}: expected readable parameter names, got a compiled function without them; wrap it in "
            f"a Python function"
        ) from None
    skipped = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter for parameter in parameters if parameter.kind not in skipped]


def _bound(function: object) -> Iterable[str]:
    return function.keywords if isinstance(function, functools.partial) else ()


def _check_parameter(label: str, parameter: inspect.Parameter) -> None:
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise ContractError(
            f"verifier {label!r}: expected parameters that can be passed by name, got positional-only "
            f"{parameter.name!r}; drop the '/' from its signature"
        )
    if parameter.name == "parents":
        raise ContractError(
            f"verifier {label!r}: expected a chain verifier, got one that asks for 'parents'; this version does not "
            f"support tree verifiers"
        )
    if parameter.name not in PARAMETERS and parameter.default is inspect.Parameter.empty:
        raise ContractError(
            f"verifier {label!r}: unknown parameter {parameter.name!r}; on offer are, nearest first: "
            f"{', '.join(nearest(parameter.name, PARAMETERS))}"
        )


def _check_choice(label: str, option: str, value: object, choices: Collection[str]) -> None:
    if value not in choices:
        raise ContractError(
            f"verifier {label!r}: expected {option} to be one of {', '.join(choices)}, got {value!r}"
            f"{did_you_mean(str(value), choices)}"
        )


def _check_arithmetic(label: str, framework: str, device: str, dtype: str, asks: frozenset[str]) -> None:
    if framework == "numpy" and dtype == "bfloat16":
        raise ContractError(
            f"verifier {label!r}: expected a dtype that NumPy has, got 'bfloat16'; use framework=\"torch\""
        )
    if framework == "numpy" and device != "cpu":
        raise ContractError(
            f"verifier {label!r}: expected device 'cpu' for NumPy, got {device!r}; use framework=\"torch\""
        )
    for model in ("draft", "target"):
        # Rounding to 16 bits gives the two forms different laws, and no sampler could follow both.
        if dtype in ("bfloat16", "float16") and asks >= {f"{model}_probs", f"{model}_logits"}:
            raise ContractError(
                f"verifier {label!r}: expected {model}_probs or {model}_logits, got both in {dtype}, where they round "
                f"to different laws; ask for one"
            )


def _check_max_batch(label: str, max_batch: object) -> None:
    if max_batch is not None and (not isinstance(max_batch, int) or isinstance(max_batch, bool) or max_batch < 1):
        raise ContractError(
            f"verifier {label!r}: expected max_batch to be an integer of 1 or more, got {max_batch!r}; leave it out "
            f"when any batch size is fine"
        )
