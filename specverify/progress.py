"""Whoever waits at a terminal sees how far the run is and what it has found; nobody else sees anything."""

import shutil
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, TextIO

__all__ = ["NAMING", "ProgressBar", "ProgressState"]

NAMING: Final = "naming the fault"
"""What stands in place of a case once the run has ended, for the seconds that the diagnosis takes."""

_BAR: Final = 16
_WIDTH: Final = 100
_INTERVAL_S: Final = 0.1


class ProgressState(Protocol):
    """What a run tells about itself; ``specverify.suite.Progress`` is one."""

    @property
    def rows_done(self) -> int:
        """Rows verified so far."""

    @property
    def rows_planned(self) -> int:
        """Rows of the whole plan."""

    @property
    def log10_e(self) -> float:
        """Evidence against conformance so far."""

    @property
    def log10_threshold(self) -> float:
        """Evidence at which the run stops as nonconformant."""

    @property
    def case(self) -> str:
        """Name of the case in work."""


class ProgressBar:
    """A one-line progress bar on a terminal: samples, evidence so far, time left; silent on any other stream.

    Args:
        stream: where it is drawn, usually standard error; None where that is closed.
        clock: seconds, monotonic.
    """

    def __init__(self, stream: TextIO | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._live = stream is not None and not stream.closed and stream.isatty()
        self._start = clock()
        self._last = float("-inf")
        self._width = 0

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wipe the line, so that the report starts on a clean one."""
        if self._width:
            self._draw("")

    def __call__(self, state: ProgressState) -> None:
        """Show the state of the run, at most ten times a second."""
        now = self._clock()
        if self._live and (now - self._last >= _INTERVAL_S or state.case == NAMING):
            self._last = now
            self._draw(_line(state, now - self._start))

    def _draw(self, line: str) -> None:
        assert self._stream is not None
        try:
            self._stream.write("\r" + line.ljust(self._width) + ("" if line else "\r"))
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone; the run goes on
            self._live, line = False, ""
        self._width = len(line)


def _line(state: ProgressState, elapsed: float) -> str:
    """Put one state into one line, cut where the terminal would break it."""
    share = min(state.rows_done / state.rows_planned, 1.0) if state.rows_planned else 0.0
    bar = ("#" * round(share * _BAR)).ljust(_BAR, "-")
    left = f", {elapsed * (1 - share) / share:.0f} s left" if share else ""
    evidence = f"log10 E {state.log10_e:+.1f} of {state.log10_threshold:.1f}"
    line = f"[{bar}] {state.rows_done:,} of {state.rows_planned:,} samples, {evidence}{left}, {state.case}"
    return line[: min(_WIDTH, shutil.get_terminal_size().columns - 1)]
