"""A call that hangs or ends its process costs one case: the rest goes on, and nothing is left behind."""
# ruff: noqa: ARG001, ARG005 - a stub sampler is declared by its parameter names, whether it reads them or not

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from samplers import CONTROLS, global_sampler

import specverify
from specverify import Report
from specverify import worker as module
from specverify.calling import Reply, SamplerRaised, call
from specverify.cases import Case
from specverify.cli import main
from specverify.contract import Verifier, verifier
from specverify.errors import ConfigError, SamplerLoadError
from specverify.handing import Handed
from specverify.reading import OutputFault
from specverify.registry import load
from specverify.worker import SamplerLost, Worker

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="these samplers are functions of this process")

PROMPT = 0.3  # seconds, for what hangs
PATIENT = 60.0  # seconds, for what must not
CASE = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
DRAFTS, LENGTHS = np.array([[0], [1], [0]]), np.array([1, 1, 1])
FEW: dict[str, Any] = {
    "samples": 300,
    "target_tv": 0.9,
    "alpha": 1e-10,
    "only": ("SV-TOK-001", "SV-JNT-001", "SV-RPL-001"),
}
Fate = Callable[[], Any]


def sampler_of(fate: Fate, when: int = 1) -> Verifier:
    """Make a sampler, a closure, that meets its fate in the calls with one seed and echoes the drafts in all others."""
    return verifier(name="fated")(lambda draft_tokens, seed: fate() if seed == when else draft_tokens)


def segfaults() -> None:
    """End like a broken extension module, without the report on it that pytest has asked for."""
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)


def made_by(worker: Worker, sampler: Verifier, seed: int, handed: Handed | None = None) -> Reply:
    """Make one call by a worker."""
    return worker.call(sampler, handed or Handed(CASE, sampler), DRAFTS, LENGTHS, seed)


def gone(pid: int) -> bool:
    """Say whether a process has ended, within five seconds; one that waits to be collected has."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def undated(report: Report) -> dict[str, Any]:
    """Give a report without what may differ from run to run."""
    document: dict[str, Any] = json.loads(report.to_json())
    (document["counterexample"] or {}).pop("reproduce", None)  # it has the options too
    return {key: value for key, value in document.items() if key not in ("created", "timing", "options")}


def entry(report: Report, check: str) -> dict[str, Any]:
    """Give what a report says of one check."""
    return next(found for found in report.checks if found["id"] == check)


def threads_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a library seem loaded whose threads no fork inherits: a sampler with a name is then loaded afresh."""
    monkeypatch.setitem(sys.modules, "jax", types.ModuleType("jax"))


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """Whatever a test did, none of its processes outlives it."""
    yield
    assert multiprocessing.active_children() == []


# --- one call --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fate", "said"),
    [
        (lambda: time.sleep(PATIENT), f"a call did not return within {PROMPT:g} s"),
        (lambda: os.kill(os.getpid(), signal.SIGSTOP), f"a call did not return within {PROMPT:g} s"),
        (lambda: os._exit(3), "the sampler's process ended with exit code 3 before the call returned"),
        (lambda: os._exit(0), "the sampler's process ended with exit code 0 before the call returned"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "the sampler's process was killed by SIGKILL before"),
        (segfaults, "the sampler's process was killed by SIGSEGV before the call returned"),
        (lambda: os.closerange(3, 256), "the sampler's process ended with exit code 0 before the call returned"),
    ],
    ids=["sleeps", "stops itself", "exit 3", "exit 0", "SIGKILL", "SIGSEGV", "closes all files"],
)
def test_a_lost_call_is_told_with_its_input_and_the_next_one_is_served(fate: Fate, said: str) -> None:
    """Whatever ended the process, the message says it and names the input, and a fresh process makes the next call."""
    sampler = sampler_of(fate)
    handed = Handed(CASE, sampler)
    with Worker(sampler, PROMPT) as worker:
        before = made_by(worker, sampler, 0, handed)
        with pytest.raises(SamplerLost) as lost:
            made_by(worker, sampler, 1, handed)
        assert lost.value.message.startswith(said)
        assert lost.value.message.endswith("with case 'AB', seed 1, 3 row(s), draft_tokens [[0], [1], [0]]")
        after = made_by(worker, sampler, 2, handed)
        assert worker.lost == 1
    assert np.array_equal(before.next_token, after.next_token)


def test_errors_and_wrong_outputs_come_back_as_they_are() -> None:
    """What is no loss of the process is the same error, in the same words, as without a worker."""

    def fails() -> None:
        raise ZeroDivisionError("of all things")

    fates: list[tuple[Fate, type[Exception]]] = [
        (fails, SamplerRaised),
        (lambda: sys.exit(4), SamplerRaised),
        (lambda: [["x"]], OutputFault),
        (lambda: None, OutputFault),
    ]
    for fate, kind in fates:
        sampler = sampler_of(fate)
        with pytest.raises(kind) as direct:
            call(sampler, Handed(CASE, sampler), DRAFTS, LENGTHS, 1)
        with Worker(sampler, PATIENT) as worker, pytest.raises(kind) as made:
            made_by(worker, sampler, 1)
        assert (type(made.value), str(made.value)) == (type(direct.value), str(direct.value))
        assert worker.lost == 0


@pytest.mark.parametrize("name", CONTROLS)
def test_a_reply_does_not_depend_on_where_the_call_is_made(name: str) -> None:
    """The same seed gives the same tokens here and in a worker, from whichever generator they are drawn."""
    sampler = CONTROLS[name]
    given = Handed(CASE, sampler), DRAFTS[: sampler.max_batch], LENGTHS[: sampler.max_batch]
    with Worker(sampler, PATIENT) as worker:
        for seed in range(5):
            here, there = call(sampler, *given, seed), worker.call(sampler, *given, seed)
            assert np.array_equal(here.num_accepted, there.num_accepted)
            assert np.array_equal(here.next_token, there.next_token)


def test_what_the_sampler_reads_and_prints_does_not_disturb(capfd: pytest.CaptureFixture[str]) -> None:
    """A megabyte on standard output, by print and past it, goes to standard error; standard input is empty."""

    def chats() -> Any:
        print("a" * 2**20, flush=True)
        os.write(1, b"b" * 1000)
        return [[len(os.read(0, 10))]] * 3  # a token from what could be read

    sampler = sampler_of(chats)
    with Worker(sampler, PATIENT) as worker:
        assert made_by(worker, sampler, 1).next_token.tolist() == [0, 0, 0]
    captured = capfd.readouterr()
    assert "b" not in captured.out
    assert captured.err.count("b") == 1000


@pytest.mark.parametrize("hangs", [True, False])
def test_processes_that_the_sampler_started_end_with_it(hangs: bool, tmp_path: Path) -> None:
    """When a call hangs, and when the run is over, its child processes are ended too."""
    noted = tmp_path / "pid"

    def starts() -> Any:
        noted.write_text(str(subprocess.Popen(["sleep", "600"]).pid))
        time.sleep(PATIENT if hangs else 0)
        return [[0]] * 3

    sampler = sampler_of(starts)
    with Worker(sampler, 1.0 if hangs else PATIENT) as worker:
        if hangs:
            with pytest.raises(SamplerLost):
                made_by(worker, sampler, 1)
        else:
            made_by(worker, sampler, 1)
    assert gone(int(noted.read_text()))


@pytest.fixture
def freed_heap() -> Iterator[None]:
    """Leave 400 MiB of this process's heap free and resident, as a long run of tests does: a fork inherits it."""
    np.ones(3 * 2**20)  # 24 MiB, freed at once: glibc takes smaller blocks from its heap from now on
    blocks = [np.ones(2**20) for _ in range(51)]
    last = blocks.pop()  # while it lives, the heap below it stays
    blocks.clear()
    yield
    del last


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not tell what a process holds")
@pytest.mark.usefixtures("freed_heap")
@pytest.mark.parametrize(("takes", "leaks"), [(lambda seed: 1, True), (lambda seed: 40 * (seed == 0), False)])
def test_memory_that_grows_after_the_first_calls_is_told(
    takes: Callable[[int], int], leaks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sampler that keeps 8 MiB of each of 40 calls is warned about; one that keeps as much of the first is not."""
    monkeypatch.setattr(module, "LEAK", 2**27)
    kept: list[Any] = []

    def keeps(draft_tokens: Any, seed: int) -> Any:
        kept.extend(np.ones(2**20) for _ in range(takes(seed)))
        return draft_tokens

    sampler = verifier(keeps)
    handed = Handed(CASE, sampler)
    with Worker(sampler, PATIENT) as worker:
        for seed in range(40):
            made_by(worker, sampler, seed, handed)
    assert worker.warnings == ["the memory of the sampler's process grew by 0.2 GiB over 40 calls"] * leaks


@pytest.mark.parametrize(
    ("draws", "library"),
    [(random.random, "random"), (np.random.random, "numpy")],
)
def test_moving_a_global_generator_is_warned_about(draws: Fate, library: str) -> None:
    """A sampler that gets a seed and draws elsewhere is told so when it is watched; one that gets none may draw."""

    def draws_too(draft_tokens: Any, seed: int) -> Any:
        draws()
        return draft_tokens

    def draws_alone(draft_tokens: Any) -> Any:
        draws()
        return draft_tokens

    for function, watch, due in ((draws_too, True, 1), (draws_too, False, 0), (draws_alone, True, 0)):
        sampler = verifier(function)
        with Worker(sampler, PATIENT) as worker:
            reply = worker.call(sampler, Handed(CASE, sampler), DRAFTS, LENGTHS, 0, watch=watch)
        told = (f"{function.__name__} changed the global generator of {library}, though it asks for randomness",)
        assert reply.warnings == told * due


# --- a whole run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sampler", "target"),
    [(global_sampler, None), (load("naive-redraw"), "naive-redraw")],
    ids=["forked", "loaded by name"],
)
def test_the_same_seed_gives_the_same_report(
    sampler: Verifier, target: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts and all that follows from them are the same with and without a worker, forked or loaded afresh."""
    here = specverify.check(sampler, **FEW, target=target)
    if target is not None:
        threads_are_loaded(monkeypatch)
    there = specverify.check(sampler, **FEW, target=target, timeout=PATIENT)
    assert undated(here) == undated(there)
    assert (here.document["options"]["timeout"], there.document["options"]["timeout"]) == (None, PATIENT)


def test_a_case_that_hangs_is_lost_alone() -> None:
    """The structure check names the case that hangs; all others are run, and what they give is counted."""

    def hangs_on_one(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        if target_probs.shape[2] == 1000:
            time.sleep(PATIENT)
        return CONTROLS["correct"].function(draft_tokens, draft_probs, target_probs, seed)

    report = specverify.check(hangs_on_one, **FEW, timeout=2.0)
    structure, first = entry(report, "SV-STR-001"), entry(report, "SV-TOK-001")
    assert report.verdict == "nonconformant"
    assert structure["message"].startswith("On case plateau-1000: a call did not return within 2 s\nwith case")
    assert "Also on" not in structure["message"]
    assert (first["status"], first["reason"]) == (
        "inconclusive",
        "a faulty call ended a case before its planned rows",
    )
    # The calls of 5 and of 1 on the witness table come last.
    assert structure["n"] > 25 * FEW["samples"]
    assert report.document["warnings"] == []


def test_a_sampler_that_always_hangs_ends_the_command_with_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After three lost processes the run stops: exit status 1, and a valid report that says why."""
    file, written = tmp_path / "mine.py", tmp_path / "report.json"
    file.write_text("import time\ndef sleeper(draft_tokens, seed):\n    time.sleep(600)\n")
    began = time.monotonic()
    assert main(["check", f"{file}:sleeper", "--timeout", "0.5", "--json", str(written)]) == 1
    assert time.monotonic() - began < PATIENT
    document = json.loads(written.read_text(encoding="utf-8"))
    jsonschema.validate(document, json.loads((files("specverify.reports") / "report.schema.json").read_text("utf-8")))
    assert document["verdict"] == "nonconformant"
    assert "a call did not return within 0.5 s" in entry(Report(document), "SV-STR-001")["message"]
    stopped = "stopped early: calls hung, or ended the sampler's process, 3 times"
    assert entry(Report(document), "SV-TOK-001")["reason"] == stopped
    assert "NONCONFORMANT" in capsys.readouterr().out


# --- start and end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL] if sys.platform == "linux" else [signal.SIGINT])
def test_no_process_outlives_the_kit(how: signal.Signals, tmp_path: Path) -> None:
    """Interrupted in a call that hangs, or killed, the command takes its worker along."""
    file, noted = tmp_path / "mine.py", tmp_path / "pid"
    file.write_text(
        "import os, pathlib, time\n"
        "def sleeper(draft_tokens, seed):\n"
        f"    pathlib.Path({str(noted)!r}).write_text(str(os.getpid()))\n"
        "    time.sleep(600)\n"
    )
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # also where tests run aside
    program = f"{heeds}; import sys; from specverify.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "check", f"{file}:sleeper", "--timeout", "600"]
    kit = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (noted.exists() and noted.read_text()):
        assert kit.poll() is None
        time.sleep(0.02)
    os.killpg(kit.pid, how)
    _, said = kit.communicate(timeout=PATIENT)
    assert gone(int(noted.read_text()))
    if how is signal.SIGINT:
        assert (kit.returncode, said) == (130, "specverify: interrupted, nothing was decided\n")


def test_what_cannot_be_forked_needs_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU or a library's threads are not inherited: a sampler without a name on the command line is refused."""
    gpu = replace(sampler_of(list), framework="torch", device="cuda")
    with pytest.raises(ConfigError, match=r"the GPU is in use.*give target='file.py:name' too"):
        Worker(gpu, PATIENT)
    assert Worker(gpu, PATIENT, "file.py:name").lost == 0
    threads_are_loaded(monkeypatch)
    with pytest.raises(ConfigError, match=r"jax is loaded.*give target='file.py:name' too"):
        Worker(sampler_of(list), PATIENT)


def test_threads_of_torch_that_a_fork_leaves_behind_are_not_waited_for() -> None:
    """A torch sampler that is a closure and sets its threads is not taken to hang."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()

    def works() -> Any:
        torch.set_num_threads(2)
        return torch.ones(3, 2**20).exp().sum(dim=1, keepdim=True).long() * 0

    sampler = sampler_of(works)
    try:
        works()  # the threads of this process are now at work
        with Worker(sampler, PATIENT) as worker:
            assert made_by(worker, sampler, 1).next_token.tolist() == [0, 0, 0]
    finally:
        torch.set_num_threads(before)


def test_the_name_must_lead_to_the_same_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the sampler is loaded by name, another one found there is not checked in its place."""
    threads_are_loaded(monkeypatch)
    with pytest.raises(ConfigError, match="got 'reference-block', which declares something else"):
        Worker(load("reference"), PATIENT, "reference-block").__enter__()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("os._exit(7)", "in a worker process, which ended with exit code 7"),
        ("raise OSError('no disk')", "failed: OSError: no disk"),
    ],
)
def test_a_sampler_that_cannot_be_loaded_in_a_worker_is_told(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import that ends the process, or fails in it alone, is one line that says how, and no finding."""
    file = tmp_path / "mine.py"
    file.write_text(
        f"import os\nif os.getpid() != {os.getpid()}:\n    {line}\ndef echo(draft_tokens):\n    return draft_tokens\n"
    )
    named = f"{file}:echo"
    threads_are_loaded(monkeypatch)
    with pytest.raises(SamplerLoadError, match=said) as refused:
        Worker(load(named), PATIENT, named).__enter__()
    assert "\n" not in str(refused.value)


def test_a_sampler_that_cannot_be_loaded_again_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who leaves behind what keeps it from being loaded once more has lost a second process; the run goes on."""
    file, mark = tmp_path / "mine.py", tmp_path / "mark"
    file.write_text(
        f"import os, pathlib\nmark = pathlib.Path({str(mark)!r})\nassert not mark.exists()\n"
        "def once(draft_tokens):\n    mark.touch()\n    os._exit(1)\n"
    )
    threads_are_loaded(monkeypatch)
    sampler = load(f"{file}:once")
    with Worker(sampler, PATIENT, f"{file}:once") as worker:
        for said in ("ended with exit code 1", r"could not be loaded again: .*AssertionError"):
            with pytest.raises(SamplerLost, match=said):
                made_by(worker, sampler, 0)
        assert worker.lost == 2


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "5", True])
def test_a_timeout_is_a_positive_number_of_seconds(timeout: Any) -> None:
    """Anything else is refused in one line before the run."""
    with pytest.raises(ConfigError, match="expected timeout to be a positive number of seconds"):
        specverify.check(load("reference"), timeout=timeout)
