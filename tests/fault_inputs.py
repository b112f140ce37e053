"""What the tests of the faults share: the recorded inputs, random ones, and when frequencies fit probabilities."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from specverify.reference import Model, Number

FOLDER = Path(__file__).with_name("data")
DATA = json.loads(FOLDER.joinpath("laws.json").read_text(encoding="utf-8"))
RECORDS: list[dict[str, Any]] = [
    record
    for name in ("laws.json", "fault_laws.json", "laws_trees.json")
    for record in json.loads(FOLDER.joinpath(name).read_text(encoding="utf-8"))["records"]
    if record["variant"][0] in "KQM"
]

FALSE_ALARM = 1e-10


def model(name: str, side: str) -> Model:
    """Return the target (p) or draft (q) of a recorded input."""
    rows = DATA["inputs"][name][side]
    if isinstance(rows, list):
        row = [Fraction(x) for x in rows]
        return lambda _: row
    table = {prefix: [Fraction(x) for x in row] for prefix, row in rows.items()}
    return lambda prefix: table[",".join(map(str, prefix))]


def random_row(rng: np.random.Generator, size: int) -> list[Fraction]:
    """Draw a row of fractions, some of them 0."""
    weights = rng.integers(0, 8, size) * (rng.random(size) < 0.8)
    weights[rng.integers(size)] += 1
    return [Fraction(int(weight), int(weights.sum())) for weight in weights]


def random_levels(seed: int, size: int, depth: int) -> tuple[npt.NDArray[Any], ...]:
    """Draw rows for all prefixes of up to ``depth`` tokens, an array of fractions for each length."""
    rng = np.random.default_rng(seed)
    return tuple(
        np.array([random_row(rng, size) for _ in range(size**length)], dtype=object) for length in range(depth + 1)
    )


def of_levels(levels: tuple[npt.NDArray[Any], ...]) -> Model:
    """Read rows by prefix."""
    size = levels[0].shape[1]

    def row(prefix: tuple[int, ...]) -> list[Number]:
        index = 0
        for token in prefix:
            index = index * size + token
        found: list[Number] = levels[len(prefix)][index].tolist()
        return found

    return row


def assert_frequencies(counts: Mapping[Any, int], law: Mapping[Any, Number]) -> None:
    """Demand that all frequencies are near their probabilities, by Hoeffding's bound, and nothing else came."""
    n, cells = sum(counts.values()), [key for key, weight in law.items() if weight > 0]
    assert set(counts) <= set(cells)
    width = np.sqrt(np.log(2 * len(cells) / FALSE_ALARM) / (2 * n))
    for cell in cells:
        assert abs(counts.get(cell, 0) / n - float(law[cell])) < width, cell
