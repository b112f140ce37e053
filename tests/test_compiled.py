"""The kernel that torch compiles gives the tokens and the errors of NumPy, bit for bit, and says what it is missing."""

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from specverify import reference
from specverify.gpu_tests import KINDS, Batch, batch, tensors
from specverify.registry import load

torch = pytest.importorskip("torch", reason="torch is not installed")

SHAPE = 9, 2, 9001  # blocks of 256 tokens, and a rest


def answers(given: Batch, dtype: str, seed: int = 5) -> tuple[Any, Any]:
    """Give what NumPy and compiled torch make of a batch, lengths and tokens."""
    placed = tensors(given, "cpu", dtype)
    expected = reference.verify_token_seeded(*given[:3], seed, 2**32 - 4, given.num_draft_tokens)
    found = reference.verify_token_compiled(*placed[:3], seed, 2**32 - 4, placed.num_draft_tokens)
    return np.stack(expected), np.stack([kind.numpy() for kind in found])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tokens_are_those_of_numpy(dtype: str) -> None:
    """Random and hard wide rows, ragged; another seed gives other tokens, so that the comparison can fail."""
    for kind in KINDS:
        expected, found = answers(batch(kind, *SHAPE, dtype=dtype, seed=1, ragged=True), dtype)
        assert (expected == found).all()
    given = batch("random", *SHAPE, dtype=dtype, seed=1, ragged=True)
    assert (answers(given, dtype)[0] != answers(given, dtype, seed=6)[1]).any()


def test_the_widest_rows_agree() -> None:
    """131,072 tokens, which blocks fill, in bfloat16."""
    expected, found = answers(batch("random", 6, 4, 131_072, dtype="bfloat16", seed=2), "bfloat16")
    assert (expected == found).all()


def test_narrow_rows_are_not_compiled() -> None:
    """They agree too, without a compiled loop; a wide batch, the control, asks for its own."""
    asked = import_module("specverify.reference.compiled")._compiled.cache_info
    before = asked()
    expected, found = answers(batch("random", 40, 3, 257, dtype="float64", seed=3, ragged=True), "float64")
    assert (expected == found).all()
    assert asked() == before
    answers(batch("random", *SHAPE, dtype="float64", seed=1, ragged=True), "float64")
    assert asked().hits + asked().misses > before.hits + before.misses


WRONG: dict[str, Callable[[Batch], Any]] = {
    "NaN in a draft": lambda b: b._replace(draft_probs=b.draft_probs * np.nan),
    "NaN in the target": lambda b: b._replace(target_probs=b.target_probs * np.nan),
    "too much mass": lambda b: b._replace(target_probs=b.target_probs * 5),
    "negative weights": lambda b: b._replace(target_probs=b.target_probs - 1e-3),
    "no mass": lambda b: b._replace(target_probs=b.target_probs * 0),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_verified_is_refused_alike(wrong: str) -> None:
    """In one line, whatever the loop made of NaN and of weights that int64 cannot hold."""
    given = WRONG[wrong](batch("random", *SHAPE, dtype="float64", seed=4, ragged=True))
    placed = tensors(given, "cpu", "float64")
    told = []
    for kernel, taken in ((reference.verify_token_seeded_torch, placed), (reference.verify_token_compiled, placed)):
        with pytest.raises(ValueError, match="in row") as error:
            kernel(*taken[:3], 5, 0, taken.num_draft_tokens)
        told.append(str(error.value))
    assert told[0] == told[1]


def test_it_is_a_registered_sampler() -> None:
    """It is found by its name and gives the tokens of NumPy."""
    sampler, given = load("reference-compiled"), batch("random", 30, 2, 9, dtype="float64", seed=5)
    placed = tensors(given, "cpu", "float64")
    arguments = {name: getattr(placed, name) for name in sampler.asks - {"seed"}}
    found = np.stack([kind.numpy() for kind in sampler.function(**arguments, seed=8)])
    assert (sampler.rule, sampler.framework, sampler.version[:6]) == ("token", "torch", "torch ")
    assert (found == np.stack(reference.verify_token_seeded(*given[:3], 8))).all()


LOAD = """
import os
os.environ["PATH"] = os.environ["CXX"] = ""
from specverify.errors import SamplerLoadError
from specverify.registry import load
try:
    load("reference-compiled")
except SamplerLoadError as error:
    print(error)
"""


def test_a_missing_compiler_is_told_in_one_line() -> None:
    """The sampler is then not loaded, and the line says what to install."""
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True, timeout=120)
    assert "expected a C++ compiler for torch.compile, found none: install g++" in done.stdout
    assert len(done.stdout.splitlines()) == 1


def test_a_compiler_that_fails_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch says over many lines is cut to its first, with what to do."""

    def fail(*_: Any) -> Any:
        raise RuntimeError("Python.h: no such file\nand more")

    monkeypatch.setattr("specverify.reference.compiled._compiled", fail)
    given = tensors(batch("random", *SHAPE, dtype="float64", seed=6), "cpu", "float64")
    with pytest.raises(RuntimeError, match=r"got: Python\.h: no such file; install them") as error:
        reference.verify_token_compiled(*given[:3], 5)
    assert "\n" not in str(error.value)
