"""The HTML report is one whole, safe file that says what the document says, with pictures or without."""

import hashlib
import json
import re
import subprocess
import sys
from importlib import import_module
from itertools import pairwise

import matplotlib
import pytest
from pages import HEADINGS, Page
from report_documents import SAMPLERS, Document, as_of_1_0, as_of_1_1, document

from specverify.lengths import speedup
from specverify.reports import html, junit, markdown, render, render_check

speed = import_module("specverify.reports.speed")
HOSTILE = "<script>alert(1)</script> \" ' & </bdi> {{ 7*7 }} $x_1$ 🎉 שלום \u202e\x1b[31m\x00"


@pytest.fixture(scope="module")
def pages() -> dict[str, tuple[str, Page]]:
    """The page of every sampler, as text and as elements."""
    texts = {name: html(document(name)) for name in SAMPLERS}
    return {name: (text, Page(text)) for name, text in texts.items()}


def flat(text: str) -> str:
    """Give text with its white space made single."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_report_of_1_0_has_a_page(name: str, pages: dict[str, tuple[str, Page]]) -> None:
    """What the first version wrote is shown too, without the pictures that it has no numbers for."""
    assert "Evidence against the sampler" in pages[name][0]
    old = html(as_of_1_0(document(name)))
    assert "Evidence against the sampler" not in old
    assert Page(old).with_id("checks").text == "All checks"


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_page_needs_no_other_file_and_runs_nothing(name: str, pages: dict[str, tuple[str, Page]]) -> None:
    """No script, no handler, nothing loaded: every reference leads to a place on the page itself."""
    text, page = pages[name]
    ids = page.ids()
    assert len(ids) == len(set(ids))
    assert not list(page.root.all("script", "link", "img", "iframe", "object", "embed", "base", "form"))
    for element in page.root.all():
        assert not [attribute for attribute in element.attributes if attribute.startswith("on") or attribute == "src"]
        for attribute in ("href", "xlink:href"):
            target = element.attributes.get(attribute, "#main")
            assert target.startswith("#")
            assert target[1:] in ids
        for attribute in ("aria-labelledby", "aria-describedby"):
            assert set(element.attributes.get(attribute, "").split()) <= set(ids)
        for target in re.findall(r"url\(([^)]*)\)", " ".join(element.attributes.values())):
            assert target[1:] in ids
    assert not re.search(r"https?:|@import|//", text.replace("<!doctype html>", ""))


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_page_can_be_walked_without_seeing_it(name: str, pages: dict[str, tuple[str, Page]]) -> None:
    """One h1, headings that skip no level, landmarks, a skip link, named tables with headed columns, named pictures."""
    _, page = pages[name]
    levels = [int(heading.tag[1]) for heading in page.root.all(*HEADINGS)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert [len(list(page.root.all(tag))) for tag in ("header", "nav", "main", "footer")] == [1, 1, 1, 1]
    assert next(page.root.all("body")).children[0].attributes == {"class": "skip", "href": "#main"}
    for table in page.root.all("table"):
        assert next(table.all("caption")).text
        assert all(cell.attributes.get("scope") for cell in table.all("th"))
    for svg in page.root.all("svg"):
        assert svg.attributes["role"] == "img"
        assert all(page.with_id(part).text for part in svg.attributes["aria-labelledby"].split())
    for region in page.root.all("div"):
        if region.attributes.get("role") == "region":
            assert region.attributes["tabindex"] == "0"  # what scrolls can be reached by the keyboard


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_first_screen_says_what_the_terminal_says(name: str, pages: dict[str, tuple[str, Page]]) -> None:
    """The same sentence, coverage and budget, before three checks with a picture each."""
    _, page = pages[name]
    made = document(name)
    first = flat(render(made).split("\n\n")[0]).partition(": ")[2]
    header = flat(next(page.root.all("header")).text)
    assert first.partition(". ")[2] in header
    assert header.casefold().count(f" {made['verdict']}") == 1 + ("is called nonconformant" in header) * (
        made["verdict"] == "nonconformant"
    )
    assert made["verdict"].upper() in next(page.root.all("h1")).text
    assert made["coverage"] in header
    assert "probability at most 1e-9" in header
    cards = list(page.root.all("article"))
    assert len(cards) == 3
    assert all(list(card.all("svg")) for card in cards)


def test_a_wrong_sampler_is_explained(pages: dict[str, tuple[str, Page]]) -> None:
    """Diagnosis, the two-token table and the line to repeat the run stand on the page; speed is taken back."""
    text = flat(pages["naive-redraw"][1].root.text)
    assert "K02: it looks as if the sampler redraws from the target after a rejection" in text
    assert "3/5 2/5" in text
    assert "token 0 0.6000" in text
    assert "specverify check naive-redraw --profile quick --seed 0" in text
    assert "failed losslessness: its output is wrong, so these numbers are no speed" in text
    right = flat(pages["reference"][1].root.text)
    assert "no speed." not in right
    assert "What it looks like" not in right
    assert "The checks with the strongest evidence" in right


def test_the_likely_cause_stands_below_the_verdict(pages: dict[str, tuple[str, Page]]) -> None:
    """Verdict, what it is worth, what it looks like with the way to more: in this order, before all numbers."""
    header = next(pages["naive-redraw"][1].root.all("header"))
    assert [child.tag for child in header.children[:4]] == ["h1", "p", "p", "dl"]
    cause = header.children[2]
    assert flat(cause.text).startswith("Likely cause: K02, it looks as if the sampler redraws from the target")
    assert ". " not in cause.text.strip()  # one sentence; the section below has all of it
    assert cause.text.strip().endswith("the draft's law.")
    assert [link.attributes["href"] for link in cause.all("a")] == ["#diagnosis"]
    right = next(pages["reference"][1].root.all("header"))
    assert [child.tag for child in right.children[:3]] == ["h1", "p", "dl"]


def test_every_failure_says_something(pages: dict[str, tuple[str, Page]]) -> None:
    """The first failures have their message, the others, the combined evidence among them, their numbers."""
    made, page = document("naive-redraw"), pages["naive-redraw"][1]
    entries = [flat(entry.text) for entry in page.root.all("li") if entry.text.startswith("SV-")]
    failed = [check for check in made["checks"] if check["status"] == "failed"]
    assert len(entries) == len(failed) > 10
    assert all(len(entry.partition(": ")[2]) > 5 for entry in entries)
    assert flat(f"Failed: {len(failed)} of {len(made['checks'])} checks") in flat(page.root.text)
    assert entries[-1].startswith("SV-ALL-002 ")
    assert entries[-1].endswith(f"log10 E {failed[-1]['log10_e']:,.1f}")


def with_known_failures(*ids: str) -> Document:
    """Give a report in which some failed checks, or all, are on the list of known failures."""
    made = document("naive-redraw")
    for check in made["checks"]:
        if check["status"] == "failed" and (not ids or check["id"] in ids):
            check |= {"status": "known_failure", "reason": "issue 12"}
    return made


def test_a_known_failure_is_no_strong_evidence_only() -> None:
    """A conformant report with a known failure shows it as what it is, with the reason."""
    made = with_known_failures() | {"verdict": "conformant", "diagnosis": [], "counterexample": None}
    page = Page(html(made))
    text = flat(page.root.text)
    assert flat(next(page.root.all("h1")).text).partition(" but for its known failures (")[2].endswith(" more)")
    assert "The worst checks" in text
    assert "none of it proves a fault" not in text
    assert "Failed:" not in text


def test_known_failures_are_counted_alike_in_every_form() -> None:
    """What is on the list is not among the failures, and is named with its reason, on every form."""
    made = with_known_failures("SV-TOK-001", "SV-RES-001")
    failed = sum(check["status"] == "failed" for check in made["checks"])
    known = sum(check["status"] == "known_failure" for check in made["checks"])
    total = len(made["checks"])
    assert (known, failed > 5) == (2, True)
    for text in (render(made), markdown(made), Page(html(made)).root.text):
        text = flat(re.sub("[*:(]", "", text)).casefold()
        assert f"failed {failed} of {total} checks" in text
        assert f"known failures {known} of {total} checks" in text
        assert text.count("issue 12") >= known


def test_a_law_and_a_weight_read_the_same_in_every_form() -> None:
    """Candidates carry the same weights, quantities the same digits, and what the document lacks is never promised."""
    made = document("naive-redraw")
    made["diagnosis"] = [{**made["diagnosis"][0], "weight": weight, "fault": f"K0{i}"} for i, weight in WEIGHTS]
    made["counterexample"]["p"] = []
    for text in (render(made), markdown(made), Page(html(made)).root.text):
        text = flat(text.replace("&#40;", "("))
        assert "K02 (weight 0.80)" in text
        assert "K03 (weight 0.15)" in text
        assert "K04" not in text
        assert "too large to show" in text
        assert "1.0000" in text


WEIGHTS = [(2, 0.8), (3, 0.15), (4, 0.01)]


def test_what_only_all_evidence_shows_is_no_smallest_case() -> None:
    """Where no case convicts alone, every form says that the case shown has most of the evidence."""
    made = document("naive-redraw")
    made["counterexample"]["shown_by"] = "all evidence"
    for text in (render(made), markdown(made), html(made), junit(made)):
        assert "smallest case that shows it" not in text.casefold()
        assert "case with most of the evidence; only all cases together show the fault" in text.casefold()
    for stored in (document("naive-redraw"), as_of_1_1(made)):
        for text in (render(stored), markdown(stored), html(stored)):
            assert "smallest case that shows it" in text.casefold()


def test_speed_is_told_for_what_it_is(pages: dict[str, tuple[str, Page]]) -> None:
    """Rates are over tested drafts, rules stand beside their bounds, and 80% is said not to be 80% faster."""
    found = document("reference")["acceptance"]
    text = flat(pages["reference"][1].root.text)
    assert (
        f"{found['accepted'] / found['tested']:.1%} were accepted ({found['accepted']:,} of {found['tested']:,})"
        in text
    )
    assert "token rule 2.2310" in text
    assert "bound for every lossless rule with these drafts 2.3730" in text
    assert speed.NOT_FASTER in text
    assert f"{speedup(0.8, 4, 0.05):.2f}" == "2.80"
    assert f"{speedup(0.8, 4, 0.5):.2f}" == "1.12"
    assert "2.80, drafts that cost 0.5 one of 1.12" in speed.NOT_FASTER


def test_a_sampler_of_trees_has_no_speed() -> None:
    """Where no acceptance was measured the page says so, and has no empty tables."""
    made = document("reference")
    made["acceptance"] = None
    text = html(made)
    assert "nothing is said of speed" in text
    assert "Headroom" not in text


def test_doubt_about_losslessness_is_said_beside_speed() -> None:
    """Undecided losslessness, and a rule that is not followed, are said first."""
    made = document("reference")
    made["lossless"] = None
    assert speed.sentences(made)[0].startswith("Whether this sampler is lossless was not decided")
    made["lossless"], made["rule"] = True, {"declared": "token", "conforms": False, "not_rejected": []}
    assert speed.sentences(made)[0] == "It does not follow the rule that it declares (token)."


def hostile(made: Document, text: str) -> Document:
    """Put a text wherever a sampler or its author has a say."""
    made["sampler"] |= {"name": text, "framework": text, "device": text, "version": text}
    made["warnings"] = [text]
    made["rule"]["declared"] = text
    made["detectable_tv"]["case"] = text
    for check in made["checks"]:
        check |= {"message": text, "reason": text, "worst_case": text}
        check["labels"] = [f"{text} {i}" for i in range(len(check["labels"]))]
    for one in made["diagnosis"]:
        one["message"] = text
    if made["counterexample"]:
        made["counterexample"] |= {"case": text, "reproduce": text}
        for side in ("observed", "expected"):
            made["counterexample"][side] = {text: {text: 0.5}}
    return made


@pytest.mark.parametrize("name", ["reference", "naive-redraw"])
def test_text_of_samplers_is_shown_and_does_nothing(name: str) -> None:
    """Tags, quotes and template marks are text; letters and emoji stay; what turns the direction is escaped."""
    text = html(hostile(document(name), HOSTILE))
    page = Page(text)
    assert not list(page.root.all("script"))
    assert "<script>alert(1)</script>" in page.root.text
    assert "{{ 7*7 }} $x_1$ 🎉 שלום \\u202e\\x1b[31m\\x00" in page.root.text
    assert not set("\u202e\x1b\x00") & set(text)
    isolated = [element for element in page.root.all("bdi") if "שלום" in element.text]
    assert len(isolated) > 20
    assert "שלום" not in re.sub(r"<(bdi|title)\b.*?</\1>|<text\b.*?</text>", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("matplotlib_is_there", [True, False])
def test_endless_names_are_cut(matplotlib_is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand characters are shown by their beginning and their number; the page stays small."""
    if not matplotlib_is_there:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
    made = document("naive-redraw")
    made["sampler"]["name"] = "n" * 10_000
    made["checks"][4]["message"] = "m" * 10_000
    made["checks"][4]["labels"] = ["l" * 10_000 for _ in made["checks"][4]["labels"]]
    text = html(made)
    assert "n" * 100 + "... (10,000 characters)" in text
    assert "n" * 101 not in text
    assert "m" * 1501 not in text
    assert len(text) < 300_000


def test_two_hundred_checks_fit_in_a_megabyte() -> None:
    """A long report stays a page that a browser opens at once, whether its checks fail or pass."""
    for name in ("reference", "naive-redraw"):
        made = document(name)
        own = [check for check in made["checks"] if check["labels"]]
        made["checks"] = [{**own[i % len(own)], "id": f"SV-NEW-{i:03}"} for i in range(200)]
        text = html(made)
        Page(text)
        assert text.count('<th scope="row" class="id">SV-NEW-') == 200
        assert len(text.encode()) < 1_000_000


def test_without_matplotlib_tables_say_the_same(
    monkeypatch: pytest.MonkeyPatch, pages: dict[str, tuple[str, Page]]
) -> None:
    """The page without drawings has every table that the other has, the first unfolded, and says what is missing."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = Page(html(document("naive-redraw")))
    drawn = pages["naive-redraw"][1]
    assert not list(page.root.all("svg"))
    assert [table.text for table in page.root.all("table")] == [table.text for table in drawn.root.all("table")]
    assert len(list(drawn.root.all("svg"))) == 6
    card, *others = page.root.all("article")
    assert ["open" in fold.attributes for fold in card.all("details")] == [True]
    assert not any("open" in fold.attributes for other in others for fold in other.all("details"))
    assert not any("open" in fold.attributes for fold in drawn.root.all("details"))


def test_the_words_fit_what_is_shown(monkeypatch: pytest.MonkeyPatch, pages: dict[str, tuple[str, Page]]) -> None:
    """Lines are spoken of where they are drawn; where they are not, ends of intervals are, and how to get pictures."""
    lines, ends, missing = (
        "Lines through the dots",
        "Low and high are the ends of intervals",
        "pictures need matplotlib",
    )
    drawn = pages["reference"][0]
    assert [text in drawn for text in (lines, ends, missing)] == [True, False, False]
    empty = document("reference") | {"checks": [], "acceptance": None}
    empty.pop("evidence")
    assert not any(text in html(empty) for text in (lines, ends, missing))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert [text in html(document("reference")) for text in (lines, ends, missing)] == [False, True, True]


def test_what_is_printed_of_evidence_is_explained_once() -> None:
    """Every form that prints log10 E says what E is, with the threshold of the run; an older report has none to say."""
    made, meaning = document("naive-redraw"), "the factor by which a bet against the sampler has multiplied its stake"
    proof = f"{made['evidence']['threshold']:.1f} or more over all checks proves a fault"
    assert made["evidence"]["threshold"] > 9  # that of alpha 1e-9, not of the usual one
    for text in (
        render(made),
        render(made, verbose=True),
        render_check(made, "SV-TOK-001"),
        markdown(made),
        html(made),
    ):
        assert flat(text).count(meaning) == flat(text).count(proof) == 1
    for text in (render(as_of_1_0(made)), markdown(as_of_1_0(made)), html(as_of_1_0(made))):
        assert flat(text).count(meaning) == 1
        assert "proves a fault" not in text
    assert meaning not in render(document("reference"))
    assert meaning not in render_check(made, "SV-SUP-002")


def test_a_run_that_ended_with_its_fault_says_so_in_plain_words(pages: dict[str, tuple[str, Page]]) -> None:
    """Why no smallest error is stated, and why checks are open, is the fault that was proved first."""
    header = flat(next(pages["fault:K07"][1].root.all("header")).text)
    assert "The run ended early, with a fault proved, so it does not say how small an error it would have" in header
    assert re.search(r"\d+ inconclusive \(left open, since .* proved .*first", header)
    undecided = document("fault:K07") | {"verdict": "inconclusive", "warnings": ["too few"]}
    assert "The run has no finished case that tells how small an error it would have caught" in html(undecided)


def test_the_same_document_gives_the_same_bytes(pages: dict[str, tuple[str, Page]]) -> None:
    """Not the process, not its hash seed and not the user's own settings of matplotlib change a byte."""
    made = document("naive-redraw")
    code = (
        "import hashlib, json, sys\nfrom specverify.reports import html\n"
        "text = html(json.load(sys.stdin))\n"
        "print(hashlib.sha256(text.encode()).hexdigest(), 'matplotlib.pyplot' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(made), text=True, capture_output=True, timeout=120
    )
    here = hashlib.sha256(pages["naive-redraw"][0].encode()).hexdigest()
    assert run.stdout.split() == [here, "False"], run.stderr
    with matplotlib.rc_context(
        {"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path", "text.usetex": False}
    ):
        before = dict(matplotlib.rcParams)
        assert hashlib.sha256(html(made).encode()).hexdigest() == here
        assert dict(matplotlib.rcParams) == before
