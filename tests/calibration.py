"""Error rates of whole suites, measured: too slow for CI, run by ``nox -s calibration``.

- tail: how often the corrected G statistic exceeds its chi-square threshold, over the nominal level down to 1e-12, by
  importance sampling; the safety factor of 3 must cover it.
- stage: the independence stage of correct samplers on thousands of seeds at alpha = 1e-6; none may be nonconformant.
- suites: thousands of suites of correct samplers, half float64 and half float32, V from 2 to 32502, at a small n, each
  judged at alpha = .2, .05, .01 and .001; rejections must stay within the 99.9% band of a binomial.
- controls: correct samplers at the quick profile and alpha = 1e-6; none may be nonconformant.
- faults: faulty one-liners at the quick profile; every one must be nonconformant.

Each line of output is one row of a table; the exit status is 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import numpy.typing as npt
from samplers import CONTROLS, FAULTS
from scipy import special

from specverify.checking import check
from specverify.judging import Judgement
from specverify.plan import plan
from specverify.registry import load
from specverify.suite import Run

LEVELS = (0.2, 0.05, 0.01, 0.001)
SMALL = 500
BUILT_IN = ("reference", "reference-block")
STAGE = ("SV-IND-001", "SV-IND-002", "SV-IND-003", "SV-IND-004")
SHAPES: dict[str, Callable[[int], npt.NDArray[np.float64]]] = {
    "equal": lambda k: np.full(k, 1 / k),
    "geom": lambda k: 0.8 ** np.minimum(np.arange(k), 30) / (0.8 ** np.minimum(np.arange(k), 30)).sum(),
    "small": lambda k: np.where(np.arange(k) < k // 2, 0.05, 1.0) / np.where(np.arange(k) < k // 2, 0.05, 1.0).sum(),
}
TAIL_SETTINGS = [(k, shape, level) for k in (3, 8, 32, 128) for shape in SHAPES for level in (1e-9, 1e-10, 1e-12)]


def judge(task: tuple[str, int]) -> str:
    """Run one suite at the quick profile and give its verdict."""
    name, seed = task
    sampler = (CONTROLS | FAULTS).get(name) or load(name)
    report = check(sampler, seed=seed)
    failed = [c["id"] for c in report.checks if c["status"] == "failed"]
    if report.verdict == "nonconformant" and name not in FAULTS:
        print(f"  {name} seed {seed}: {' '.join(failed)}", flush=True)
    return report.verdict


def dependence(task: tuple[str, int]) -> str:
    """Run the independence stage alone and give its verdict."""
    name, seed = task
    return check((CONTROLS | FAULTS).get(name) or load(name), seed=seed, only=STAGE).verdict


def stage(pool: ProcessPoolExecutor, count: int) -> bool:
    """Run the independence stage of a sampler that takes uniforms and of one that draws from the global generators."""
    kept = True
    for name in ("reference", "global"):
        tasks = [(name, seed) for seed in range(count)]
        verdicts = Counter(pool.map(dependence, tasks, chunksize=8))
        print(f"stage     {name:<16} {dict(verdicts)}", flush=True)
        kept &= verdicts["nonconformant"] == 0
    return kept


def tail(pool: ProcessPoolExecutor, _: int) -> bool:
    """Measure the far tail of the headline statistic: true over nominal, worst over shapes."""
    worst = 0.0
    for (cells, shape, level), ratio in pool.map(tail_ratio, TAIL_SETTINGS):
        print(f"tail      {cells:>3} cells, {shape:<6} level {level:g}: {ratio:.2f} of nominal", flush=True)
        worst = max(worst, ratio)
    print(f"tail      worst {worst:.2f}, covered up to 3", flush=True)
    return worst < 3


def tail_ratio(setting: tuple[int, str, float]) -> tuple[tuple[int, str, float], float]:
    """Estimate one ratio with 400,000 counts drawn from the Dirichlet mixture, weighted by the inverse e-value."""
    cells, shape, level = setting
    rng = np.random.default_rng(cells)
    null = SHAPES[shape](cells)
    n = int(np.ceil(10 / null.min()))
    threshold = 2 * special.gammainccinv((cells - 1) / 2, level)
    kappa = n / (threshold / (cells - 1) - 1)
    laws = np.maximum(rng.dirichlet(kappa * null, size=400_000), 1e-300)
    counts = rng.multinomial(n, laws / laws.sum(axis=1, keepdims=True))
    g = 2 * special.xlogy(counts, counts / (n * null)).sum(axis=1)
    g /= 1 + ((1 / null).sum() - 1) / (6 * n * (cells - 1))
    alpha = kappa * null
    log_e = (special.gammaln(alpha + counts) - special.gammaln(alpha) - counts * np.log(null)).sum(axis=1)
    log_e += special.gammaln(kappa) - special.gammaln(kappa + n)
    return setting, float(np.mean(np.exp(-log_e) * (g >= threshold))) / level


def suites(pool: ProcessPoolExecutor, count: int) -> bool:
    """Measure rejections at every level, half of the suites being of float64 and half of float32."""
    from scipy.stats import binom

    kept, rejected = True, Counter[float]()
    tasks = [(("correct", "float32")[seed % 2], seed) for seed in range(count)]
    for done, found in enumerate(pool.map(rejections, tasks, chunksize=8), 1):
        rejected.update(found)
        if done % 500 == 0 or done == count:
            for alpha in LEVELS:
                most = int(binom.ppf(0.999, done, alpha))
                print(f"suites    {rejected[alpha]} of {done} rejected at alpha {alpha}, allowed {most}", flush=True)
                kept &= rejected[alpha] <= most
    return kept


def rejections(task: tuple[str, int]) -> set[float]:
    """Run one suite to its end, without the independence stage, and give the levels at which it would be rejected."""
    name, seed = task
    planned = plan(CONTROLS[name], seed=seed, alpha=1e-12, samples=SMALL, target_tv=0.9)
    planned.stage.clear()  # measured on its own; it keeps its share of the budget
    run, evidence = Run(planned), [-np.inf]
    run.execute(lambda progress: evidence.append(progress.log10_e))
    evidence.append(run.log10_e())
    found = set()
    for alpha in LEVELS:
        planned.options = replace(planned.options, alpha=alpha)
        if max(evidence) >= run.threshold or Judgement(run).verdict == "nonconformant":
            found.add(alpha)
    return found


def controls(pool: ProcessPoolExecutor, count: int) -> bool:
    """Run correct samplers at the quick profile."""
    names, kept = (*CONTROLS, *BUILT_IN), True
    for seed in range(count):
        verdicts = Counter(pool.map(judge, [(name, seed) for name in names]))
        print(f"controls  {len(names)} samplers, seed {seed}: {dict(verdicts)}", flush=True)
        kept &= verdicts["nonconformant"] == 0
    return kept


def faults(pool: ProcessPoolExecutor, count: int) -> bool:
    """Run faulty samplers at the quick profile."""
    kept = True
    for name in FAULTS:
        verdicts = Counter(pool.map(judge, [(name, seed) for seed in range(count)]))
        print(f"faults    {name:<16} {dict(verdicts)}", flush=True)
        kept &= verdicts["nonconformant"] == count
    return kept


def main() -> bool:
    """Run the parts that were asked for and say whether all bounds held."""
    parts = {"tail": tail, "faults": faults, "stage": stage, "suites": suites, "controls": controls}
    parser = argparse.ArgumentParser(description="Measure the error rates of whole suites.")
    parser.add_argument("parts", nargs="*", default=list(parts), help=f"of {', '.join(parts)}; all when none is named")
    parser.add_argument("--seeds", type=int, default=20, help="suites for each control and fault")
    parser.add_argument("--suites", type=int, default=2000, help="suites at a small n, for each of two samplers")
    parser.add_argument("--stages", type=int, default=2000, help="independence stages, for each of two samplers")
    arguments = parser.parse_args()
    counts = {"suites": arguments.suites, "stage": arguments.stages}
    with ProcessPoolExecutor(2) as pool:
        kept = [parts[part](pool, counts.get(part, arguments.seeds)) for part in arguments.parts]
    return all(kept)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
