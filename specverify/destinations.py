"""Where the forms of a report go is settled before any work: a path that cannot be written to costs no run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from specverify.errors import ConfigError
from specverify.folders import absolute
from specverify.output import say
from specverify.wording import brief

if TYPE_CHECKING:
    from specverify.reports import Form

__all__ = ["STDOUT", "deliver", "destinations"]

STDOUT: Final = "-"
"""What is given in place of a path for standard output."""


def destinations(arguments: argparse.Namespace, *, sources: Sequence[str] = ()) -> dict[str, str]:
    """Give the path of every form that was asked for.

    Args:
        arguments: what was typed, with the path, or None, under the name of each form.
        sources: files that are read, and so may not be written.

    Returns:
        name of the form to path, in the order of ``FORMS``, absolute: a sampler may change the working directory.

    Raises:
        ConfigError: A path cannot be written to, is given twice, or is that of a source, or the working directory that
            it is relative to is not there any more.

    Example:
        >>> destinations(argparse.Namespace(html="-", json=None))
        {'html': '-'}
    """
    from specverify.reports import FORMS

    typed = {form: getattr(arguments, form, None) for form in FORMS}
    places = {form: path for form, path in typed.items() if path is not None}
    taken = {_file(source) for source in sources}
    for form, path in places.items():
        if _file(path) in taken:
            raise ConfigError(
                f"expected a file of its own for --{form}, got {brief(path)}, which is in use; name another one"
            )
        taken.add(_file(path))
        _require_writable(path)
    return {form: path if path == STDOUT else absolute(path) for form, path in places.items()}


def deliver(places: Mapping[str, str], write: Callable[[Form], str], stdout: TextIO | None) -> None:
    """Write every form to its place.

    Args:
        places: name of the form to path.
        write: gives the text of a form.
        stdout: the stream that "-" stands for.

    Raises:
        ConfigError: A place cannot be written to after all.

    Example:
        >>> deliver({}, lambda form: form.what, None)
    """
    from specverify.reports import FORMS, save

    for form, path in places.items():
        text = write(FORMS[form])
        if path == STDOUT:
            say(text, stdout)
        else:
            save(text, path)


def _file(path: str) -> str:
    """Give what a path leads to, which other paths may lead to as well."""
    return path if path == STDOUT else realpath(absolute(path))


def _require_writable(path: str) -> None:
    if path == STDOUT:
        return
    file = Path(realpath(path))  # what a link names, so that the link stays
    try:
        existed = file.exists()
        if existed and not file.is_file() and not file.is_dir():
            return  # a pipe or a device: opening it would already be use
        file.open("a").close()
    except OSError as error:
        raise ConfigError(
            f"cannot write the report to {brief(path)}: {error.strerror}; name a file in a folder you can write to"
        ) from error
    if not existed:
        file.unlink()
