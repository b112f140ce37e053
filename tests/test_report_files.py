"""Stored reports are read for years: old ones stay readable, and whatever else a file holds is told in one line."""

import copy
import json
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
UNSAID = ("as many labels", "expected a date and time", "got inf", "got 1000000")  # what no JSON Schema can say
STORED = [OLD, DATA / "conformant.json", DATA / "nonconformant.json"]


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
        render(found, verbose=True)
        markdown(found)
        ElementTree.fromstring(junit(found))
        compare([found], ["a.json"])
        html(found)
        FORMS["html"].comparison([found], ["a.json"])
    assert refused > 1000
    assert shown > 100


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("\ufeff{}", "is not JSON"),
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
