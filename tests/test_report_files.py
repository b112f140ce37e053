"""Stored reports are read for years: old ones stay readable, and whatever else a file holds is told in one line."""

import copy
import json
import random
import re
import warnings
from collections.abc import Iterator
from importlib import import_module, resources
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from specverify.cli import main
from specverify.errors import ConfigError
from specverify.reports import FORMS, Report, compare, html, junit, markdown, render

Document = dict[str, Any]
DATA = Path(__file__).parent / "data"
OLD = DATA / "report-1.0.json"
FORMER = DATA / "report-1.1.json"
UNSAID = (  # what no JSON Schema can say
    "expected a date and time",
    "got inf",
    "got 1000000",
    "got 1e+308",
    "whole numbers",
    "as many labels",
    "as many as labels",
    "at most the n",
    "at most the tested",
    "another check in every place",
    "where no rule is declared",
    "beside the value",
    "rows that grow",
)
STORED = [OLD, FORMER, DATA / "conformant.json", DATA / "nonconformant.json"]


@pytest.fixture(scope="module")
def validator() -> Any:
    """The shipped schema."""
    schema = resources.files("specverify.reports").joinpath("report.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(schema))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_stored_reports_stay_readable(path: Path, tmp_path: Path, validator: Any) -> None:
    """A report that an older version wrote obeys the schema of this one, is read unchanged and written again equal."""
    report = Report.read(path)
    validator.validate(report.document)
    report.write(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text(encoding="utf-8")) == json.loads(path.read_text("utf-8"))


def test_the_old_report_is_of_version_one() -> None:
    """The file that proves it was written by version 1.0 and has none of the fields that came later."""
    document = json.loads(OLD.read_text(encoding="utf-8"))
    assert document["schema_version"] == "1.0"
    assert "evidence" not in document


def test_the_former_report_is_of_version_1_1() -> None:
    """The file that proves it was written by version 1.1 and has none of the fields that came later."""
    document = json.loads(FORMER.read_text(encoding="utf-8"))
    assert document["schema_version"] == "1.1"
    assert "compared_shares" not in document
    assert "shown_by" not in document["counterexample"]


def test_a_report_may_begin_with_the_mark_of_its_encoding(tmp_path: Path) -> None:
    """A mark before the document, as some editors and shells write it, is no part of it."""
    stored, marked = DATA / "conformant.json", tmp_path / "marked.json"
    marked.write_text(stored.read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert Report.read(marked).document == Report.read(stored).document


def test_fields_of_a_later_minor_version_are_kept(tmp_path: Path) -> None:
    """What this version does not know is read and written again, not refused."""
    document = json.loads(OLD.read_text(encoding="utf-8"))
    document.update(schema_version="1.9", novelty={"a": [1]})
    path = tmp_path / "later.json"
    path.write_text(json.dumps(document))
    assert Report.read(path).document["novelty"] == {"a": [1]}


def places(value: Any, where: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Name every place in a document, one check and one item of every list standing for all."""
    if where:
        yield where
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*where, key))
    elif isinstance(value, list):
        for index, item in enumerate(value[:1]):
            yield from places(item, (*where, index))


def damaged() -> Iterator[Document]:
    """Change every place of a report into something else, or leave it out."""
    whole = json.loads((DATA / "nonconformant.json").read_text(encoding="utf-8"))
    whole["checks"] = [whole["checks"][1], whole["checks"][-1]]
    values: tuple[Any, ...] = (None, "x", [], {}, -1, 0, True, 1e999, 10**400, ...)
    for where in places(whole):
        for value in values:
            document = copy.deepcopy(whole)
            inner: Any = document
            for key in where[:-1]:
                inner = inner[key]
            if value is ...:
                del inner[where[-1]]
            else:
                inner[where[-1]] = value
            yield document


def read(path: Path) -> Document | str:
    """Give the document of a report, or why it is refused."""
    try:
        return Report.read(path).document
    except ConfigError as error:
        return str(error)


def test_whatever_is_read_can_be_shown(tmp_path: Path, validator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change is either refused in one line, and is no report by the schema either, or harmless to every form."""
    monkeypatch.setattr(import_module("specverify.reports.html"), "draw", lambda _picture: None)  # that takes long
    path, refused, shown = tmp_path / "report.json", 0, 0
    for document in damaged():
        path.write_text(json.dumps(document).replace("Infinity", "1e999"))
        found = read(path)
        if isinstance(found, str):
            refused += 1
            assert "\n" not in found
            assert str(path) in found
            assert not validator.is_valid(document) or any(said in found for said in UNSAID)
            continue
        shown += 1
        every_form(found)
    assert refused > 1000
    assert shown > 100


def every_form(document: Document) -> None:
    """Make each form of a document; none shows the marks of Python for what is not there."""
    texts = [
        render(document, verbose=True),
        markdown(document),
        "".join(ElementTree.fromstring(junit(document)).itertext()),
        compare([document], ["a.json"]),
        html(document),
        FORMS["html"].comparison([document], ["a.json"]),
        FORMS["markdown"].comparison([document], ["a.json"]),
    ]
    assert not re.search(r"\b(None|nan|Undefined)\b", " ".join(texts))


WHOLE = json.loads(FORMER.read_text(encoding="utf-8"))
HUGE = (2**53, 2**53 + 1, 10**15, 1e299, 1e308)
TINY = (5e-324, 1e-300, 1e-9)


def every_place(value: Any, where: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Name every place in a document."""
    if where:
        yield where
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from every_place(item, (*where, key))


def struck(document: Document, where: tuple[str | int, ...], rng: random.Random) -> None:
    """Change what stands at a place, if it still does, into something of the same kind, or near it."""
    inner: Any = document
    for key in where[:-1]:
        inner = inner[key] if (isinstance(inner, dict) and key in inner) or _holds(inner, key) else None
    if not ((isinstance(inner, dict) and where[-1] in inner) or _holds(inner, where[-1])):
        return
    old = inner[where[-1]]
    choices: list[Any] = [None]
    if isinstance(old, list):
        choices += [[], old[:-1], old[::-1], old + old]
    elif isinstance(old, dict):
        choices += [{}, {**old, "new": 1}]
    elif isinstance(old, bool):
        choices += [not old]
    elif isinstance(old, int | float):
        choices += [0, old + 1, old * 2, old / 2, *HUGE, *TINY]
    elif isinstance(old, str):
        choices += ["", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", *STATED]
    inner[where[-1]] = rng.choice(choices)


def _holds(inner: Any, key: str | int) -> bool:
    return isinstance(inner, list) and isinstance(key, int) and key < len(inner)


STATED = ("passed", "failed", "known_failure", "error", "inconclusive", "not_applicable", "conformant", "nonconformant")


@pytest.mark.parametrize("seed", range(4))
def test_what_is_wrong_in_two_places_is_refused_or_shown(
    seed: int, tmp_path: Path, validator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes at a time, huge and tiny numbers, numbers out of order, nulls: refused in one line, or harmless."""
    monkeypatch.setattr(import_module("specverify.reports.html"), "draw", lambda _picture: None)  # that takes long
    rng, path = random.Random(seed), tmp_path / "report.json"
    all_places = list(every_place(WHOLE))
    refused = 0
    for _ in range(250):
        document = copy.deepcopy(WHOLE)
        for where in rng.sample(all_places, 2):
            struck(document, where, rng)
        path.write_text(json.dumps(document))
        found = read(path)
        if isinstance(found, str):
            refused += 1
            assert "\n" not in found
            assert not validator.is_valid(document) or any(said in found for said in UNSAID), found
        else:
            every_form(found)
    assert 50 < refused < 230


def strike(document: Document, **changes: Any) -> Document:
    """Copy a document with other values at places that are written like ``checks__1__n``."""
    document = copy.deepcopy(document)
    for place, value in changes.items():
        *way, last = [int(key) if key.isdigit() else key for key in place.split("__")]
        inner: Any = document
        for key in way:
            inner = inner[key]
        inner[last] = value
    return document


FIRST = next(index for index, check in enumerate(WHOLE["checks"]) if check["ratios"])
AT = f"checks__{FIRST}__"
CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "ratios: expected none or as many as labels": {AT + "ratios": [0.5]},
    "observed: expected at most the n": {AT + "n": 1},
    "expected: expected at most the n": {AT + "expected__0": 1e9},
    "expected as many labels as observed": {AT + "observed": []},
    "observed: expected whole numbers": {AT + "observed__0": 0.5},
    "cells: expected at least as many as labels": {AT + "cells": 1},
    "expected another check in every place": {AT + "id": WHOLE["checks"][FIRST - 1]["id"]},
    "acceptance.accepted: expected at most the tested ones": {"acceptance__accepted": 2**50},
    "acceptance.positions[0].accepted: expected at most": {"acceptance__positions__0__tested": 0},
    "rule.conforms: expected null": {"rule__declared": None},
    "detectable_tv: expected a case": {"detectable_tv__value": 0.1, "detectable_tv__case": None},
    "evidence.looks: expected rows that grow": {"evidence__looks__1__rows": 0},
    "created: expected a date and time": {"created": "0001-01-01T00:00:00+14:00"},
    "timing.total_s: expected number, got 1e+308": {"timing__total_s": 1e308},
    "timing.rows: expected a number within its bounds": {"timing__rows": 2**60},
}


@pytest.mark.parametrize("told", CONTRADICTIONS)
def test_what_contradicts_itself_is_refused(told: str, tmp_path: Path) -> None:
    """Numbers that cannot stand beside each other are named with their place, in one line."""
    path = tmp_path / "report.json"
    path.write_text(json.dumps(WHOLE))
    assert read(path) == WHOLE
    path.write_text(json.dumps(strike(WHOLE, **CONTRADICTIONS[told])))
    found = read(path)
    assert isinstance(found, str)
    assert told in found
    assert "\n" not in found


EXTREMES: tuple[dict[str, Any], ...] = (
    {AT + "n": 2**53, AT + "observed__0": 2**52},
    {AT + "ratios__0": 1e300, AT + "ratios__1": 1e-300},
    {AT + "ratios__0": 5e-324, AT + "expected__0": 5e-324},
    {AT + "log10_e": 2**53, "evidence__looks__0__log10_e": 2**53, "evidence__looks__1__log10_e": -(2**53)},
    {"evidence__threshold": -(2**53), "evidence__looks__0__rows": 0, "evidence__looks__1__rows": 2**53},
    {"evidence__threshold": 5e-324, "evidence__looks": []},
    {"options__alpha": 5e-324, "acceptance__speedup_model": [], "acceptance__headroom": {}},
    {"acceptance__headroom_bounds__three_drafts": 1.5, "acceptance__expected_tokens_per_call": 1e300},
)


@pytest.mark.parametrize("changes", EXTREMES, ids=range(len(EXTREMES)))
def test_extreme_numbers_are_drawn(changes: dict[str, Any], tmp_path: Path) -> None:
    """The pictures too are made of numbers at the ends of what a report may hold, without a warning."""
    path = tmp_path / "report.json"
    path.write_text(json.dumps(strike(WHOLE, **changes)))
    found = read(path)
    assert not isinstance(found, str), found
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        every_form(found)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("\ufeff{}", "has no 'schema_version'"),
        ("\ufeff\ufeff{}", "is not JSON"),
        (
            '{"schema_version": "2.0", "tool": {}, "sampler": {}, "verdict": "", "checks": []}',
            "has version 2.0; read it",
        ),
        ('{"schema_version": "1.0", "tool": {}, "sampler": {}, "verdict": "", "checks": []}', "is damaged (tool: "),
        ('{"a": ' * 5000 + "1" + "}" * 5000, "report.json"),
    ],
)
@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_file_that_is_no_report_is_one_line(
    command: str, text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broken, newer and foreign files end with status 2 and one line that names the file, and nothing is written."""
    path, out = tmp_path / "report.json", tmp_path / "out.md"
    path.write_text(text, encoding="utf-8")
    arguments = [command, str(path)] if command == "report" else [command, str(OLD), str(path)]
    assert main([*arguments, "--markdown", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("specverify: error: expected a")
    assert captured.err.count("\n") == 1
    assert str(path) in captured.err
    assert told in captured.err
    assert not out.exists()


def test_report_shows_what_the_run_showed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without an option a stored report is read on the terminal as after the run; a fault in it is no failure."""
    assert main(["report", str(OLD)]) == 0
    captured = capsys.readouterr()
    assert captured.out == render(Report.read(OLD).document)
    assert captured.err == ""
    assert main(["report", str(OLD), "--verbose"]) == 0
    assert capsys.readouterr().out == render(Report.read(OLD).document, verbose=True)


def test_report_writes_the_forms_that_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every form goes to its file, or to standard output, and nothing else is printed."""
    document = Report.read(OLD).document
    files = {form: tmp_path / f"report.{form}" for form in FORMS if form != "json"}
    assert main(["report", str(OLD), *(f"--{form}={file}" for form, file in files.items())]) == 0
    assert capsys.readouterr().out == ""
    for form, file in files.items():
        assert file.read_text(encoding="utf-8") == FORMS[form].write(document)
    assert main(["report", str(OLD), "--junit", "-"]) == 0
    assert capsys.readouterr().out == junit(document)


def test_compare_reads_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The matrix is printed, or written in the forms that have one."""
    files = [str(path) for path in STORED]
    documents = [Report.read(path).document for path in STORED]
    assert main(["compare", *files]) == 0
    assert capsys.readouterr().out == compare(documents, files)
    page, text = tmp_path / "a.html", tmp_path / "a.md"
    assert main(["compare", *files, "--html", str(page), "--markdown", str(text)]) == 0
    assert capsys.readouterr().out == ""
    assert page.read_text(encoding="utf-8") == FORMS["html"].comparison(documents, files)
    assert text.read_text(encoding="utf-8") == FORMS["markdown"].comparison(documents, files)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("report {old} --markdown {dir}/none/a.md", "cannot write the report to"),
        ("report {old} --markdown {dir}", "cannot write the report to"),
        ("report {old} --markdown - --junit -", "expected a file of its own for --junit"),
        ("report {old} --markdown {dir}/a --junit {dir}/./a", "expected a file of its own for --junit"),
        ("report {old} --markdown {old}", "which is in use"),
        ("compare {old} {old} --html {old}", "which is in use"),
        ("compare {old} {dir}/none.json", "cannot read the report"),
    ],
)
def test_wrong_use_of_files_is_one_line(
    line: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A place that cannot be written to, is given twice or is being read is an error before anything is done."""
    old = tmp_path / "old.json"
    old.write_bytes(OLD.read_bytes())
    assert main(line.format(old=old, dir=tmp_path).split()) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert told in captured.err
    assert old.read_bytes() == OLD.read_bytes()
    assert list(tmp_path.iterdir()) == [old]


@pytest.mark.parametrize("command", ["report", "compare"])
def test_the_forms_of_a_command_are_those_of_the_list(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Help names each form that the command can write, as the one list has it."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name, form in FORMS.items():
        offered = name != "json" if command == "report" else form.compare is not None
        assert (f"--{name} FILE write {form.what};" in text) == offered


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    """The forms that there are stand in the message."""
    with pytest.raises(ConfigError, match="expected a form among json, html, markdown, junit, got 'pdf'"):
        Report.read(OLD).write(tmp_path / "a.pdf", form="pdf")
    assert not list(tmp_path.iterdir())
