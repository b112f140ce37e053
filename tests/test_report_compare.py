"""Reports side by side: ten fit a screen, columns are told apart, and names cannot break the matrix."""

import copy
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from foreign_text import FOREIGN, filled

from specverify.errors import ConfigError
from specverify.reports import FORMS, compare
from specverify.wording import printable

Document = dict[str, Any]
DATA = Path(__file__).parent / "data"
WIDE = {0x1F389: 2, 0x6F22: 2, 0x5B57: 2, 0x200D: 0, 0xFE0F: 0, 0x301: 0}


@pytest.fixture(scope="module")
def failed() -> Document:
    """A report of a sampler that redraws from the target, as a run wrote it."""
    document: Document = json.loads((DATA / "report-1.0.json").read_text(encoding="utf-8"))
    return document


def changed(document: Document, name: str, **options: Any) -> Document:
    """Copy a report, with another name and other options."""
    document = copy.deepcopy(document)
    document["sampler"].update(name=name, dtype="d" * 300)
    document["options"].update(options)
    return document


def page(documents: list[Document], sources: list[str]) -> str:
    """Give the comparison as a page."""
    return FORMS["html"].comparison(documents, sources)


def test_ten_reports_fit_120_columns(failed: Document) -> None:
    """Names of any length and of wide letters leave every line within 120 columns, and no column touches another."""
    names = [f"company.kernels.rejection_v{number}:verify_bf16" for number in range(8)] + ["漢字" * 40, "n" * 10_000]
    lines = compare([changed(failed, name) for name in names], ["/a/long/path" * 20 + "/r.json"] * 10).splitlines()
    assert max(sum(WIDE.get(ord(letter), 1) for letter in line) for line in lines) <= 120
    assert lines[0].split() == [f"({number})" for number in range(1, 11)]
    assert all("  " in line for line in lines[:25])
    assert re.fullmatch(r"SV-TOK-001(?: +FAIL){10}", lines[2 + 5 + 4])


def test_the_matrix_has_the_verdicts_the_errors_and_the_versions(failed: Document) -> None:
    """Rows are facts and checks, columns are reports, words are those of the legend."""
    good = json.loads((DATA / "conformant.json").read_text(encoding="utf-8"))
    good["sampler"]["version"] = "2.13.0"
    text = compare([good, failed], ["good.json", "bad.json"])
    rows = {line[:14].strip(): line[14:].split("  ") for line in text.splitlines() if line[:2] != "(1"}
    cells = {name: [cell.strip() for cell in row if cell.strip()][:2] for name, row in rows.items()}
    assert cells["verdict"] == ["conform.", "NONCONF."]
    assert cells["lossless"] == ["yes", "no"]
    assert cells["detectable TV"] == ["0.012", "-"]
    assert cells["version"] == ["2.13.0", "-"]
    assert cells["specverify"] == ["0.1.0", "0.1.0"]
    assert cells["SV-TOK-001"] == ["ok", "FAIL"]
    assert cells["SV-SUP-002"][0] == "FAIL"  # the first report lacks it
    assert cells["SV-DRF-001"][0] == "n/a"
    assert "ok passed, FAIL failed" in text
    order = [line[:10] for line in text.splitlines() if line.startswith("SV-")]
    assert order == [check["id"] for check in failed["checks"]]


def test_one_sampler_run_twice_is_two_columns(failed: Document) -> None:
    """The key tells seeds and files apart, in every form."""
    documents, sources = [failed, changed(failed, "naive-redraw", seed=7)], ["first.json", "second.json"]
    for text in (
        compare(documents, sources),
        page(documents, sources),
        FORMS["markdown"].comparison(documents, sources),
    ):
        assert text.index("(1)") < text.index("(2)")
        assert text.index("seed 0") < text.index("seed 7")
        assert text.index("first.json") < text.index("second.json")


def test_more_than_ten_go_on_below(failed: Document) -> None:
    """The eleventh report begins another block of the same rows."""
    lines = compare([failed] * 12, [f"{number}.json" for number in range(12)]).splitlines()
    assert sum(line.startswith("SV-TOK-001") for line in lines) == 2
    assert ["(11)", "(12)"] in [line.split() for line in lines]
    assert any(line.startswith("(12)") and line.endswith("11.json") for line in lines)


class Matrix(HTMLParser):
    """The cells of the first table of a page, and whatever the page would load or run."""

    VOID = ("meta", "link", "img", "br", "base", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.tables = 0
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open rows and cells, and note what reaches outside."""
        given = dict(attrs)
        self.outside += [tag] if tag in ("script", "link", "img", "iframe", "object", "base") else []
        self.outside += [name for name in given if name in ("src", "href", "srcset", "style") or name.startswith("on")]
        self.tables += tag == "table"
        if tag not in self.VOID:
            self.open.append(tag)
        if self.tables == 1 and tag == "tr":
            self.rows.append([])
        if self.tables == 1 and tag in ("td", "th"):
            assert tag == "td" or given["scope"] in ("row", "col")
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        """Every element closes the one that was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Add text to the cell that is open."""
        if self.tables == 1 and self.rows and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


@pytest.mark.parametrize("name", FOREIGN)
def test_the_page_is_one_safe_file(name: str, failed: Document) -> None:
    """Whatever the names are, the table has its cells, nothing runs and nothing is loaded."""
    text = page([filled(failed, FOREIGN[name]), failed], [FOREIGN[name], "b.json"])
    matrix = Matrix(text)
    assert not matrix.open
    assert not matrix.outside
    assert {len(row) for row in matrix.rows} == {3}
    assert len(matrix.rows) == 1 + 5 + len(failed["checks"])
    assert "url(" not in text
    assert "@import" not in text
    assert len(text) < 200_000


def test_the_page_says_words_where_it_shows_signs(failed: Document) -> None:
    """A status is read out as a word, and both schemes of colours are there."""
    text = page([failed], ["a.json"])
    cells = {row[0].split()[0]: row[1] for row in Matrix(text).rows[1:]}
    assert (cells["SV-TOK-001"], cells["SV-DRF-001"]) == ("✗failed", "n/anot applicable")
    assert cells["verdict"].replace("\u00ad", "") == "nonconformant"
    assert "prefers-color-scheme: dark" in text
    assert text.startswith('<!doctype html>\n<html lang="en">')


@pytest.mark.parametrize("name", FOREIGN)
def test_the_terminal_stays_plain(name: str, failed: Document) -> None:
    """Names and file names bring no control character and no line of their own."""
    text = compare([filled(failed, FOREIGN[name]), failed], [FOREIGN[name], "b.json"])
    assert printable(text, lines=True) == text
    assert sum(line.startswith("SV-TOK-001") for line in text.splitlines()) == 1
    assert text.splitlines()[0].split() == ["(1)", "(2)"]


def test_a_form_without_a_comparison_says_so(failed: Document) -> None:
    """JUnit and JSON hold one report."""
    with pytest.raises(ConfigError, match="expected a form that compares reports, got JUnit XML"):
        FORMS["junit"].comparison([failed], ["a.json"])
