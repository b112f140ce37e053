"""Which faults of generate loops are found, and that unusual but correct loops are not convicted: twenty seeds each.

Every fault that can be run is run at quick, or at ci where its power at quick is too small; the controls to the end of
quick. Writes docs/loop-matrix.md; run by ``nox -s loop_matrix``. The exit status is 1 when a fault of power .9999 was
not convicted by every seed, or a control was convicted by any.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, ncx2

from specverify.contract import Verifier
from specverify.faults import LOOP_FAULTS
from specverify.faults.loop_controls import CONTROLS
from specverify.faults.loop_fault import due_law
from specverify.loop_menu import loop_menu
from specverify.plan import Plan, plan
from specverify.power import samples_for
from specverify.registry import load
from specverify.results import report as report_of
from specverify.running import CaseRun
from specverify.suite import Run

PROFILES = ("quick", "ci")
SURE = 0.9999
MISS = 0.1
CERTAIN = 1e5
FEW = 2_500  # rows of each case
HOPELESS = 3  # seeds of a fault that the rows are too few for
DOCS = Path(__file__).parents[1] / "docs" / "loop-matrix.md"


@dataclass(frozen=True)
class Outcome:
    """What one run came to."""

    verdict: str
    named: bool
    failed: tuple[str, ...]
    rows: int


class Promised(NamedTuple):
    """What the exact law of a fault promises: its most telling case, the error there, the power, and rows needed."""

    case: str
    tv: float
    power: float
    rows: float


def sampler(name: str) -> Verifier:
    """Give the generator of a fault or of a control."""
    return CONTROLS[name].sampler(name) if name in CONTROLS else load(f"fault:{name}")


def planned(name: str, profile: str, seed: int = 0) -> Plan:
    """Plan a run without a stage where no fault of dependence is looked for, and without fresh processes."""
    law = name in LOOP_FAULTS and LOOP_FAULTS[name].shows == "law"
    made = plan(sampler(name), profile=profile, seed=seed, samples=None if law else FEW)  # the others run to the end
    if name in CONTROLS or law:
        made.stage.clear()
    return made


def judge(task: tuple[str, str, int]) -> Outcome:
    """Run one fault or control on one seed."""
    name, profile, seed = task
    run = Run(planned(name, profile, seed))
    if not run.plan.stage:  # where a law is looked for, replay takes as long as all the rest; it keeps its budget too
        vars(run)["_replay"] = lambda: None
    run.execute()
    report = report_of(run)
    first = report.diagnosis[0] if report.diagnosis else {"fault": None, "same_law": []}
    failed = tuple(record["id"] for record in report.checks if record["status"] == "failed")
    named = name == first["fault"] or name in first["same_law"] or name in [d["fault"] for d in report.diagnosis]
    return Outcome(report.verdict, named, failed, report.document["timing"]["rows"])


def promised(name: str, profile: str) -> Promised | None:
    """Give what the joint law alone promises; None for what shows elsewhere."""
    if name in CONTROLS or LOOP_FAULTS[name].shows != "law":
        return None
    made = planned(name, profile)
    return max((_promised(name, made, run) for run in made.runs), key=lambda found: found.power)


def _promised(name: str, made: Plan, run: CaseRun) -> Promised:
    probe = next(probe for probe in run.probes if probe.check == "SV-JNT-001")
    wrong = probe.mass(LOOP_FAULTS[name].law(run.case))
    distance = float(np.abs(wrong - probe.mass(due_law(run.case))).sum() / 2)
    square = float(((wrong - probe.probs) ** 2 / probe.probs)[:-1].sum())
    bound = chi2.isf(made.level, probe.cells - 1)
    impossible = 1 - math.exp(-run.planned.rows * wrong[-1])  # one such event is proof
    shift = min(run.planned.rows * square, CERTAIN)  # beyond, the distribution function gives up
    seen = float(ncx2.sf(bound, probe.cells - 1, shift)) if shift > 0 else 0.0
    distance = min(1.0, distance)  # the sum of many shares
    rows = samples_for(distance, probe.cells, made.level, MISS) if distance > 1e-9 else math.inf
    return Promised(run.name, distance, max(seen, impossible), rows)


def profile_of(name: str) -> tuple[str, Promised | None]:
    """Give the profile that a fault is run at, and what is promised of it there."""
    for profile in PROFILES:
        found = promised(name, profile)
        if found is None or found.power >= SURE:
            break
    return profile, found


def line(name: str, profile: str, found: Promised | None, runs: list[Outcome]) -> tuple[str, bool]:
    """Give a row of the table, and whether the bounds hold."""
    caught, named = sum(run.verdict == "nonconformant" for run in runs), sum(run.named for run in runs)
    counts = Counter(check for run in runs for check in run.failed)
    failed = ", ".join(check.removeprefix("SV-") for check, n in counts.items() if n > len(runs) / 2)
    said = ("", "", "") if found is None else (f"{found.tv:.4f} on {found.case}", f"{found.power:.4f}", _rows(found))
    title = f"{name} {LOOP_FAULTS[name].name}" if name in LOOP_FAULTS else f"control: {name}"
    rows = f"{int(np.median([run.rows for run in runs])):,}"
    cells = (title, profile, *said, f"{caught} of {len(runs)}", str(named), rows, failed)
    if name in CONTROLS:
        return f"| {' | '.join(cells)} |", caught == 0
    return f"| {' | '.join(cells)} |", caught == len(runs) or (found is not None and found.power < SURE)


def _rows(found: Promised) -> str:
    return "" if math.isinf(found.rows) else f"{found.rows:,}"


HEAD = """# Which faults of generate loops are found

Every fault of a loop that can be run, and the controls, with alpha 1e-6, {seeds} seeds each, at the profile `quick`, or
at `ci` where its power at `quick` is below .9999. Faults that `ci` is too small for get {hopeless} seeds. Written by
`nox -s loop_matrix`.

- *error*: the total variation of all new tokens on the most telling case, from the exact law of the fault.
- *power*: the probability that the joint law of that case alone proves the fault at the planned rows.
- *needed*: rows with which an error of that size, in whatever shape, is found with probability .9; many are found with
  fewer.
- *caught*: runs that ended nonconformant. *named*: runs whose diagnosis gave the fault, or one of equal law.
- *rows*: rows at the verdict (median). Independence and replay are left out where a fault shows in a law, and fresh
  processes everywhere. Controls, and faults that show in no law, have {few:,} rows of each case and are run to
  the end.

| loop | profile | error | power | needed | caught | named | rows | checks |
|---|---|---|---|---|---|---|---|---|
"""


def main() -> bool:
    """Write the table and say whether all bounds held."""
    parser = argparse.ArgumentParser(description="Measure which faults of loops are found.")
    parser.add_argument("names", nargs="*", help="ids of faults and names of controls; all when none is given")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    names = arguments.names or [*(key for key, fault in LOOP_FAULTS.items() if fault.runnable), *CONTROLS]
    lines, kept = [], True
    for fault, case in product(LOOP_FAULTS.values(), loop_menu()):  # before the processes part, which then share them
        if fault.shows == "law" and case.loop is not None and not case.loop.process:
            for more in (False, True):
                fault.law(case, overdrafts=more)
    with ProcessPoolExecutor(arguments.processes) as pool:
        for name in names:
            profile, found = profile_of(name)
            seeds = arguments.seeds if found is None or found.power >= SURE else min(arguments.seeds, HOPELESS)
            runs = list(pool.map(judge, [(name, profile, seed) for seed in range(seeds)]))
            text, good = line(name, "quick" if name in CONTROLS else profile, found, runs)
            print(text, "" if good else "  <- BROKEN", flush=True)
            lines.append(text)
            kept &= good
    if not arguments.names:
        DOCS.write_text(
            HEAD.format(seeds=arguments.seeds, hopeless=HOPELESS, few=FEW) + "\n".join(lines) + "\n",
            "utf-8",
        )
    return kept


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
