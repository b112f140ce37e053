"""The matrix of samplers by checks as one page: no script, nothing from the network, readable in light and dark."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from .claims import Document
from .comparison import columns_of, rows_of
from .statuses import STATUSES
from .templates import template
from .text import squeezed

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["compare_html"]

_NAME: Final = 28


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
    return _template().render(reports=reports, rows=list(rows_of(reports)), statuses=STATUSES) + "\n"


@cache
def _template() -> "Template":
    return template("compare.html", {"squeezed": lambda text: squeezed(text, _NAME)})
