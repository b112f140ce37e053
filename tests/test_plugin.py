"""Under pytest a sampler has one test per check, and which tests run, in which order and where changes none of them."""

import json
import math
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from plugin_projects import CORRECT, NEVER_ACCEPTS, WRONG_RESIDUAL, Session, ids, project, run

from specverify import check
from specverify.alternatives import completed
from specverify.arrays import FloatArray
from specverify.checks import CATALOGUE
from specverify.cli import main
from specverify.faults import CATALOGUE as FAULTS
from specverify.faults.record import Fault
from specverify.lumping import View
from specverify.plan import DEPENDENCE, plan
from specverify.probes import Probe
from specverify.registry import load
from specverify.reports import Report, render
from specverify.running import CaseRun
from specverify.trace import Trace

CHANGED = 1e-3  # probability of a cell that a fault moves, where it moves any


@pytest.fixture(scope="module")
def correct(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A run of a correct sampler."""
    folder = project(tmp_path_factory.mktemp("correct"), CORRECT)
    return run(folder, "-rs", "--specverify-json=reports")


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A run of a sampler that redraws from the target, long enough for every check that is to see it."""
    folder = project(tmp_path_factory.mktemp("wrong"), WRONG_RESIDUAL, "samples=3000, target_tv=0.9, alpha=1e-10")
    return run(folder, "--specverify-json=reports")


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A short run of the same sampler, to be repeated."""
    return run(project(tmp_path_factory.mktemp("short"), WRONG_RESIDUAL), "--specverify-json=reports")


@pytest.fixture(scope="module")
def unruly(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A run of a lossless sampler that does not follow its rule, named on the command line."""
    folder = tmp_path_factory.mktemp("unruly")
    folder.joinpath("my_sampler.py").write_text(NEVER_ACCEPTS, encoding="utf-8")
    few = ("--specverify-samples=300", "--specverify-target-tv=0.9", "--specverify-alpha=1e-10")
    named = "--specverify-sampler=my_sampler.py:mine"
    return run(folder, "--pyargs", "specverify.properties.test_conformance", named, *few)


def test_each_check_is_a_test_of_its_own(correct: Session) -> None:
    """There is one test per check, named by sampler and check; all pass but those that cannot apply."""
    assert correct.status == 0
    outcomes = correct.outcomes()
    assert set(outcomes) == ids("mine")
    skipped = {name for name, outcome in outcomes.items() if outcome == "skipped"}
    of_loops = {"mine-SV-PRP-001", "mine-SV-RND-001", "mine-SV-RND-002"}
    assert skipped == {"mine-SV-IND-001", "mine-SV-IND-003", "mine-SV-DRF-001", *of_loops}
    assert set(outcomes.values()) == {"passed", "skipped"}
    assert "not applicable: the sampler takes one row per call" in correct.text


def test_the_summary_says_verdict_and_coverage(correct: Session) -> None:
    """The run begins with what was asked for and ends with the verdict and the number of checks that ran."""
    assert "specverify: mine, profile quick, seed 0, alpha 1e-10\n" in correct.text
    assert "mine: CONFORMANT. 19 of 25 checks ran on 10 cases of 2 to 1024 tokens, 6 not applicable" in correct.text


def test_the_report_is_that_of_the_engine(correct: Session) -> None:
    """The folder of reports has one document, obeying the schema, with the counts of the same run without pytest."""
    (file,) = correct.junit.parent.joinpath("reports").iterdir()
    assert file.name == "mine.json"
    document = Report.read(file).document
    schema = resources.files("specverify.reports").joinpath("report.schema.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator(json.loads(schema)).validate(document)
    names: dict[str, object] = {}
    exec(compile(CORRECT, "my_sampler.py", "exec"), names)
    again = check(names["mine"], samples=300, target_tv=0.9, stop_early=False)  # type: ignore[arg-type]
    assert [entry["observed"] for entry in again.checks] == [entry["observed"] for entry in document["checks"]]


@pytest.mark.parametrize("name", ["correct", "wrong"])
def test_junit_properties_are_flat(name: str, request: pytest.FixtureRequest) -> None:
    """Each test has the verdict, its status and finite numbers as properties, each once."""
    session: Session = request.getfixturevalue(name)
    for case_name, case in session.cases():
        pairs = [(e.attrib["name"], e.attrib["value"]) for e in case.iter("property")]
        found = dict(pairs)
        assert len(found) == len(pairs)
        assert f"{found['specverify_sampler']}-{found['specverify_check']}" == case_name
        assert found["specverify_verdict"] == ("conformant" if name == "correct" else "nonconformant")
        assert found["specverify_status"] in ("passed", "failed", "not_applicable")
        numbers = ("seed", "alpha", "n", "p_value", "log10_e", "detectable_tv")
        assert all(math.isfinite(float(found.get(f"specverify_{number}", 0))) for number in numbers)


def first_tokens(size: int) -> View:
    """Give a view of one row for each first token."""
    none, never = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.bool_)
    tokens = np.arange(size)[:, None]
    return View(Trace(np.zeros((size, 0), dtype=np.int64), none, none, none, tokens), never, never)


def law_of(probe: Probe, run: CaseRun, fault: Fault) -> FloatArray | None:
    """Give the exact probabilities of a probe's cells when the sampler has a fault; None where they are not known."""
    case = run.case
    if probe.check.startswith("SV-TOK"):
        first = fault.first_token_law(case.target[0][0], case.draft[0][0] if case.draft else None)
        answers, weights = probe.question.ask(first_tokens(case.vocab_size)), first
    else:
        lens = run.case_probes.rule_lens
        law = fault.law(case) if lens is not None and lens.tables is None else None
        if law is None:
            return None
        if probe.check == "SV-JNT-001":
            return probe.mass(completed(case, law))
        answers, weights = probe.question.ask(law.view), law.weights
    if weights is None:
        return None
    asked = answers >= 0
    return probe.mass(np.bincount(answers[asked], weights=weights[asked]).astype(np.float64))


def changed_by(fault: Fault, runs: list[CaseRun]) -> set[str]:
    """Name the checks whose exact law a fault changes on some case, those of all evidence together included."""
    found = set()
    for case in runs:
        for probe in case.probes:
            law = law_of(probe, case, fault)
            if law is not None and np.abs(law - probe.probs).max() > CHANGED:
                found.add(probe.check)
                if law[-1] > CHANGED and probe.check in ("SV-ACC-001", "SV-RES-001"):
                    found.add("SV-SUP-002")
                if law[-1] > CHANGED and probe.check in ("SV-TOK-001", "SV-JNT-001"):
                    found.add("SV-SUP-001")
    lossless = {"SV-ALL-001"} if any(CATALOGUE[name].scope == "lossless" for name in found) else set()
    return found | lossless | {"SV-ALL-002"}


def test_exactly_the_checks_whose_law_a_fault_changes_fail(wrong: Session) -> None:
    """By the exact laws of the fault, each check that it changes fails and no other; the status is 1."""
    planned = plan(load("fault:K02"), samples=3000, target_tv=0.9)
    few = [case for case in planned.runs if case.case.vocab_size <= 1024]  # the others are not run one row at a time
    expected = changed_by(FAULTS["K02"], few)
    assert wrong.status == 1
    assert {"SV-RES-001", "SV-TOK-001", "SV-JNT-001", "SV-POS-001", "SV-SUP-002"} <= expected
    assert not expected & {"SV-ACC-001", "SV-LEN-001", "SV-BON-001", "SV-STR-001", "SV-SUP-001"}
    assert wrong.failed() - set(DEPENDENCE) == expected  # the fault also changes the tokens that those compare


def test_a_failed_test_says_what_the_report_says(wrong: Session) -> None:
    """The text of a failed test is that part of the text view: the check, the diagnosis, the case that shows it."""
    document = Report.read(wrong.junit.parent / "reports" / "mine.json").document
    whole = render(document, verbose=True)
    for name in wrong.failed():
        part, looks, *example = wrong.message(name).strip().split("\n\n")
        assert part.startswith(f"{name}  {CATALOGUE[name].title}\n")
        assert f"\n  {part}\n" in whole
        assert all(f"\n\n{paragraph}\n" in whole for paragraph in (looks, *example))
        assert looks.startswith("WHAT IT LOOKS LIKE\n  K02")
        assert any("Reproduce: specverify.check(mine, profile='quick', seed=0," in paragraph for paragraph in example)
    assert "conformance.py" not in wrong.text
    assert "sharing.py:" not in wrong.text.partition("= FAILURES =")[2]


def test_a_failed_test_says_what_the_command_line_says(
    unruly: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the command line runs to the end too, because the sampler is lossless, the texts are the same."""
    monkeypatch.chdir(unruly.junit.parent)
    assert main(["check", "my_sampler.py:mine", "--samples=300", "--target-tv=0.9", "--alpha=1e-10", "--verbose"]) == 1
    told = capsys.readouterr().out
    assert {"SV-ACC-001", "SV-LEN-001", "SV-ALL-002"} <= unruly.failed()
    texts = {name: unruly.message(name).strip() for name in unruly.failed()}
    for part in (part for text in texts.values() if "not decided" not in text for part in text.split("\n\n")):
        assert part in told


def test_tests_have_the_names_of_the_targets(unruly: Session) -> None:
    """The installed suite runs on the samplers of the command line, one test for each check, named as they are."""
    assert unruly.status == 1
    assert set(unruly.outcomes()) == ids("my_sampler.py:mine")
    assert unruly.text.count("specverify: my_sampler.py:mine, profile quick, seed 0, alpha 1e-10\n") == 1
    assert "Reproduce: specverify check my_sampler.py:mine --profile quick --seed 0" in unruly.text


@pytest.mark.parametrize("dist", ["load", "loadgroup"])
def test_workers_change_nothing(dist: str, short: Session) -> None:
    """With two workers, kept together or not, every test ends as in one process."""
    spread = run(short.junit.parent, "-n", "2", "--dist", dist, "--specverify-json=spread", name="spread")
    assert (spread.status, spread.outcomes()) == (1, short.outcomes())
    documents = [Report.read(short.junit.parent / folder / "mine.json") for folder in ("reports", "spread")]
    assert documents[0].checks == documents[1].checks
    assert "mine: NONCONFORMANT. 19 of 25 checks ran" in spread.text


def test_a_selection_changes_nothing(short: Session) -> None:
    """A check that is run alone ends as it did among all, with the same text."""
    alone = run(short.junit.parent, "-k", "SV-RES-001", name="alone")
    assert alone.outcomes() == {"mine-SV-RES-001": "failure"}
    assert alone.message("SV-RES-001") == short.message("SV-RES-001")


def test_known_failures_are_strict(tmp_path: Path, short: Session) -> None:
    """Those that fail are expected and shown with the reason; one that passes fails, and so does one not listed."""
    known = short.failed() - {"SV-ALL-001", "SV-ALL-002", "SV-RES-001"}
    options = f"samples=300, target_tv=0.9, alpha=1e-10, known_failures={dict.fromkeys(known, 'it redraws')}"
    folder = project(tmp_path, WRONG_RESIDUAL, options)
    configuration = folder / "specverify.toml"
    configuration.write_text('[known_failures.mine]\nSV-LEN-001 = "old"\n', encoding="utf-8")
    session = run(folder)
    assert session.status == 1
    assert session.failed() == {"SV-LEN-001", "SV-RES-001", "SV-ALL-002"}
    told = " ".join(session.message("SV-LEN-001").split())
    assert told.startswith("SV-LEN-001 accepted length stale known failure: it passed, so remove the entry (old)")
    listed = '[known_failures.mine]\nSV-RES-001 = { reason = "as published", issue = "issue 12" }\n'
    configuration.write_text(listed, encoding="utf-8")
    session = run(folder, "-rx")
    assert session.status == 0
    assert f"{len(known) + 1} xfailed" in session.text
    assert "known failure SV-RES-001: as published (issue 12)\n" in session.text
    told = " ".join(session.text.split())
    assert "mine: CONFORMANT but for its known failures (SV-SUP-002, SV-TOK-001," in told
    assert f" and {len(known) - 2} more). 19 of 25" in told


def test_an_inconclusive_verdict_fails_one_test(tmp_path: Path) -> None:
    """Where every check passes and too small an error was looked for, SV-ALL-001 fails and gives the whole view."""
    session = run(project(tmp_path, CORRECT, "samples=100, alpha=1e-10"))
    assert session.status == 1
    assert session.failed() == {"SV-ALL-001"}
    told = " ".join(session.message("SV-ALL-001").split())
    assert told.startswith(
        "mine: INCONCLUSIVE. No fault was proved, but that is no pass: the detectable total variation"
    )


FACTORIES = """
import pytest
import specverify
from my_sampler import mine

def made():
    with open("calls.txt", "a") as file:
        file.write("x")
    return mine

def broken():
    with open("calls.txt", "a") as file:
        file.write("y")
    raise RuntimeError("no such device")

def absent():
    pytest.skip("needs a GPU")

@specverify.parametrize_with_checks([made, broken, absent], samples=200, target_tv=0.9, alpha=1e-10)
def test_conformance(sampler, check):
    check(sampler)
"""


def test_a_factory_is_called_once_when_first_needed(tmp_path: Path) -> None:
    """What it makes is shared, what it raises is told by every test, its skips are skips; collecting calls none."""
    folder = project(tmp_path, CORRECT)
    folder.joinpath("test_mine.py").write_text(FACTORIES, encoding="utf-8")
    assert run(folder, "--collect-only").status == 0
    assert not folder.joinpath("calls.txt").exists()
    session = run(folder)
    outcomes = session.outcomes()
    assert folder.joinpath("calls.txt").read_text() == "xy"
    assert {outcomes[name] for name in ids("made")} == {"passed", "skipped"}
    assert {outcomes[name] for name in ids("broken")} == {"failure"}
    assert {outcomes[name] for name in ids("absent")} == {"skipped"}
    told = "specverify: making the sampler with broken failed: RuntimeError: no such device"
    assert session.message("broken-SV-RES-001").strip() == told


UNRELATED = """
import sys

def test_nothing():
    assert "specverify.plugin" in sys.modules
    loaded = {"numpy", "scipy", "torch", "hypothesis"} & set(sys.modules)
    own = {name for name in sys.modules if name.split(".")[0] == "specverify"}
    assert (loaded, own) == (set(), {"specverify", "specverify.plugin"})
"""


def test_an_unrelated_project_is_left_alone(tmp_path: Path) -> None:
    """Where nothing asks for it, the plugin imports neither the engine nor NumPy and says nothing."""
    tmp_path.joinpath("test_it.py").write_text(UNRELATED, encoding="utf-8")
    session = run(tmp_path, "-n", "0")
    assert session.status == 0, session.text
    assert session.text.count("specverify") == 1  # in the list of plugins
