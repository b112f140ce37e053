"""Each command asks the engine one question and prints the answer; it decides nothing itself.

The engine is imported inside the commands, so that ``--help``, ``--version`` and a mistyped option answer at once.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from specverify.destinations import STDOUT, deliver, destinations
from specverify.errors import ConfigError
from specverify.folders import working_directory
from specverify.listing import explanations, listings
from specverify.output import aside, complain, say
from specverify.wording import brief

__all__ = ["COMMANDS"]

_STATUS: Final = {"conformant": 0, "nonconformant": 1, "inconclusive": 3}
_SAMPLE_SIZES: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
if TYPE_CHECKING:
    from specverify.plan import Plan

SURE: Final = 0.9999
_ALPHA: Final = 1e-6
_PLAN: Final = ("target", "profile", "alpha", "only", "require", "samples")
_RUN: Final = ("target_tv", "seed", "time_limit", "timeout", "workers")
_POWER_COLUMNS: Final = ("case", "n", "cells", "total variation")


def _check(arguments: argparse.Namespace) -> int:
    """Check a sampler; the exit status is the verdict."""
    from specverify.checking import check
    from specverify.config import read_settings, read_toml
    from specverify.known_failures import entries_by_sampler
    from specverify.progress import ProgressBar
    from specverify.registry import load
    from specverify.reports import render, wants_color

    places = destinations(arguments)
    file = arguments.known_failures
    entries = {} if file is None else read_toml(file, "the known failures")
    settings = read_settings(working_directory())
    stdout, stderr = sys.stdout, sys.stderr  # the sampler may put others in their place
    text, write = (stderr, aside) if STDOUT in places.values() else (stdout, say)
    with contextlib.redirect_stdout(text):  # what the sampler prints is no part of a form
        sampler = load(arguments.target)
        settings = settings.excusing(entries_by_sampler(entries, [sampler.name]))
        names = (sampler.name, arguments.target)
        _warn_of_known_failures(settings.known_failures, names)
        with ProgressBar(stderr) as progress:
            report = check(
                sampler,
                **{
                    **settings.options,
                    **_given(arguments, (*_PLAN, *_RUN)),
                },
                known_failures=settings.known_of(*names),
                progress=progress,
            )
    answer = render(report.document, verbose=arguments.verbose, color=wants_color(text))
    try:
        deliver(places, lambda form: form.write(report.document), stdout)
    except ConfigError:
        if text is stdout:  # a file that cannot be written does not take the answer with it
            write(answer, text)
        raise
    write(answer, text)
    return _STATUS[report.verdict]


def _report(arguments: argparse.Namespace) -> int:
    """Show a stored report as text, or write it in other forms."""
    from specverify.reports import Report, render, wants_color

    places = destinations(arguments, sources=[arguments.file])
    document = Report.read(arguments.file).document
    deliver(places, lambda form: form.write(document), sys.stdout)
    if not places:
        say(render(document, verbose=arguments.verbose, color=wants_color(sys.stdout)), sys.stdout)
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    """Show stored reports side by side as text, or write the comparison in other forms."""
    from specverify.reports import Report, compare

    places = destinations(arguments, sources=arguments.files)
    documents = [Report.read(file).document for file in arguments.files]
    deliver(places, lambda form: form.comparison(documents, arguments.files), sys.stdout)
    if not places:
        say(compare(documents, arguments.files), sys.stdout)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    """List the names of one kind with a line on each."""
    from specverify.reports import entries

    listed = listings()[arguments.what]()
    text = json.dumps(listed, indent=2, ensure_ascii=False) + "\n" if arguments.json else entries(listed)
    say(text, sys.stdout)
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    """Explain a check, a fault, a rule or a case, by id or by name."""
    from specverify.nearest import did_you_mean
    from specverify.reports import hanging

    texts = explanations()
    folded = {name.casefold(): text for name, text in texts.items()}
    explain = folded.get(arguments.id.casefold())
    if explain is None:
        hint = (
            did_you_mean(arguments.id, texts)
            or "; see 'specverify list checks', 'list faults', 'list rules' and 'list cases'"
        )
        raise ConfigError(f"expected the id or name of a check, fault, rule or case, got {brief(arguments.id)}{hint}")
    say(hanging(explain().strip()), sys.stdout)
    return 0


def _power(arguments: argparse.Namespace) -> int:
    """Say what would be caught: by one check of so many cells, or by the whole plan for a sampler."""
    if (arguments.target is None) == (arguments.cells is None):
        got = "neither" if arguments.target is None else "both"
        raise ConfigError(f"expected either TARGET or --cells K, got {got}; give one of the two")
    say(_power_of_cells(arguments) if arguments.target is None else _power_of_plan(arguments), sys.stdout)
    return 0


COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = {
    "check": _check,
    "report": _report,
    "compare": _compare,
    "list": _list,
    "explain": _explain,
    "power": _power,
}
"""Name of each command to the function that runs it and returns the exit status."""


def _given(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Give the options that were typed."""
    given = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def _warn_of_known_failures(listed: Iterable[str], names: Sequence[str]) -> None:
    """Say where entries seem to be meant for this sampler, and excuse nothing of it for a mistyped name."""
    from specverify.nearest import did_you_mean

    for name in () if set(listed) & set(names) else listed:
        close = did_you_mean(name, names)
        if close:
            complain(f"warning: known failures are listed for {brief(name)}, which is not checked{close}")


def _plan_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Give the options that set a plan, those of the configuration where none was typed."""
    from specverify.config import read_settings

    options = read_settings(working_directory()).options
    return {**{name: options[name] for name in options if name in _PLAN}, **_given(arguments, _PLAN)}


def _refuse(arguments: argparse.Namespace, names: Sequence[str], where: str) -> None:
    """Refuse the options that would have no effect."""
    unused = [f"--{name}" for name in names if getattr(arguments, name) not in (None, False)]
    if unused:
        raise ConfigError(f"expected no {unused[0]} with {where}, where it has no effect; leave it out")


def _power_of_cells(arguments: argparse.Namespace) -> str:
    from specverify.power import check_level, detectable_tv, samples_for
    from specverify.reports import scientific, table

    _refuse(arguments, ("profile", "only", "require", "verbose"), "--cells")
    cells, checks = arguments.cells, 64 if arguments.checks is None else arguments.checks
    alpha = _plan_options(arguments).get("alpha", _ALPHA)
    level = check_level(alpha, checks)
    if arguments.tv is not None:
        _refuse(arguments, ("samples",), "--tv")
        sizes: Sequence[int] = [samples_for(arguments.tv, cells, level)]
    elif arguments.samples is not None and arguments.samples < 1:
        raise ConfigError(f"expected --samples of 1 or more, got {arguments.samples}; leave it out for a table")
    else:
        sizes = _SAMPLE_SIZES if arguments.samples is None else [arguments.samples]
    rows = [(f"{n:,}", f"{detectable_tv(n, cells, level):.3g}") for n in sizes]
    shared = f"alpha {scientific(alpha)} shared by {_count(checks, 'check')}"
    return f"One check with {_count(cells, 'cell')}, {shared}, caught with probability 0.9:\n" + table(
        [("samples", "total variation"), *rows], left=0
    )


def _power_of_plan(arguments: argparse.Namespace) -> str:
    """Give the plan's largest detectable error of every check and size class, or all of them."""
    from specverify.plan import plan
    from specverify.registry import load
    from specverify.reports import table

    _refuse(arguments, ("tv", "checks"), "TARGET")
    options = _plan_options(arguments)
    planned = plan(load(arguments.target), **options)
    rows = planned.describe()
    if arguments.verbose:
        lines = [(row["check"], *_power_row(row)) for row in rows]
        return table([("check", *_POWER_COLUMNS), *lines], left=2)
    sizes = {run.name: run.planned.size_class for run in planned.runs}
    tables = [
        table([(name, *_POWER_COLUMNS), *((key, *_power_row(row)) for key, row in worst.items())], left=2)
        for name, worst in (
            ("check", _worst(rows, lambda row: str(row["check"]))),
            ("size class", _worst(rows, lambda row: sizes[row["case"]])),
        )
    ]
    text = "Worst case of each, --verbose for all; caught with probability 0.9:\n\n" + "\n".join(tables)
    return text + _known_faults(planned)


def _known_faults(planned: "Plan") -> str:
    """Say which known faults the plan could miss, and how many it would find; nothing where none are compared."""
    if not planned.faults:
        return ""
    from specverify.foreseen import foresee
    from specverify.reports import table

    found = foresee(planned)
    weak = [fault for fault in found if fault.power < SURE]
    text = f"\nOf {len(found)} known faults {len(found) - len(weak)} are found with probability {SURE} or more."
    rows = [(f.fault, f.case, f"{f.power:.2g}", f"{f.rows:.2g}") for f in weak]
    others = " The others:\n\n" + table([("fault", "case", "power", "rows needed"), *rows], left=2)
    return text + (others if rows else "\n")


def _worst(rows: Sequence[dict[str, Any]], key: Callable[[dict[str, Any]], str]) -> dict[str, dict[str, Any]]:
    """Give by key the row with the largest detectable total variation."""
    worst: dict[str, dict[str, Any]] = {}
    for row in rows:
        held = worst.setdefault(key(row), row)
        if row["detectable_tv"] > held["detectable_tv"]:
            worst[key(row)] = row
    return worst


def _power_row(row: dict[str, Any]) -> tuple[str, ...]:
    return str(row["case"]), f"{row['n']:,}", str(row["cells"]), f"{row['detectable_tv']:.2g}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
