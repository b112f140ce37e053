"""A plan fixes before any data what is run, how often, and which share of the error budget each test has.

Half of the budget alpha goes to the combined e-value, which may be looked at whenever one likes; the other half to the
tests at the planned n. What was not planned cannot spend it, and what is not planned cannot pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from specverify import independence
from specverify.calling import Caller, call, here
from specverify.cases import Case
from specverify.checks import CATALOGUE
from specverify.contract import Verifier
from specverify.faults import CATALOGUE as FAULTS
from specverify.generating import as_sampler
from specverify.loop_schedule import loop_schedule
from specverify.options import MISS, Options
from specverify.power import check_level, detectable_tv, mixture_tv
from specverify.probes import Probe
from specverify.running import CaseRun
from specverify.schedule import Planned, schedule
from specverify.tolerance import TIE_TOLERANCE, allowance
from specverify.tree import Tree
from specverify.worker import Worker

__all__ = ["DEPENDENCE", "Plan", "plan"]

DEPENDENCE = ("SV-IND-001", "SV-IND-002", "SV-IND-003", "SV-IND-004")
"""Checks of the independence stage."""

_HARD = {"SV-STR-001", "SV-SUP-001", "SV-SUP-002", "SV-ALL-001", "SV-ALL-002"}

MAX_MEASURED_CELLS = 128
MIN_MEASURED_LEVEL = 1e-12
"""Down to this chi-square level the tail of the corrected G statistic was measured (``nox -s calibration -- tail``)."""

MIN_EXPECTED = 10.0

SHARES = (1 / 2, 3 / 8, 1 / 8)
"""Weights of the checks, the known faults and the generic directions in the combined evidence."""


@dataclass
class Plan:
    """What will be run for one sampler, and the level of every check in it.

    Attributes:
        verifier: The sampler.
        options: What was asked for.
        runs: The cases with their partition probes.
        stage: The cases of the independence stage, empty when none of its checks was asked for.
        num_checks: Tests that share the budget, m.
        faults: Ids of the known faults whose laws count as evidence; empty where only some checks were asked for or
            some may fail.
        worker: What makes the calls in a process of its own, where a timeout was asked for; else None.
        given: Whether the cases are the caller's, in place of the built-in ones.
    """

    verifier: Verifier
    options: Options
    runs: list[CaseRun]
    stage: list[CaseRun]
    num_checks: int
    faults: tuple[str, ...]
    worker: Worker | None
    given: bool

    @property
    def caller(self) -> Caller:
        """Give what makes the calls."""
        return _caller(self.worker)

    @property
    def shares(self) -> tuple[float, float, float]:
        """Give the weights of the checks, the known faults and the generic directions in the combined evidence."""
        return SHARES if self.faults else (1.0, 0.0, 0.0)

    @property
    def own_log_e(self) -> float:
        """Give the log e-value at which one probe alone proves a fault, for then the combined evidence does."""
        return math.log(2 * self.num_checks / (self.options.alpha * self.shares[0]))

    @property
    def level(self) -> float:
        """Give the level of the chi-square tail of one check: alpha / (2 * 3 * m)."""
        return check_level(self.options.alpha, self.num_checks)

    @property
    def share(self) -> float:
        """Give the p-value at which one check alone proves a fault: alpha / (2 m)."""
        return self.options.alpha / (2 * self.num_checks)

    @property
    def rows(self) -> int:
        """Give the rows of the whole plan."""
        return sum(run.planned.rows for run in (*self.runs, *self.stage))

    @property
    def rule(self) -> str | None:
        """Give the rule whose laws are asserted, or None."""
        return self.verifier.rule if self.options.require == "rule" else None

    def rigorous(self, probe: Probe) -> bool:
        """Say whether a probe is tested by the rigorous bound: its cells or its level are beyond what was measured."""
        return probe.cells > MAX_MEASURED_CELLS or self.level < MIN_MEASURED_LEVEL

    def detectable(self, probe: Probe, n: int, vocab_size: int) -> float:
        """Give the total variation that a probe detects by n events, what the tolerance class forgives included.

        Where cells are so small that the chi-square test pools them, it is the e-process that sees the error.
        """
        if n * float(probe.probs[:-1].min()) >= MIN_EXPECTED:
            tv = detectable_tv(n, probe.cells, self.level, MISS, rigorous=self.rigorous(probe))
        else:
            tv = mixture_tv(n, probe.cells, self.own_log_e, MISS)
        return min(1.0, tv + allowance(self.verifier.tolerance, vocab_size))

    def describe(self) -> list[dict[str, Any]]:
        """List what would be caught: check, case, n (conditional checks see fewer), cells, detectable_tv."""
        rows = []
        for run in self.runs:
            for probe in run.probes:
                n = run.planned.rows
                tv = self.detectable(probe, n, run.case.vocab_size)
                rows.append({"check": probe.check, "case": run.name, "n": n, "cells": probe.cells, "detectable_tv": tv})
        return rows


def plan(sampler: Callable[..., Any], *, cases: Sequence[Case] | None = None, **options: Any) -> Plan:
    """Plan a run without running it; the options are those of :func:`specverify.check`.

    Raises:
        SpecverifyError: The sampler or an option is wrong.
    """
    verifier = as_sampler(sampler)
    chosen = Options.checked(verifier, **options)
    tau = TIE_TOLERANCE[verifier.dtype]
    rule = verifier.rule if chosen.require == "rule" else None
    asked = set(chosen.only or CATALOGUE)
    wanted = bool(asked - {*DEPENDENCE, "SV-RPL-001"})
    planned = _scheduled(verifier, chosen, cases) if wanted else []
    dependence = asked & set(DEPENDENCE) if cases is None else set()
    worker = None if chosen.timeout is None else Worker(verifier, chosen.timeout, chosen.target)
    runs, stage = (
        [
            CaseRun(case, verifier, rule, tau, chosen.seed, chosen.selects, _calls(verifier, chosen, worker, case))
            for case in cases
        ]
        for cases in (planned, _stage(verifier) if dependence else [])
    )
    if asked <= set(CATALOGUE) - _HARD and not any(run.seen.counts for run in runs):
        runs = []  # nothing that was asked for would be tested
    tests = sum(len(run.seen.counts) for run in (*runs, *stage)) + len(stage) * len(dependence)
    return Plan(verifier, chosen, runs, stage, max(1, tests), _compared(verifier, chosen), worker, cases is not None)


def _scheduled(verifier: Verifier, options: Options, cases: Sequence[Case] | None) -> list[Planned]:
    if verifier.loops:
        return loop_schedule(verifier, options.profile, options.samples, cases, named=options.target is not None)
    return schedule(verifier, options.profile, options.samples, cases)


def _caller(worker: Worker | None) -> Caller:
    return call if worker is None else worker.call


def _calls(
    verifier: Verifier, options: Options, worker: Worker | None, planned: Planned
) -> Callable[[], AbstractContextManager[Caller]]:
    """Give what makes the calls of a case: here, in the worker, or in a fresh process that each of its units has."""
    if planned.case.loop is not None and planned.case.loop.process and options.target is not None:
        return partial(Worker.fresh_caller, verifier, options.timeout, options.target)
    return partial(here, _caller(worker))


def _compared(verifier: Verifier, options: Options) -> tuple[str, ...]:
    """Name the faults whose laws a sampler of this form can have."""
    if options.only or options.known_failures or verifier.tree:
        return ()
    return tuple(name for name, fault in FAULTS.items() if fault.may_be_of(verifier))


def _stage(verifier: Verifier) -> list[Planned]:
    stages = independence.cases(verifier.max_batch, loops=verifier.loops)
    return [Planned(_fitting(s.case, verifier), "stage", s.batch * s.calls, s.batch, False) for s in stages]


def _fitting(case: Case, verifier: Verifier) -> Case:
    """Give a case as a tree of one node per position where the verifier takes trees only."""
    return case.with_tree(Tree.chain(case.num_draft_tokens), case.name) if verifier.tree else case
