"""What a user has: a folder with a sampler of ten lines, a test file of three, and pytest run in it as a process."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specverify.checks import CATALOGUE

CORRECT = """
import numpy as np
import specverify

@specverify.verifier(rule="token", max_batch=1)
def mine(draft_tokens, draft_probs, target_probs, generator):
    x, q, p = draft_tokens[0], draft_probs[0], target_probs[0]
    for i, token in enumerate(x):
        if generator.random() * q[i, token] >= p[i, token]:
            weights = {weights}
            return [[*x[:i], generator.choice(len(weights), p=weights / weights.sum())]]
    return [[*x, generator.choice(len(p[-1]), p=p[-1])]]
""".replace("{weights}", "np.maximum(p[i] - q[i], 0)")

WRONG_RESIDUAL = CORRECT.replace("np.maximum(p[i] - q[i], 0)", "p[i]")
"""Fault K02."""

NEVER_ACCEPTS = """
import specverify

@specverify.verifier(rule="token", max_batch=1)
def mine(target_probs, generator):
    return [[generator.choice(target_probs.shape[2], p=target_probs[0, 0])]]
"""
"""Lossless, and far from the rule that it declares."""

TESTS = """
import specverify
from my_sampler import mine

@specverify.parametrize_with_checks([mine], {options})
def test_conformance(sampler, check):
    check(sampler)
"""


@dataclass(frozen=True)
class Session:
    """A pytest run that has ended."""

    status: int
    text: str
    junit: Path

    def cases(self) -> Iterator[tuple[str, ElementTree.Element]]:
        """Give every test of the JUnit file by the part of its id that names sampler and check."""
        for case in ElementTree.parse(self.junit).iter("testcase"):
            yield case.attrib["name"].partition("[")[2].partition("]")[0], case

    def outcomes(self) -> dict[str, str]:
        """Give passed, failure, skipped or error by test."""
        return {name: next((e.tag for e in case if e.tag != "properties"), "passed") for name, case in self.cases()}

    def failed(self) -> set[str]:
        """Give the checks whose test failed."""
        return {name[-len("SV-XXX-000") :] for name, outcome in self.outcomes().items() if outcome == "failure"}

    def message(self, check: str) -> str:
        """Give the whole text of a failed test."""
        return next(case.find("failure").text or "" for name, case in self.cases() if name.endswith(check))  # type: ignore[union-attr]


def project(folder: Path, sampler: str, options: str = "samples=300, target_tv=0.9, alpha=1e-10") -> Path:
    """Write sampler and test file."""
    folder.joinpath("my_sampler.py").write_text(sampler, encoding="utf-8")
    folder.joinpath("test_mine.py").write_text(TESTS.format(options=options), encoding="utf-8")
    return folder


def run(folder: Path, *arguments: str, name: str = "junit") -> Session:
    """Run pytest as a process of its own, from a folder, without what only costs time here."""
    junit = folder / f"{name}.xml"
    quick = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--assert=plain")
    command = [sys.executable, "-m", "pytest", *quick, f"--junitxml={junit}", *arguments]
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SPECVERIFY_", "PYTEST_"))}
    done = subprocess.run(command, cwd=folder, env=ours, text=True, capture_output=True, check=False, timeout=300)
    return Session(done.returncode, done.stdout + done.stderr, junit)


def ids(name: str) -> set[str]:
    """Give the ids of all tests of one sampler."""
    return {f"{name}-{check}" for check in CATALOGUE}
