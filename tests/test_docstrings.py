"""Every example in a docstring runs and prints what it says, in every module of every package that is shipped."""

import doctest
import importlib
import pkgutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

EXTRAS = {"torch", "transformers", "mlx", "mlx_lm", "llama_cpp", "gguf", "sglang", "lmdeploy"}
PROJECT = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))


def modules() -> Iterator[str]:
    """Name the packages that pyproject ships, and the modules directly in each."""
    for package in PROJECT["tool"]["setuptools"]["packages"]:
        yield package
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__):
            if not found.ispkg:
                yield f"{package}.{found.name}"


@pytest.mark.parametrize("name", list(modules()))
def test_examples_of_docstrings_hold(name: str) -> None:
    """The module's examples pass; a module that needs an absent extra is skipped."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        pytest.skip(f"needs {error.name}")
    assert module.__doc__, "every module opens with the claim it serves"
    assert doctest.testmod(module).failed == 0


def test_modules_are_found_and_have_examples() -> None:
    """The walk reaches the mapped folders too, and there are examples to run."""
    names = set(modules())
    assert {"specverify.cases", "specverify.reference.law", "specverify.reports.document"} <= names
    finder = doctest.DocTestFinder()
    found = [finder.find(importlib.import_module(name)) for name in ("specverify.cases", "specverify.reference.law")]
    assert all(any(test.examples for test in tests) for tests in found)
