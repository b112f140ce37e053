"""Several processes carry out the tasks of a run, a little ahead of what is counted; the counts are those of one.

Each has the whole plan: by a fork, or by making it again from the sampler's name where a fork is not safe.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from functools import partial
from multiprocessing.util import Finalize
from types import TracebackType
from typing import Any, Final

import numpy as np

from specverify.cases import Case
from specverify.errors import SpecverifyError
from specverify.plan import Plan
from specverify.plan import plan as make_plan
from specverify.randomness import global_randomness
from specverify.registry import load
from specverify.serving import declaration, keep_one_thread, set_apart
from specverify.tasks import Done, Results, Task, carry_out, tasks
from specverify.threads import one_torch_thread
from specverify.worker import require_same, start_method

__all__ = ["Crew"]

AHEAD: Final = 3
"""Tasks that wait for each process, so that none is idle while the evidence is weighed."""


class Crew:
    """Carries out the tasks of a plan in processes that live as long as the ``with`` block.

    Args:
        plan: The plan; ``options.workers`` says how many processes.

    Raises:
        ConfigError: The sampler cannot be handed to another process.

    Example:
        >>> from specverify.registry import load
        >>> plan = make_plan(load("reference"), samples=100, only=["SV-TOK-001"], workers=2)
        >>> with Crew(plan) as results:
        ...     next(results)().counted.rows
        10
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        method = start_method(plan.verifier, plan.options.target, "workers")
        options = {field.name: getattr(plan.options, field.name) for field in fields(plan.options)}
        cases = [run.planned.case for run in plan.runs] or None if plan.given else None
        joined = (plan, None, None) if method == "fork" else (None, options, cases)
        context = multiprocessing.get_context(method)
        self._pool = ProcessPoolExecutor(plan.options.workers, context, _join, joined)

    def __enter__(self) -> Results:
        try:
            with warnings.catch_warnings():  # newer Pythons warn of a fork beside threads; NumPy's are made for it
                warnings.simplefilter("ignore", DeprecationWarning)
                declared = _result(self._pool.submit(_ready))
            require_same(declared, self._plan.verifier, self._plan.options.target)
        except BaseException:
            self._pool.shutdown(cancel_futures=True)
            raise
        return self._results()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:  # a call may hang, and whoever interrupts has waited enough
            for process in list(getattr(self._pool, "_processes", None) or {}):
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def _submit(self, task: Task) -> Future[Done]:
        with _told():
            return self._pool.submit(_perform, task)

    def _results(self) -> Results:
        waiting: deque[Future[Done]] = deque()
        for task in tasks(self._plan):
            failed = not task.stage and self._plan.runs[task.case].seen.fault is not None
            waiting.append(Future() if failed else self._submit(task))  # nobody asks for what a failed case still had
            if len(waiting) > AHEAD * self._plan.options.workers:
                yield partial(_result, waiting.popleft())
        while waiting:
            yield partial(_result, waiting.popleft())


def _result(future: Future[Any]) -> Any:
    with _told():
        return future.result()


@contextmanager
def _told() -> Iterator[None]:
    """Tell the end of a process in one line."""
    try:
        yield
    except BrokenProcessPool:
        raise SpecverifyError(
            "expected the processes of workers to last, and one ended: the sampler ended it, memory ran out, or a "
            "script began anew in it; give timeout too, or put what the script does under if __name__ == '__main__'"
        ) from None


_plan: Callable[[], Plan]
"""In a process of a crew: gives its plan."""

_entered = ExitStack()
"""In a process of a crew: what it is under, until it ends."""


def _join(plan: Plan | None, options: dict[str, Any] | None, cases: Sequence[Case] | None) -> None:
    """Make this process one of a crew; a plan that has to be made is made by its first task, which can fail."""
    global _plan
    set_apart()
    warnings.simplefilter("default")
    forked = plan is not None
    made: list[Plan] = []

    def give() -> Plan:
        if not made:
            made.append(plan if plan is not None else _again(options or {}, cases))
            _settle(made[0], forked=forked)
        return made[0]

    _plan = give


def _again(options: dict[str, Any], cases: Sequence[Case] | None) -> Plan:
    return make_plan(load(options["target"]), cases=cases, **options)


def _settle(plan: Plan, *, forked: bool) -> None:
    """Enter what calls are made under, now that the sampler and with it torch is loaded, until the process ends."""
    for context in (global_randomness(), one_torch_thread(), np.errstate(all="warn", under="ignore")):
        _entered.enter_context(context)
    if forked:
        keep_one_thread()
    if plan.worker is not None:  # its process would be waited for, and wait itself
        Finalize(None, plan.worker.__exit__, (None, None, None), exitpriority=100)


def _ready() -> object:
    return declaration(_plan().verifier)


def _perform(task: Task) -> Done:
    plan = _plan()
    before = 0 if plan.worker is None else plan.worker.lost
    done = carry_out(plan, task)
    return done if plan.worker is None else Done(done.counted, done.findings, plan.worker.lost - before)
