"""The kit's own work per trial, over the cost of bare draws: what it adds to the sampler's time, as ratios of one run.

Own work is all that a run does but the sampler: drafts, what is handed over and read back, completions, encoding,
counts, impossible events, and the looks at the evidence. It is measured with a verifier that returns what the reference
returned before. Beside it NumPy draws as many uniforms and looks each up in one table, in the same rounds and thread.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
from table import ratio, rounds


from specverify.adapters.builtin import reference
from specverify.calling import call
from specverify.cases import Case
from specverify.combining import combined_log_e
from specverify.contract import Verifier, verifier
from specverify.menu import menu, softmax_case
from specverify.plan import Plan, plan
from specverify.randomness import global_randomness
from specverify.registry import load
from specverify.running import CaseRun, Unit
from specverify.schedule import look_fractions

ROWS = 2**16  # of one unit
TAU = 1e-12
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


def replayed(planned: Plan, unit: Unit, *, readonly: bool = True) -> CaseRun:
    """Run a unit with the reference, and give a run whose verifier returns in each call what the reference returned."""
    replies: list[tuple[Any, Any]] = []

    def record(*given: Any, watch: bool = False) -> Any:
        reply = call(*given, watch=watch)
        replies.append((reply.num_accepted, reply.next_token))
        return reply

    first = planned.runs[0]
    replace(first, caller=record).carry_out(unit)
    played = cycle(replies)

    @verifier(name="empty", rule="token", readonly=readonly)
    def empty(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> tuple[Any, Any]:
        return next(played)

    return replace(first, verifier=empty)


def unit_step(planned: Plan, batch: int | None, *, readonly: bool = True) -> Step:
    """Give what carries out one unit, in calls of so many rows or, with None, of those of the plan."""
    unit = Unit(ROWS, (0, 0), batch=batch)
    run = replayed(planned, unit, readonly=readonly)

    def step() -> None:
        found, _ = run.carry_out(unit)
        assert found.rows == ROWS
        assert not found.violations

    return step


def looks_share(planned: Plan) -> float:
    """Give what share of the plan's rows a unit has: the looks of a plan are shared by all of its rows."""
    return len(look_fractions()) * ROWS / planned.runs[0].planned.rows


def own_work(count: int) -> list[str]:
    """Say how many times the cost of bare draws the own work of each case is, and the looks at its evidence."""
    lines = ["| V | calls of 8192 rows | calls as planned | rows of these | looks |", "|---" * 5 + "|"]
    for case in cases():
        planned = plan(reference, cases=[case], profile="ci")
        run = planned.runs[0]
        steps = {
            "bare": bare(case.vocab_size),
            "large": unit_step(planned, 8192),
            "planned": unit_step(planned, None),
            "looks": lambda planned=planned: combined_log_e(planned),
        }
        run.seen.add(run.carry_out(Unit(ROWS, (0, 0)))[0])
        times = rounds(steps, count)
        looks = [seconds * looks_share(planned) for seconds in times["looks"]]
        cells = [ratio(times["large"], times["bare"]), ratio(times["planned"], times["bare"])]
        cells += [str(run.planned.batch), ratio(looks, times["bare"])]
        lines.append(f"| {case.vocab_size:,} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def share_of(sampler: Verifier, case: Case, rows: int) -> Callable[[], float]:
    """Give what measures the share of own work in the time of a unit of a sampler."""
    spent = [0.0]

    def timed(**given: Any) -> Any:
        began = time.thread_time()
        result = sampler.function(**given)
        spent[0] += time.thread_time() - began
        return result

    planned = plan(replace(sampler, function=timed), cases=[case], profile="ci").runs[0]

    def share() -> float:
        spent[0] = 0.0
        began = time.thread_time()
        with global_randomness():
            planned.carry_out(Unit(rows, (0, 0)))
        return 1 - spent[0] / (time.thread_time() - began)

    return share


def shares(count: int) -> list[str]:
    """Say what share of a run of transformers, one sequence a call, is own work."""
    lines = ["| case | own share of a run of transformers |", "|---|---|"]
    for case in (case for case in menu() if case.name in ("AB", "W402", "softmax-1024", "softmax-32000")):
        share = share_of(load("transformers"), case, 200)
        low, middle, high = np.quantile([share() for _ in range(count)], [0.1, 0.5, 0.9])
        lines.append(f"| {case.name} | {middle:.1%} ({low:.1%} to {high:.1%}) |")
        print(lines[-1], flush=True)
    return lines


def memory() -> list[str]:
    """Say how much memory units take at most, by how many of them are carried out."""
    lines = ["| V | one unit, MiB | four units, MiB |", "|---|---|---|"]
    for case in cases():
        planned = plan(reference, cases=[case], profile="ci")
        run = replayed(planned, Unit(ROWS, (0, 0), batch=8192))
        peaks = []
        for units in (1, 4):
            tracemalloc.start()
            for _ in range(units):
                run.seen.add(run.carry_out(Unit(ROWS, (0, 0), batch=8192))[0])
            peaks.append(tracemalloc.get_traced_memory()[1] / 2**20)
            tracemalloc.stop()
        lines.append(f"| {case.vocab_size:,} | {peaks[0]:.1f} | {peaks[1]:.1f} |")
        print(lines[-1], flush=True)
    return lines


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
