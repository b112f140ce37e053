"""The power that is promised is the power that is had: of single checks in the worst case, and of whole suites.

- One check: laws as far from the null as the stated total variation, the error spread in proportion to the null, which
  is the hardest shape. Counts are multinomial, for it is the statistic that is tested here and no sampler.
- Suites: real runs of faulty samplers on three cases, with so few rows of each that the combined evidence is promised
  to prove the fault half of the time, or nine times in ten. The verdict may also come from single checks, so more is no
  surprise.

Writes docs/power.md; run by ``nox -s power``. The exit status is 1 when less is had than is promised, by more than
chance and the normal approximation explain.
"""

from __future__ import annotations

import argparse
import math
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from scipy.stats import binom

from specverify.evidence import gof, log_e
from specverify.foreseen import foresee
from specverify.judging import Judgement
from specverify.menu import menu
from specverify.plan import plan
from specverify.power import check_level, detectable_tv, mixture_tv
from specverify.registry import load
from specverify.suite import Run

ALPHA = 1e-6
CHECKS = 64  # that share alpha, in the part on single checks
PROMISED = 0.9
CELLS = (2, 8, 32, 128)
EVENTS = (2_000, 20_000, 200_000)
REPEATS = 2_000
FAULTS = ("K11", "K12", "K13", "K15", "K27a", "K27e", "Q04b")
INPUTS = [case for case in menu() if case.name in ("AB", "T3", "W402")]  # few, so that it takes many rows of each
HALF, MOST = 0.5, 0.9
LACK = 0.05  # by which the normal approximation may promise too much
DOCS = Path(__file__).parents[1] / "docs" / "power.md"

HEAD = """# Power, promised and had

Written by `nox -s power`. Alpha is 1e-6.

## One check

{checks} checks share alpha. The law is off by the detectable total variation, spread in proportion to the null, the
shape that is hardest to see; what is promised is a power of .90. {repeats:,} multinomial counts for each line.

| cells | events | total variation, G test | had | total variation, e-process | had |
|---|---|---|---|---|---|
{single}

The e-process may be looked at after every batch; the G test is made once. What is promised of the e-process is an
approximation for many cells and few events, and holds with more to spare there.

## Whole suites

Faulty samplers were run on the cases {cases} alone, with {seeds} seeds and so many rows of each case that the combined
evidence is promised to prove the fault with the power stated.

| fault | rows a case | promised | nonconformant | rows a case | promised | nonconformant |
|---|---|---|---|---|---|---|
{suites}

The promise is a normal approximation of the sum of log likelihood ratios. At a few dozen rows a case, as for K27e, it
may say up to .05 too much; single checks and impossible events, which convict too, are no part of it.
"""


def worst(cells: int, tv: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Give the law at a total variation of equal cells, half of them too likely and half too unlikely."""
    return (1 + 2 * tv * np.where(np.arange(cells) < cells // 2, 1, -1)) / cells


def single(setting: tuple[int, int]) -> tuple[str, bool]:
    """Measure the power of one check of so many cells and events, by both of its tests."""
    cells, events = setting
    rng, null = np.random.default_rng(setting), np.full(cells, 1 / cells)
    fixed = detectable_tv(events, cells, check_level(ALPHA, CHECKS))
    log_threshold = math.log(2 * CHECKS / ALPHA)
    anytime = mixture_tv(events, cells, log_threshold)
    rejected = [
        gof(c, null).p_value <= ALPHA / (2 * CHECKS) for c in rng.multinomial(events, worst(cells, fixed), REPEATS)
    ]
    proved = [log_e(c, null) >= log_threshold for c in rng.multinomial(events, worst(cells, anytime), REPEATS)]
    cellwise = (
        f"| {cells} | {events:,} | {fixed:.4f} | {np.mean(rejected):.3f} | {anytime:.4f} | {np.mean(proved):.3f} |"
    )
    return cellwise, bool(min(np.mean(rejected), np.mean(proved)) > PROMISED - LACK)


def power_of(fault: str, rows: int) -> float:
    """Give the promised power of a suite with so many rows a case."""
    planned = plan(load(f"fault:{fault}"), cases=INPUTS, samples=rows)
    return next(found.power for found in foresee(planned) if found.fault == fault)


def rows_for(fault: str, power: float) -> int:
    """Give the fewest rows a case that promise a power, to within a hundredth of them."""
    low, high = 1, 2
    while power_of(fault, high) < power:
        low, high = high, 2 * high
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if power_of(fault, middle) >= power else (middle, high)
    return high


def convicted(task: tuple[str, int, int]) -> bool:
    """Run one faulty sampler with few rows and say whether it was found."""
    fault, rows, seed = task
    planned = plan(load(f"fault:{fault}"), cases=INPUTS, samples=rows, seed=seed)
    run = Run(planned)
    run.execute()
    return Judgement(run).verdict == "nonconformant"


def suites(pool: ProcessPoolExecutor, fault: str, seeds: int) -> tuple[str, bool]:
    """Measure how often suites with the rows for a power of .5 and of .9 prove a fault."""
    cells, kept = [fault], True
    for power in (HALF, MOST):
        rows = rows_for(fault, power)
        promised = power_of(fault, rows)
        found = sum(pool.map(convicted, [(fault, rows, seed) for seed in range(seeds)]))
        cells += [f"{rows:,}", f"{promised:.2f}", f"{found} of {seeds}"]
        kept &= found >= binom.ppf(1e-3, seeds, promised - LACK)
    return f"| {' | '.join(cells)} |", kept


def main() -> bool:
    """Write the table and say whether every promise was kept."""
    parser = argparse.ArgumentParser(description="Measure the power of checks and suites against what is promised.")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    with ProcessPoolExecutor(arguments.processes) as pool:
        lines = {"single": list(pool.map(single, [(k, n) for k in CELLS for n in EVENTS])), "suites": []}
        for fault in FAULTS:
            lines["suites"].append(suites(pool, fault, arguments.seeds))
            print(*lines["suites"][-1], flush=True)
    tables = {name: "\n".join(text for text, _ in rows) for name, rows in lines.items()}
    numbers = {"checks": CHECKS, "repeats": REPEATS, "seeds": arguments.seeds}
    names = ", ".join(case.name for case in INPUTS)
    DOCS.write_text(HEAD.format(cases=names, **numbers, **tables), "utf-8")
    return all(kept for rows in lines.values() for _, kept in rows)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
