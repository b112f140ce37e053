"""What is known to fail is written in one language, whichever door it comes through, and read strictly."""

import datetime
from pathlib import Path
from typing import Any

import pytest
from plugin_projects import WRONG_RESIDUAL

from specverify.checks import CATALOGUE
from specverify.cli import main
from specverify.errors import ConfigError
from specverify.known_failures import (
    KnownFailure,
    entries_by_sampler,
    reasons_today,
    require_excusable,
    require_samplers,
)
from specverify.reports import Report

TODAY = datetime.date(2026, 1, 2)


def test_the_reason_is_kept_with_the_issue() -> None:
    """An entry becomes one line, and its last day counts as inside."""
    entry = {"reason": "bf16 ratio", "issue": "issue 12", "until": TODAY}
    found = entries_by_sampler({"SV-RES-001": entry, "SV-ACC-001": "x"}, ["mine"])
    assert reasons_today(found["mine"], today=TODAY) == {"SV-RES-001": "bf16 ratio (issue 12)", "SV-ACC-001": "x"}


def test_an_entry_expires_only_where_it_is_used() -> None:
    """Reading one that is past its last day is no error; asking for its reason is one that names the day."""
    entry = {"reason": "a", "until": "2026-01-01"}
    found = entries_by_sampler({"mine": {"SV-RES-001": entry}, "other": {"SV-RES-001": "x"}}, [])
    assert reasons_today(found["other"], today=TODAY) == {"SV-RES-001": "x"}
    with pytest.raises(ConfigError, match=r"^known failure SV-RES-001: expired on 2026-01-01; .*$"):
        reasons_today(found["mine"], today=TODAY)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"issue": "12"}, "expected a reason, got none"),
        ({"reason": "  "}, "expected a reason, got none"),
        ({"reason": 3}, "expected text for reason, got 3"),
        ({"reason": "a", "untill": "2027-01-01"}, "got the key 'untill'"),
        ({"reason": "a", "until": "soon"}, "expected a date for until"),
        (3, "expected a reason or a table, got 3"),
        ("", "expected a reason, got none"),
    ],
)
def test_a_wrong_entry_is_refused_in_one_line(entry: Any, message: str) -> None:
    """An entry without a reason or with an unknown key is an error, in either form."""
    for entries in ({"SV-RES-001": entry}, {"other": {"SV-RES-001": entry}}):
        with pytest.raises(ConfigError, match=message) as caught:
            entries_by_sampler(entries, ["mine"])
        assert "\n" not in str(caught.value)


def test_both_forms_may_stand_side_by_side() -> None:
    """A key that is the id of a check is meant for the one sampler, every other is the name of a sampler."""
    x, y, z = map(KnownFailure, "xyz")
    due = {"mine": {"SV-RES-001": x}}
    assert entries_by_sampler({"SV-RES-001": "x"}, ["mine", "mine"]) == due
    assert entries_by_sampler({"mine": {"SV-RES-001": {"reason": "x"}}}, ["mine", "other"]) == due
    assert entries_by_sampler({}, []) == {}
    both = {"SV-RES-001": "x", "mine": {"SV-LEN-001": "y"}, "other": {"SV-ACC-001": "z"}}
    assert entries_by_sampler(both, ["mine"]) == {
        "mine": {"SV-RES-001": x, "SV-LEN-001": y},
        "other": {"SV-ACC-001": z},
    }
    for names in ([], ["mine", "other"]):
        with pytest.raises(ConfigError, match=f"got checks alone for {len(names)} samplers"):
            entries_by_sampler({"SV-RES-001": "x"}, names)


@pytest.mark.parametrize("entries", [{"SV-RES-1": "x"}, {"mine": {"SV-RES-1": "x"}}])
def test_a_check_that_is_not_there_is_refused(entries: dict[str, Any]) -> None:
    """An entry for no check would excuse nothing: the error has the nearest id, in either form."""
    with pytest.raises(ConfigError, match="expected the id of a check, got 'SV-RES-1'; did you mean 'SV-RES-001'"):
        entries_by_sampler(entries, ["mine"])


def test_only_the_checks_themselves_can_be_excused() -> None:
    """All evidence together leaves known failures out by itself, and cannot be one."""
    for check in CATALOGUE:
        if check.startswith("SV-ALL-"):
            with pytest.raises(ConfigError, match=f"got {check}; it leaves those out by itself"):
                require_excusable(check)
        else:
            require_excusable(check)


def test_a_sampler_that_is_not_there_is_refused() -> None:
    """The error has the nearest name, or all of them."""
    require_samplers(["mine"], ["mine", "other"])
    with pytest.raises(ConfigError, match="got those of 'mime'; did you mean 'mine'"):
        require_samplers(["mime"], ["mine"])
    with pytest.raises(ConfigError, match="got those of 'mime'; there are none"):
        require_samplers(["mime"], [])


def test_an_expired_entry_of_another_sampler_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands that make no use of it work; the one that does ends with one line."""
    monkeypatch.chdir(tmp_path)
    expired = "{ reason = 'x', until = 2020-01-01 }"
    tmp_path.joinpath("specverify.toml").write_text(f"known_failures.naive-redraw.SV-RES-001 = {expired}\n")
    few = ("--samples", "50", "--only", "SV-TOK-001")
    assert main(["power", "--cells", "3"]) == 0
    assert main(["check", "reference", *few]) != 2
    assert main(["check", "naive-redraw", *few]) == 2
    told = "known failure SV-RES-001: expired on 2020-01-01; repair the sampler, or renew the entry"
    assert capsys.readouterr().err == f"specverify: error: {told}\n"


FORMS = {
    "by check": 'SV-RES-001 = "old"',
    "by name": '[mine]\nSV-RES-001 = "old"\n[other]\nSV-LEN-001 = "of another"',
    "by target": '["my_sampler.py:mine"]\nSV-RES-001 = "old"',
}


@pytest.mark.parametrize("form", FORMS)
def test_the_command_reads_every_form(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Entries for the sampler are excused, by check alone or in a table of its name; those of others are left alone."""
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("my_sampler.py").write_text(WRONG_RESIDUAL, encoding="utf-8")
    tmp_path.joinpath("known.toml").write_text(FORMS[form], encoding="utf-8")
    few = ("--samples", "300", "--alpha", "1e-10", "--target-tv", "0.9", "--only", "SV-RES-001")
    assert main(["check", "my_sampler.py:mine", *few]) == 1
    assert main(["check", "my_sampler.py:mine", *few, "--known-failures=known.toml", "--json=out.json"]) in (0, 3)
    (entry,) = (check for check in Report.read("out.json").checks if check["id"] == "SV-RES-001")
    assert (entry["status"], entry["reason"]) == ("known_failure", "old")
    assert capsys.readouterr().err == ""


def test_the_command_warns_of_a_name_that_is_nearly_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no entry is for the sampler and one nearly is, standard error has a line; another name is no mistake."""
    monkeypatch.chdir(tmp_path)
    configuration = tmp_path / "specverify.toml"
    configuration.write_text("known_failures.refrence.SV-RES-001 = 'x'\nknown_failures.zzz.SV-RES-001 = 'x'\n")
    main(["check", "reference", "--samples", "50", "--only", "SV-TOK-001"])
    told = "specverify: warning: known failures are listed for 'refrence', which is not checked"
    assert capsys.readouterr().err == f"{told}; did you mean 'reference'?\n"
    configuration.write_text("known_failures.zzz.SV-RES-001 = 'x'\n")
    main(["check", "reference", "--samples", "50", "--only", "SV-TOK-001"])
    assert capsys.readouterr().err == ""
