"""Adapters of engines, run on made-up engines: what they pack and read is right, and each edit of them is convicted."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from engines import ADAPTERS, FILES, adapted, install

import specverify
from specverify.adapters.alone import stand_in
from specverify.contract import Verifier
from specverify.errors import SamplerLoadError
from specverify.menu import menu
from specverify.randomness import Uniforms
from specverify.registry import names

torch = pytest.importorskip("torch", reason="torch is not installed")

SWAPPED = {
    "sglang": {"target_probs, draft_probs\n": "target_probs, draft_probs.roll(1, 0)\n"},
    "lmdeploy": {"draft_probs=draft_probs)": "draft_probs=draft_probs.roll(1, 0))"},
}
BONUS = {
    "sglang": {
        "target_probs, draft_probs\n": "target_probs[:, [*range(width - 1), max(width - 2, 0)]], draft_probs\n",
    },
    "lmdeploy": {
        "draft_tokens, bonus_tokens, ": "draft_tokens, "
        "target_logits[:, max(target_logits.shape[1] - 2, 0)].softmax(-1).multinomial(1)[:, 0], ",
    },
}
OTHERS = {
    "chain": {".where(slots - slots[:, :1] <= accepted[:, None], -1)": ""},
    "chain_block": {"block=True": "block=False"},
    "rejection_sampling": {"target_logits[:, :-1]": "target_logits[:, 1:]"},
}
FAILS = {"chain": "SV-STR-001", "chain_block": "SV-RUL-001", "rejection_sampling": "SV-ACC-001"}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with the made-up engines, which are installed for the test."""
    install(tmp_path, monkeypatch)
    return tmp_path


def checked(sampler: Verifier) -> Any:
    """Check a sampler on a few telling cases, in large calls, at a level where a correct one does not fail."""
    cases = [case for case in menu() if case.name in ("AB4", "T3", "W402", "no-draft", "softmax-32")]
    sampler = replace(sampler, max_batch=None)
    return specverify.check(sampler, cases=cases, samples=20_000, target_tv=0.9, alpha=1e-10, stop_early=False)


def failed(report: Any) -> set[str]:
    """Give the checks that failed."""
    return {check["id"] for check in report.checks if check["status"] == "failed"}


@pytest.mark.parametrize("function", ADAPTERS)
def test_the_adapter_as_it_is_conforms(function: str, engine: Path) -> None:
    """On an engine that is right, the adapter gives a sampler that is lossless and follows its rule."""
    report = checked(adapted(function, engine))
    assert (report.verdict, report.rule["conforms"]) == ("conformant", True)


@pytest.mark.parametrize("function", ADAPTERS)
def test_draft_rows_of_another_request_are_convicted(function: str, engine: Path) -> None:
    """Rows of q that go to the next request are wrong from the second position on, where they depend on the draft."""
    report = checked(adapted(function, engine, SWAPPED[ADAPTERS[function]]))
    assert report.verdict == "nonconformant"
    assert failed(report) >= {"SV-ACC-001", "SV-RUL-001"}
    assert "wrong: acceptance; " in report.diagnosis[0]["message"]


@pytest.mark.parametrize("function", ADAPTERS)
def test_a_bonus_from_the_row_before_is_convicted(function: str, engine: Path) -> None:
    """A bonus from the row of the last draft is found, and told as what is wrong."""
    report = checked(adapted(function, engine, BONUS[ADAPTERS[function]]))
    assert report.verdict == "nonconformant"
    assert "SV-BON-001" in failed(report)
    assert failed(report).isdisjoint({"SV-ACC-001", "SV-RES-001", "SV-LEN-001"})
    assert "wrong: the bonus; " in report.diagnosis[0]["message"]


@pytest.mark.parametrize("function", ADAPTERS)
def test_other_edits_are_convicted(function: str, engine: Path) -> None:
    """What the kernel left behind the last token, the other rule, and target rows one too late are found."""
    report = checked(adapted(function, engine, OTHERS[function]))
    assert report.verdict == "nonconformant"
    assert FAILS[function] in failed(report)


def test_the_kernel_gets_what_it_expects(engine: Path) -> None:
    """Slot 0 lies before the drafts, outputs are int32 and filled as the engine fills them, a coin goes with a slot."""
    seen: dict[str, Any] = {}

    def kernel(
        predicts: Any, index: Any, accepted: Any, candidates: Any, slots: Any, *given: Any, **options: Any
    ) -> None:
        seen.update(predicts=predicts.clone(), index=index, accepted=accepted.clone(), candidates=candidates)
        seen.update(slots=slots, given=given, options=options)
        predicts[:] = torch.arange(10, 16)
        accepted[:] = torch.tensor([0, 2])

    sampler = adapted("chain", engine)
    sampler.function.__globals__["ENGINE"] = stand_in("engine", chain_speculative_sampling_triton=kernel)
    drafts, coins = torch.tensor([[1, 2], [3, 0]]), Uniforms(torch.full((2, 2), 0.5), torch.tensor([0.25, 0.75]))
    q, p = torch.full((2, 2, 4), 0.25), torch.full((2, 3, 4), 0.25)
    assert sampler(drafts, q, p, coins).tolist() == [[10, -1, -1], [13, 14, 15]]
    assert (seen["predicts"].tolist(), seen["index"].tolist()) == ([-1] * 6, [[-1] * 3] * 2)
    assert {seen[name].dtype for name in ("predicts", "index", "accepted")} == {torch.int32}
    assert seen["candidates"][:, 1:].equal(drafts)
    assert seen["slots"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert seen["accepted"].tolist() == [0, 0]
    assert seen["given"][2][:, :2].equal(coins.accept)
    assert seen["given"][2].shape == (2, 3)
    assert seen["given"][3:6] == (coins.final, p, q)
    assert seen["options"] == {"block_verification": False}


def test_the_caller_draws_the_bonus(engine: Path) -> None:
    """LMDeploy's sampler gets the rows of the drafts alone, and the bonus token from its caller."""
    seen: dict[str, Any] = {}

    def forward(*given: Any, **options: Any) -> Any:
        seen.update(given=given, options=options)
        return torch.tensor([[1, -1]]), None, None

    sampler = adapted("rejection_sampling", engine)
    sampler.function.__globals__["SAMPLER"] = stand_in("sampler", forward=forward)
    drafts, q, p = torch.tensor([[1]]), torch.full((1, 1, 4), 0.25), torch.zeros((1, 2, 4))
    assert sampler(drafts, q, p, torch.tensor([3])).tolist() == [[1, -1]]
    assert seen["given"][0].shape == (1, 1, 4)
    assert seen["given"][1:] == (drafts, torch.tensor([3]))
    assert seen["options"] == {"is_greedy": None, "draft_probs": q}


@pytest.mark.parametrize("function", ADAPTERS)
def test_adapters_declare_what_they_are(function: str, engine: Path) -> None:
    """They take float32, rows of one length, and give the version of the engine."""
    sampler = adapted(function, engine)
    assert (sampler.framework, sampler.dtype, sampler.device) == ("torch", "float32", "cpu")
    assert "num_draft_tokens" not in sampler.asks
    assert ("uniforms" in sampler.asks, "bonus_tokens" in sampler.asks) == (
        (True, False) if ADAPTERS[function] == "sglang" else (False, True)
    )
    assert sampler.version.startswith(f"{ADAPTERS[function]} 0.0, ")


@pytest.mark.parametrize("function", ADAPTERS)
def test_a_missing_engine_is_one_line(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package, or with one that is laid out otherwise, the line says how to install it."""
    package = ADAPTERS[function]
    install(tmp_path, monkeypatch, {f"{package}/other.py": ""})
    refused(function, tmp_path, f"in the {package} that is installed, found none; pip install --no-deps {package}==")
    monkeypatch.setattr("specverify.adapters.alone.PathFinder", stand_in("finder", find_spec=lambda _: None))
    refused(function, tmp_path, f"expected {package} to be installed, found none; pip install --no-deps {package}==")


def refused(function: str, folder: Path, line: str) -> None:
    """Demand that an adapter is refused with one line that has these words."""
    with pytest.raises(SamplerLoadError) as told:
        adapted(function, folder)
    assert line in str(told.value)
    assert "\n" not in str(told.value)


def test_a_file_that_cannot_be_imported_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the engine raises is told with the command that installs it, and nothing of it stays imported."""
    files = dict.fromkeys(FILES, "raise RuntimeError('two\\nlines')")
    install(tmp_path, monkeypatch, files)
    for function in ADAPTERS:
        refused(function, tmp_path, "failed: RuntimeError: two lines; pip install --no-deps")
    assert not any(name.startswith(("sglang", "lmdeploy")) for name in sys.modules)


def test_names_are_registered() -> None:
    """Each adapter has a name, which says for what version it was written."""
    assert all("==" in names()[name] for name in ("sglang-chain", "sglang-chain-block", "lmdeploy"))


def test_the_page_shows_the_adapter_as_it_is() -> None:
    """The example of docs/adapters.md is the file that is shipped, and is short."""
    root = Path(__file__).parents[1]
    source = (root / "specverify" / "adapters" / "lmdeploy.py").read_text(encoding="utf-8")
    assert f"```python\n{source}```" in (root / "docs" / "adapters.md").read_text(encoding="utf-8")
    assert source.count("\n") < 60


@pytest.mark.parametrize(
    ("name", "reference"), [("sglang-chain", "reference"), ("sglang-chain-block", "reference-block")]
)
def test_the_installed_kernel_gives_the_tokens_of_the_reference(name: str, reference: str) -> None:
    """Where SGLang is installed, its kernel and the kit's make the same of the same coins, but for rounding."""
    for package in ("sglang", "triton"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    done = subprocess.run(
        [sys.executable, "-c", COMPARE, name, reference],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 1


COMPARE = """
import sys
import numpy as np
from specverify.randomness import Uniforms
from specverify.registry import load
import torch

theirs, ours = map(load, sys.argv[1:])
rng, differ = np.random.default_rng(1), 0
for size, length, vocab in ((16, 0, 5), (48, 3, 7), (16, 2, 4500)):
    q, p = (rng.dirichlet(np.full(vocab, 0.5), (size, width)).astype("float32") for width in (length, length + 1))
    drafts = (q.cumsum(-1) < rng.random((size, length, 1)) * q.sum(-1, keepdims=True)).sum(-1)
    coins = [np.floor(rng.random(shape) * 2**24).astype("float32") / 2**24 for shape in ((size, length), size)]
    found = theirs(*map(torch.from_numpy, (drafts, q, p)), Uniforms(*map(torch.from_numpy, coins))).numpy()
    accepted, token = ours(drafts, np.full(size, length), *(r.astype("float64") for r in (q, p)), Uniforms(*coins))
    expected = np.where(np.arange(length + 1) < accepted[:, None], np.c_[drafts, token], -1)
    expected[range(size), accepted] = token
    differ += (found != expected).any(axis=1).sum()
print(differ)
"""
