"""The report document is valid, strict and readable by people without losing what it says."""

import copy
import io
import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from specverify.errors import ConfigError
from specverify.reports import SCHEMA_VERSION, Report, render, render_check, scientific, wants_color

Document = dict[str, Any]
DATA = Path(__file__).parent / "data"


@pytest.fixture
def conformant() -> Document:
    """A report of a sampler in which nothing was found."""
    document: Document = json.loads((DATA / "conformant.json").read_text(encoding="utf-8"))
    return document


@pytest.fixture
def nonconformant() -> Document:
    """A report of a sampler that redraws from the target."""
    document: Document = json.loads((DATA / "nonconformant.json").read_text(encoding="utf-8"))
    return document


@pytest.fixture(scope="module")
def validator() -> Any:
    """The shipped schema, itself checked."""
    schema = json.loads(
        resources.files("specverify.reports").joinpath("report.schema.json").read_text(encoding="utf-8")
    )
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", ["conformant", "nonconformant"])
def test_example_documents_are_valid(name: str, validator: Any, request: pytest.FixtureRequest) -> None:
    """The documents that these tests read obey the shipped schema and its version."""
    document = request.getfixturevalue(name)
    validator.validate(document)
    assert document["schema_version"] == SCHEMA_VERSION


def test_every_object_of_the_schema_is_closed_and_described(validator: Any) -> None:
    """Every field has a description, and an object takes no field that is not described."""

    def walk(node: object) -> None:
        if isinstance(node, dict):
            if "properties" in node:
                assert node["additionalProperties"] is False
                for name, field in node["properties"].items():
                    assert field.get("description"), name
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    walk(validator.schema)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "pass"),
        (("unknown",), 1),
        (("checks", 0, "status"), "skipped"),
        (("checks", 0, "id"), "SV-1"),
        (("checks", 1, "p_value"), 1.5),
        (("options", "alpha"), 0),
        (("summary", "ran"), -1),
        (("counterexample", "p"), [["3/x"]]),
        (("created",), None),
    ],
)
def test_schema_refuses_what_is_no_report(
    path: tuple[str | int, ...], value: object, nonconformant: Document, validator: Any
) -> None:
    """A field that is unknown or outside its domain makes the document invalid."""
    inner: Any = nonconformant
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert not validator.is_valid(nonconformant)


def test_a_report_survives_writing_and_reading(tmp_path: Path, nonconformant: Document) -> None:
    """What is written is read back equal, with names outside ASCII kept readable in the file."""
    nonconformant["sampler"]["name"] = "Prüfling"
    path = tmp_path / "report.json"
    Report(nonconformant).write(path)
    assert Report.read(path).document == nonconformant
    assert "Prüfling" in path.read_text(encoding="utf-8")


def test_a_report_answers_by_attributes(nonconformant: Document) -> None:
    """The attributes are views of the document."""
    report = Report(nonconformant)
    assert (report.verdict, report.lossless) == ("nonconformant", False)
    assert report.rule["declared"] == "token"
    assert [check["id"] for check in report.checks if check["status"] == "failed"] == ["SV-TOK-001"]
    assert report.diagnosis[0]["fault"] == "K02"


def test_nan_is_never_written(conformant: Document) -> None:
    """A number that JSON cannot say is an error, not an invalid file."""
    conformant["timing"]["total_s"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        Report(conformant).to_json()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "is not JSON"),
        ('{"verdict": NaN}', "is not JSON"),
        ("[]", "expected a specverify report"),
        ('{"verdict": "conformant"}', "has no 'schema_version'"),
        (
            '{"schema_version": "2.0", "tool": {}, "sampler": {}, "verdict": "", "checks": []}',
            "expected a report of version 1.x",
        ),
    ],
)
def test_what_is_no_report_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    """A wrong file is named together with what is wrong with it."""
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        Report.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_opened_are_named(tmp_path: Path, conformant: Document) -> None:
    """A missing file and an impossible path are errors of the user, not of the kit."""
    with pytest.raises(ConfigError, match="cannot read"):
        Report.read(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot write"):
        Report(conformant).write(tmp_path / "none" / "report.json")


def test_the_first_line_says_the_verdict_and_what_it_is_worth(conformant: Document) -> None:
    """A conformant sampler is named with the error that would have been caught and the rate of false alarms."""
    first = " ".join(render(conformant).split("\n\n")[0].split())
    assert first == (
        "reference: CONFORMANT. Its output follows the target and its own rule (token); an error of total variation "
        "0.012 or more in its output (case W402, 27 cells) would have been caught with probability 0.9; "
        "false alarms at most 1e-6 "
        "per run."
    )


def test_a_failure_shows_the_message_the_cells_and_the_table(nonconformant: Document) -> None:
    """A nonconformant sampler is shown with what failed, what it looks like and the smallest case side by side."""
    text = render(nonconformant)
    assert text.startswith("naive-redraw: NONCONFORMANT. Its output does not follow the target;")
    assert "SV-TOK-001  The first token follows the target" in text
    assert "case AB, n 4,096, p 1.1e-57, log10 E 53.6" in text
    assert "A: observed 2,950, expected 2,457.6" in text
    assert text.index("WHAT IT LOOKS LIKE") < text.index("SMALLEST CASE") < text.index("FAILED (1 of 5 checks)")
    assert "K02  After a rejection it redraws from the target" in text
    assert "G04" not in text
    assert "Rule:      token (declared): does not conform\n" in text
    lines = text.splitlines()
    table = lines[lines.index("                    exact  observed") :]
    assert table[1:4] == ["  first token", "    A              0.6000    0.7202", "    B              0.4000    0.2798"]
    assert "  Reproduce: specverify check naive-redraw --only SV-TOK-001 --seed 0" in lines
    assert "Warning: The sampler changed its input draft_probs" in text


@pytest.mark.parametrize("verbose", [False, True])
def test_text_fits_a_terminal_and_is_plain(verbose: bool, nonconformant: Document, conformant: Document) -> None:
    """No line is wider than 100 columns, and the view itself adds nothing outside ASCII."""
    for document in (nonconformant, conformant):
        text = render(document, verbose=verbose)
        assert max(map(len, text.splitlines())) <= 100
        assert text.isascii()
        assert not any(line != line.rstrip() for line in text.splitlines())


def test_passes_are_counted_by_area_and_listed_on_request(conformant: Document) -> None:
    """Passed checks take one line; the verbose view has a line for each."""
    assert "Passed:    SV-STR 1, SV-TOK 1, SV-ACC 1, SV-RES 1" in render(conformant)
    assert "SV-IND-003" not in render(conformant)
    assert "SV-IND-003  not applicable  -" in render(conformant, verbose=True)


def change(document: Document, **fields: Any) -> Document:
    """Return a copy with some top-level fields replaced."""
    return {**copy.deepcopy(document), **fields}


def test_the_reason_of_each_verdict_is_told_apart(conformant: Document) -> None:
    """A wrong form, a wrong rule, too little power and an empty run each have their own sentence."""
    broken = change(conformant, verdict="nonconformant", lossless=None)
    broken["checks"][0].update(status="failed")
    assert "It breaks the contract of a sampler" in render(broken)
    rule = {"declared": "token", "conforms": False, "not_rejected": ["block"]}
    slow = change(conformant, verdict="nonconformant", rule=rule)
    assert "follows the target, but it does not follow the rule it declares (token)" in " ".join(render(slow).split())
    assert "token (declared): does not conform; not contradicted: block" in render(slow)
    short = render(change(conformant, verdict="inconclusive", warnings=["too few samples", "and slow"]))
    assert "that is no pass: too few samples." in " ".join(short.split())
    assert "Warning: and slow" in short
    part = render(change(conformant, lossless=None))
    assert "CONFORMANT in the checks that were asked for" in " ".join(part.split())


def with_known(document: Document, *ids: str) -> Document:
    """Return a copy in which some checks are known failures."""
    checks = [
        check | ({"status": "known_failure", "reason": "issue 12"} if check["id"] in ids else {})
        for check in document["checks"]
    ]
    return change(document, checks=checks, summary={**document["summary"], "known_failures": len(ids)})


def headline(document: Document) -> str:
    """Give the first sentence of the terminal view in one line."""
    return " ".join(render(document).split("\n\n")[0].split())


def test_known_failures_stand_in_the_headline(conformant: Document) -> None:
    """Whatever else was shown, the first line names them; without any it does not speak of them."""
    known = with_known(conformant, "SV-ACC-001", "SV-RES-001")
    named = "reference: CONFORMANT but for its known failures (SV-ACC-001, SV-RES-001). "
    rule = {**conformant["rule"], "conforms": False}
    assert headline(change(known, rule=rule)).startswith(
        f"{named}Its output follows the target, but not its own rule (token);"
    )
    assert headline(change(known, lossless=False)).startswith(
        f"{named}Its output does not follow the target, as the list says;"
    )
    asked = change(known, lossless=None, options={**known["options"], "only": ["SV-ACC-001", "SV-RES-001"]})
    both = "CONFORMANT in the checks that were asked for, but for its known failures (SV-ACC-001, SV-RES-001). Whether"
    assert both in headline(asked)
    many = with_known(conformant, *(check["id"] for check in conformant["checks"]))
    assert "(SV-STR-001, SV-TOK-001, SV-ACC-001 and 2 more). " in headline(many)
    assert "known" not in headline(conformant)


def test_a_sampler_without_a_rule_is_told_which_it_may_follow(conformant: Document) -> None:
    """Without a declared rule, the known rules that are not contradicted are listed."""
    rule = {"declared": None, "conforms": None, "not_rejected": ["token", "match"]}
    assert "none declared; not contradicted: token, match" in render(change(conformant, rule=rule))


def test_only_the_first_failures_are_shown_in_full(nonconformant: Document) -> None:
    """Of many failures the later ones take a line each, unless more is asked for."""
    nonconformant["checks"] = [{**nonconformant["checks"][1], "id": f"SV-TOK-00{i}"} for i in range(1, 6)]
    assert render(nonconformant).count("A: observed 2,950") == 3
    assert "  SV-TOK-005  The first token follows the target; case AB, n 4,096, p 1.1e-57, log10 E 53.6" in render(
        nonconformant
    )
    assert render(nonconformant, verbose=True).count("A: observed 2,950") == 5


def test_what_would_be_caught_is_said_for_each_size(conformant: Document) -> None:
    """Small and large vocabularies have a detectable error each."""
    assert "Detects:   in the first token 0.012 at W402 (27 cells)" in render(conformant)
    assert "Detects" not in render(change(conformant, detectable_tv={**conformant["detectable_tv"], "by_size": []}))


def test_precision_is_shown_where_it_matters(conformant: Document) -> None:
    """An allowance for rounding is said, except that of exact arithmetic in double precision."""
    assert "Precision" not in render(conformant)
    conformant["tolerance"] = {"class": "float32", "allowance": 1.2e-4}
    assert "Precision: float32, allowed total variation 0.00012" in render(conformant)


def test_large_laws_are_named_by_their_shape(nonconformant: Document) -> None:
    """A law that no one would read is left to the document, and long tables are cut with a note."""
    nonconformant["counterexample"].update(p=[[0.001] * 1000], q=[["1/2", "1/2"]] * 6)
    text = render(nonconformant)
    assert "target p  1 rows of 1000, in the report document" in text
    assert "(2 more rows in the report document)" in text
    nonconformant["counterexample"].update(q=[["1/2", "1/2"]] * 5)
    assert "(1 more row in the report document)" in render(nonconformant)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Pretend."""
        return True


def test_colour_is_for_terminals_whose_user_wants_it(monkeypatch: pytest.MonkeyPatch, conformant: Document) -> None:
    """Only a terminal gets colour, unless NO_COLOR or TERM=dumb declines it; the words stay the same."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_color(Terminal())
    assert not wants_color(io.StringIO())
    assert not wants_color(None)
    closed = Terminal()
    closed.close()
    assert not wants_color(closed)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_color(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_color(Terminal())
    colored = render(conformant, color=True)
    assert colored.startswith("reference: \033[1;32mCONFORMANT\033[0m.")
    assert colored.replace("\033[1;32m", "").replace("\033[0m", "") == render(conformant)


def test_what_no_file_can_hold_is_escaped(tmp_path: Path, conformant: Document, validator: Any) -> None:
    """Lone surrogates, in names and anywhere else, are written as escapes; what is read back is the same report."""
    conformant["sampler"]["name"] = "na\udcffme é"
    conformant["warnings"] = ["\ud800"]
    report = Report(conformant)
    assert (report.document["sampler"]["name"], report.document["warnings"]) == ("na\\udcffme é", ["\\ud800"])
    validator.validate(report.document)
    report.write(tmp_path / "report.json")
    assert Report.read(tmp_path / "report.json") == report
    assert "na\\udcffme" in render(report.document)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_half_a_report_is_not_left(
    tmp_path: Path, conformant: Document, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """A file that cannot be written to its end is removed; a device stays."""

    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            super().write(bytes(data)[:10])
            raise error

    monkeypatch.setattr(Path, "open", lambda self, mode: Full(self, mode))
    path = tmp_path / "report.json"
    with pytest.raises((ConfigError, KeyboardInterrupt)):
        Report(conformant).write(path)
    assert not path.exists()


def test_a_full_device_is_told_and_stays(conformant: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that takes nothing is an error of one line, and is never removed."""
    removed: list[Path] = []
    monkeypatch.setattr(Path, "unlink", lambda self: removed.append(self))  # a broken kit must not harm the machine
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(ConfigError, match="cannot write the report to '/dev/full': No space left"):
        Report(conformant).write(device)
    assert not removed


def test_the_terminal_gets_no_control_characters(nonconformant: Document) -> None:
    """Names and messages cannot move the cursor or begin a line; letters and emoji stay, the document keeps all."""
    name = "é🎉漢\nCONFORMANT\x1b[2J\x9b\u202e\t"
    nonconformant["sampler"]["name"] = name
    nonconformant["warnings"] = ["w\x07\nline"]
    nonconformant["checks"][1]["message"] = "first\x1b[31m\nsecond"
    nonconformant["counterexample"]["reproduce"] = "specverify check '\x1b'"
    text = render(nonconformant)
    assert text.startswith("é🎉漢\\nCONFORMANT\\x1b[2J\\x9b\\u202e\\t: NONCONFORMANT.")
    assert "      first\\x1b[31m\n      second\n" in text
    assert "Warning: w\\x07\\nline" in text
    assert not set("\x1b\x07\x9b\u202e\t") & set(text)
    assert nonconformant["sampler"]["name"] == name


def test_an_endless_name_is_cut_in_the_terminal_alone(conformant: Document) -> None:
    """A name of 10,000 characters is shown by its beginning and its length."""
    conformant["sampler"]["name"] = "n" * 10_000
    text = render(conformant)
    assert " ".join(text.split()).startswith("n" * 100 + "... (10,000 characters): CONFORMANT.")
    assert len(text) < 3000
    assert "n" * 10_000 in Report(conformant).to_json()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.999, "0.999"), (0.99999, "0.99999"), (1.0, "1"), (0.5, "0.5"), (1e-6, "1e-6"), (0.0, "< 1e-300")],
)
def test_a_probability_below_one_is_never_shown_as_one(value: float, text: str) -> None:
    """Digits are added until the number differs from 1."""
    assert scientific(value) == text
    assert scientific(math.nextafter(1.0, 0.0)) == "0.9999999999999999"


def test_one_check_reads_as_in_the_whole_view(nonconformant: Document) -> None:
    """A failed check comes with diagnosis and smallest case, word for word; an undecided one with its reason alone."""
    whole = render(nonconformant, verbose=True)
    parts = render_check(nonconformant, "SV-TOK-001").rstrip("\n").split("\n\n")
    assert parts[0].startswith("  SV-TOK-001  ")
    assert parts[1].startswith("WHAT IT LOOKS LIKE\n")
    assert parts[2].startswith("SMALLEST CASE THAT SHOWS IT: ")
    assert all(part in whole for part in parts)
    undecided = render_check(nonconformant, "SV-ACC-001")
    assert "\n      not decided: open when the fault was proved\n" in undecided
    assert "WHAT IT LOOKS LIKE" not in undecided
