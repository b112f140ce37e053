"""Any number of processes gives the counts of one; what goes wrong in one of them is told as it would be here."""
# ruff: noqa: ARG001 - a stub sampler is declared by its parameter names, whether it reads them or not

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from samplers import CONTROLS

import specverify
from specverify import Report
from specverify.cli import main
from specverify.contract import Verifier, verifier
from specverify.crew import Crew
from specverify.errors import ConfigError, SpecverifyError
from specverify.plan import plan
from specverify.registry import load
from specverify.tasks import carry_out, one_by_one, tasks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="these samplers are functions of this process")

FEW: dict[str, Any] = {"samples": 700, "target_tv": 0.9, "alpha": 1e-10}
MAIN = "import sys; from specverify.cli import main; sys.exit(main())"
PASSING = ("created", "timing")


def lasting(report: Report) -> dict[str, Any]:
    """Give what must not depend on who did the work: all but the times."""
    kept = {key: value for key, value in report.document.items() if key not in PASSING}
    return kept | {"rows": report.document["timing"]["rows"], "calls": report.document["timing"]["calls"]}


@pytest.mark.parametrize("stop_early", [True, False])
@pytest.mark.parametrize("name", ["reference", "N3", "global", "fault:K02", "reference-rrs"])
def test_reports_are_the_same(name: str, stop_early: bool) -> None:
    """Counts, evidence at each look, verdict and diagnosis: for correct and wrong samplers, chains and trees."""
    sampler = CONTROLS.get(name) or load(name)
    only = () if stop_early else ("SV-TOK-001", "SV-JNT-001", "SV-IND-004")
    options = {**FEW, "stop_early": stop_early, "only": only}
    one = specverify.check(sampler, **options)
    assert lasting(specverify.check(sampler, **options, workers=2)) == lasting(one)


def test_three_processes_give_the_same_as_well() -> None:
    """More of them than cores, and than cases of the independence stage are left for."""
    one, three = (specverify.check(load("reference"), **FEW, workers=workers) for workers in (1, 3))
    assert lasting(three) == lasting(one)


def test_a_unit_gives_the_same_counts_wherever_it_stands() -> None:
    """Carried out backwards and added in order, the tasks of a plan give the sums of a run, to the last bit."""
    made = plan(load("reference"), samples=400, seed=3)
    listed = list(tasks(made))
    backwards = {task: carry_out(made, task).counted for task in reversed(listed)}
    forwards = [ready().counted for ready in one_by_one(made)]
    assert len(forwards) == len(listed) == len(backwards)
    for task, counted in zip(listed, forwards, strict=True):
        again = backwards[task]
        assert [n.tolist() for n in counted.counts] == [n.tolist() for n in again.counts]
        assert counted.tally.overlap.tolist() == again.tally.overlap.tolist()
        assert (counted.rows, counted.calls) == (again.rows, again.calls)


def test_a_faulty_call_ends_its_case_alone() -> None:
    """A sampler that raises on one vocabulary fails there, with the same message; the other cases are run."""

    def raises(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        if target_probs.shape[2] == 5:
            raise RuntimeError("no five tokens")
        return CONTROLS["correct"].function(draft_tokens, draft_probs, target_probs, seed)

    sampler = verifier(name="raises", rule="token")(raises)
    one, two = (specverify.check(sampler, **FEW, workers=workers) for workers in (1, 2))
    assert lasting(one) == lasting(two)
    assert "no five tokens" in str(two)


def leaves(when: int) -> Verifier:
    """Make a sampler that ends its process in calls whose seed is divisible."""

    def fated(draft_tokens: Any, seed: int) -> Any:
        if seed % when == 0:
            os._exit(3)
        return draft_tokens

    return verifier(name="fated")(fated)


def test_a_sampler_that_ends_its_process_ends_the_run_with_a_line() -> None:
    """Without a timeout nothing else can be said; with one the call is told, and the run ends as it does with one."""
    only = {**FEW, "only": ("SV-TOK-001",)}
    with pytest.raises(SpecverifyError, match="expected the processes of workers to last, and one ended"):
        specverify.check(leaves(3), **only, workers=2)
    report = specverify.check(leaves(3), **only, workers=2, timeout=60)
    assert report.verdict == "nonconformant"
    assert "ended with exit code 3 before the call returned" in str(report)


def test_a_healthy_sampler_has_a_timeout_and_workers() -> None:
    """Each process watches its own sampler, and ends with it."""
    before = children()
    one = specverify.check(CONTROLS["correct"], **FEW, only=("SV-TOK-001",), timeout=60)
    two = specverify.check(CONTROLS["correct"], **FEW, only=("SV-TOK-001",), timeout=60, workers=2)
    assert lasting(one) == lasting(two)
    assert children() == before


def test_another_sampler_of_that_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where processes make the sampler anew, its declaration has to be that of the one to be checked."""
    monkeypatch.setattr("specverify.crew.start_method", lambda *_: "spawn")
    with pytest.raises(ConfigError, match="expected target to name the sampler that is checked, got 'reference'"):
        specverify.check(load("naive-redraw"), **FEW, target="reference", workers=2)


def test_whoever_interrupts_waits_for_no_call() -> None:
    """A call that hangs does not keep the run from ending, nor does its process stay."""
    before, began = children(), time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    while children() - before and time.monotonic() < began + 60:
        time.sleep(0.1)
    assert children() == before
    assert time.monotonic() < began + 60


def hangs(draft_tokens: Any, seed: int) -> None:
    """Never return."""
    time.sleep(300)


def interrupted() -> None:
    """Begin a run of a sampler that never returns, and interrupt it."""
    hanging = verifier(name="hanging")(hangs)
    with Crew(plan(hanging, **FEW, workers=2)) as results:
        next(results)
        raise KeyboardInterrupt


def test_a_proof_ends_all_processes() -> None:
    """What was begun beyond the look that proved the fault counts for nothing, and no process is left."""
    before = children()
    assert specverify.check(load("fault:K01"), workers=2).verdict == "nonconformant"
    assert children() == before


def children() -> set[str]:
    """List the processes that this one has started."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split())


@pytest.mark.parametrize("workers", [0, -1, 257, 1.5, "2", True])
def test_what_is_no_number_of_workers(workers: Any) -> None:
    """It is refused before anything runs."""
    with pytest.raises(ConfigError, match="expected workers to be an integer from 1"):
        specverify.check(load("reference"), workers=workers)


def test_where_a_fork_is_not_safe_a_name_is_needed() -> None:
    """A sampler on a GPU is made anew in each process, which takes its name."""
    sampler = verifier(name="far", framework="torch", device="cuda")(lambda draft_tokens: draft_tokens)
    made = plan(load("reference"), **FEW, workers=2)
    made.verifier = sampler
    with pytest.raises(ConfigError, match=r"with workers where the process cannot be forked \(the GPU is in use\)"):
        Crew(made)


def test_a_sampler_can_be_made_anew_by_its_name(tmp_path: Path) -> None:
    """Where torch is loaded the processes start afresh, and load the sampler from where it is written."""
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\nimport specverify\nfrom specverify.adapters.builtin import reference\n\n"
        "mine = specverify.verifier(name='mine', rule='token', readonly=True)(reference.function)\n",
        encoding="utf-8",
    )
    asked = ["check", "mine.py:mine", "--samples", "300", "--target-tv", "0.9", "--only", "SV-TOK-001", "--json"]
    for workers in ("1", "2"):
        command = [sys.executable, "-c", MAIN, *asked, f"{workers}.json", "--workers", workers]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
    one, two = (Report.read(tmp_path / f"{workers}.json") for workers in ("1", "2"))
    assert one.checks == two.checks


def test_the_command_line_has_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    """The status is that of the verdict, and a wrong number is one line."""
    assert main(["check", "naive-redraw", "--samples", "2000", "--workers", "2"]) == 1
    assert "NONCONFORMANT" in capsys.readouterr().out
    assert main(["check", "reference", "--workers", "0"]) == 2
    assert "expected workers to be an integer from 1" in capsys.readouterr().err
