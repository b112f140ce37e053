"""What a command prints arrives, or the user is told why not: no stream that cannot be written to ends in a crash."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from specverify.errors import ConfigError
from specverify.wording import clip, printable, told

__all__ = ["aside", "complain", "require_open", "say"]

LONGEST_LINE = 1000


def require_open(stream: TextIO | None) -> TextIO:
    """Give the standard output back, or refuse it before any work is done.

    Raises:
        ConfigError: It was closed before the command began.
    """
    if stream is None or stream.closed:
        raise ConfigError("cannot write to standard output: it is closed; redirect it to a file or to /dev/null")
    return stream


def say(text: str, stream: TextIO | None) -> None:
    """Write to a stream whose encoding may be poor and whose reader may have gone; None is a closed stream.

    Raises:
        ConfigError: It cannot be written to.
    """
    stream = require_open(stream)
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        _discard(stream)
    except (OSError, ValueError) as error:
        _discard(stream)
        raise ConfigError(f"cannot write the output ({told(error)}); redirect it to a file or to /dev/null") from error


def aside(text: str, stream: TextIO | None) -> None:
    """Write what is worth reading but not worth failing for: where it cannot be written, nothing happens."""
    with contextlib.suppress(ConfigError):
        say(text, stream)


def complain(line: str) -> None:
    """Write one line to standard error; what cannot be said there cannot be said at all."""
    aside(f"specverify: {printable(clip(line, LONGEST_LINE))}\n", sys.stderr)


def _discard(stream: TextIO) -> None:
    """Let what is still buffered go nowhere: the interpreter would try to write it again at its end, and complain."""
    with contextlib.suppress(OSError, ValueError):
        nowhere, number = os.open(os.devnull, os.O_WRONLY), stream.fileno()
        if nowhere != number:  # they are the same where the number was free
            os.dup2(nowhere, number)
            os.close(nowhere)
