"""What a declaration may say: parameter names, option values, and which of them exclude each other.

Each check names the verifier, what was expected, what was got and what to do, in one line.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields
from operator import index
from typing import Any

from specverify.errors import ContractError
from specverify.nearest import did_you_mean, nearest
from specverify.processing import Sampling
from specverify.tolerance import DEFAULT_TOLERANCE, TOLERANCES
from specverify.wording import brief

__all__ = [
    "GENERATOR_PARAMETERS",
    "LOOP_RULES",
    "MODELS",
    "PARAMETERS",
    "RANDOMNESS",
    "GeneratorName",
    "array_names",
    "asks_as_generator",
    "check_options",
    "check_texts",
    "function_name",
    "generator_parameters_asked",
    "parameters_asked",
]

ARRAYS = (
    "parents",
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

MODELS = ("draft_model", "target_model")
"""Parameters of a verifier that drafts by itself: the laws of next tokens, as functions."""

PARAMETERS = tuple(dict.fromkeys((*ARRAYS, *RANDOMNESS, *MODELS)))
"""Every parameter name that a verifier may ask for."""

SAMPLING = tuple(field.name for field in fields(Sampling))

GENERATOR_PARAMETERS = (
    *MODELS,
    *(f"{model}_transformers" for model in MODELS),
    "target_model_gguf",
    "prompt",
    "num_draft_tokens",
    "max_new_tokens",
    "eos_token_id",
    "seed",
    "seeds",
    "generator",
    *SAMPLING,
)
"""Every parameter name that a generator may ask for."""

FRAMEWORKS = ("numpy", "torch")

LOOP_RULES = ("token", "match")
"""Rules that the rounds of a generator can be held to: its reported q and the exact p of each position are enough."""

_UNFINISHED = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


class GeneratorName(str):
    """The name of a generator, which messages call so."""

    __slots__ = ()


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
    asks = _asked(label, function, PARAMETERS)
    _check_drafting(label, asks)
    _check_tree(label, asks)
    if asks.isdisjoint({"draft_tokens", "target_probs", "target_logits", "target_model"}):
        raise _broken(
            label,
            f"expected it to ask for draft_tokens, target_probs or target_logits, got parameters "
            f"{sorted(asks)}; add the arguments it verifies with, by name",
        )
    return asks


def generator_parameters_asked(label: str, function: Callable[..., Any]) -> frozenset[str]:
    """Read from the signature of a generate loop the known parameters that are to be passed.

    Args:
        label: Name for messages.
        function: Any callable but a class.

    Raises:
        ContractError: A parameter cannot be supplied, or the prompt, the length or a target model is not asked for.

    Example:
        >>> sorted(generator_parameters_asked("f", lambda target_model, prompt, max_new_tokens: None))
        ['max_new_tokens', 'prompt', 'target_model']
    """
    asks = _asked(label, function, GENERATOR_PARAMETERS)
    models = {"target_model", "target_model_transformers", "target_model_gguf"}
    if not asks >= {"prompt", "max_new_tokens"} or asks.isdisjoint(models):
        raise _broken(
            label,
            f"expected a generator to ask for prompt, max_new_tokens and target_model (or target_model_transformers), "
            f"got parameters {sorted(asks)}; add those that are missing, by name",
        )
    return asks


def asks_as_generator(function: object) -> bool:
    """Say whether a callable asks for new tokens, as generate loops do and verifiers do not."""
    try:
        return "max_new_tokens" in inspect.signature(function).parameters  # type: ignore[arg-type]
    except Exception:  # a foreign object may do anything; what is wrong with it is told when it is declared
        return False


def _asked(label: str, function: Callable[..., Any], known: Collection[str]) -> frozenset[str]:
    parameters = [parameter for parameter in _signature(label, function) if parameter.name not in _bound(function)]
    for parameter in parameters:
        _check_parameter(label, parameter, known)
    return frozenset(parameter.name for parameter in parameters) & frozenset(known)


def check_texts(label: object, *, name: object, device: object, version: object) -> None:
    """Check the options that may be any text; only the version may be empty.

    Raises:
        ContractError: One is no text, or blank.
    """
    for option, value in (("name", name), ("device", device), ("version", version)):
        if not isinstance(value, str) or not (value.strip() or option == "version"):
            raise _broken(
                label, f"expected {option} to be text, got {brief(value)}; write it as a str, or leave it out"
            )


def array_names(label: str, mutates: object) -> frozenset[str]:
    """Give the names in the option mutates, which may be one name or several.

    Raises:
        ContractError: It is neither.
    """
    names = (mutates,) if isinstance(mutates, str) else tuple(mutates) if isinstance(mutates, Iterable) else (None,)
    if all(isinstance(name, str) for name in names):
        return frozenset(names)
    raise _broken(label, f'expected mutates to be names, got {brief(mutates)}; write ("draft_probs",)')


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
        _check_rule(label, rule, asks)
    _check_arithmetic(label, framework, device, dtype, asks)
    _check_max_batch(label, max_batch)
    if not isinstance(readonly, bool):
        raise _broken(
            label,
            f"expected readonly to be True or False, got {brief(readonly)}; leave it out when the sampler may write",
        )
    for name in mutates:
        _check_choice(label, "mutates", name, [array for array in ARRAYS if array in asks])
    if readonly and mutates:
        raise _broken(label, "expected readonly=True or mutates, got both; a verifier that writes is not read-only")


def _broken(label: object, message: str) -> ContractError:
    kind = "generator" if isinstance(label, GeneratorName) else "verifier"
    return ContractError(f"{kind} {brief(label)}: {message}")


def _signature(label: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    if isinstance(function, type) or not callable(function):
        raise _broken(
            label,
            f"expected a verifier or a function, got {brief(function)}; options are given by "
            f"keyword, and of a class an instance",
        )
    if any(test(call) for test in _UNFINISHED for call in (function, type(function).__call__)):
        raise _broken(
            label,
            "expected a function that returns its result, got a coroutine or generator "
            "function; wrap it in a plain function that runs it",
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except Exception:  # a foreign object may do anything
        raise _broken(
            label,
            "expected readable parameter names, got a compiled function without them; wrap it in a Python function",
        ) from None
    skipped = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter for parameter in parameters if parameter.kind not in skipped]


def _bound(function: object) -> Iterable[str]:
    return function.keywords if isinstance(function, functools.partial) else ()


def _check_parameter(label: str, parameter: inspect.Parameter, known: Collection[str]) -> None:
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise _broken(
            label,
            f"expected parameters that can be passed by name, got positional-only "
            f"{parameter.name!r}; drop the '/' from its signature",
        )
    if parameter.name not in known and parameter.default is inspect.Parameter.empty:
        raise _broken(
            label,
            f"unknown parameter {parameter.name!r}; on offer are, nearest first: "
            f"{', '.join(nearest(parameter.name, known))}",
        )


def _check_drafting(label: str, asks: frozenset[str]) -> None:
    """Refuse a verifier that asks both for models, to draft by itself, and for what the kit drafted."""
    drafted = asks & (frozenset(ARRAYS) - {"num_draft_tokens", "seeds"} | {"uniforms"})
    if asks.intersection(MODELS) and drafted:
        raise _broken(
            label,
            f"expected either models, to draft by itself, or drafts of the kit, got {', '.join(sorted(asks))}; ask for "
            f"draft_model, target_model and num_draft_tokens alone, or for neither model",
        )
    if "draft_model" in asks and "target_model" not in asks:
        raise _broken(label, "expected target_model beside draft_model, got draft_model alone; ask for both")


def _check_tree(label: str, asks: frozenset[str]) -> None:
    """Refuse what a tree of drafts does not have: its rows all have one shape, and it may end anywhere."""
    unfit = asks & {"num_draft_tokens", "bonus_tokens"}
    if "parents" in asks and unfit:
        raise _broken(
            label, f"expected a tree verifier, which asks for parents, without {' and '.join(sorted(unfit))}; drop that"
        )


def _check_rule(label: str, rule: str, asks: frozenset[str]) -> None:
    from specverify.reference import RULES, TREE_RULES  # loaded only for those who claim a rule

    if isinstance(label, GeneratorName):
        _check_loop_rule(label, rule)
        return
    _check_choice(label, "rule", rule, tuple(TREE_RULES if "parents" in asks else RULES))
    if rule in ("rrs", "traversal") and asks.isdisjoint({"draft_probs", "draft_logits"}):
        raise _broken(
            label,
            f"expected rule {rule!r} to come with draft_probs or draft_logits, got neither; ask for one, or declare "
            f"'target_only', which is that rule where nodes are scored as certain",
        )


def _check_loop_rule(label: str, rule: object) -> None:
    if rule not in LOOP_RULES:
        raise _broken(
            label,
            f"expected rule to be {' or '.join(LOOP_RULES)}, which reported rounds can be held to, got {brief(rule)}"
            f"{did_you_mean(str(rule), LOOP_RULES)}; leave it out where the rounds follow another rule",
        )


def _check_choice(label: str, option: str, value: object, choices: Collection[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise _broken(
            label,
            f"expected {option} to be one of {', '.join(choices)}, got {brief(value)}"
            f"{did_you_mean(str(value), choices)}",
        )


def _check_arithmetic(label: str, framework: str, device: str, dtype: str, asks: frozenset[str]) -> None:
    if framework == "numpy" and dtype == "bfloat16":
        raise _broken(label, "expected a dtype that NumPy has, got 'bfloat16'; use framework=\"torch\"")
    if framework == "numpy" and device != "cpu":
        raise _broken(label, f"expected device 'cpu' for NumPy, got {brief(device)}; use framework=\"torch\"")
    for model in ("draft", "target"):
        # Rounding to 16 bits gives the two forms different laws, and no sampler could follow both.
        if dtype in ("bfloat16", "float16") and asks >= {f"{model}_probs", f"{model}_logits"}:
            raise _broken(
                label,
                f"expected {model}_probs or {model}_logits, got both in {dtype}, where they round "
                f"to different laws; ask for one",
            )


def _check_max_batch(label: str, max_batch: object) -> None:
    try:
        rows = 1 if max_batch is None else 0 if isinstance(max_batch, bool) else index(max_batch)  # type: ignore[arg-type]
    except TypeError:
        rows = 0
    if rows < 1:
        raise _broken(
            label,
            f"expected max_batch to be an integer of 1 or more, got {brief(max_batch)}; leave it out "
            f"when any batch size is fine",
        )
