"""Whole runs on trees: what is right passes, what is wrong is caught and named, and each sampler gets fitting trees."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from specverify.adapters.trees import reference_rrs, reference_target_only
from specverify.calling import call
from specverify.checking import check
from specverify.contract import Verifier, verifier
from specverify.evidence import gof
from specverify.faults.trees import TREE_FAULT_RULES, tree_fault_sampler
from specverify.handing import Handed
from specverify.lumping import lump, rule_law, rules_of
from specverify.plan import plan
from specverify.probes import CaseProbes
from specverify.reference import TREE_MODES, TREE_RULES, RandomTape, TreeRule
from specverify.registry import load
from specverify.replay import replay
from specverify.reports import Report
from specverify.running import CaseRun, Unit
from specverify.sampling import CaseSampler
from specverify.schedule import Planned, schedule
from specverify.tree_menu import tree_menu

Array = npt.NDArray[Any]
LAWS = ["SV-TOK-001", "SV-JNT-001", "SV-LEN-001", "SV-RUL-001"]
ONE_DRAFT = {"SV-ACC-001", "SV-RES-001", "SV-RES-002", "SV-POS-001", "SV-BON-001", "SV-SUP-002", "SV-DRF-001"}


def statuses(report: Report) -> dict[str, str]:
    """Return the status of every check of a report."""
    return {entry["id"]: entry["status"] for entry in report.document["checks"]}


@verifier(name="by-row")
def traversal_by_row(parents: Array, draft_tokens: Array, draft_probs: Array, target_probs: Array, seed: int) -> Any:
    """Play the traversal rule of the reference row by row."""
    tape_source, rows = np.random.default_rng(seed), []
    for tokens, *given in zip(draft_tokens.tolist(), draft_probs.tolist(), target_probs.tolist(), strict=True):
        path, last = TREE_RULES["traversal"](RandomTape(tape_source), parents.tolist(), tokens, *given)
        rows.append([*(tokens[node] for node in path), last])
    width = max(map(len, rows))
    return [row + [-1] * (width - len(row)) for row in rows]


def test_the_recursive_reference_conforms() -> None:
    """It passes every check that is about trees, and the others do not apply."""
    report = check(reference_rrs, samples=1500, target_tv=0.3)
    assert (report.verdict, report.lossless) == ("conformant", True)
    assert report.document["rule"] == {"declared": "rrs", "conforms": True, "not_rejected": ["rrs"]}
    found = statuses(report)
    unfit = ONE_DRAFT | {"SV-PRP-001", "SV-RND-001", "SV-RND-002"}
    assert {name for name, status in found.items() if status == "not_applicable"} == unfit
    assert all(status == "passed" for name, status in found.items() if name not in unfit)
    assert report.document["acceptance"] is None


def test_the_target_only_reference_conforms() -> None:
    """It follows its rule on distinct siblings, without being told how they were drawn."""
    report = check(reference_target_only, samples=1500, target_tv=0.3, only=LAWS)
    assert report.verdict == "conformant"
    assert report.document["rule"]["not_rejected"] == ["target_only"]


def test_built_in_names_load_them() -> None:
    """They are found by name."""
    assert load("reference-rrs") is reference_rrs
    assert load("reference-target-only") is reference_target_only


def on(sampler: Verifier, case: str, rule: str | None, rows: int, seed: int = 1) -> CaseRun:
    """Return one case of the tree menu after so many rows."""
    tree = next(found for found in tree_menu(TREE_MODES) if found.name == case)
    run = CaseRun(Planned(tree, "tiny", rows, 4096, False), sampler, rule, 1e-12, seed, lambda _: True)
    run.seen.add(run.carry_out(Unit(rows, (0,)))[0])
    assert run.seen.rows == rows, run.seen.fault
    return run


def p_value(run: CaseRun, check_id: str) -> float:
    """Return the p-value of a check on a case."""
    probe = next(probe for probe in run.probes if probe.check == check_id)
    return gof(run.count_of(check_id), probe.probs).p_value


def fits(run: CaseRun, rule: TreeRule) -> float:
    """Return the p-value of the whole outcomes under the law of a rule."""
    probe = run.case_probes.outcome_probe(rule)
    assert probe is not None
    return gof(probe.recount(run.seen.outcomes), probe.probs).p_value


def test_traversal_is_lossless_and_told_from_the_recursive_rule() -> None:
    """A sampler that plays the traversal rule row by row has the target's law, its own rule's, and not the other's."""
    run = on(traversal_by_row, "W637-binary-without-replacement", "traversal", 6000)
    assert min(p_value(run, name) for name in ("SV-TOK-001", "SV-JNT-001", "SV-LEN-001", "SV-RUL-001")) > 1e-10
    assert not run.seen.violations
    assert fits(run, TREE_RULES["rrs"]) < 1e-12


def test_a_sampler_of_another_tree_rule_is_lossless_and_named() -> None:
    """The recursive rule in the name of target_only is lossless, fails the rule, and the diagnosis says what it is."""
    other = Verifier(reference_rrs.function, "other", reference_rrs.asks, rule="target_only", readonly=True)
    report = check(other, samples=3000, target_tv=0.3, only=["SV-JNT-001", "SV-TOK-001", "SV-RUL-001"])
    found = statuses(report)
    assert (found["SV-JNT-001"], found["SV-RUL-001"], report.verdict) == ("passed", "failed", "nonconformant")
    assert "it behaves as the rrs rule" in report.document["diagnosis"][0]["message"]


TELLING = {"M06": "W637-pair-without-replacement", "M12": "W637-binary-top"}


@pytest.mark.parametrize("fault", TREE_FAULT_RULES)
def test_samplers_of_faults_have_the_law_of_their_fault(fault: str) -> None:
    """On 60000 rows of a witness tree each fits its own exact law, and is told from the correct one."""
    rule = "target_only" if fault == "M12" else "rrs"
    run = on(tree_fault_sampler(fault), TELLING.get(fault, "W637-pair-with-replacement"), rule, 60000)
    assert fits(run, TREE_FAULT_RULES[fault]) > 1e-10
    assert p_value(run, "SV-RUL-001") < 1e-12
    assert p_value(run, "SV-JNT-001") < 1e-12


def test_a_fault_is_caught_and_named() -> None:
    """A run proves the fault, names it, and shows the smallest tree."""
    report = check(tree_fault_sampler("M03"), samples=3000, only=LAWS)
    assert (report.verdict, report.lossless) == ("nonconformant", False)
    assert [candidate["fault"] for candidate in report.document["diagnosis"]] == ["M03"]
    assert report.document["counterexample"]["case"].startswith("AB-")


def test_known_faults_have_different_laws() -> None:
    """On two witness trees together no two faults, and none and a correct rule, have the same law of outcomes."""
    cases = [case for case in tree_menu(TREE_MODES) if case.name in ("W637-pair-with-replacement", "W637-binary-top")]
    laws = {}
    for name, rule in (TREE_FAULT_RULES | dict(rules_of(tree=True))).items():
        lenses = [lump(case, 8, 1e-12) for case in cases]
        found = [rule_law(rule, lens) for lens in lenses if lens is not None]
        probes = [CaseProbes(case, 1e-12, None) for case in cases]
        laws[name] = [probe.outcome_probs(law) for probe, law in zip(probes, found, strict=True) if law is not None]
    for one, other in combinations([name for name in laws if name not in ("M06", "traversal")], 2):
        assert any(np.abs(a - b).sum() > 0.01 for a, b in zip(laws[one], laws[other], strict=True)), (one, other)


def broken(change: Callable[[Array], Any]) -> Verifier:
    """Return the recursive reference with its output changed."""

    @verifier(name="broken")
    def sampler(parents: Any, draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Any) -> Any:
        return change(reference_rrs(parents, draft_tokens, draft_probs, target_probs, uniforms))

    return sampler


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tokens: tokens[:, ::-1], "expected"),
        (lambda tokens: (tokens[:, 0] * 0, tokens[:, 0]), "got a tuple from a tree verifier"),
        (lambda tokens: np.full_like(tokens, -1), "expected a path of drafted tokens from the root"),
    ],
)
def test_broken_outputs_fail_the_structure_check(change: Callable[[Array], Any], message: str) -> None:
    """What is no path and one more token is told with its first row."""
    report = check(broken(change), samples=50)
    entry = next(entry for entry in report.document["checks"] if entry["id"] == "SV-STR-001")
    assert (report.verdict, entry["status"]) == ("nonconformant", "failed")
    assert message in entry["message"]


def test_ignored_seeds_and_shared_rows_are_caught() -> None:
    """Replay and independence are checked on trees of one node per position."""

    @verifier(name="deaf")
    def deaf(parents: Any, draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        del seed
        fixed = np.random.default_rng(5)
        uniforms = type("U", (), {"accept": fixed.random(draft_tokens.shape), "final": fixed.random(len(draft_tokens))})
        return reference_rrs(parents, draft_tokens, draft_probs, target_probs, uniforms)

    violations, _ = replay(deaf, 1)
    assert [violation.check for violation in violations] == ["SV-RPL-001"]
    assert statuses(check(deaf, only=["SV-IND-002"]))["SV-IND-002"] == "failed"


@pytest.mark.parametrize(
    ("names", "rule", "dtype", "modes"),
    [
        ({"draft_probs"}, None, "float64", TREE_MODES),
        ({"draft_logits"}, "rrs", "float32", TREE_MODES),
        ({"draft_probs"}, "rrs", "float16", ("with_replacement", "top")),
        ({"draft_probs"}, "target_only", "float64", ("without_replacement", "top")),
        (set(), "target_only", "float16", ("without_replacement", "top")),
    ],
)
def test_siblings_are_drawn_as_the_verifier_can_score_them(
    names: set[str], rule: str | None, dtype: str, modes: tuple[str, ...]
) -> None:
    """Equal siblings only where their law is told, and no second rounding where it would show."""
    one = Verifier(print, "one", frozenset({"parents", "draft_tokens", *names}), rule=rule, dtype=dtype)
    planned = schedule(one, "quick")
    trees = [p.case.tree for p in planned]
    assert {tree.mode for tree in trees if tree is not None} == set(modes)
    assert None not in trees
    assert [p.case.name for p in planned if p.headline] == [f"W637-binary-{modes[0].replace('_', '-')}"]


def test_chain_verifiers_get_no_trees_and_tree_verifiers_nothing_else() -> None:
    """Each form has a menu of its own, the independence stage included."""
    for sampler, expected in ((reference_rrs, True), (load("reference"), False)):
        planned = plan(sampler, samples=10)
        assert {run.case.tree is not None for run in (*planned.runs, *planned.stage)} == {expected}


def test_a_sampler_of_one_sequence_gets_the_telling_trees() -> None:
    """Fewer cases, and calls of one row."""
    one = Verifier(print, "one", frozenset({"parents", "draft_tokens", "draft_probs"}), max_batch=1)
    planned = schedule(one, "quick")
    assert {p.batch for p in planned} == {1}
    assert len(planned) < len(schedule(reference_rrs, "quick"))
    assert any(p.headline for p in planned)


def test_every_node_of_the_menu_exists_and_every_small_tree_has_a_law() -> None:
    """No level asks for more siblings than its draft has, and only the large vocabulary has no law of the rules."""
    for case in tree_menu(TREE_MODES):
        assert (CaseSampler(case).draft(200, np.random.default_rng(0))[0] >= 0).all()
        lens = lump(case, 8, 1e-12)
        assert lens is not None
        law = None if case.vocab_size > 8 else rule_law(rules_of(tree=True)["rrs"], lens)
        assert (law is None) == (case.name.startswith("softmax"))
        assert law is None or law.weights.sum() == pytest.approx(1, abs=1e-12)


def test_a_call_gives_the_accepted_path() -> None:
    """The reply holds the path in the place of the draft, and the trace is made of it."""
    case = next(case for case in tree_menu(TREE_MODES) if case.name == "W637-lopsided-top")
    handed = Handed(case, reference_rrs)
    tokens, lengths = CaseSampler(case).draft(300, np.random.default_rng(1))
    reply = call(reference_rrs, handed, tokens, lengths, 9)
    assert reply.draft_tokens is not None
    assert ((reply.draft_tokens >= 0).sum(axis=1) == reply.num_accepted).all()
    assert set(reply.num_accepted.tolist()) == {0, 1, 2}
