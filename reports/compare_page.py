"""The matrix of samplers by checks as one page: no script, nothing from the network, readable in light and dark."""

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from .comparison import ABSENT, columns_of, rows_of
from .claims import Document
from .text import squeezed

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["compare_html"]

_NAME: Final = 28
_STATUSES: Final = {
    "passed": ("✓", "passed"),
    "failed": ("✗", "failed"),
    "error": ("!", "error"),
    "inconclusive": ("?", "inconclusive"),
    "not_applicable": ("n/a", "not applicable"),
    "known_failure": ("k", "known failure"),
    ABSENT: ("", "not in that report"),
}


def compare_html(documents: Sequence[Document], sources: Sequence[str]) -> str:
    """Give the matrix of samplers by checks as an HTML page.

    Args:
        documents: report documents, one or more.
        sources: the file of each.

    Returns:
        the page. Ten reports fit a window of 1280 pixels; on a narrow one the matrix alone scrolls.

    Example:
        >>> compare_html([], []).startswith("<!doctype html>")
        True
    """
    reports = columns_of(documents, sources)
    return _template().render(reports=reports, rows=list(rows_of(reports)), statuses=_STATUSES) + "\n"


@cache
def _template() -> "Template":
    """Load the template when a page is wanted: its engine is no part of the other forms."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["squeezed"] = lambda text: squeezed(text, _NAME)
    return environment.from_string(resources.files(__package__).joinpath("compare.html").read_text(encoding="utf-8"))
