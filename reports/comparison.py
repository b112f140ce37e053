"""One look tells which sampler fails where: several reports are one matrix, of which each form is a view.

Columns are reports and rows are checks. A column is told by its number, since names repeat where one sampler was run
twice; the key says what each number stands for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from specverify.wording import printable

from .claims import Document, shown
from .statuses import ABSENT
from .text import number

__all__ = ["Column", "Row", "columns_of", "rows_of"]

_FACTS: Final = {
    "verdict": "what was found",
    "lossless": "whether the output follows the target",
    "detectable TV": "smallest error that would have been caught",
    "version": "of the sampler's package",
    "specverify": "version that wrote the report",
}
_ANSWERS: Final = {True: "yes", False: "no", None: "open"}


@dataclass(frozen=True)
class Column:
    """One report of a comparison.

    Attributes:
        number: its place, from 1.
        document: the document, harmless to show.
        source: the file that it was read from.
    """

    number: int
    document: Document
    source: str

    @property
    def name(self) -> str:
        """The sampler's name."""
        return str(self.document["sampler"]["name"])

    @property
    def details(self) -> str:
        """What tells this run from another one of the same sampler."""
        sampler, options = self.document["sampler"], self.document["options"]
        run = f"{options['profile']}, seed {options['seed']}, {sampler['dtype']} on {sampler['device']}"
        return f"{run}, {self.document['created'].replace('T', ' ')[:16]}"

    def fact(self, name: str) -> str:
        """What stands in one of the rows above the checks."""
        facts: dict[str, str] = {
            "verdict": self.document["verdict"],
            "lossless": _ANSWERS[self.document["lossless"]],
            "detectable TV": number(self.document["detectable_tv"]["value"], ".2g"),
            "version": self.document["sampler"]["version"] or "-",
            "specverify": self.document["tool"]["version"],
        }
        return facts[name]

    def status(self, check: str) -> str:
        """The status of a check, or ``ABSENT``."""
        return next((str(entry["status"]) for entry in self.document["checks"] if entry["id"] == check), ABSENT)


@dataclass(frozen=True)
class Row:
    """One row of a comparison.

    Attributes:
        name: a fact about whole reports, or the id of a check.
        title: what the check is, or what the fact means.
        cells: what stands in each column: text, or the status of the check.
        is_check: whether it is a check.
    """

    name: str
    title: str
    cells: Sequence[str]
    is_check: bool = True


def columns_of(documents: Sequence[Document], sources: Sequence[str]) -> list[Column]:
    """Number the reports, in the order in which they are given.

    Args:
        documents: report documents, one or more.
        sources: the file of each.

    Example:
        >>> columns_of([], [])
        []
    """
    pairs = enumerate(zip(documents, sources, strict=True), start=1)
    return [Column(place, shown(document), printable(source)) for place, (document, source) in pairs]


def rows_of(columns: Sequence[Column]) -> Iterator[Row]:
    """Give the rows: verdict, detectable error and versions first, then every check that any of the reports has.

    Args:
        columns: the reports.

    Example:
        >>> [row.name for row in rows_of([])][:3]
        ['verdict', 'lossless', 'detectable TV']
    """
    for name, meaning in _FACTS.items():
        yield Row(name, meaning, [column.fact(name) for column in columns], is_check=False)
    longest = sorted(columns, key=lambda column: -len(column.document["checks"]))
    titles = {check["id"]: check["title"] for column in longest for check in column.document["checks"]}
    for check, title in titles.items():
        yield Row(check, title, [column.status(check) for column in columns])
