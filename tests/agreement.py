"""All back ends on the CPU give the same tokens on ten million rows: ``nox -s agreement``; CI compares fewer.

Rows are random and hard (zeros, single tokens, disjoint, equal and subnormal laws), ragged, of 1 to 131,072 tokens, in
every dtype, and their trials cross the 32nd bit. Every row goes through NumPy, torch and numba, and through compiled
torch where it compiles: from 8,192 tokens on. A back end is handed values that its dtype holds exactly.

Each line of output is one kind of row; the exit status is 1 when a row differs.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from specverify.gpu_tests import KINDS, Batch, batch, tensors
from specverify.reference import (
    verify_token_compiled,
    verify_token_fast,
    verify_token_seeded,
    verify_token_seeded_torch,
)

DTYPES = ("float64", "float32", "bfloat16", "float16")
NARROW = [(20_000, 4, 2), (10_000, 3, 5), (4000, 2, 33), (600, 1, 1), (400, 4, 257), (40, 4, 1000)]
WIDE = [(4, 4, 9001), (4, 3, 32_768), (4, 2, 50_257), (4, 4, 131_072)]


def disagreeing(given: Batch, dtype: str, seed: int) -> dict[str, int]:
    """Count the rows of a batch in which a back end has another length or token than NumPy, by back end."""
    first = 2**32 - len(given.final) // 2
    placed = tensors(given, "cpu", dtype)
    expected = np.stack(verify_token_seeded(*given[:3], seed, first, given.num_draft_tokens))
    others: dict[str, tuple[Callable[..., Any], Batch]] = {
        "torch": (verify_token_seeded_torch, placed),
        "numba": (verify_token_fast, given),
    }
    if given.target_probs.shape[-1] >= 8192:
        others["compiled"] = (verify_token_compiled, placed)
    found = {}
    for name, (kernel, taken) in others.items():
        answer = np.stack([np.asarray(kind) for kind in kernel(*taken[:3], seed, first, taken.num_draft_tokens)])
        found[name] = int((answer != expected).any(axis=0).sum())
    return found


def rounds(kind: str, count: int, sizes: list[tuple[int, int, int]]) -> bool:
    """Compare rows of one kind, in every dtype, and say how many there were and differed."""
    rows, wrong = Counter[str](), Counter[str]()
    for seed in range(count):
        for dtype in DTYPES:
            for size in sizes:
                given = batch(kind, *size, dtype=dtype, seed=seed, ragged=seed % 2 == 1)
                found = disagreeing(given, dtype, seed + (seed << 33))
                rows.update(dict.fromkeys(found, size[0]))
                wrong.update(found)
    told = ", ".join(f"{name} {wrong[name]} of {rows[name]:,}" for name in rows)
    print(f"{kind:<10} rows that differ from NumPy: {told}", flush=True)
    return not wrong.total()


def main() -> bool:
    """Compare as many rounds as asked for and say whether all rows agreed."""
    parser = argparse.ArgumentParser(description="Compare all back ends on the CPU, row by row.")
    parser.add_argument("--rounds", type=int, default=12, help="each has 841,344 rows, 384 of them wide")
    count: int = parser.parse_args().rounds
    torch.set_num_threads(1)
    kept = [rounds(kind, count, NARROW + WIDE) for kind in KINDS]
    return all(kept)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
