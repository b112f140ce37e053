"""A report in JUnit XML is one that dashboards read, and nothing that was not decided is shown there as passed."""

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from foreign_text import FOREIGN, filled

from specverify.reports import junit, render
from specverify.wording import printable

Document = dict[str, Any]
DATA = Path(__file__).parent / "data"

CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase", "system-out"},
    "properties": {"property"},
    "property": set(),
    "testcase": {"failure", "error", "skipped"},
    "failure": set(),
    "error": set(),
    "skipped": set(),
    "system-out": set(),
}
"""What may stand in what, as the schemas of Surefire and of Jenkins have it."""

ATTRIBUTES = {
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    "property": {"name", "value"},
    "testcase": {"classname", "name", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message"},
}
"""The attributes that those schemas require or that the readers use; no other is written."""


def parsed(document: Document) -> ElementTree.Element:
    """Give the one suite of a report, its structure checked."""
    root = ElementTree.fromstring(junit(document).encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        assert {child.tag for child in element} <= CHILDREN[element.tag]
        assert set(element.attrib) == ATTRIBUTES.get(element.tag, set())
    (suite,) = root
    cases = suite.findall("testcase")
    assert suite.get("tests") == str(len(cases))
    for total, name in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert suite.get(total) == str(len(suite.findall(f"testcase/{name}")))
    assert all(len(case) <= 1 for case in cases)
    assert [child.tag for child in suite] == ["properties", *["testcase"] * len(cases), "system-out"]
    return suite


def outcomes(document: Document) -> dict[str, str]:
    """Give how each test case ended, by the id of its check."""
    return {str(case.get("name")): next((c.tag for c in case), "passed") for case in parsed(document).iter("testcase")}


@pytest.fixture
def failed() -> Document:
    """A report of a sampler that redraws from the target, as a run wrote it."""
    document: Document = json.loads((DATA / "report-1.0.json").read_text(encoding="utf-8"))
    return document


def test_one_suite_with_a_case_for_each_check(failed: Document) -> None:
    """Class and name of a case are those of the sampler and the check, in the order of the report."""
    suite = parsed(failed)
    cases = [(case.get("classname"), case.get("name")) for case in suite.iter("testcase")]
    assert cases == [("naive-redraw", check["id"]) for check in failed["checks"]]
    assert (suite.get("name"), suite.get("timestamp")) == ("specverify naive-redraw", "2026-01-02T03:04:05")
    assert math.isclose(float(suite.get("time") or "nan"), failed["timing"]["total_s"], abs_tol=5e-4)
    assert suite.findtext("system-out") == render(failed)


def test_properties_say_what_the_run_was(failed: Document) -> None:
    """Verdict, budget, seed and precision are there for a reader of the file alone; what is not known says so."""
    properties = {str(entry.get("name")): entry.get("value") for entry in parsed(failed).iter("property")}
    expected = {"verdict": "nonconformant", "lossless": "false", "alpha": "1e-06", "seed": "0", "profile": "quick"}
    assert expected.items() <= properties.items()
    assert (properties["detectable_tv"], properties["rule"]) == ("unknown", "token")


def test_each_status_has_its_element(failed: Document) -> None:
    """Failures fail, what was not asked or is known is skipped with its reason, and only a pass is nothing."""
    statuses = ("passed", "failed", "error", "inconclusive", "not_applicable", "known_failure")
    for check, status in zip(failed["checks"], statuses, strict=False):
        check.update(status=status, reason="the reason")
    expected = ["passed", "failure", "error", "skipped", "skipped", "skipped"]
    assert list(outcomes(failed).values())[:6] == expected
    messages = [element.get("message") for element in parsed(failed).iter("skipped")]
    assert messages[:3] == [
        "inconclusive: the reason",
        "not applicable: the reason",
        "known failure: the reason",
    ]


def test_a_failure_says_what_was_seen(failed: Document) -> None:
    """The message is one line; the text has the numbers and the cells that depart most."""
    failure = next(parsed(failed).iter("failure"))
    assert (failure.get("message") or "").startswith("impossible under the token rule: On case AB: a rejected draft")
    (token,) = (case[0] for case in parsed(failed).iter("testcase") if case.get("name") == "SV-TOK-001")
    assert "What should hold: The first token of the completed block follows p." in (token.text or "")
    assert "token 1: observed " in (token.text or "")
    assert token.get("type") == "lossless"


@pytest.mark.parametrize("ids", [["SV-STR-001", "SV-ALL-001", "SV-ALL-002"], ["SV-STR-001", "SV-TOK-001"]])
def test_an_inconclusive_run_is_not_green(ids: list[str], failed: Document) -> None:
    """Where every check passed and the verdict is open all the same, the combined check says why."""
    passed = {**failed["checks"][0], "status": "passed", "reason": "", "message": ""}
    failed.update(checks=[{**passed, "id": check} for check in ids], verdict="inconclusive", warnings=["too few"])
    speaker = "SV-ALL-001" if "SV-ALL-001" in ids else ids[-1]
    assert outcomes(failed) == {check: "error" if check == speaker else "passed" for check in ids}
    (error,) = parsed(failed).iter("error")
    assert error.get("message") == "INCONCLUSIVE. No fault was proved, but that is no pass: too few."


def test_an_open_check_is_an_error_unless_a_fault_was_proved(failed: Document) -> None:
    """Checks left open by a proof are skipped; those left open by a run that decided nothing are errors."""
    opened = [check["id"] for check in failed["checks"] if check["status"] == "inconclusive"]
    assert opened
    assert {outcomes(failed)[check] for check in opened} == {"skipped"}
    undecided = {**failed, "verdict": "inconclusive"}
    assert {outcomes(undecided)[check] for check in opened} == {"error"}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_text_is_data(name: str, failed: Document) -> None:
    """Any text survives parsing, with the characters that XML cannot hold written as escapes."""
    document = filled(failed, FOREIGN[name])
    suite = parsed(document)
    (classname,) = {case.get("classname") for case in suite.iter("testcase")}
    kept = printable(FOREIGN[name]).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
    assert classname is not None
    assert kept.startswith(classname.partition("... (")[0])
    assert len(classname) < 500
    text = "".join(suite.itertext()) + "".join(value for element in suite.iter() for value in element.attrib.values())
    assert not set(text) & {*map(chr, range(9)), "\x0b", "\x0c", "\x1b", "\ufffe", "\uffff"}


def test_a_report_without_checks_is_an_empty_suite(failed: Document) -> None:
    """Nothing that ran is nothing that passed."""
    failed.update(checks=[], verdict="inconclusive")
    assert outcomes(failed) == {}
