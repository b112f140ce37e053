"""A report in Markdown is GitHub's: whatever a sampler says is shown as text, and the length stays within the limit."""

import copy
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from cmarkgfm import github_flavored_markdown_to_html
from cmarkgfm.cmark import Options
from foreign_text import FOREIGN, HARMLESS, filled

from specverify.reports import FORMS, markdown
from specverify.wording import clip, printable

Document = dict[str, Any]
DATA = Path(__file__).parent / "data"
KEPT = {
    *["h2", "h3", "p", "strong", "ul", "li", "code", "span", "br"],
    *["table", "thead", "tbody", "tr", "th", "td", "pre", "details", "summary"],
}


@pytest.fixture(scope="module")
def failed() -> Document:
    """A report of a sampler that redraws from the target, as a run wrote it."""
    document: Document = json.loads((DATA / "report-1.0.json").read_text(encoding="utf-8"))
    return document


class Page(HTMLParser):
    """What a browser makes of a text: the elements in their order, and the words between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.words = ""
        self.open: list[str] = []
        self.feed(github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element with its attributes; line breaks and the joints of references carry no structure."""
        if tag not in ("br", "span"):
            self.elements.append(" ".join([tag, *(f"{name}={value}" for name, value in attrs)]))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Every element closes the one that was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Collect the text."""
        self.words += data


def readable(text: str) -> str:
    """Give the letters of a text without the spaces between them."""
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_text_is_shown_as_text(name: str, failed: Document) -> None:
    """GitHub's own parser makes the same elements of every text, and all of the text is there to read."""
    text = FOREIGN[name]
    page, plain = Page(markdown(filled(failed, text))), Page(markdown(filled(failed, HARMLESS)))
    assert page.elements == plain.elements
    assert not page.open
    assert {element.split()[0] for element in page.elements} <= KEPT
    messages = sum(check["status"] == "failed" for check in failed["checks"])
    assert readable(page.words).count(readable(printable(clip(text.strip(), 4000), lines=True))) >= messages
    assert readable(page.words).count(readable(printable(clip(text, 4000)))) >= len(failed["warnings"])


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_text_in_a_comparison_is_shown_as_text(name: str, failed: Document) -> None:
    """The matrix keeps its rows and columns whatever the names are, and the key has the name."""
    compare = FORMS["markdown"].compare
    assert compare is not None
    text = FOREIGN[name]
    page = Page(compare([filled(failed, text), failed], [text, "b.json"]))
    plain = Page(compare([filled(failed, HARMLESS), failed], [HARMLESS, "b.json"]))
    assert page.elements == plain.elements
    assert readable(printable(clip(text, 100))) in readable(page.words)


def test_the_first_lines_are_verdict_and_coverage(failed: Document) -> None:
    """Who reads two lines knows what was found and how much was looked at; the rest follows by weight."""
    text = markdown(failed)
    lines = [line for line in text.splitlines() if line]
    assert lines[0] == '## ❌ <code dir="auto">naive-redraw</code>'
    assert lines[1].startswith("**Verdict:** NONCONFORMANT. Its output does not follow the target; a correct sampler")
    assert lines[2].startswith("- **Checks:** 21 of 22 checks ran on 34 cases")
    order = ["### Failed: 11 of 22", "### What it looks", "### Smallest case", "Reproduce:", "### Speed", "<details>"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "```\nspecverify.check(naive-redraw, profile='quick'" in text


def test_speed_is_never_told_without_the_failure(failed: Document) -> None:
    """The numbers of a sampler whose output is wrong, or not known to be right, come after that fact."""
    for lossless, warning in ((False, "failed losslessness"), (None, "not decided"), (True, "")):
        speed = markdown({**failed, "lossless": lossless}).partition("### Speed")[2].partition("<details>")[0]
        assert warning in speed
        assert "80% is not 80% faster" in speed
        assert ("these numbers are no speed" in speed) == (lossless is not True)
        assert "| block rule | 2.34 |" in speed
        assert "| 0.05 | - | 2.20 |" in speed
    assert "### Speed" not in markdown({**failed, "acceptance": None})


def test_every_check_has_a_row(failed: Document) -> None:
    """The table of all checks is behind a fold, with the word of each status beside its sign."""
    table = markdown(failed).partition("<details>")[2]
    for check in failed["checks"]:
        (row,) = (line for line in table.splitlines() if f" {check['id']} " in line)
        assert check["status"].replace("_", " ") in row


def many(document: Document, count: int, text: str) -> Document:
    """Give a report with so many failed checks, each with a long message."""
    document = copy.deepcopy(document)
    check = {**document["checks"][4], "status": "failed", "message": text}
    document["checks"] = [{**check, "id": f"SV-TOK-{number:03}"} for number in range(count)]
    return document


def test_a_long_report_is_cut_by_section_and_says_so(failed: Document) -> None:
    """The bytes stay below 1 MiB, every section is still there, and what is left out is counted."""
    text = markdown(many(failed, 200, "<é" * 2000))
    assert 500_000 < len(text.encode()) < 1024 * 1024
    (left_out,) = re.findall(r"Of 200 failed checks (\d+) are left out; the report document has all\.", text)
    assert text.count("- **SV-TOK-") == 200 - int(left_out)
    for part in ("### What it looks", "### Smallest case", "### Speed", "All 200 checks", "</details>"):
        assert part in text
    assert text.count("| SV-TOK-") == 200
    assert not Page(text).open


def test_every_section_is_cut_with_a_note(failed: Document) -> None:
    """With little room each section that lost something says how much; nothing is left open."""
    text = markdown(many(filled(failed, "w" * 300), 30, "m" * 300), limit=12_000)
    assert len(text.encode()) <= 12_000
    assert re.search(r"Of 30 failed checks \d+ are left out", text)
    assert re.search(r"Of 30 checks \d+ are left out", text)
    page = Page(text)
    assert not page.open
    assert "details" in page.elements
    assert "left out" not in markdown(failed)


def test_what_later_versions_add_is_shown(failed: Document) -> None:
    """The best draft length and the bounds, which version 1.0 did not have, stand beside what it had."""
    found = {"headroom_bounds": {"full_joint": 2.5, "one_draft": 1.6, "two_drafts": 1.8}, "headroom_observed": 2.2}
    model = [{"draft_cost": 0.05, "speedup": 2.2, "num_draft_tokens": 6}]
    text = markdown({**failed, "acceptance": {**failed["acceptance"], **found, "speedup_model": model}})
    for line in (
        "| this sampler, observed | 2.2 |",
        "| bound at one position, one draft | 1.6 |",
        "| 0.05 | 6 | 2.20 |",
    ):
        assert line in text
