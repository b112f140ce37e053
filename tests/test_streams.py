"""Whatever becomes of its streams, the command line keeps its promises: one line, a status, a bar on terminals only."""

import argparse
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specverify.progress import ProgressBar
from specverify.reports import Report


def run(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "specverify.cli", *arguments]
    return subprocess.run(command, text=True, stderr=subprocess.PIPE, check=False, timeout=60, **options)


LINES = ("list rules", "explain block", "power --cells 3", "--help", "--version", "check --help")
RUN = "check reference --only SV-TOK-001 --samples 10"


def shell(line: str, redirected: str, unbuffered: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command line with a stream closed or full."""
    command = f"'{sys.executable}' -m specverify.cli {line} {redirected}"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    return subprocess.run(
        ["sh", "-c", command], env=environment, text=True, capture_output=True, check=False, timeout=60
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("line", [*LINES, RUN, f"{RUN} --json -"])
def test_an_output_that_cannot_be_written_is_status_two(line: str, unbuffered: str) -> None:
    """A full disk is told in one line, and is neither a traceback nor a verdict."""
    ended = shell(line, "> /dev/full", unbuffered)
    assert ended.returncode == 2
    assert ended.stderr.startswith("specverify: error: cannot write the output (OSError: [Errno 28] No space left")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("line", [*LINES[:3], RUN, f"{RUN} --json -"])
def test_a_closed_output_is_status_two(line: str) -> None:
    """A closed standard output is told before any work is done."""
    ended = shell(line, ">&-")
    assert ended.returncode == 2
    assert ended.stderr.startswith("specverify: error: cannot write to standard output: it is closed;")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("redirected", ["2>&-", ">&- 2>&-", "2> /dev/full"])
def test_no_place_for_errors_changes_no_status(redirected: str) -> None:
    """Where standard error cannot be written to, the status still tells, and nothing goes astray."""
    ended = shell("check refrence", redirected)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "")
    ended = shell("list rules", "2>&-")
    assert (ended.returncode, ended.stdout.startswith("token")) == (0, True)


@pytest.mark.parametrize(
    ("does", "status"),
    [
        ("sys.stdout = None", 3),
        ("sys.stderr = None", 3),
        ("sys.stdout = io.StringIO()", 3),
        ("sys.stdout.close()", 2),
        ("os.closerange(1, 2)", 2),
    ],
)
def test_a_sampler_that_meddles_with_streams(does: str, status: int, tmp_path: Path) -> None:
    """Other streams in their place do not keep the report from the user; one it closed is told. The file is there."""
    (tmp_path / "meddling.py").write_text(
        "import io, os, sys\nfrom specverify.adapters.builtin import reference\n"
        f"def f(draft_tokens, num_draft_tokens, draft_probs, target_probs, uniforms):\n    {does}\n"
        "    return reference(draft_tokens, num_draft_tokens, draft_probs, target_probs, uniforms)\n"
    )
    line = f"check '{tmp_path}/meddling.py:f' --only SV-TOK-001 --samples 10 --json '{tmp_path}/report.json'"
    ended = shell(line, "")
    assert ended.returncode == status
    assert ended.stderr.count("\n") == (status == 2)
    assert ("INCONCLUSIVE" in ended.stdout) == (status == 3)
    assert Report.read(tmp_path / "report.json").verdict == "inconclusive"


def test_a_reader_that_leaves_is_no_error() -> None:
    """A pipe closed by its reader, as by head, changes neither the status nor standard error."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = run("list", "rules", stdout=writing)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_poor_encoding_is_no_error() -> None:
    """A terminal that knows ASCII alone gets question marks for what it cannot show."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    program = "import sys; from specverify.output import say; say('Prüfling\\n', sys.stdout)"
    shown = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True, timeout=60
    )
    assert shown.stdout == b"Pr?fling\n"


def test_the_version_is_printed() -> None:
    """The version is one line on standard output."""
    import specverify

    assert run("--version", stdout=subprocess.PIPE).stdout == f"specverify {specverify.__version__}\n"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Pretend."""
        return True


def state(done: int) -> Any:
    """Return what a run of 1000 rows says after some of them."""
    return argparse.Namespace(rows_done=done, rows_planned=1000, log10_e=-1.25, log10_threshold=6.3, case="T3")


def ticking(*times: float) -> Callable[[], float]:
    """Return a clock that shows these times, one at each look."""
    remaining = iter(times)
    return lambda: next(remaining)


def test_progress_shows_samples_evidence_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal one line is redrawn, and wiped at the end."""
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with ProgressBar(stream, clock=ticking(0.0, 10.0, 10.01, 20.0)) as bar:
        for done in (250, 251, 500):
            bar(state(done))
        text = stream.getvalue()
        assert "[####------------] 250 of 1,000 samples, log10 E -1.2 of 6.3, 30 s left, T3" in text
        assert "251 of" not in text
        assert "[########--------] 500 of 1,000 samples" in text
    assert stream.getvalue().endswith("\r" + " " * len(text.rpartition("\r")[2].rstrip()) + "\r")


def test_progress_never_breaks_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal the line is cut, since a broken one could not be redrawn."""
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    ProgressBar(stream, clock=ticking(0.0, 10.0))(state(250))
    assert stream.getvalue() == "\r[####------------] 250 of 1,0"


def test_a_terminal_that_goes_ends_no_run() -> None:
    """A closed or failing terminal is no reason to stop, and is not tried again."""

    class Gone(Terminal):
        def write(self, text: str) -> int:
            writes.append(text)
            raise OSError(5, "Input/output error")

    writes: list[str] = []
    with ProgressBar(Gone(), clock=ticking(0.0, 10.0, 20.0)) as bar:
        bar(state(250))
        bar(state(500))
    assert len(writes) == 1
    with ProgressBar(None, clock=ticking(0.0, 10.0)) as bar:
        bar(state(250))


def test_progress_is_silent_when_piped() -> None:
    """Nothing at all is written to a stream that is no terminal."""
    stream = io.StringIO()
    with ProgressBar(stream, clock=ticking(0.0, 10.0)) as bar:
        bar(state(250))
    assert stream.getvalue() == ""
