"""Which checks find which fault, measured: every fault that can be run, on twenty seeds.

Every fault runs at quick, or at ci where its power at quick is too small. Writes docs/detection-matrix.md: verdicts,
the diagnosis's first choice, the checks that failed in most runs, and the power that the exact laws promise. Run by
``nox -s matrix``; the exit status is 1 when a bound is broken: a fault of power .9999 that was not convicted by every
seed, or named in fewer than 19 of 20.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specverify.faults import CATALOGUE
from specverify.foreseen import Foreseen, foresee
from specverify.plan import plan
from specverify.registry import load
from specverify.results import report as report_of
from specverify.suite import Run

PROFILES = ("quick", "ci")  # the second where the first does not promise enough
SURE = 0.9999
HOPELESS = 3  # seeds of a fault that the rows are too few for: nothing is asked of them, and they take longest
DOCS = Path(__file__).parents[1] / "docs" / "detection-matrix.md"


@dataclass(frozen=True)
class Outcome:
    """What one run came to."""

    fault: str
    verdict: str
    named: bool
    failed: tuple[str, ...]
    rows: int


def judge(task: tuple[str, str, int]) -> Outcome:
    """Run one fault on one seed."""
    fault, profile, seed = task
    planned = plan(load(f"fault:{fault}"), profile=profile, seed=seed)
    if CATALOGUE[fault].shows == "law":
        planned.stage.clear()  # the independence stage costs most of the time and sees no law; it keeps its budget
    run = Run(planned)
    run.execute()
    report = report_of(run)
    first = report.diagnosis[0] if report.diagnosis else {"fault": None, "same_law": []}
    failed = tuple(record["id"] for record in report.checks if record["status"] == "failed")
    named = fault == first["fault"] or fault in first["same_law"]
    return Outcome(fault, report.verdict, named, failed, report.document["timing"]["rows"])


def promised(fault: str, profile: str) -> Foreseen | None:
    """Give what the exact laws promise of a fault at a profile; None where none are compared before the run."""
    return next(
        (found for found in foresee(plan(load(f"fault:{fault}"), profile=profile)) if found.fault == fault), None
    )


def profile_of(fault: str) -> tuple[str, Foreseen | None]:
    """Give the profile that a fault is run at, and what is promised of it there."""
    for profile in PROFILES:
        foreseen = promised(fault, profile)
        if foreseen is None or foreseen.power >= SURE:
            break
    return profile, foreseen


def due(fault: str, foreseen: Foreseen | None) -> bool:
    """Say whether a fault has to be found: it shows beyond rounding, and nothing says that the rows are too few."""
    return CATALOGUE[fault].shows != "numerics" and (foreseen is None or foreseen.power >= SURE)


def line(fault: str, profile: str, foreseen: Foreseen | None, runs: list[Outcome]) -> tuple[str, bool]:
    """Give a row of the table, and whether the bounds hold."""
    caught = sum(run.verdict == "nonconformant" for run in runs)
    named = sum(run.named for run in runs)
    counts = Counter(name for run in runs for name in run.failed)
    failed = ", ".join(name.removeprefix("SV-") for name, n in counts.items() if n > len(runs) / 2)
    power = "" if foreseen is None else f"{foreseen.power:.4f}"
    alone = "" if foreseen is None or math.isinf(foreseen.rows) else f"{foreseen.rows:,.0f} on {foreseen.case}"
    rows = int(np.median([run.rows for run in runs]))
    name = f"{fault} {CATALOGUE[fault].name}"
    cells = (name, profile, power, alone, f"{caught} of {len(runs)}", f"{named}", f"{rows:,}", failed)
    kept = not due(fault, foreseen) or (caught == len(runs) and named >= 0.95 * len(runs))
    return f"| {' | '.join(cells)} |", kept


HEAD = """# Which checks find which fault

Every fault of the catalogue that can be run, with alpha 1e-6, {seeds} seeds each, at the profile `quick`, or at `ci`
where its power at `quick` is below .9999. Faults that `ci` is too small for get {hopeless} seeds. Written by
`nox -s matrix`.

- *power*: the probability that the combined evidence proves the fault by the end of the plan, from its exact law.
  Faults of trees, and those that show in no law, are not among what is compared before the run.
- *alone*: rows of the most telling case that would prove it with probability 0.9, if no other case were run.
- *caught*: runs that ended nonconformant. *named*: runs whose diagnosis gave the fault, or one of equal law, first.
- *rows*: rows that had been verified at the verdict (median). For faults that show in a law the independence stage,
  which sees none, is left out.
- *checks*: those that failed in most runs. A run ends at the first proof, in a longer one more would.

| fault | profile | power | alone | caught | named | rows | checks |
|---|---|---|---|---|---|---|---|
"""


def main() -> bool:
    """Write the table and say whether all bounds held."""
    parser = argparse.ArgumentParser(description="Measure which checks find which fault.")
    parser.add_argument("faults", nargs="*", help="ids; all that can be run when none is named")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    faults = arguments.faults or [name for name, fault in CATALOGUE.items() if fault.runnable]
    lines, kept = [], True
    with ProcessPoolExecutor(arguments.processes) as pool:
        for fault in faults:
            profile, foreseen = profile_of(fault)
            seeds = arguments.seeds if due(fault, foreseen) else min(arguments.seeds, HOPELESS)
            runs = list(pool.map(judge, [(fault, profile, seed) for seed in range(seeds)]))
            text, good = line(fault, profile, foreseen, runs)
            print(text, "" if good else "  <- BROKEN", flush=True)
            lines.append(text)
            kept &= good
    if not arguments.faults:
        DOCS.write_text(HEAD.format(seeds=arguments.seeds, hopeless=HOPELESS) + "\n".join(lines) + "\n", "utf-8")
    return kept


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
