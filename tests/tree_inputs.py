"""The recorded laws of trees, and the inputs that they are for."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from specverify.reference import Model

DATA = json.loads(Path(__file__).with_name("data").joinpath("laws_trees.json").read_text(encoding="utf-8"))


def model(name: str, side: str) -> Model:
    """Return the target (p) or draft (q) of a recorded input."""
    rows = DATA["inputs"][name][side]
    if isinstance(rows, list):
        row = [Fraction(x) for x in rows]
        return lambda _: row
    table = {prefix: [Fraction(x) for x in weights] for prefix, weights in rows.items()}
    return lambda prefix: table[",".join(map(str, prefix))]


def models(name: str) -> tuple[Model, Model]:
    """Return the target and the draft of a recorded input."""
    return model(name, "p"), model(name, "q")


def records(*variants: str) -> list[dict[str, Any]]:
    """Return the records of these variants, in their order."""
    return [record for record in DATA["records"] if record["variant"] in variants]


def as_law(law: dict[str, str]) -> dict[tuple[int, ...], Fraction]:
    """Return a recorded law of the first token as the reference writes it."""
    return {(int(key),): Fraction(value) for key, value in law.items() if Fraction(value)}


def full_tree(siblings: int, depth: int) -> tuple[int, ...]:
    """Return the parents of the tree in which every node above the last level has so many children."""
    parents: list[int] = []
    level = [-1]
    for _ in range(depth):
        below = range(len(parents), len(parents) + siblings * len(level))
        parents += [node for node in level for _ in range(siblings)]
        level = list(below)
    return tuple(parents)
