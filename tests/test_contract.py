"""A declaration is read by parameter names and options, and refused in one line when it cannot be met."""
# ruff: noqa: ARG001, ARG005 - a stub sampler is declared by its parameter names, whether it reads them or not

import functools
from typing import Any

import numpy as np
import pytest

import specverify
from specverify.contract import Verifier, verifier
from specverify.errors import ContractError
from specverify.generating import as_sampler
from specverify.nearest import did_you_mean, nearest
from specverify.rounding import law_of, rounded
from specverify.tolerance import TOLERANCES, allowance


def plain(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
    """Do nothing."""
    return draft_tokens


def test_bare_and_with_options_declare_the_same_function() -> None:
    """The decorator works bare and with options, and what it returns is called as the original."""
    bare, full = verifier(plain), verifier(rule="block", dtype="float32", max_batch=3, name="x", version="1")(plain)
    assert isinstance(bare, Verifier)
    assert bare(5, None, None, seed=0) == full(5, None, None, 0) == 5
    assert bare.asks == {"draft_tokens", "draft_probs", "target_probs", "seed"}
    assert (bare.name, bare.rule, bare.framework, bare.device, bare.dtype) == ("plain", None, "numpy", "cpu", "float64")
    assert (bare.max_batch, bare.readonly, bare.mutates, bare.version) == (None, False, frozenset(), "")
    assert (full.name, full.rule, full.dtype, full.max_batch, full.version) == ("x", "block", "float32", 3, "1")
    assert bare.__doc__ == "Do nothing."


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float64", "exact"), ("float32", "float32"), ("float16", "bf16-probs"), ("bfloat16", "bf16-probs")],
)
def test_tolerance_follows_the_dtype_unless_declared(dtype: str, tolerance: str) -> None:
    """Each dtype has a tolerance class, and a declared one wins."""
    assert verifier(framework="torch", dtype=dtype)(plain).tolerance == tolerance
    assert verifier(framework="torch", dtype=dtype, tolerance="f32-cdf")(plain).tolerance == "f32-cdf"


def test_as_sampler_keeps_a_verifier_and_wraps_a_function() -> None:
    """A Verifier passes through as the same object, a function gets the defaults."""
    declared = verifier(plain)
    assert as_sampler(declared) is declared
    assert as_sampler(plain).asks == declared.asks


def test_defaults_decide_what_is_passed() -> None:
    """A known name is passed even with a default; an unknown one keeps its default; stars get nothing."""

    def sampler(draft_tokens: Any, *args: Any, generator: Any = None, scale: float = 1.0, **kwargs: Any) -> Any:
        return draft_tokens

    assert verifier(sampler).asks == {"draft_tokens", "generator"}


def test_partial_keeps_what_it_bound() -> None:
    """What functools.partial bound is the user's choice and is not passed over."""
    bound = functools.partial(plain, seed=3)
    assert verifier(bound).asks == {"draft_tokens", "draft_probs", "target_probs"}
    assert verifier(bound).name == "plain"


def test_callable_objects_and_bound_methods_are_declared() -> None:
    """An instance with __call__ and a bound method are functions too."""

    class Engine:
        def __call__(self, draft_tokens: Any) -> Any:
            return draft_tokens

        def verify(self, target_probs: Any) -> Any:
            return target_probs

    assert verifier(Engine()).name == "Engine"
    assert verifier(Engine()).asks == {"draft_tokens"}
    assert verifier(Engine().verify).asks == {"target_probs"}


def test_unknown_parameter_lists_the_names_on_offer_nearest_first() -> None:
    """A misspelt parameter is an error at declaration that starts with the name that was meant."""
    with pytest.raises(
        ContractError, match=r"unknown parameter 'target_prob'; .* nearest first: target_probs, "
    ) as told:
        verifier(lambda draft_tokens, target_prob: None)
    assert "uniforms" in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda draft_tokens, parents, num_draft_tokens: None, "without num_draft_tokens; drop that"),
        (lambda target_probs, parents, bonus_tokens: None, "without bonus_tokens; drop that"),
        (lambda draft_tokens, /: None, "drop the '/'"),
        (lambda seed, draft_probs: None, "expected it to ask for draft_tokens, target_probs or target_logits"),
        (lambda *args, **kwargs: None, "expected it to ask for draft_tokens"),
        (dict, "of a class an instance"),
        ("token", "expected a verifier or a function, got 'token'"),
        (None, "expected a verifier or a function, got None"),
        ("x" * 9999, r"got 'x{99}\.\.\. \(10,001 characters\); options"),
        (print, "expected it to ask for draft_tokens"),
        (dict.fromkeys, "drop the '/'"),
    ],
)
def test_what_cannot_be_called_is_refused(function: Any, message: str) -> None:
    """Ragged trees, positional-only parameters, missing inputs, classes and non-functions are refused with advice."""
    with pytest.raises(ContractError, match=message):
        verifier(function)


def test_none_is_no_function() -> None:
    """None is a mistake and never means that the function is still to come."""
    for declare in (verifier, verifier(), as_sampler, specverify.check):
        with pytest.raises(ContractError, match="expected a verifier or a function, got None"):
            declare(None)  # type: ignore[arg-type]


async def _coroutine(draft_tokens: Any) -> Any:
    return draft_tokens


def _generator(draft_tokens: Any) -> Any:
    yield draft_tokens


async def _async_generator(draft_tokens: Any) -> Any:
    yield draft_tokens


class _Asynchronous:
    async def __call__(self, draft_tokens: Any) -> Any:
        return draft_tokens

    def rows(self, draft_tokens: Any) -> Any:
        yield draft_tokens


@pytest.mark.parametrize(
    "function",
    [_coroutine, _generator, _async_generator, _Asynchronous(), _Asynchronous().rows, functools.partial(_coroutine)],
)
def test_what_returns_before_it_ran_is_refused(function: Any) -> None:
    """Coroutine and generator functions, also as methods, objects and partials, are refused at declaration."""
    with pytest.raises(ContractError, match="got a coroutine or generator function; wrap it in a plain function"):
        verifier(function)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float3"}, "did you mean 'float32'"),
        ({"framework": "pytorch"}, "did you mean 'torch'"),
        ({"rule": "tokens"}, "did you mean 'token'"),
        ({"tolerance": "f32cdf"}, "did you mean 'f32-cdf'"),
        ({"dtype": "bfloat16"}, 'use framework="torch"'),
        ({"device": "cuda"}, 'use framework="torch"'),
        ({"max_batch": 0}, "integer of 1 or more, got 0"),
        ({"max_batch": True}, "integer of 1 or more, got True"),
        ({"max_batch": 2.0}, "integer of 1 or more, got 2.0"),
        ({"mutates": ("draft_prob",)}, "did you mean 'draft_probs'"),
        ({"mutates": ("seed",)}, "expected mutates to be one of draft_tokens, draft_probs, target_probs"),
        ({"mutates": "draft_probs", "readonly": True}, "got both"),
        ({"mutates": 5}, "expected mutates to be names, got 5"),
        ({"mutates": [[]]}, r"expected mutates to be names, got \[\[\]\]"),
        ({"readonly": "no"}, "expected readonly to be True or False, got 'no'"),
        ({"rule": ["token"]}, r"expected rule to be one of .*, got \['token'\]"),
        ({"framework": np.zeros(2)}, r"expected framework to be one of numpy, torch, got array"),
        ({"name": b"x"}, "expected name to be text, got b'x'"),
        ({"name": 5}, "expected name to be text, got 5"),
        ({"name": " "}, "expected name to be text, got ' '"),
        ({"name": ""}, "expected name to be text, got ''"),
        ({"device": None}, "expected device to be text, got None"),
        ({"version": 3}, "expected version to be text, got 3"),
    ],
)
def test_option_values_are_checked(options: Any, message: str) -> None:
    """A value that is not on offer is refused at declaration with the nearest that is."""
    with pytest.raises(ContractError, match=message):
        verifier(**options)(plain)


def test_any_integer_is_a_batch_size() -> None:
    """The largest batch may be an integer of NumPy, and is kept as a plain one."""
    size: Any = np.int64(3)
    assert type(verifier(max_batch=size)(plain).max_batch) is int


def test_both_forms_are_refused_in_16_bits_only() -> None:
    """Probabilities and logits round to different laws in 16 bits; wider dtypes may ask for both."""

    def both(draft_tokens: Any, target_probs: Any, target_logits: Any) -> Any:
        return draft_tokens

    with pytest.raises(ContractError, match="ask for one"):
        verifier(dtype="float16")(both)
    assert verifier(dtype="float32")(both).dtype == "float32"


def test_allowance_takes_the_next_larger_size_and_grows_beyond_the_table() -> None:
    """The table's values hold up to their size; beyond the last the allowance grows in proportion."""
    assert allowance("exact", 1) == allowance("exact", 1000) == 2e-14
    assert allowance("f32-uniform", 1001) == allowance("f32-uniform", 32000) == 4e-4
    assert allowance("f32-cdf", 2 * 128256) == 2 * 1.3e-3
    rows = (TOLERANCES["f32-uniform"], TOLERANCES["f32-cdf"])
    assert TOLERANCES["float32"] == pytest.approx([a + b for a, b in zip(*rows, strict=True)])


def test_nearest_orders_by_likeness() -> None:
    """The most alike name comes first, and a far one is not suggested."""
    assert nearest("blok", ["token", "block"])[0] == "block"
    assert did_you_mean("blok", ["token", "block"]) == "; did you mean 'block'?"
    assert did_you_mean("qqq", ["token", "block"]) == ""


def test_bfloat16_rounds_to_nearest_even() -> None:
    """Halfway cases go to the even neighbour, others to the nearest, and zero stays zero."""
    ulp = 2.0**-7  # spacing of bfloat16 in [1, 2)
    rows = np.array([1 + ulp / 2, 1 + 3 * ulp / 2, 1 + 0.51 * ulp, 1 + 0.49 * ulp, 0.0])
    assert rounded(rows, "bfloat16", "probs").tolist() == [1, 1 + 2 * ulp, 1 + ulp, 1, 0]


def test_law_is_that_of_the_rounded_rows() -> None:
    """Probabilities are renormalised and logits softmaxed in float64, after the rounding."""
    rows = np.array([[0.1, 0.2, 0.7, 0.0]])
    half = rows.astype(np.float16).astype(np.float64)
    handed = rounded(rows, "float16", "probs")
    assert handed.dtype == np.float16
    assert np.array_equal(law_of(handed, "probs"), half / half.sum())
    logits = rounded(rows, "float32", "logits")
    assert logits[0, 3] == -np.inf
    assert np.allclose(law_of(logits, "logits"), rows, rtol=1e-6)
    assert law_of(logits, "logits")[0, 3] == 0
