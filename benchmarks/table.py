"""Ratios of verification steps, measured side by side in one process: writes docs/performance.md (``nox -s bench``).

All contestants take turns, round by round, so that what else the machine does hits all alike; what is compared is the
CPU time of the one thread. A ratio is the median over rounds, with its 10th and 90th percentile. An absolute time would
say more about the machine and its neighbours than about the code, and is not written down.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from contestants import BASE, CONTESTANTS, batch

SIZES = [(1, 4, 32_768), (64, 4, 32_768), (64, 4, 131_072), (1024, 4, 1000), (10_000, 1, 2)]
GROWTH = {
    "vocabulary": [(16, 4, vocab) for vocab in (128, 1024, 8192, 65_536)],
    "drafted tokens": [(16, length, 8192) for length in (1, 2, 4, 8)],
    "rows": [(size, 4, 8192) for size in (1, 4, 16, 64)],
}
SAMPLES = (1000, 10_000, 100_000)
CHUNK = (1000, 4, 64)
NEAR = ("reference, torch compiled", "reference, numba")
DOCS = Path(__file__).parents[1] / "docs" / "performance.md"
STREAM = 2**28  # bytes, far more than any cache holds

Size = tuple[int, int, int]
Times = dict[str, list[float]]


def rounds(steps: dict[str, Callable[[], object]], count: int) -> Times:
    """Time each step once in each round, after a call of it that fills the caches and counts for nothing."""
    times: Times = {name: [] for name in steps}
    for _ in range(count):
        for name, step in steps.items():
            step()
            began = time.thread_time()
            step()
            times[name].append(time.thread_time() - began)
    return times


def measured(size: Size, dtype: str, count: int) -> tuple[Times, float]:
    """Time all contestants, and the reading of so many bytes from memory, on one batch."""
    given = batch(*size, dtype)
    stream = np.ones(STREAM // 8)
    times = rounds({name: make(given) for name, make in CONTESTANTS.items()} | {"read": stream.sum}, count)
    return times, given.bytes_read() / STREAM


def ratio(above: list[float], below: list[float]) -> str:
    """Give the median of the rounds' ratios and the range that 8 of 10 are in."""
    each = np.array(above) / np.maximum(below, 1e-9)
    low, middle, high = np.quantile(each, [0.1, 0.5, 0.9])
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def speeds(dtype: str, count: int) -> list[str]:
    """Say how many times as fast as the base each contestant is, and how near the compiled ones are to the floor."""
    heads = [name for name in CONTESTANTS if name != BASE]
    heads += [f"{name.removeprefix('reference, ')}, share of the floor" for name in NEAR]
    lines = [f"| B, G, V | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for size in SIZES:
        times, share = measured(size, dtype, count)
        cells = [ratio(times[BASE], times[name]) for name in CONTESTANTS if name != BASE]
        cells += [ratio([share * seconds for seconds in times["read"]], times[name]) for name in NEAR]
        lines.append(f"| {', '.join(f'{n:,}' for n in size)} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def growth(what: str, sizes: list[Size], count: int) -> list[str]:
    """Say how the time of each contestant grows, as multiples of its own at the first size."""
    lines = [f"| {what} | {' | '.join(CONTESTANTS)} |", "|---" * (len(CONTESTANTS) + 1) + "|"]
    place = {"vocabulary": 2, "drafted tokens": 1, "rows": 0}[what]
    first: dict[str, float] = {}
    for size in sizes:
        times, _ = measured(size, "float32", count)
        medians = {name: float(np.median(times[name])) for name in CONTESTANTS}
        first = first or medians
        lines.append(f"| {size[place]:,} | {' | '.join(f'{medians[n] / first[n]:.3g}' for n in CONTESTANTS)} |")
        print(lines[-1], flush=True)
    return lines


def per_sample(count: int) -> list[str]:
    """Say what a sample costs each contestant in runs of more and more calls, as multiples of its own first line."""
    given = batch(*CHUNK, "float32")
    steps = {name: make(given) for name, make in CONTESTANTS.items()}
    lines = [f"| samples | {' | '.join(CONTESTANTS)} |", "|---" * (len(CONTESTANTS) + 1) + "|"]
    first: dict[str, float] = {}
    for samples in SAMPLES:
        calls = samples // CHUNK[0]
        repeated = {name: _repeated(step, calls) for name, step in steps.items()}
        times = rounds(repeated, max(1, count // calls))
        costs = {name: float(np.median(times[name])) / samples for name in CONTESTANTS}
        first = first or costs
        lines.append(f"| {samples:,} | {' | '.join(f'{costs[n] / first[n]:.3g}' for n in CONTESTANTS)} |")
        print(lines[-1], flush=True)
    return lines


def _repeated(step: Callable[[], object], calls: int) -> Callable[[], object]:
    return lambda: [step() and None for _ in range(calls)]


HEAD = """# Speed of the reference

Written by `nox -s bench`. All steps get the same drafts and probabilities, draw their own coins, and take turns in one
process on one thread; each number is a median of {count} rounds, in brackets the range of 8 in 10.

*transformers* is `_speculative_sampling` of the installed transformers {transformers}, called row by row as it takes
one sequence; *probabilities* spares it its two softmaxes. *batched torch* is written for the purpose, as engines
usually do it. The *reference* kernels make all their random words from the seed, and give the same tokens bit for bit;
*torch compiled* is torch itself below 8,192 tokens, and what compiling takes is in none of the numbers.
Versions: NumPy {numpy}, torch {torch}, numba {numba}.

The floor is the time in which the laws of the emitting rows alone, p and q after a rejection and p for a bonus, could
be read from memory, at the speed at which NumPy sums a large array in the same rounds. Below some thousand tokens the
laws are in the cache and the floor says nothing.
"""


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description="Compare verification steps.")
    parser.add_argument("--rounds", type=int, default=9)
    count: int = parser.parse_args().rounds
    torch.set_num_threads(1)
    import numba
    import transformers

    versions = {module.__name__: module.__version__ for module in (np, torch, numba, transformers)}
    parts = [HEAD.format(count=count, **versions)]
    for dtype in ("float32", "float64"):
        parts.append(f"\n## Times as fast as transformers on probabilities, {dtype}\n")
        parts += speeds(dtype, count)
    parts.append("\n## How time grows, float32\n\nEach column is in multiples of its own first line.")
    for what, sizes in GROWTH.items():
        parts.append("")
        parts += growth(what, sizes, count)
    parts.append(
        f"\nCost of one sample, in multiples of the first line, in runs of calls of {CHUNK[0]:,} rows each "
        f"(G = {CHUNK[1]}, V = {CHUNK[2]}): time is linear in the number of samples where it stays 1.\n"
    )
    parts += per_sample(count)
    DOCS.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
