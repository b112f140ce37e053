"""A generate loop is judged alike by the command line and by both doors of pytest."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from plugin_projects import run

LOOP = """
import numpy as np
import specverify

@specverify.generator
def mine(target_model, prompt, max_new_tokens, eos_token_id, seed):
    rng, contexts, ended = np.random.default_rng(seed), prompt, np.zeros(len(prompt), dtype=bool)
    tokens = np.full((len(prompt), max_new_tokens), -1)
    for place in range(max_new_tokens):
        laws = np.exp(target_model(contexts)).cumsum(axis=1)
        new = (laws <= rng.random((len(prompt), 1)) * laws[:, -1:]).sum(axis=1)
        tokens[:, place] = np.where(ended, -1, new)
        ended |= new == eos_token_id
        contexts = np.column_stack([contexts, new])
    return tokens
"""
TESTS = """
import specverify
from my_loop import mine

@specverify.parametrize_with_checks([{}], samples=300, target_tv=0.9)
def test_conformance(sampler, check):
    check(sampler)
"""
FIXTURE = """
def test_installed(specverify_sampler, specverify_check):
    specverify_check(specverify_sampler)
"""
OPTIONS = ("--specverify-samples=300", "--specverify-target-tv=0.9")
FREE = ("created", "environment", "timing")  # what two runs of one sampler need not share
PROCESSES = "cases in fresh processes"


def ran(*command: str, folder: Path) -> None:
    """Run a module in a folder, and see that it ends well."""
    command = (sys.executable, "-m", *command)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def read(path: Path) -> dict[str, Any]:
    """Give what a report says, less what depends on time and place."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return {name: value for name, value in document.items() if name not in FREE}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the loop."""
    made = tmp_path_factory.mktemp("loops")
    made.joinpath("my_loop.py").write_text(LOOP, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def typed(folder: Path) -> dict[str, Any]:
    """Check it on the command line."""
    options = ("--samples", "300", "--target-tv", "0.9", "--json", "typed.json")
    ran("specverify.cli", "check", "my_loop.py:mine", *options, folder=folder)
    return read(folder / "typed.json")


@pytest.mark.parametrize(
    ("tests", "options"),
    [
        (TESTS.format("'my_loop.py:mine'"), ()),
        (FIXTURE, ("--specverify-sampler=my_loop.py:mine", *OPTIONS)),
    ],
    ids=["decorator", "suite"],
)
def test_a_named_loop_has_one_report_through_every_door(
    tests: str, options: tuple[str, ...], typed: dict[str, Any], tmp_path: Path
) -> None:
    """The same checks on the same cases, in fresh processes too, with the same counts, figures and verdict."""
    tmp_path.joinpath("test_loop.py").write_text(tests, encoding="utf-8")
    tmp_path.joinpath("my_loop.py").write_text(LOOP, encoding="utf-8")
    assert run(tmp_path, "--specverify-json=out", *options).status == 0
    (file,) = tmp_path.joinpath("out").iterdir()
    assert read(file) == typed
    assert typed["verdict"] == "conformant"
    assert not any(PROCESSES in warning for warning in typed["warnings"])


def test_a_loop_that_is_handed_over_says_that_it_was_not_run_in_fresh_processes(
    typed: dict[str, Any], tmp_path: Path
) -> None:
    """An object has no name to load it by elsewhere; what is run is the same for the decorator and for a script."""
    tmp_path.joinpath("test_loop.py").write_text(TESTS.format("mine"), encoding="utf-8")
    tmp_path.joinpath("my_loop.py").write_text(
        f"{LOOP}\n\nif __name__ == '__main__':\n"
        "    specverify.check(mine, samples=300, target_tv=0.9).write('called.json')\n",
        encoding="utf-8",
    )
    assert run(tmp_path, "--specverify-json=out").status == 0
    ran("my_loop", folder=tmp_path)
    (file,) = tmp_path.joinpath("out").iterdir()
    assert read(file) == read(tmp_path / "called.json")
    assert any(PROCESSES in warning for warning in read(file)["warnings"])
    cases = [read(file)["coverage"], typed["coverage"]]
    assert cases[0].replace("on 5 cases", "on 8 cases") == cases[1]
