"""Error rates of whole suites, measured: too slow for CI, run by ``nox -s calibration``.

- suites: a correct sampler at a small n and alpha = 0.05; rejections must stay within the 99.9% band of a binomial.
- controls: correct samplers at the quick profile and alpha = 1e-6; none may be nonconformant.
- faults: faulty one-liners at the quick profile; every one must be nonconformant.

Each line of output is one row of a table; the exit status is 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from samplers import CONTROLS, FAULTS

from specverify.registry import load
from specverify.suite import check

ALPHA = 0.05
SMALL = 2000
BUILT_IN = ("reference", "reference-block")


def judge(task: tuple[str, int, float, int | None]) -> str:
    """Run one suite and give its verdict."""
    name, seed, alpha, samples = task
    sampler = (CONTROLS | FAULTS).get(name) or load(name)
    report = check(sampler, seed=seed, alpha=alpha, samples=samples)
    failed = [c["id"] for c in report.checks if c["status"] == "failed"]
    if report.verdict == "nonconformant" and name not in FAULTS:
        print(f"  {name} seed {seed}: {' '.join(failed)}", flush=True)
    return report.verdict


def suites(pool: ProcessPoolExecutor, count: int) -> bool:
    """Measure rejections of correct samplers at alpha = 0.05."""
    from scipy.stats import binom

    kept = True
    for name in ("correct", "N1"):
        tasks = [(name, seed, ALPHA, SMALL) for seed in range(count)]
        rejected = Counter(pool.map(judge, tasks))["nonconformant"]
        most = int(binom.ppf(0.999, count, ALPHA))
        print(f"suites    {name:<16} {rejected} of {count} rejected at alpha {ALPHA}, allowed {most}", flush=True)
        kept &= rejected <= most
    return kept


def controls(pool: ProcessPoolExecutor, count: int) -> bool:
    """Run correct samplers at the quick profile."""
    kept = True
    for name in (*CONTROLS, *BUILT_IN):
        verdicts = Counter(pool.map(judge, [(name, seed, 1e-6, None) for seed in range(count)]))
        print(f"controls  {name:<16} {dict(verdicts)}", flush=True)
        kept &= verdicts["nonconformant"] == 0
    return kept


def faults(pool: ProcessPoolExecutor, count: int) -> bool:
    """Run faulty samplers at the quick profile."""
    kept = True
    for name in FAULTS:
        verdicts = Counter(pool.map(judge, [(name, seed, 1e-6, None) for seed in range(count)]))
        print(f"faults    {name:<16} {dict(verdicts)}", flush=True)
        kept &= verdicts["nonconformant"] == count
    return kept


def main() -> Iterator[bool]:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", default=["faults", "suites", "controls"])
    parser.add_argument("--seeds", type=int, default=20, help="suites per control and fault")
    parser.add_argument("--suites", type=int, default=300, help="suites at alpha 0.05")
    arguments = parser.parse_args()
    parts = {"faults": faults, "suites": suites, "controls": controls}
    with ProcessPoolExecutor(2) as pool:
        for part in arguments.parts:
            yield parts[part](pool, arguments.suites if part == "suites" else arguments.seeds)


if __name__ == "__main__":
    sys.exit(0 if all([*main()]) else 1)
