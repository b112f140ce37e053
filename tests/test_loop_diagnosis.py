"""The diagnosis of a loop names what explains all that was seen of it, and nothing that this contradicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import specverify
from specverify.faults import LOOP_FAULTS, fault_sampler
from specverify.faults.loop_fault import LoopFault
from specverify.faults.loop_samplers import loop_sampler
from specverify.faults.loop_steps import LoopEdit
from specverify.hypotheses import Candidate
from specverify.judging import Judgement
from specverify.loop_diagnosis import diagnose_loop
from specverify.loop_menu import loop_menu
from specverify.plan import plan
from specverify.suite import Progress, Run

CASES = {case.name: case for case in loop_menu()}
SILENT = loop_sampler(LoopEdit(), "silent")


def candidates(fault: LoopFault, rows: int, *, fair: str) -> list[Candidate]:
    """Diagnose a run whose blocks follow one fault, a few on each case, and whose fair tokens follow another."""
    run, rng = Run(plan(SILENT, samples=rows)), np.random.default_rng(1)
    for one in run.plan.runs:
        joint = next(probe for probe in one.probes if probe.check == "SV-JNT-001")
        _fill(one, "SV-JNT-001", rng.multinomial(rows, joint.mass(fault.law(one.case))))
    (stage,) = run.plan.stage
    stage.seen.rows = stage.planned.rows
    stage.seen.first_tokens += rng.multinomial(stage.planned.rows, LOOP_FAULTS[fair].first_token_law(stage.case))
    probe = next(probe for probe in stage.probes if probe.check == "SV-TOK-001")
    _fill(stage, "SV-TOK-001", probe.recount(np.arange(16)) if fair == "G05" else np.array([1000, *[0] * 16]))
    return diagnose_loop(Judgement(run))


def _fill(run: Any, check: str, counts: Any) -> None:
    run.count_of(check)[:] = counts
    run.seen.rows = int(counts.sum())


@pytest.mark.parametrize("name", ["K01-loop", "K02-loop"])
def test_the_best_known_faults_have_their_name_in_a_loop(name: str) -> None:
    """Keeping every draft, and drawing what is refused from the target again, are told from all other faults."""
    report = specverify.check(
        fault_sampler(LOOP_FAULTS[name]), cases=[CASES["loop"], CASES["loop-top-k"]], samples=4000
    )
    assert [(one["fault"], one["weight"] > 0.99) for one in report.diagnosis] == [(name, True)]


def test_few_rows_are_explained_together_with_the_fair_tokens() -> None:
    """A fault that leaves fair tokens fair is contradicted where they are not, however few other rows there are."""
    for rows in (20, 200):
        found = candidates(LOOP_FAULTS["K01-loop"], rows, fair="K01-loop")
        assert found[0].fault == "K01-loop"
        assert not {one.fault for one in found} & {"G05", "G06", "L01b"}


def test_what_fair_tokens_contradict_is_not_named() -> None:
    """The likeliest law of the blocks is no explanation where the first tokens of another case speak against it."""
    (found,) = candidates(LOOP_FAULTS["G06"], 2000, fair="K01-loop")
    assert found.fault is None
    assert found.message.startswith("none of the ")


def test_a_fault_of_a_parameter_that_is_not_asked_for_is_never_near() -> None:
    """A loop without a temperature cannot ignore one: only faults that change a law of the run are compared."""

    def wrong(target_model: Any, prompt: Any, max_new_tokens: int, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        assert target_model.vocab_size
        return (rng.random((len(prompt), max_new_tokens)) ** 2 * target_model.vocab_size).astype(int)

    report = specverify.check(wrong, cases=[CASES["loop"], CASES["loop-no-draft"]], samples=3000)
    (found,) = report.diagnosis
    assert found["fault"] is None
    blind = [
        fault.id for fault in LOOP_FAULTS.values() if fault.shows == "law" and fault.distance(CASES["loop"]) < 1e-12
    ]
    assert len(blind) > 9
    assert not any(f"The nearest is {name} " in found["message"] for name in blind)


def seeded(mode: str) -> Any:
    """Make a loop that treats its seed in some wrong way."""
    own = np.random.default_rng(0)

    def loop(target_model: Any, prompt: Any, max_new_tokens: int, seed: int) -> Any:
        rng = {"own": own, "fixed": np.random.default_rng(3)}.get(mode, np.random.default_rng(seed))
        contexts, eos = prompt, target_model.eos_token_id
        for _ in range(max_new_tokens):
            laws = np.exp(target_model(contexts)).cumsum(axis=1)
            new = (laws <= rng.random((len(prompt), 1)) * laws[:, -1:]).sum(axis=1)
            contexts = np.column_stack([contexts, new])
        tokens = contexts[:, prompt.shape[1] :]
        ended = np.cumsum(tokens == eos, axis=1) - (tokens == eos) > 0
        return np.where(ended, -1, tokens)

    return loop


@pytest.mark.parametrize(("mode", "fault"), [("own", "G10"), ("fixed", "G10c")])
def test_a_seed_that_is_ignored_is_named_from_replay(mode: str, fault: str) -> None:
    """Where every call is one and the same all laws fail, and none of them is what is wrong."""
    report = specverify.check(seeded(mode), samples=50, target_tv=0.9)
    assert [one["fault"] for one in report.diagnosis] == [fault]
    assert "from its seed" in report.diagnosis[0]["message"]


def test_rows_that_need_more_than_their_own_seed_are_told_so() -> None:
    """Only a loop that asks for seeds of rows is advised to start each row from its own."""
    report = specverify.check(fault_sampler(LOOP_FAULTS["G10b"]), cases=[CASES["loop"]], samples=50)
    assert [one["fault"] for one in report.diagnosis] == ["G10b"]


def test_who_waits_is_told_that_a_fault_is_being_named() -> None:
    """Once, after the last case, and only where there is a fault to name."""
    for sampler, due in ((seeded("fixed"), ["naming the fault"]), (seeded("right"), [])):
        told: list[Progress] = []
        specverify.check(sampler, cases=[CASES["loop"]], samples=50, progress=told.append)
        assert [one.case for one in told if one.case not in CASES] == due


def test_laws_of_a_fault_that_one_case_rules_out_are_not_made_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Naming costs seconds: with the rows of a short run most faults are ruled out by the first case."""
    asked: list[str] = []
    real = LoopFault.law

    def counted(self: LoopFault, case: Any, **options: Any) -> Any:
        asked.append(case.name)
        return real(self, case, **options)

    monkeypatch.setattr(LoopFault, "law", counted)
    report = specverify.check(
        fault_sampler(LOOP_FAULTS["K01-loop"]),
        cases=[CASES[n] for n in ("loop", "loop-hot", "loop-bias")],
        samples=4000,
    )
    assert report.diagnosis[0]["fault"] == "K01-loop"
    assert asked.count("loop") > 3 * asked.count("loop-bias") > 0
