"""The kit's own work per trial, over the cost of bare draws: what it adds to the sampler's time, as ratios of one run.

Own work is all that a run does but the sampler: drafts, what is handed over and read back, completions, encoding,
counts, impossible events, and the looks at the evidence. It is measured with a verifier that returns what the reference
returned before. Beside it NumPy draws as many uniforms and looks each up in one table, in the same rounds and thread.
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from table import ratio, rounds

from specverify.adapters.builtin import reference
from specverify.calling import call, here
from specverify.cases import Case
from specverify.combining import combined_log_e
from specverify.menu import menu, softmax_case
from specverify.plan import Plan, plan
from specverify.randomness import global_randomness
from specverify.registry import load
from specverify.running import CaseRun, Unit
from specverify.schedule import look_fractions

ROWS = 2**16  # of one unit
ASKS = frozenset({"draft_tokens", "draft_probs", "target_probs", "seed"})  # of the empty verifier, which is read-only
LENGTH = 4  # drafted tokens of a trial

Step = Callable[[], object]


def cases() -> list[Case]:
    """Give the measured cases: 2, 1000 and 32768 tokens, four of them drafted."""
    coin = next(case for case in menu() if case.name == "AB4")
    wide = [softmax_case(f"softmax-{size}", size, LENGTH, scale) for size, scale in ((1000, 2.0), (32_768, 3.0))]
    return [coin, *wide]


def bare(vocab_size: int) -> Step:
    """Draw the drafts of a unit by one uniform and one look-up each."""
    rng, table = np.random.Generator(np.random.SFC64(1)), np.arange(vocab_size)

    def step() -> None:
        for _ in range(LENGTH):
            table[(rng.random(ROWS) * vocab_size).astype(np.int64)]

    return step


def replayed(first: CaseRun, unit: Unit, **changes: Any) -> CaseRun:
    """Run a unit, and give a run of an empty verifier that returns in each call what the sampler returned in it."""
    replies: list[tuple[Any, Any]] = []

    def record(*given: Any, **options: Any) -> Any:
        reply = call(*given, **options)
        replies.append((reply.num_accepted, reply.next_token))
        return reply

    with global_randomness():
        replace(first, caller=partial(here, record)).carry_out(unit)
    played = cycle(replies)
    return replace(first, verifier=replace(first.verifier, function=lambda **_: next(played), **changes))


def unit_step(first: CaseRun, batch: int | None) -> Step:
    """Give what carries out one unit, in calls of so many rows or, with None, of those of the plan."""
    unit = Unit(ROWS, (0, 0), batch=batch)
    run = replayed(first, unit, asks=ASKS)

    def step() -> None:
        found, _ = run.carry_out(unit)
        assert found.rows == ROWS
        assert not found.violations

    return step


def looks(planned: Plan) -> Step:
    """Give what reads the evidence at all looks of a plan, as the counts were at each of them."""
    run = planned.runs[0]
    counted = []
    with global_randomness():
        for look in range(len(look_fractions())):
            for unit in run.units(look):
                run.seen.add(run.carry_out(unit)[0])
            counted.append(deepcopy(run.seen))

    def step() -> None:
        for seen in counted:
            run.seen = seen
            combined_log_e(planned)

    return step


def _head(*columns: str) -> None:
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")


def own_work(count: int) -> None:
    """Say how many times the cost of bare draws the own work of each case is, and the looks at its evidence."""
    _head("V", "calls of 8192 rows", "calls as planned", "rows of these", "looks")
    for case in cases():
        planned = plan(reference, cases=[case], profile="ci")
        run = planned.runs[0]
        steps = {
            "bare": bare(case.vocab_size),
            "large": unit_step(run, 8192),
            "planned": unit_step(run, None),
            "looks": looks(planned),
        }
        times = rounds(steps, count)
        per_unit = [seconds * ROWS / run.planned.rows for seconds in times["looks"]]
        cells = [ratio(times["large"], times["bare"]), ratio(times["planned"], times["bare"])]
        cells += [str(run.planned.batch), ratio(per_unit, times["bare"])]
        print(f"| {case.vocab_size:,} | {' | '.join(cells)} |", flush=True)


def shares(count: int) -> None:
    """Say what share of a run of transformers, one sequence a call, the same run of an empty verifier takes."""
    _head("case", "own share of a run of transformers")
    sampler, unit = load("transformers"), Unit(300, (0, 0))
    for case in (case for case in menu() if case.name in ("AB", "W402", "softmax-1024", "softmax-32000")):
        run = plan(sampler, cases=[case]).runs[0]
        steps: dict[str, Step] = {
            "whole": partial(run.carry_out, unit),
            "own": partial(replayed(run, unit).carry_out, unit),
        }
        with global_randomness():
            times = rounds(steps, count)
        print(f"| {case.name} | {ratio(times['own'], times['whole'])} |", flush=True)


def memory() -> None:
    """Say how much memory units take at most, by how many of them are carried out."""
    _head("V", "one unit, MiB", "four units, MiB")
    unit = Unit(ROWS, (0, 0), batch=8192)
    for case in cases():
        run = replayed(plan(reference, cases=[case]).runs[0], unit, asks=ASKS)
        peaks = []
        for units in (1, 4):
            tracemalloc.start()
            for _ in range(units):
                run.seen.add(run.carry_out(unit)[0])
            peaks.append(tracemalloc.get_traced_memory()[1] / 2**20)
            tracemalloc.stop()
        print(f"| {case.vocab_size:,} | {peaks[0]:.1f} | {peaks[1]:.1f} |", flush=True)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="Measure the kit's own work per trial.")
    parser.add_argument("--rounds", type=int, default=9)
    count: int = parser.parse_args().rounds
    import torch

    torch.set_num_threads(1)
    own_work(count)
    shares(count)
    memory()


if __name__ == "__main__":
    main()
