"""Foreign text is shown short and harmless: no endless line, no control character, no repr that raises."""

from __future__ import annotations

import re

__all__ = ["brief", "clip", "printable", "times", "told"]

_DIRECTION = "\u202a-\u202e\u2066-\u2069"  # these make a terminal show text in another order than it is written
_CONTROLS = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_DIRECTION}\ud800-\udfff]")


def clip(text: str, limit: int) -> str:
    """Cut a text after so many characters and say how many it had.

    Example:
        >>> clip("abcdef", 3)
        'abc... (6 characters)'
    """
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text):,} characters)"


def times(count: int) -> str:
    """Say how often.

    Example:
        >>> times(1), times(1200)
        ('once', '1,200 times')
    """
    return "once" if count == 1 else f"{count:,} times"


def printable(text: str, *, lines: bool = False) -> str:
    r"""Escape what would act on a terminal or cannot be encoded; letters of all languages and emoji stay.

    Args:
        text: Any text.
        lines: Keep newlines and tabs.

    Example:
        >>> print(printable("\x1b[31mé\n"))
        \x1b[31mé\n
    """
    kept = "\n\t" if lines else ""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in kept else ascii(found[0])[1:-1], text)


def brief(value: object, limit: int = 100) -> str:
    """Give the repr of anything in one short line, also where the repr itself fails.

    Example:
        >>> brief("a" * 500, limit=4)
        "'aaa... (502 characters)"
    """
    try:
        text = repr(value)
    except Exception:  # a foreign class may do anything
        text = f"<{type(value).__name__} object>"
    return clip(printable(" ".join(text.split())), limit)


def told(error: BaseException, limit: int = 500) -> str:
    r"""Give the type and the message of an exception in one line.

    Example:
        >>> told(ValueError("two\nlines"))
        'ValueError: two lines'
    """
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:  # a foreign class may do anything
        text = ""
    text = clip(printable(" ".join(text.split())), limit)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
