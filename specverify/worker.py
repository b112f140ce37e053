"""A call that hangs or kills its process costs one case and not the run: it is made in a worker that can be replaced.

The worker makes each call as ``calling.call`` would here, so that the same seed gives the same counts. The kit waits
for it no longer than the timeout, and starts a fresh one where a worker was lost.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from types import TracebackType
from typing import Any, NoReturn

from specverify.arrays import IntArray
from specverify.calling import Caller, Reply, SamplerRaised, described
from specverify.contract import Verifier
from specverify.errors import ConfigError, SamplerLoadError
from specverify.loop_handing import AnyHanded
from specverify.serving import Answer, Request, declaration, serve
from specverify.wording import brief, told

__all__ = ["MAX_LOST", "SamplerLost", "Worker", "require_same", "start_method"]

MAX_LOST = 3
"""Lost workers after which a run ends."""

LEAK = 2**29  # bytes; the kit's own arrays come and go by less
START_S = 300.0  # a sampler that cannot be loaded by then hangs
GRACE_S = 1.0  # for the sampler's own clean-up, once the run is over
LONGEST_S = 1e6  # the system counts milliseconds in 32 bits
_THREADED = ("jax", "tensorflow")  # after a fork they wait for threads that are not there


class SamplerLost(SamplerRaised):
    """A call did not return in time, or ended its process: the check that called it fails with this message."""


class Worker:
    """Makes the calls of one verifier in a process of its own, which lives as long as the ``with`` block.

    Args:
        verifier: What is called.
        timeout: Seconds that one call may take; starting the process and laying out a case do not count.
        target: What names the verifier on the command line, or None; where forking is not safe it is loaded from there.
        fresh: Whether it is loaded anew, by its name, in a process that shares no state with this one.

    Attributes:
        lost: How many processes were lost.
        warnings: What is worth knowing about the memory of those that have ended.

    Raises:
        ConfigError: The verifier cannot be handed to another process.

    Example:
        >>> import numpy as np
        >>> from specverify.cases import Case
        >>> from specverify.contract import verifier
        >>> from specverify.handing import Handed
        >>> case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
        >>> leave = verifier(lambda draft_tokens: os._exit(3))
        >>> with Worker(leave, timeout=60) as worker:
        ...     worker.call(leave, Handed(case, leave), np.array([[1]]), np.array([1]), seed=0)
        Traceback (most recent call last):
        specverify.worker.SamplerLost: the sampler's process ended with exit code 3 before the call returned
        with case 'AB', seed 0, 1 row(s), draft_tokens [[1]]
    """

    def __init__(self, verifier: Verifier, timeout: float, target: str | None = None, *, fresh: bool = False) -> None:
        self.lost = 0
        self.warnings: list[str] = []
        self._verifier, self._timeout, self._target = verifier, min(timeout, LONGEST_S), target
        self._method = "spawn" if fresh else start_method(verifier, target, "timeout")
        self._process: Any = None
        self._calls = self._grown = 0

    def __enter__(self) -> Worker:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(GRACE_S if kind is None else 0.0)

    @classmethod
    @contextmanager
    def fresh_caller(cls, verifier: Verifier, timeout: float | None, target: str) -> Iterator[Caller]:
        """Give what makes calls in a fresh process, which ends with the ``with`` block."""
        with cls(verifier, LONGEST_S if timeout is None else timeout, target, fresh=True) as worker:
            yield worker.call

    def call(
        self,
        verifier: Verifier,
        handed: AnyHanded,
        draft_tokens: IntArray,
        num_draft_tokens: IntArray,
        seed: int,
        seeds: IntArray | None = None,
        *,
        watch: bool = False,
    ) -> Reply:
        """Call the verifier once on a batch, as :func:`specverify.calling.call` does.

        Raises:
            OutputFault: What came back breaks the contract.
            SamplerRaised: The verifier raised.
            SamplerLost: It did not return in time, or ended its process.
        """
        assert verifier is self._verifier
        if self._process is None:
            self._replace(described(handed, draft_tokens, seed))
        try:
            if handed not in self._numbers:
                _raised(self._ask(handed.given, START_S))
                self._numbers[handed] = len(self._numbers)
            request = Request(self._numbers[handed], draft_tokens, num_draft_tokens, seed, seeds, watch)
            answer: Answer = self._ask(request, self._timeout)
        except (TimeoutError, EOFError, OSError) as error:
            self._lose(isinstance(error, TimeoutError), described(handed, draft_tokens, seed))
        self._calls, self._grown = self._calls + 1, answer.grown
        reply: Reply = _raised(answer.outcome)
        return reply

    def _ask(self, request: object, limit: float) -> Any:
        try:
            self._connection.send(request)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"expected cases that another process can be given, got {told(error)}; define their models at the top "
                f"of a module, or leave out --timeout"
            ) from None
        if not self._connection.poll(limit):
            raise TimeoutError
        return self._connection.recv()

    def _replace(self, given: str) -> None:
        """Start a fresh process; a sampler that can no longer be loaded after a lost call fails again."""
        try:
            self._start()
        except SamplerLoadError as error:
            self.lost += 1
            raise SamplerLost(f"the sampler could not be loaded again: {error}\n{given}") from None

    def _start(self) -> None:
        context: Any = multiprocessing.get_context(self._method)
        self._connection, theirs = context.Pipe()
        forks = self._method == "fork"
        given = (theirs, self._connection, self._verifier) if forks else (theirs, None, self._target)
        self._process = context.Process(target=serve, args=given, name="specverify sampler")
        self._numbers: dict[AnyHanded, int] = {}
        self._calls = self._grown = 0
        try:
            with warnings.catch_warnings():  # newer Pythons warn of a fork beside threads; NumPy's are made for it
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
            theirs.close()
            self._welcome()
        except BaseException:
            self._end()
            raise

    def _welcome(self) -> None:
        """Wait until the sampler is loaded, and see that it is the one to be checked."""
        named = brief(self._target or self._verifier.name)
        try:
            said = self._connection.recv() if self._connection.poll(START_S) else None
        except (EOFError, OSError):
            raise SamplerLoadError(
                f"expected to load {named} in a worker process, which {self._fate()}; see what it printed "
                f"above, put what a script does under if __name__ == '__main__', or leave timeout out"
            ) from None
        if said is None:
            raise SamplerLoadError(
                f"expected to load {named} within {START_S:g} s; its import hangs in a worker process"
            )
        require_same(_raised(said), self._verifier, self._target)

    def _lose(self, late: bool, given: str) -> NoReturn:
        """Give up a worker and say why."""
        self.lost += 1
        if not late:
            self._process.join(self._timeout)  # it hung up; it may still be at work
        late = self._process.exitcode is None
        what = f"a call did not return within {self._timeout:g} s" if late else f"the sampler's process {self._fate()}"
        self._end()
        raise SamplerLost(f"{what}{'' if late else ' before the call returned'}\n{given}") from None

    def _fate(self) -> str:
        self._process.join(GRACE_S)
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"ended with exit code {code or 0}"
        known = {int(number): number.name for number in signal.Signals}
        return f"was killed by {known.get(-code, f'signal {-code}')}"

    def _end(self, grace: float = 0.0) -> None:
        """End the process and whatever it started, and keep what there is to say about its memory."""
        if self._process is None:
            return
        process, self._process = self._process, None
        self._connection.close()
        if process.pid is not None:
            try:
                wait([process.sentinel], grace)
            finally:
                _kill(process)
        if self._grown >= LEAK:
            grown = f"{self._grown / 2**30:.1f} GiB over {self._calls:,} calls"
            self.warnings.append(f"the memory of the sampler's process grew by {grown}")


def _raised(said: Any) -> Any:
    """Give what the worker said, or raise it."""
    if isinstance(said, Exception):
        raise said
    return said


def _kill(process: Any) -> None:
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):  # gone, or not yet set apart
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()
    process.close()


def require_same(declared: object, verifier: Verifier, target: str | None) -> None:
    """Raise a ConfigError unless what a process has loaded by name declares what the sampler to be checked does."""
    if declared != declaration(verifier):
        raise ConfigError(
            f"expected target to name the sampler that is checked, got {brief(target or verifier.name)}, which "
            f"declares something else; name the same one"
        )


def start_method(verifier: Verifier, target: str | None, option: str) -> str:
    """Choose how a process gets the sampler: by fork, which takes any object, or by name where a fork is not safe.

    Args:
        verifier: The sampler.
        target: What names it on the command line, or None.
        option: The option that asks for the process, for the message.

    Raises:
        ConfigError: It cannot be handed over.
    """
    torch = sys.modules.get("torch")
    threaded = [library for library in _THREADED if library in sys.modules]
    if "fork" not in multiprocessing.get_all_start_methods():
        reason = "this system cannot"
    elif verifier.device != "cpu" or (torch is not None and torch.cuda.is_initialized()):
        reason = "the GPU is in use"
    else:
        reason = f"{threaded[0]} is loaded" if threaded else ""
    if target is not None and (reason or torch is not None or sys.platform == "darwin"):
        return "spawn"
    if reason:
        raise ConfigError(
            f"expected a sampler with a name on the command line with {option} where the process cannot be forked "
            f"({reason}), got {brief(verifier.name)} alone; give target='file.py:name' too"
        )
    return "fork"
