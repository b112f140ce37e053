"""The command line answers in plain words, with a status that scripts can trust and no traceback for a user's error."""

import json
import sys
import types
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from specverify.cli import main
from specverify.errors import SamplerLoadError
from specverify.reports import FORMS, Report, render

DATA = Path(__file__).parent / "data"
Engine = types.SimpleNamespace


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that records what it was asked and answers with a stored report."""
    asked = Engine(report="conformant", options=None, target=None, effect=lambda: None)

    def load(target: str) -> Engine:
        if target == "refrence":
            raise SamplerLoadError("no sampler named 'refrence'; did you mean 'reference'?")
        asked.target = target
        return Engine(name=target)

    def check(sampler: Engine, **options: Any) -> Report:
        asked.options = {"sampler": sampler.name, **options}
        asked.effect()
        return Report.read(DATA / f"{asked.report}.json")

    def plan(sampler: Engine, **options: Any) -> Any:
        asked.options = {"sampler": sampler.name, **options}
        cases = {"T3": "tiny", "AB": "tiny", "big": "large"}
        runs = [Engine(name=name, planned=Engine(size_class=size)) for name, size in cases.items()]
        values = [("SV-TOK-001", "T3", 0.0123), ("SV-TOK-001", "AB", 0.02), ("SV-JNT-001", "big", 0.01)]
        rows = [
            {"check": check, "case": case, "n": 100_000, "cells": 3, "detectable_tv": tv} for check, case, tv in values
        ]
        return Engine(describe=lambda: rows, runs=runs, faults=())

    entry = Engine(
        id="SV-TOK-001", title="First token", claim="It follows p.", scope="lossless", explain="The law is p."
    )
    fault = Engine(id="K02", name="residual_target", claim="Redraws from the target.", explain="Then .72/.28.")
    modules: dict[str, dict[str, object]] = {
        "checking": {"check": check},
        "plan": {"plan": plan},
        "registry": {"load": load, "names": lambda: {"reference": "vectorised NumPy token rule"}},
        "checks": {"CATALOGUE": {"SV-TOK-001": entry}},
        "faults": {"KNOWN_FAULTS": {"K02": fault}},
    }
    for name, contents in modules.items():
        module = types.ModuleType(f"specverify.{name}")
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, f"specverify.{name}", module)
    return asked


@pytest.mark.parametrize(("report", "status"), [("conformant", 0), ("nonconformant", 1)])
def test_the_exit_status_is_the_verdict(
    report: str, status: int, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 is conformant and 1 nonconformant, and the text says the same."""
    engine.report = report
    assert main(["check", "reference"]) == status
    captured = capsys.readouterr()
    assert f": {report.upper()}." in captured.out
    assert captured.err == ""


@pytest.mark.usefixtures("engine")
def test_inconclusive_is_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that decides nothing does not end as a success."""
    monkeypatch.setattr(Report, "verdict", property(lambda _self: "inconclusive"))
    assert main(["check", "reference"]) == 3


def test_options_reach_the_engine(engine: Engine, tmp_path: Path) -> None:
    """Every option of the command is handed over under its Python name."""
    known = tmp_path / "known.toml"
    known.write_text('["SV-RES-001"]\nreason = "old kernel"\n')
    line = (
        "check a.b:c --profile ci --seed 7 --alpha 1e-3 --target-tv 0.05 --only SV-TOK-001,SV-RES-001 "
        f"--require lossless --samples 500 --known-failures {known} --time-limit 9.5 --timeout 2.5"
    )
    assert main(line.split()) == 0
    progress = engine.options.pop("progress")
    assert callable(progress)
    assert engine.options == {
        "sampler": "a.b:c",
        "target": "a.b:c",
        "profile": "ci",
        "seed": 7,
        "alpha": 1e-3,
        "target_tv": 0.05,
        "only": ("SV-TOK-001", "SV-RES-001"),
        "require": "lossless",
        "samples": 500,
        "known_failures": {"SV-RES-001": "old kernel"},
        "time_limit": 9.5,
        "timeout": 2.5,
    }


@pytest.mark.usefixtures("engine")
def test_json_goes_to_a_file_or_to_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json FILE the text stays on standard output; with --json - the document takes its place."""
    path = tmp_path / "report.json"
    assert main(["check", "reference", "--json", str(path)]) == 0
    assert Report.read(path).verdict == "conformant"
    assert "CONFORMANT" in capsys.readouterr().out
    assert main(["check", "reference", "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == Report.read(path).document
    assert "CONFORMANT" in captured.err


LOUD = """
import specverify

print("loaded")

@specverify.verifier(rule="token")
def loud(target_probs, generator):
    print("called")
    return [[0]] * len(target_probs)
"""


def test_what_the_sampler_prints_is_no_part_of_a_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While a form goes to standard output, prints go to standard error, when loading too; else they stay."""
    file = tmp_path / "loud.py"
    file.write_text(LOUD, encoding="utf-8")
    few = ["check", f"{file}:loud", "--samples", "20", "--only", "SV-TOK-001"]
    for form, first in (("json", "{"), ("markdown", "#")):
        main([*few, f"--{form}", "-"])
        captured = capsys.readouterr()
        assert captured.out.startswith(first)
        assert {"loaded", "called"}.isdisjoint(captured.out.splitlines())
        assert {"loaded", "called"} <= set(captured.err.splitlines())
    main(few)
    captured = capsys.readouterr()
    assert ({"loaded", "called"} <= set(captured.out.splitlines()), captured.err) == (True, "")


@pytest.mark.parametrize(
    "line",
    [
        "check reference",
        "check reference --json out.json",
        "power --cells 3",
        "power reference",
        "report out.json",
        "compare out.json out.json",
    ],
)
def test_a_deleted_working_directory_is_one_line(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands that need it say that it is not there; a report whose path is complete needs none."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(line.split()) == 2
    told = "specverify: error: cannot find the working directory: No such file or directory; change to a folder"
    assert capsys.readouterr().err == f"{told} that is there\n"
    assert main(["report", str(DATA / "conformant.json"), "--markdown", str(tmp_path / "out.md")]) == 0


def test_an_unwritable_report_is_found_before_the_run(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing runs when the report could not be written, and no file is left by a run that fails."""
    assert main(["check", "reference", "--json", str(tmp_path / "none" / "report.json")]) == 2
    assert engine.options is None
    assert "cannot write the report" in capsys.readouterr().err
    assert main(["check", "refrence", "--json", str(tmp_path / "report.json")]) == 2
    assert not (tmp_path / "report.json").exists()


@pytest.mark.usefixtures("engine")
def test_every_form_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files hold what the report says in each form; the text on the terminal stays."""
    document = Report.read(DATA / "conformant.json").document
    files = {form: tmp_path / f"report.{form}" for form in FORMS}
    assert main(["check", "reference", *(f"--{form}={file}" for form, file in files.items())]) == 0
    for form, file in files.items():
        assert file.read_text(encoding="utf-8") == FORMS[form].write(document)
    assert capsys.readouterr().out == render(document)
    assert main(["check", "reference", "--markdown", "-"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (FORMS["markdown"].write(document), render(document))


def test_a_sampler_that_moves_elsewhere_takes_no_report_along(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is that of where the command began, and a file that is there already is written anew."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "report.md").write_text("old")
    monkeypatch.chdir(tmp_path)
    engine.effect = lambda: monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["check", "reference", "--markdown", "report.md"]) == 0
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("## ")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_no_form_is_written_in_vain(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place that cannot be written to ends before the run; where one fails after it, the verdict is told."""
    for form in FORMS:
        assert main(["check", "reference", f"--{form}", str(tmp_path / "none" / "file")]) == 2
    assert engine.options is None
    capsys.readouterr()
    if Path("/dev/full").exists():
        monkeypatch.setattr(Path, "unlink", lambda self: pytest.fail(f"removed {self}"))
        assert main(["check", "reference", "--junit", "/dev/full"]) == 2
        captured = capsys.readouterr()
        assert "reference: CONFORMANT." in captured.out
        assert "cannot write the report to '/dev/full'" in captured.err


@pytest.mark.usefixtures("engine")
def test_a_user_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A sampler that cannot be loaded ends with status 2 and one line on standard error."""
    assert main(["check", "refrence"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "specverify: error: no sampler named 'refrence'; did you mean 'reference'?\n"


@pytest.mark.parametrize("line", ["", "check", "check x --profile slow", "list nothing", "check x --prof quick"])
def test_wrong_use_is_status_two(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped command is answered with its usage; options are not guessed from their beginnings."""
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert "usage: specverify" in capsys.readouterr().err


def test_an_interrupt_is_one_line(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends with status 130 and without a traceback."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    engine.effect = interrupt
    assert main(["check", "reference"]) == 130
    assert capsys.readouterr().err == "specverify: interrupted, nothing was decided\n"


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("samplers", "reference  vectorised NumPy token rule\n"),
        ("checks", "SV-TOK-001  First token\n"),
        ("faults", "K02  residual_target: Redraws from the target.\n"),
    ],
)
def test_list_shows_a_line_for_each(what: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Names come with what they stand for; --json prints the same as a mapping."""
    assert main(["list", what]) == 0
    assert capsys.readouterr().out == expected
    assert main(["list", what, "--json"]) == 0
    name, text = expected.strip().split("  ", 1)
    assert json.loads(capsys.readouterr().out) == {name: text}


@pytest.mark.parametrize(("what", "name"), [("cases", "W402"), ("rules", "token")])
def test_list_knows_the_cases_and_rules(what: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The built-in cases and rules are listed, each with a description."""
    assert main(["list", what, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert name in listed
    assert all(listed.values())


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SV-TOK-001", "The law is p."),
        ("sv-tok-001", "The law is p."),
        ("K02", "Then .72/.28."),
        ("residual_target", "Then .72/.28."),
        ("block", "Block verification"),
        ("W402", "3 tokens, 2 drafted; rows depend on the tokens before them"),
    ],
)
def test_explain_takes_ids_and_names(name: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A check, a fault by id or name, and a rule are explained, in any case of letters."""
    assert main(["explain", name]) == 0
    assert text in capsys.readouterr().out


@pytest.mark.usefixtures("engine")
def test_explain_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown id is answered with the nearest known one."""
    assert main(["explain", "SV-TOK-002"]) == 2
    assert "did you mean 'SV-TOK-001'?" in capsys.readouterr().err


def test_power_of_one_check(capsys: pytest.CaptureFixture[str]) -> None:
    """For given cells, samples give the total variation that would be caught, and the other way round."""
    assert main(["power", "--cells", "16", "--samples", "20000"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["20,000", "0.0315"]
    assert main(["power", "--cells", "16", "--tv", "0.01"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["198,830", "0.01"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--cells 1 --alpha 0.999 --checks 1", "One check with 1 cell, alpha 0.999 shared by 1 check, caught"),
        ("--cells 2", "One check with 2 cells, alpha 1e-6 shared by 64 checks, caught"),
    ],
)
def test_power_says_what_it_was_asked(line: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The heading counts in words and rounds nothing away."""
    assert main(["power", *line.split()]) == 0
    assert capsys.readouterr().out.startswith(text)


def test_power_of_a_plan(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """For a sampler, the case that shows least is given by check and by size; on request every case."""
    assert main(["power", "reference", "--profile", "ci", "--require", "lossless"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["SV-TOK-001", "AB", "100,000", "3", "0.02"] in lines
    assert ["SV-JNT-001", "big", "100,000", "3", "0.01"] in lines
    assert ["tiny", "AB", "100,000", "3", "0.02"] in lines
    assert ["large", "big", "100,000", "3", "0.01"] in lines
    assert not any("T3" in line for line in lines)
    assert (engine.options["profile"], engine.options["require"]) == ("ci", "lossless")
    assert main(["power", "reference", "--verbose"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["SV-TOK-001", "T3", "100,000", "3", "0.012"]
    assert len(lines) == 4
    assert "profile" not in engine.options


def test_power_of_a_plan_says_which_known_faults_it_could_miss(capsys: pytest.CaptureFixture[str]) -> None:
    """At quick the lost tail of K18 is not promised, everything else is; with few samples much less is."""
    assert main(["power", "reference"]) == 0
    full = capsys.readouterr().out.partition(" known faults ")[2]
    assert full.startswith("31 are found with probability 0.9999 or more. The others:")
    assert [line.split()[0] for line in full.splitlines()[3:]] == ["K18"]
    assert main(["power", "reference", "--samples", "100"]) == 0
    few = capsys.readouterr().out.partition("The others:")[2]
    assert {"K11", "K18"} <= {line.split()[0] for line in few.splitlines() if line}
    assert main(["power", "reference", "--only", "SV-TOK-001"]) == 0
    assert "known faults" not in capsys.readouterr().out


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "line",
    [
        "power",
        "power reference --cells 3",
        "power --cells 0",
        "power --cells 4 --tv 2",
        "power --cells 27 --tv 1e-300",
        "power --cells 27 --samples 0",
        "power --cells 27 --samples -5",
        "power --cells 27 --checks 0",
        "power --cells 27 --alpha nan",
        f"power --cells 27 --checks {10**400}",
        f"power --cells {10**400}",
        f"power --cells 27 --samples {10**400}",
        "power reference --tv 0.1",
        "power reference --checks 64",
        "power --cells 27 --only SV-TOK-001",
        "power --cells 27 --only=",
        "power --cells 27 --require rule",
        "power --cells 27 --profile quick",
        "power --cells 27 --verbose",
        "power --cells 27 --tv 0.1 --samples 10",
    ],
)
def test_power_refuses_what_it_cannot_answer(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither or both of TARGET and --cells, numbers outside their domain, and options without effect are errors."""
    assert main(line.split()) == 2
    told = capsys.readouterr().err
    assert told.startswith("specverify: error: expected ")
    assert told.count("\n") == 1
    assert len(told) < 250


@pytest.mark.parametrize("value", ["", " ", ",", " , "])
def test_no_id_is_not_every_id(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty --only, as from an unset variable, is an error, and so is an empty file name."""
    assert main(["check", "reference", f"--only={value}"]) == 2
    assert f"expected the id of a check, got {value!r}" in capsys.readouterr().err
    for option in ("--known-failures", "--json"):
        assert main(["check", "reference", option, ""]) == 2
        told = capsys.readouterr().err
        assert "''" in told
        assert told.count("\n") == 1


def test_an_endless_argument_is_echoed_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever an error repeats is cut and escaped, also by the parser of the arguments."""
    endless = "\x1b[31m" + "a" * 9999
    for arguments in (
        ["check", endless],
        ["explain", endless],
        ["check", "reference", "--json", str(tmp_path / endless)],
    ):
        assert main(arguments) == 2
    with pytest.raises(SystemExit):
        main(["list", endless])
    with pytest.raises(SystemExit):
        main(["check", "reference", endless])
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert max(map(len, told.splitlines())) < 1100


def test_an_error_of_the_kit_is_one_line(
    engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody foresaw has status 2, not that of a verdict; with SPECVERIFY_DEBUG it has its traceback."""
    monkeypatch.delenv("SPECVERIFY_DEBUG", raising=False)

    def fail() -> None:
        raise ZeroDivisionError("two\nlines")

    engine.effect = fail
    assert main(["check", "reference"]) == 2
    expected = "specverify: internal error: ZeroDivisionError: two lines; please report it with the command\n"
    assert capsys.readouterr().err == expected
    monkeypatch.setenv("SPECVERIFY_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["check", "reference"])


@pytest.mark.parametrize(("target", "status", "first"), [("reference", 0, "C"), ("naive-redraw", 1, "NONC")])
def test_a_real_run_ends_in_a_valid_report(
    target: str, status: int, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the real engine the status, the text and a document that obeys the schema agree."""
    path = tmp_path / "report.json"
    assert main(["check", target, "--samples", "2000", "--target-tv", "0.9", "--json", str(path)]) == status
    shown = capsys.readouterr().out
    assert shown.startswith(f"{target}: {first}")
    assert main(["report", str(path)]) == 0
    assert capsys.readouterr().out == shown
    schema = resources.files("specverify.reports").joinpath("report.schema.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator(json.loads(schema)).validate(Report.read(path).document)
    assert main(["check", target, "--samples", "2000", "--target-tv", "0.9", "--json", "-"]) == status
    again = json.loads(capsys.readouterr().out)
    assert [check["observed"] for check in again["checks"]] == [check["observed"] for check in Report.read(path).checks]


def test_a_link_to_a_file_that_is_not_there_yet_stays_a_link(tmp_path: Path) -> None:
    """The report goes where the link points."""
    link, file = tmp_path / "link.json", tmp_path / "target.json"
    link.symlink_to("target.json")
    assert main(["check", "reference", "--only", "SV-RPL-001", "--json", str(link)]) in (0, 3)
    assert link.is_symlink()
    assert json.loads(file.read_text("utf-8"))["tool"]["name"] == "specverify"
