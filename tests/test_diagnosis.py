"""The diagnosis names the fault, says when it knows none, and names together what no data can tell apart."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from samplers import token_sampler

import specverify
from specverify import Report, alternatives, diagnosis, hypotheses
from specverify.checks import CATALOGUE as CHECKS
from specverify.faults import CATALOGUE
from specverify.registry import load

RUN = [name for name, fault in CATALOGUE.items() if fault.runnable and name not in ("K17", "K18", "Q03")]
LAWS = [name for name in RUN if CATALOGUE[name].has_law]
FEW: Mapping[str, Any] = {"samples": 8000, "target_tv": 0.5}
SEEDS = {"K21": 2}  # of one draw in 100,000, which a run of this size holds or not
OF_LAWS = [name for name in CHECKS if not name.startswith(("SV-IND", "SV-RPL", "SV-ALL"))]  # what a law needs, quicker


def first(report: Report) -> dict[str, Any]:
    """Give the likeliest candidate."""
    found = dict(report.diagnosis[0])
    assert found["message"].endswith(".")  # it is prose, whichever way it came about
    assert ".." not in found["message"]
    return found


@pytest.mark.parametrize("fault", RUN)
def test_every_fault_that_can_be_run_is_named(fault: str) -> None:
    """Each is nonconformant after the first looks, and is the first choice or of the same law as it.

    Where a law is wrong the evidence against the nearest other candidate is beyond 1e-12 for these samples.
    """
    only = OF_LAWS if fault in LAWS else ()
    report = specverify.check(load(f"fault:{fault}"), **FEW, only=only, seed=SEEDS.get(fault, 0))
    assert report.verdict == "nonconformant"
    assert fault in (first(report)["fault"], *first(report)["same_law"]), first(report)["message"]
    assert CATALOGUE[first(report)["fault"]].claim in first(report)["message"]


@pytest.mark.parametrize("fault", ["K02", "K03c", "K05", "K11", "K13", "K15", "K21", "K27b", "K31", "Q02a", "Q05"])
def test_an_unlisted_fault_is_unknown(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its record the message says that no known fault explains it; a neighbour is called a neighbour."""
    rest = MappingProxyType({name: record for name, record in CATALOGUE.items() if name != fault})
    monkeypatch.setattr(diagnosis, "CATALOGUE", rest)
    report = specverify.check(load(f"fault:{fault}"), **FEW, only=OF_LAWS, seed=SEEDS.get(fault, 0))
    assert report.verdict == "nonconformant"
    found = first(report)
    assert found["fault"] is None
    assert f"none of the {len(rest)} known faults explains what was seen" in found["message"]
    nearest = found["message"].partition("The nearest is ")[2]
    assert not nearest or "and yet on case" in nearest


def test_what_is_wrong_is_said_by_its_parts() -> None:
    """An unknown fault of the bonus alone is described as one."""
    report = specverify.check(token_sampler("odd", replacement=lambda p, q: np.sqrt(np.maximum(p - q, 0))), **FEW)
    assert first(report)["fault"] is None
    assert "wrong: the replacement after a rejection" in first(report)["message"]
    assert "as due: acceptance" in first(report)["message"]


def test_equal_laws_are_named_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second record of the same edit cannot be told from the first, and the message says so."""
    twin = MappingProxyType({**CATALOGUE, "K02b": CATALOGUE["K02"]})
    renamed = MappingProxyType(dict(_renamed(twin)))
    monkeypatch.setattr(diagnosis, "CATALOGUE", renamed)
    monkeypatch.setattr(alternatives, "CATALOGUE", renamed)
    monkeypatch.setattr(hypotheses, "KNOWN_FAULTS", renamed)
    found = first(specverify.check(load("fault:K02"), **FEW))
    assert (found["fault"], found["same_law"]) == ("K02", ["K02b"])
    assert "cannot tell it from K02b (residual_target)." in found["message"]


def _renamed(records: Mapping[str, Any]) -> list[tuple[str, Any]]:
    from dataclasses import replace

    return [(name, record if record.id == name else replace(record, id=name)) for name, record in records.items()]


@pytest.mark.parametrize("fault", ["K16", "K24", "K26", "K32", "K33"])
def test_faults_without_a_law_are_named_by_what_they_break(fault: str) -> None:
    """Shared randomness, races and overlong output are named although every row's law is right or unread."""
    assert first(specverify.check(load(f"fault:{fault}"), **FEW))["fault"] == fault


def test_a_correct_sampler_has_no_diagnosis() -> None:
    """Nothing is explained where nothing failed."""
    assert specverify.check(token_sampler(), samples=4000, target_tv=0.5, alpha=1e-10).diagnosis == []


def test_naming_an_overlong_output_leaves_the_global_generators_alone() -> None:
    """The sampler is called again to be named; what it draws from the global generators is put back as in the run."""

    @specverify.verifier(name="doubles")
    def doubles(draft_tokens: Any, seed: int) -> Any:
        np.random.seed(seed)  # noqa: NPY002
        np.random.random(3)  # noqa: NPY002 - that is the point
        return np.repeat(draft_tokens[:, :1], draft_tokens.shape[1] + 2, axis=1)

    np.random.seed(11)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # type: ignore[index] # noqa: NPY002
    assert specverify.check(doubles, **FEW).diagnosis == []
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index] # noqa: NPY002


def test_a_sampler_that_leaves_while_it_is_named_stays_unnamed() -> None:
    """SystemExit in the calls that only serve the name ends nothing."""
    calls = iter(range(10**6))

    @specverify.verifier(name="leaves")
    def leaves(draft_tokens: Any) -> Any:
        if next(calls) > 60:
            raise SystemExit(3)
        return np.zeros((len(draft_tokens), draft_tokens.shape[1] + 2), dtype=int)

    report = specverify.check(leaves, **FEW)
    assert (report.verdict, report.diagnosis) == ("nonconformant", [])


def test_overlong_output_of_another_law_stays_unnamed() -> None:
    """One token more after a replacement, but a uniform one and not that of the stale row: no known fault emits so."""

    @specverify.verifier(name="uniform after")
    def after(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        kept, following = token_sampler().function(draft_tokens, draft_probs, target_probs, seed)
        width, rows = draft_tokens.shape[1], np.arange(len(kept))
        lines = np.full((len(kept), width + 2), -1)
        lines[:, :width] = np.where(np.arange(width) < kept[:, None], draft_tokens, -1)
        lines[rows, kept] = following
        extra = np.random.default_rng(seed + 1).integers(0, target_probs.shape[2], len(kept))
        lines[rows, kept + 1] = np.where(kept < width, extra, -1)
        return lines[:, : width + 1]

    report = specverify.check(after, **FEW)
    assert (report.verdict, report.diagnosis) == ("nonconformant", [])
