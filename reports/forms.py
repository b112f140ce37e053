"""Every form that a report can take is named here, once, and whoever writes one to a file does it through here."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specverify.errors import ConfigError
from specverify.wording import brief

from .claims import Document
from .compare import compare_markdown
from .compare_page import compare_html
from .html import html
from .junit import junit
from .markdown import markdown

__all__ = ["FORMS", "Form", "save"]


@dataclass(frozen=True)
class Form:
    """A form that reports can take.

    Attributes:
        what: what it is, in a few words.
        suffix: how the name of such a file ends, with the dot.
        write: gives the text of one report document in this form.
        compare: gives the text that compares several, each named by its file; None where the form has no such text.

    Example:
        >>> FORMS["junit"].what, FORMS["junit"].suffix, FORMS["junit"].compare
        ('JUnit XML', '.xml', None)
    """

    what: str
    suffix: str
    write: Callable[[Document], str]
    compare: Callable[[Sequence[Document], Sequence[str]], str] | None = None

    def comparison(self, documents: Sequence[Document], sources: Sequence[str]) -> str:
        """Give the text that compares several reports.

        Raises:
            ConfigError: this form has none.
        """
        if self.compare is None:
            raise ConfigError(f"expected a form that compares reports, got {self.what}; take HTML or Markdown")
        return self.compare(documents, sources)


def save(text: str, path: str | Path) -> None:
    """Write text to a UTF-8 file; a file that cannot be written whole is not left behind.

    Args:
        text: any text without lone surrogates.
        path: a file, in a folder that exists.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        _write(Path(path), text.encode("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot write the report to {brief(str(path))}: {error.strerror}; name a file in a folder you can write to"
        ) from error


def _write(file: Path, data: bytes) -> None:
    with file.open("wb") as stream:
        try:
            stream.write(data)
            stream.flush()
        except BaseException:
            if file.is_file():  # a device stays
                file.unlink()
            raise


def _json(document: Document) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


FORMS: Final[Mapping[str, Form]] = {
    "json": Form("the report document", ".json", _json),
    "html": Form("an HTML page", ".html", html, compare_html),
    "markdown": Form("Markdown, for the step summary of a GitHub workflow", ".md", markdown, compare_markdown),
    "junit": Form("JUnit XML", ".xml", junit),
}
"""Name of each form, which is also that of its option on the command line, to how it is written."""
