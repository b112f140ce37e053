"""A run is a list of tasks that is known beforehand: where they are carried out, and when, changes no count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from specverify import independence
from specverify.findings import Finding
from specverify.plan import Plan
from specverify.running import Counted, Unit
from specverify.schedule import look_fractions

__all__ = ["Done", "Results", "Task", "carry_out", "one_by_one", "tasks"]


@dataclass(frozen=True)
class Task:
    """A unit of one case of a plan.

    Attributes:
        case: Which case of the plan, or of its independence stage.
        unit: What is run.
        stage: Whether it belongs to the independence stage.
    """

    case: int
    unit: Unit
    stage: bool = False


@dataclass(frozen=True)
class Done:
    """What a task came to.

    Attributes:
        counted: What was counted.
        findings: What the dependence checks found, in the independence stage.
        lost: How many processes of the sampler were lost that the plan does not know of.
    """

    counted: Counted
    findings: tuple[Finding, ...] = ()
    lost: int = 0


Results: TypeAlias = Iterator[Callable[[], Done]]
"""For every task of a plan, in their order, a function that gives what it came to."""


def tasks(plan: Plan) -> Iterator[Task]:
    """List the tasks of a plan in the order in which they count: the independence stage, then look by look."""
    for case, run in enumerate(plan.stage):
        yield Task(case, Unit(run.planned.rows, (0,), batch=run.planned.batch), stage=True)
    for look in range(len(look_fractions())):
        for case, run in enumerate(plan.runs):
            yield from (Task(case, unit) for unit in run.units(look))


def carry_out(plan: Plan, task: Task) -> Done:
    """Carry out a task of a plan; the plan stays as it is."""
    run = (plan.stage if task.stage else plan.runs)[task.case]
    counted, trace = run.carry_out(task.unit)
    if trace is None or not task.stage:
        return Done(counted)
    completed = trace.completed.reshape(-1, run.planned.batch, trace.completed.shape[1])
    return Done(counted, tuple(independence.find(completed, run.planned.case, plan.options.selects)))


def one_by_one(plan: Plan) -> Results:
    """Carry out the tasks here, each when it is asked for."""
    return (partial(carry_out, plan, task) for task in tasks(plan))
