"""What is drawn: the cells that say most, with exact intervals that hold together, and words that fit them."""

import warnings
from importlib import import_module
from typing import Any

import pytest
from pages import Page
from report_documents import Document, as_of_1_0, as_of_1_1, document
from scipy.stats import binom

import specverify
from specverify.cases import Case
from specverify.probes import case_probes
from specverify.registry import load
from specverify.reports import html

pictures = import_module("specverify.reports.pictures")
AB = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)


def entry(**fields: Any) -> Document:
    """Make a check of a report."""
    cells = {"labels": ["A", "B"], "observed": [70, 30], "expected": [60.0, 40.0], "cells": 2, "n": 100}
    plain = {
        "title": "a check",
        "scope": "lossless",
        "status": "passed",
        "log10_e": 0.0,
        "p_value": 0.5,
        "reason": "",
        "message": "",
    }
    return {"id": "SV-TOK-001", "worst_case": None, "detectable_tv": None, **plain, **cells, **fields}


def test_the_strongest_checks_come_first() -> None:
    """A broken contract, then failures by evidence, one of each area before the second of any, then what passed."""
    bare: Document = {"labels": [], "observed": [], "expected": [], "cells": None, "log10_e": None, "p_value": None}
    checks = [
        entry(id="SV-TOK-001", log10_e=2.0),
        entry(id="SV-RES-001", status="failed", log10_e=30.0),
        entry(id="SV-RES-002", status="failed", log10_e=40.0),
        entry(id="SV-ACC-001", status="failed", log10_e=20.0),
        entry(id="SV-SUP-001", status="failed", **bare),
        entry(id="SV-STR-001", status="failed", scope="contract", **bare),
        entry(id="SV-ALL-001", status="failed", log10_e=100.0),
        entry(id="SV-RPL-001", **bare),
    ]
    names = [check["id"] for check in pictures.strongest(checks, 10)]
    assert names == ["SV-STR-001", "SV-RES-002", "SV-ACC-001", "SV-SUP-001", "SV-RES-001", "SV-TOK-001"]


def test_pictures_show_the_cells_that_say_most() -> None:
    """Of many cells the ten furthest are shown in their order; what cannot happen is due exactly never."""
    labels = [f"cell {i}" for i in range(20)] + ["what cannot happen"]
    observed = [100.0 + (i > 10) * i for i in range(20)] + [3.0]
    found = pictures.of_check(
        entry(labels=labels, observed=observed, expected=[100.0] * 20 + [1e-6], cells=21, n=2200), 1e-9
    )
    assert found is not None
    assert [label for label, _ in found.rows] == [f"cell {i}" for i in range(11, 20)] + ["what cannot happen"]
    assert found.rows[-1][1][0] == 0
    assert found.title == "Shares of 2,200 events, the 10 furthest of 21 cells"
    quiet = pictures.of_check(
        entry(labels=["A", "what cannot happen"], observed=[5, 0], expected=[5.0, 1e-9], n=5), 0.1
    )
    assert quiet is not None
    assert [label for label, _ in quiet.rows] == ["A"]
    assert quiet.title == "Shares of 5 events"
    counted = pictures.of_check(entry(cells=None, labels=["compared"], observed=[500], expected=[250.0], n=1000), 0.1)
    assert counted is not None
    assert counted.rows == (("compared", (250.0, 500)),)
    assert pictures.of_check(entry(labels=[], observed=[], expected=[]), 0.1) is None
    assert pictures.of_check(entry(observed=[0, 0], expected=[0.0, 0.0], n=0), 0.1) is None


def test_labels_of_all_languages_are_drawn_as_they_are() -> None:
    """Emoji, letters that matplotlib has no font for and dollar signs are text of the drawing, without a warning."""
    made = document("reference")
    made["checks"] = [entry(labels=["🎉 שלום 漢字 $x_1$", "<b> & ' \""])]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = Page(html(made))
    drawn = [text.text for text in page.root.all("text")]
    assert "🎉 שלום 漢字 $x_1$" in drawn
    assert "<b> & ' \"" in drawn


def test_ratios_need_a_draft_that_gives_the_cell() -> None:
    """Cells that the draft never gives, or in which nothing is due, have no place; one cell alone is no picture."""
    found = pictures.ratios(entry(ratios=[0.75, 2.0]), 0.01)
    assert found is not None
    assert found.about.startswith("A correct sampler scatters about 1.")
    assert [values[:2] for _, values in found.rows] == [(0.75, 70 / 60), (2.0, 0.75)]
    assert pictures.ratios(entry(ratios=[0.75, None]), 0.01) is None
    assert pictures.ratios(entry(ratios=[0.75, 4e-310], expected=[60.0, 1e-300]), 0.01) is None
    assert pictures.ratios(entry(ratios=[]), 0.01) is None
    assert pictures.ratios(entry(), 0.01) is None


LOOKS = [{"rows": 0, "log10_e": None}, {"rows": 10, "log10_e": 1.0}, {"rows": 20, "log10_e": 9.0}]


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        (LOOKS, "Over 2 looks log10 E crosses the threshold of 6.3 that proves a fault; it ends at 9.0 after 20 rows."),
        (
            [LOOKS[1]] * 3,
            "Over 3 looks log10 E stays below the threshold of 6.3 that proves a fault; it ends at 1.0 after 10 rows.",
        ),
        (
            LOOKS[:2],
            "At the only look, after 10 rows, log10 E is 1.0, below the threshold of 6.3 that proves a fault.",
        ),
        (
            LOOKS[2:],
            "At the only look, after 20 rows, log10 E is 9.0, above the threshold of 6.3 that proves a fault.",
        ),
    ],
)
def test_evidence_says_whether_it_proves_a_fault(looks: list[Document], told: str) -> None:
    """The words agree with the numbers, for one look and for several; looks without evidence are left out."""
    found = pictures.evidence({"evidence": {"threshold": 6.3, "looks": looks}})
    assert found is not None
    assert found.about == told
    assert found.rows[0][0] == "look 1"


def test_without_a_look_no_evidence_is_drawn_and_that_is_said() -> None:
    """A run in which nothing was counted has no picture of evidence, but a sentence; an older report has neither."""
    assert pictures.evidence({"evidence": {"threshold": 6.3, "looks": LOOKS[:1]}}) is None
    assert pictures.evidence({}) is None
    made, said = document("reference"), "there is no evidence for or against the sampler"
    assert said not in html(made)
    assert said not in html(as_of_1_0(made))
    assert said in html({**made, "evidence": {**made["evidence"], "looks": LOOKS[:1]}})


def test_positions_that_nobody_reached_are_not_shown() -> None:
    """A rate needs tests; one that was never tested is not zero."""
    rows = [{"tested": 10, "accepted": 5, "mean_overlap": 0.6}, {"tested": 0, "accepted": 0, "mean_overlap": 0.0}]
    found = pictures.positions(rows, 0.01)
    assert found is not None
    assert [(label, values[:2]) for label, values in found.rows] == [("position 1", (0.6, 0.5))]
    assert pictures.positions(rows[1:], 0.01) is None


def test_intervals_are_exact() -> None:
    """At each end of an interval the binomial tail beyond the count is half of the allowed miss."""
    for count, n, miss in ((0, 10, 0.1), (3, 10, 1e-3), (10, 10, 1e-12), (500, 100_000, 1e-9), (1, 10**6, 1e-15)):
        low, high = pictures.interval(count, n, miss)
        assert 0 <= low <= count / n <= high <= 1
        assert (low == 0) == (count == 0)
        assert (high == 1) == (count == n)
        if low:
            assert binom.sf(count - 1, n, low) == pytest.approx(miss / 2, rel=1e-6)
        if high < 1:
            assert binom.cdf(count, n, high) == pytest.approx(miss / 2, rel=1e-6)


def test_an_interval_that_cannot_be_found_is_the_widest() -> None:
    """Where the solver gives up, for misses that no run asks for, the end stays where nothing is excluded."""
    assert pictures.interval(1, 10, 1e-300)[1] == pictures.interval(1, 10, 0.0)[1] == 1
    assert pictures.interval(9, 10, 1e-310)[0] == pictures.interval(9, 10, 0.0)[0] == 0


def test_intervals_share_the_error_budget_of_the_run() -> None:
    """Each gets the part of one among all shares that were compared; an older report is taken to have compared many."""
    made = document("reference")
    assert pictures.miss(made) == pytest.approx(1e-9 / made["compared_shares"])
    assert pictures.miss(as_of_1_1(made)) == pytest.approx(1e-15)
    sentence = "any of them misses its exact value with probability at most 1e-9"
    assert sentence in html(made)


def drawn_with_intervals(made: Document) -> list[tuple[float, ...]]:
    """Give exact, observed, low and high of all that the page can show with an interval, and more."""
    miss = pictures.miss(made)
    found = [pictures.of_check(check, miss) for check in made["checks"] if check["cells"] is not None]
    found.append(pictures.positions(made["acceptance"]["positions"], miss))
    rows = [values for picture in found if picture is not None for _, values in picture.rows]
    over = [pictures.ratios(check, miss) for check in made["checks"]]
    return rows + [(1, *values[1:]) for picture in over if picture is not None for _, values in picture.rows]


@pytest.mark.parametrize("seed", range(5))
def test_no_interval_of_a_correct_sampler_misses(seed: int) -> None:
    """Though the furthest cells of the strongest cases are shown, each has the exact value in its interval.

    A miss has probability at most alpha, 1e-10, for a seed. Intervals of 99.9% each would miss often.
    """
    made = specverify.check(load("reference"), samples=3000, target_tv=0.9, alpha=1e-10, seed=seed).document
    rows = drawn_with_intervals(made)
    assert len(rows) > 30
    assert all(low <= exact <= high for exact, _, low, high in rows)


def test_an_interval_of_a_wrong_sampler_misses() -> None:
    """The intervals are not so wide that they say nothing: those of a wrong sampler leave its exact values out."""
    rows = drawn_with_intervals(document("naive-redraw"))
    assert sum(not low <= exact <= high for exact, _, low, high in rows) > 10


def test_what_cannot_happen_is_due_never_in_a_real_report() -> None:
    """The cell that lends a tiny share is told by its label in a document of a run, and shown as due not at all."""
    made = document("naive-redraw")
    impossible = case_probes(AB, 0.0, "token").probes[0].labels[-1]
    seen = [check for check in made["checks"] if impossible in check["labels"]]
    cells = [
        (label, values)
        for check in seen
        for label, values in pictures.of_check(check, 1e-9).rows
        if label == impossible
    ]
    assert len(cells) > 1
    assert all(values[0] == 0 < values[1] for _, values in cells)


def test_what_decided_stands_first() -> None:
    """A check that failed by its evidence shows it before a p-value above its level; else the p-value comes first."""
    figures = import_module("specverify.reports.phrases").figures
    assert figures(entry(level=1e-9, p_value=0.5, log10_e=12.0)) == "n 100, log10 E 12.0, p 0.5"
    assert figures(entry(level=1e-9, p_value=1e-10, log10_e=12.0)) == "n 100, p 1e-10, log10 E 12.0"
    assert figures(entry(level=1e-9, p_value=0.5, log10_e=8.0)) == "n 100, p 0.5, log10 E 8.0"
    assert figures(entry(level=None, p_value=0.5, log10_e=12.0)) == "n 100, p 0.5, log10 E 12.0"


def test_words_and_pictures_choose_the_same_cells() -> None:
    """The cells that the text names are the first by the order of the picture; a rare event goes before a large one."""
    check = entry(labels=["large", "rare", "none"], observed=[900, 4, 0], expected=[850.0, 0.1, 0.0], cells=3, n=1000)
    assert import_module("specverify.reports.cells").furthest(check) == [1, 0]
    lines = list(import_module("specverify.reports.phrases").cells(check))
    assert lines == ["rare: observed 4, expected 0.1", "large: observed 900, expected 850.0"]
    assert [label for label, _ in pictures.of_check(check, 1e-9).rows] == ["large", "rare"]
