"""What the exact laws promise is what runs keep: the evidence of a fault comes as fast as was foreseen."""

import math

import numpy as np
import pytest

from specverify.alternatives import alternatives, null_of, score
from specverify.contract import Verifier, verifier
from specverify.foreseen import foresee
from specverify.plan import plan


@verifier(rule="token", name="stub")
def stub(draft_tokens: object, num_draft_tokens: object, draft_probs: object, target_probs: object, seed: int) -> None:
    """Never run: only planned."""


def test_every_fault_of_a_law_would_be_found_at_ci() -> None:
    """At the ci profile all faults of the kernel have power .9999, but for a coin that is wrong once in 2^24 draws."""
    weak = {found.fault: found.power for found in foresee(plan(stub, profile="ci")) if found.power < 0.9999}
    assert weak.keys() <= {"K17"}


def test_fewer_samples_promise_less() -> None:
    """With a hundred rows a case small faults are not promised, large ones are."""
    power = {found.fault: found.power for found in foresee(plan(stub, samples=100))}
    assert power["K01"] > 0.9999
    assert power["K18"] < 0.5


@pytest.mark.parametrize("fault", ["K11", "K12", "K15"])
def test_the_promise_is_kept(fault: str) -> None:
    """At the rows that promise power 0.9 a simulated likelihood ratio passes its level in 81% to 97% of 2,000 runs.

    Bounds of 9 standard deviations of the simulation around what the normal approximation may be off by.
    """
    planned = plan(stub, profile="ci")
    found = next(found for found in foresee(planned) if found.fault == fault)
    run = next(run for run in planned.runs if run.name == found.case)
    laws = alternatives(run.case_probes, planned.faults)
    h = planned.faults.index(fault)
    assert laws.outcome is not None
    wrong = null_of(run.case_probes, laws, by_outcome=True) * np.exp(laws.outcome[h])
    counts = np.random.default_rng(3).multinomial(math.ceil(found.rows), wrong / wrong.sum(), size=2000)
    level = math.log(2 * len(planned.faults) / (planned.shares[1] / 2 * planned.options.alpha))
    passed = np.mean([score(laws.outcome[h : h + 1], row)[0] >= level for row in counts])
    assert 0.81 < passed < 0.97


def test_a_plan_of_some_checks_foresees_no_fault() -> None:
    """The laws of faults count only where all checks are asked for."""
    assert isinstance(stub, Verifier)
    assert foresee(plan(stub, only=["SV-TOK-001"])) == []
