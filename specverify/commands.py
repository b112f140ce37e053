"""Each command asks the engine one question and prints the answer; it decides nothing itself.

The engine is imported inside the commands, so that ``--help``, ``--version`` and a mistyped option answer at once.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from specverify.errors import ConfigError

__all__ = ["COMMANDS"]

_STATUS: Final = {"conformant": 0, "nonconformant": 1, "inconclusive": 3}
_SAMPLE_SIZES: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def _check(arguments: argparse.Namespace) -> int:
    """Check a sampler; the exit status is the verdict."""
    from specverify.checking import check
    from specverify.config import read_known_failures
    from specverify.progress import ProgressBar
    from specverify.registry import load
    from specverify.reports import render, wants_color

    _require_writable(arguments.json)
    known = read_known_failures(arguments.known_failures) if arguments.known_failures else None
    sampler = load(arguments.target)
    with ProgressBar(sys.stderr) as progress:
        report = check(
            sampler,
            **_plan_options(arguments),
            seed=arguments.seed,
            known_failures=known,
            time_limit=arguments.time_limit,
            progress=progress,
        )
    shown = sys.stderr if arguments.json == "-" else sys.stdout
    if arguments.json == "-":
        _say(report.to_json(), sys.stdout)
    elif arguments.json:
        report.write(arguments.json)
    _say(render(report.document, verbose=arguments.verbose, color=wants_color(shown)), shown)
    return _STATUS[report.verdict]


def _list(arguments: argparse.Namespace) -> int:
    """List the names of one kind with a line on each."""
    from specverify.reports import entries

    listed = _listings()[arguments.what]()
    text = json.dumps(listed, indent=2, ensure_ascii=False) + "\n" if arguments.json else entries(listed)
    _say(text, sys.stdout)
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    """Explain a check, a fault or a rule, by id or by name."""
    from specverify.nearest import did_you_mean
    from specverify.reports import hanging

    texts = _explanations()
    folded = {name.casefold(): text for name, text in texts.items()}
    text = folded.get(arguments.id.casefold())
    if text is None:
        hint = did_you_mean(arguments.id, texts) or "; see 'specverify list checks', 'list faults' and 'list rules'"
        raise ConfigError(f"expected the id or name of a check, fault or rule, got {arguments.id!r}{hint}")
    _say(hanging(text.strip()), sys.stdout)
    return 0


def _power(arguments: argparse.Namespace) -> int:
    """Say what would be caught: by one check of so many cells, or by the whole plan for a sampler."""
    if (arguments.target is None) == (arguments.cells is None):
        got = "neither" if arguments.target is None else "both"
        raise ConfigError(f"expected either TARGET or --cells K, got {got}; give one of the two")
    _say(_power_of_cells(arguments) if arguments.target is None else _power_of_plan(arguments), sys.stdout)
    return 0


COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = {
    "check": _check,
    "list": _list,
    "explain": _explain,
    "power": _power,
}
"""Name of each command to the function that runs it and returns the exit status."""


def _plan_options(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("target", "profile", "alpha", "target_tv", "only", "require", "samples")
    return {name: getattr(arguments, name) for name in names}


def _power_of_cells(arguments: argparse.Namespace) -> str:
    from specverify.power import check_level, detectable_tv, samples_for
    from specverify.reports import scientific, table

    level = check_level(arguments.alpha, arguments.checks)
    if arguments.tv is not None:
        sizes: Sequence[int] = [samples_for(arguments.tv, arguments.cells, level)]
    else:
        sizes = _SAMPLE_SIZES if arguments.samples is None else [arguments.samples]
    rows = [(f"{n:,}", f"{detectable_tv(n, arguments.cells, level):.3g}") for n in sizes]
    share = f"alpha {scientific(arguments.alpha)} shared by {arguments.checks} checks"
    return f"One check with {arguments.cells} cells, {share}, caught with probability 0.9:\n" + table(
        [("samples", "total variation"), *rows], left=0
    )


def _power_of_plan(arguments: argparse.Namespace) -> str:
    from specverify.plan import plan
    from specverify.registry import load
    from specverify.reports import table

    planned = plan(load(arguments.target), **_plan_options(arguments)).describe()
    rows = [
        (row["check"], row["case"], f"{row['n']:,}", str(row["cells"]), f"{row['detectable_tv']:.2g}")
        for row in planned
    ]
    return table([("check", "case", "n", "cells", "total variation"), *rows], left=2)


def _listings() -> dict[str, Callable[[], dict[str, str]]]:
    return {"samplers": _samplers, "checks": _checks, "faults": _faults, "cases": _cases, "rules": _rules}


def _samplers() -> dict[str, str]:
    from specverify.registry import names

    return dict(names())


def _checks() -> dict[str, str]:
    from specverify.checks import CATALOGUE

    return {key: check.title for key, check in CATALOGUE.items()}


def _faults() -> dict[str, str]:
    from specverify.faults import CATALOGUE

    return {key: f"{fault.name}: {fault.claim}" for key, fault in CATALOGUE.items()}


def _cases() -> dict[str, str]:
    from specverify.menu import menu

    return {case.name: case.description for case in menu()}


def _rules() -> dict[str, str]:
    from specverify.reference import RULES

    return {name: (rule.__doc__ or "").strip().partition("\n")[0] for name, rule in RULES.items()}


def _explanations() -> dict[str, str]:
    """Collect the text of every id and name that can be explained."""
    import inspect

    from specverify.checks import CATALOGUE as CHECKS
    from specverify.faults import CATALOGUE as FAULTS
    from specverify.reference import RULES

    texts = {key: check.explain for key, check in CHECKS.items()}
    for key, fault in FAULTS.items():
        texts[key] = texts[fault.name] = fault.explain
    for name, rule in RULES.items():
        description = (inspect.getdoc(rule) or "").partition("\n\n>>>")[0]
        texts[name] = f"rule {name}: {description}"
    return texts


def _require_writable(path: str | None) -> None:
    """Find out before the run, not after it, that the report could not be written."""
    if path is None or path == "-":
        return
    file = Path(path)
    existed = file.exists()
    if existed and not file.is_file() and not file.is_dir():
        return  # a pipe or a device: opening it would already be use
    try:
        file.open("a").close()
    except OSError as error:
        raise ConfigError(
            f"cannot write the report to {path}: {error.strerror}; name a file in a folder you can write to"
        ) from error
    if not existed:
        file.unlink()


def _say(text: str, stream: TextIO) -> None:
    """Write to a stream whose encoding may be poor and whose reader may have gone."""
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
