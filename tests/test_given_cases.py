"""Whoever has cases of their own gets them run instead of the built-in ones, under the same budget and verdict."""

import pytest

import specverify
from specverify import Case, check
from specverify.case_code import case_code
from specverify.counterexample import counterexample
from specverify.errors import ConfigError
from specverify.judging import Judgement, decided
from specverify.menu import menu
from specverify.plan import plan
from specverify.registry import load
from specverify.suite import Run
from specverify.tree import Tree

AB = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)


def test_a_correct_sampler_conforms_on_a_given_case() -> None:
    """The case alone is run: no menu, no independence stage."""
    report = check(load("reference"), cases=[AB], samples=20_000, target_tv=0.05, alpha=1e-10)
    assert report.verdict == "conformant"
    assert report.document["timing"]["rows"] == 20_000
    assert report.document["detectable_tv"]["case"] == "AB"


def test_a_wrong_sampler_is_named_on_a_given_case() -> None:
    """The naive redraw is found on the two-token example alone."""
    report = check(load("naive-redraw"), cases=[AB], samples=20_000)
    assert report.verdict == "nonconformant"
    assert report.diagnosis[0]["fault"] == "K02"


@pytest.mark.parametrize("cases", [[], "AB", [AB, "AB"], 3, [AB, AB]])
def test_what_is_no_list_of_cases_is_refused(cases: object) -> None:
    """Wrong cases are an error in one line."""
    with pytest.raises(ConfigError, match=r"^expected cases "):
        check(load("reference"), cases=cases)  # type: ignore[arg-type]


def test_cases_that_do_not_fit_the_sampler_are_refused() -> None:
    """A tree is not for a verifier of one draft, nor a chain for one of trees, nor ragged rows for one of full ones."""
    tree = AB.with_tree(Tree.chain(1), "chain")
    for name, case in (("reference", tree), ("reference-rrs", AB)):
        with pytest.raises(ConfigError, match=r"^expected a case of "):
            check(load(name), cases=[case])
    ragged = Case.from_rows("ragged", ["1/2", "1/2"], ["1/4", "3/4"], num_draft_tokens=2, ragged=True)
    with pytest.raises(ConfigError, match="not ragged"):
        check(lambda draft_tokens: draft_tokens, cases=[ragged])


def test_without_stopping_early_every_case_is_run_to_its_end() -> None:
    """A fault that is proved at the first look ends the run, or does not."""
    rows = [
        check(load("fault:K01"), samples=3000, stop_early=stop).document["timing"]["rows"] for stop in (True, False)
    ]
    planned = plan(load("fault:K01"), samples=3000)
    assert rows[0] < rows[1] == planned.rows


def test_without_stopping_early_each_check_is_decided_alone() -> None:
    """A p-value between the share of one check and Holm's later steps fails in a whole run, and not alone."""
    p_values = [1e-12, 3.3e-7]
    found = []
    for stop_early in (True, False):
        planned = plan(load("reference"), cases=[AB], only=["SV-TOK-001", "SV-TOK-002"], stop_early=stop_early)
        planned.num_checks = 2
        found.append(decided(p_values, planned))
    assert found == [[True, True], [True, False]]


def test_the_line_that_reproduces_has_the_given_case() -> None:
    """A command cannot hold a case: the counterexample is reproduced by a line of Python that does, exactly."""
    thirds = Case.from_rows("thirds", [0.1, 0.2, 0.7], [0.3, 0.3, 0.4], num_draft_tokens=1)
    found = check(load("naive-redraw"), cases=[thirds], samples=20_000, target="naive-redraw").document
    line = found["counterexample"]["reproduce"]
    assert line.startswith("import specverify.registry; print(")
    again = eval(line.partition("print")[2], {"specverify": specverify}).document
    assert again["counterexample"]["observed"] == found["counterexample"]["observed"]


def test_the_line_of_a_function_has_the_given_case() -> None:
    """A sampler without a name on the command line stands in the line by that of its variable."""
    line = check(load("naive-redraw"), cases=[AB], samples=20_000).document["counterexample"]["reproduce"]
    assert line.startswith("specverify.check(naive_redraw, cases=[specverify.Case.from_rows('AB', ")
    assert line.endswith("# from specverify.adapters.builtin import naive_redraw")


def test_evidence_of_all_checks_together_has_a_case() -> None:
    """Where no check fails alone, the case with most of the evidence is shown, and not as one that shows the fault."""
    other = Case.from_rows("BA", ["2/5", "3/5"], ["1/5", "4/5"], num_draft_tokens=1)
    run = Run(plan(load("fault:K11"), cases=[AB, other], samples=10_000, seed=1))
    run.execute()
    judgement = Judgement(run)
    assert judgement.verdict == "nonconformant"
    alone = counterexample(judgement)
    judgement.rejected = set()  # as if none had failed
    example = counterexample(judgement)
    assert alone is not None
    assert example is not None
    assert (alone["shown_by"], example["shown_by"]) == ("case", "all evidence")
    strongest = max(judgement.results, key=lambda result: result.log_e)
    assert example["case"] == strongest.run.case.name
    assert alone["reproduce"].count("from_rows(") == 1
    assert example["reproduce"].count("from_rows(") == 2  # only together do they show it


@pytest.mark.parametrize(
    "case",
    [
        AB,
        Case.from_rows("floats", [0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3], num_draft_tokens=2, ragged=True),
        Case.from_rows("per position", [["1", 0], ["1/3", "2/3"]], [["1/2", "1/2"]], num_draft_tokens=1),
        Case.from_rows("no draft", ["1/3", "2/3"], [], num_draft_tokens=0),
        next(case for case in menu() if case.name == "W402"),
    ],
    ids=lambda case: case.name,
)
def test_a_case_is_written_as_code(case: Case) -> None:
    """The line that builds a case again gives the same rows, to the last bit."""
    code = case_code(case)
    assert code is not None
    again = eval(code, {"specverify": specverify})
    assert (again.name, again.ragged, again.exact) == (case.name, case.ragged, case.exact)
    assert all((a == b).all() for a, b in zip((*again.target, *again.draft), (*case.target, *case.draft), strict=True))


def test_what_is_too_large_is_not_written() -> None:
    """A case of thousands of numbers, or of a tree, has no such line; the one that reproduces names it."""
    assert case_code(next(case for case in menu() if case.name == "softmax-1024")) is None
    assert case_code(AB.with_tree(Tree.chain(1), "chain")) is None
    flat = Case.from_rows("flat", [1 / 1000] * 1000, [0.5, 0.5] + [0.0] * 998, num_draft_tokens=1)
    line = check(load("naive-redraw"), cases=[flat], samples=20_000).document["counterexample"]["reproduce"]
    assert "cases=[the case 'flat']" in line
