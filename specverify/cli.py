"""Whoever types a command gets an answer in plain words and an exit status that a script can trust.

Exit status: 0 conformant, 1 nonconformant (or a known failure that no longer holds), 2 wrong use or a sampler that
cannot be loaded (or an error of the kit itself), 3 inconclusive or nothing ran, 130 interrupted. The commands are in
``specverify.commands``; nothing of the engine is imported before a command needs it.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

import specverify
from specverify.errors import SpecverifyError
from specverify.output import complain, require_open, say
from specverify.wording import clip, printable, told

__all__ = ["main"]

_PROFILES: Final = ("quick", "ci", "release")
_LISTS: Final = ("samplers", "checks", "faults", "cases", "rules")
_LONGEST: Final = 500
_TARGET: Final = "package.module:name, path/to/file.py:name, or a name from 'specverify list samplers'"
_CHECK: Final = "Check a sampler. Options left out are those of [tool.specverify] in pyproject.toml, if it has them."
_READ: Final = "exit status: 0 done, 2 wrong use, or a file that is no readable report"
_STATUS: Final = "exit status: 0 conformant, 1 nonconformant, 2 wrong use or load error, 3 inconclusive or nothing ran"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; those of the process when left out.

    Returns:
        the exit status. An error of the kit itself is one line and status 2, with SPECVERIFY_DEBUG set a traceback.
    """
    try:
        return _run(argv)
    except SpecverifyError as error:
        complain(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        complain("interrupted, nothing was decided")
        return 130
    except Exception as error:
        if os.environ.get("SPECVERIFY_DEBUG"):
            raise
        complain(f"internal error: {told(error)}; please report it with the command")
        return 2


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as ended:
        if not ended.code:  # it has printed the help or the version
            say("", sys.stdout)
        raise
    require_open(sys.stdout)
    from specverify.commands import COMMANDS

    return COMMANDS[arguments.command](arguments)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors echo no endless or active text."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(clip(message, _LONGEST)))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="specverify",
        description="Decide whether a speculative-decoding sampler follows its target distribution.",
        epilog=_STATUS,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"specverify {specverify.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_check(
        commands.add_parser("check", help="check a sampler", description=_CHECK, epilog=_STATUS, allow_abbrev=False)
    )
    _add_report(commands.add_parser("report", help="show or convert a stored report", epilog=_READ, allow_abbrev=False))
    _add_compare(commands.add_parser("compare", help="compare stored reports", epilog=_READ, allow_abbrev=False))
    _add_list(commands.add_parser("list", help="list what there is", allow_abbrev=False))
    _add_explain(commands.add_parser("explain", help="explain a check, fault, rule or case", allow_abbrev=False))
    _add_power(commands.add_parser("power", help="say what would be caught with how many samples", allow_abbrev=False))
    return parser


def _add_check(parser: argparse.ArgumentParser) -> None:
    from specverify.reports import FORMS

    parser.add_argument("target", metavar="TARGET", help=_TARGET)
    _add_plan(parser)
    parser.add_argument("--target-tv", type=float, metavar="TV", help="detectable total variation needed")
    parser.add_argument("--seed", type=int, help="root of all randomness: same seed, same counts (0)")
    _add_forms(parser, FORMS)
    parser.add_argument(
        "--known-failures",
        metavar="FILE",
        help="TOML of tolerated failures: reasons by check, or a table of them by sampler",
    )
    parser.add_argument("--time-limit", type=float, metavar="S", help="after so many seconds, end as inconclusive")
    parser.add_argument("--timeout", type=float, metavar="S", help="fail a call that hangs so long or ends its process")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that share the work; same counts (1)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every check, not the failed ones alone")


def _add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the options that set the plan of a run, for 'check' and for 'power TARGET'."""
    parser.add_argument("--profile", choices=_PROFILES, help="how many samples (quick)")
    parser.add_argument("--alpha", type=float, help="most that false alarms may be per run (1e-6)")
    parser.add_argument("--only", type=_ids, metavar="ID,...", help="run these checks only")
    parser.add_argument("--require", choices=("lossless", "rule"), help="what the verdict rests on (rule, if declared)")
    parser.add_argument(
        "--samples", type=int, metavar="N", help="rows of every case, instead of those of the profile (the profile's)"
    )


def _add_report(parser: argparse.ArgumentParser) -> None:
    from specverify.reports import FORMS

    parser.add_argument("file", metavar="RESULT.json", help="a report written by 'specverify check --json'")
    _add_forms(parser, [name for name in FORMS if name != "json"])
    parser.add_argument("-v", "--verbose", action="store_true", help="show every check, not the failed ones alone")


def _add_compare(parser: argparse.ArgumentParser) -> None:
    from specverify.reports import FORMS

    parser.add_argument("files", metavar="RESULT.json", nargs="+", help="reports written by 'specverify check --json'")
    _add_forms(parser, [name for name, form in FORMS.items() if form.compare])


def _add_forms(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add an option for each form that can be written; without any the answer is text on the terminal."""
    from specverify.reports import FORMS

    for name in names:
        parser.add_argument(f"--{name}", metavar="FILE", help=f"write {FORMS[name].what}; - for standard output")


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=_LISTS, metavar="WHAT", help=", ".join(_LISTS))
    parser.add_argument("--json", action="store_true", help="print JSON: name to description")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id or name of a check, fault, rule or case")


def _add_power(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", nargs="?", help=f"plan of a whole run: {_TARGET}")
    parser.add_argument("--cells", type=int, metavar="K", help="one check with K cells")
    parser.add_argument("--tv", type=float, metavar="TV", help="with --cells: samples that catch this total variation")
    parser.add_argument("--checks", type=int, metavar="M", help="with --cells: checks sharing alpha (64)")
    _add_plan(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="with TARGET: show every check on every case")


def _ids(text: str) -> tuple[str, ...]:
    """Split at commas; a text without any id is kept as an id that nothing has, since no ids at all would mean all."""
    return tuple(part for part in (piece.strip() for piece in text.split(",")) if part) or (text,)


if __name__ == "__main__":
    sys.exit(main())
