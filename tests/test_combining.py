"""The combined evidence is one e-value: its weights sum to one, and no part can prove more than its share."""

import math
from typing import Any

import pytest
from samplers import FAULTS, token_sampler

from specverify.combining import combined_log_e
from specverify.plan import Plan, plan
from specverify.suite import Run


def unseen(rule: bool = True, **options: Any) -> Plan:
    """Plan a run in which one row of every case was verified and nothing counted, so that every ratio is 1."""
    planned = plan(token_sampler(), samples=200, require="rule" if rule else "lossless", **options)
    for run in planned.runs:
        run.seen.rows = 1
    return planned


@pytest.mark.parametrize("rule", [True, False])
def test_no_data_is_no_evidence(rule: bool) -> None:
    """Where every likelihood ratio is 1 the mixture of all parts is exactly 1, whether a rule is asserted or not."""
    assert combined_log_e(unseen(rule)).whole == pytest.approx(0, abs=1e-12)


def test_what_speaks_against_the_rule_alone_is_left_out() -> None:
    """The lossless part has the weights of its own parts only: never more than the whole."""
    planned = unseen()
    checks, faults, ways = planned.shares
    probes = [probe for run in (*planned.stage, *planned.runs) for probe in run.probes]
    lossless = sum(probe.check in ("SV-TOK-001", "SV-TOK-002", "SV-TOK-003", "SV-JNT-001") for probe in probes)
    due = checks * lossless / len(probes) + faults / 2 + ways
    assert combined_log_e(planned).lossless == pytest.approx(math.log(due), abs=1e-12)
    assert due < 1


def test_known_failures_and_chosen_checks_do_without_the_catalogue() -> None:
    """Laws of faults mix what all checks see, so they count only where all checks do; else the checks have it all."""
    for options in ({"only": ["SV-TOK-001"]}, {"known_failures": {"SV-TOK-001": "a reason"}}):
        planned = plan(token_sampler(), samples=200, **options)
        assert (planned.faults, planned.shares) == ((), (1.0, 0.0, 0.0))


@pytest.mark.parametrize("options", [{}, {"only": ["SV-TOK-001"]}])
def test_one_probe_that_fails_alone_fails_the_whole(options: dict[str, Any]) -> None:
    """The level of a single e-value is where it lifts the combined one to 2 / alpha, so that the budget is kept."""
    planned = plan(token_sampler(), samples=200, **options)
    lifted = planned.shares[0] * math.exp(planned.own_log_e) / planned.num_checks
    assert lifted == pytest.approx(2 / planned.options.alpha)


def test_every_row_is_counted_by_its_first_token() -> None:
    """The counts behind directions and large cases add up to the rows, and a fault is seen by them."""
    planned = plan(FAULTS["K02"], samples=300)
    Run(planned).execute()
    assert all(run.seen.first_tokens.sum() == run.seen.rows > 0 for run in planned.runs)
    assert combined_log_e(planned).whole > math.log(2 / planned.options.alpha)
