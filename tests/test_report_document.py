"""The document of a run obeys its schema, and what it says of evidence and acceptance adds up."""

import json
from importlib.resources import files
from typing import Any

import jsonschema
import numpy as np
import pytest
from report_documents import SAMPLERS, Document, as_of_1_0, as_of_1_1, document
from samplers import match_sampler

import specverify
from specverify.cases import Case
from specverify.registry import load
from specverify.reports import Report
from specverify.schedule import look_fractions


@pytest.mark.parametrize("name", SAMPLERS)
def test_documents_obey_the_schema_and_so_do_older_ones(name: str) -> None:
    """What a run writes is valid, and what the versions before wrote stays valid."""
    schema = json.loads((files("specverify.reports") / "report.schema.json").read_text("utf-8"))
    validator: Any = jsonschema.Draft202012Validator(schema)
    for made in (document(name), as_of_1_1(document(name)), as_of_1_0(document(name))):
        validator.validate(json.loads(Report(made).to_json()))


def check_named(made: Document, name: str) -> Document:
    """Give one check of a document."""
    found: Document = next(check for check in made["checks"] if check["id"] == name)
    return found


@pytest.mark.parametrize("name", ["reference", "naive-redraw"])
def test_evidence_is_written_down_at_every_look(name: str) -> None:
    """Looks go forward and end with the evidence of the combined check, which proves a fault at the threshold."""
    made = document(name)
    found = made["evidence"]
    rows = [look["rows"] for look in found["looks"]]
    assert rows == sorted(set(rows))
    assert rows[-1] == made["timing"]["rows"]
    assert len(rows) == (2 if name == "naive-redraw" else len(look_fractions()) + 1)
    combined = check_named(made, "SV-ALL-002")["log10_e"]
    assert (found["check"], found["looks"][-1]["log10_e"]) == ("SV-ALL-002", combined)
    assert found["threshold"] == pytest.approx(np.log10(2 / made["options"]["alpha"]))
    assert (combined >= found["threshold"]) == (made["verdict"] == "nonconformant")


def test_without_a_rule_the_evidence_is_that_against_losslessness() -> None:
    """Where only losslessness is required, what speaks against the declared rule is no evidence."""
    case = Case.from_rows("pair", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
    made = specverify.check(match_sampler, require="lossless", cases=[case], samples=2000, target_tv=0.9).document
    combined = check_named(made, "SV-ALL-001")["log10_e"]
    assert (made["evidence"]["check"], made["evidence"]["looks"][-1]["log10_e"]) == ("SV-ALL-001", combined)


def test_a_run_that_is_cut_writes_down_what_it_had() -> None:
    """Where time runs out before the first look there is one: the evidence of the independence stage."""
    made = specverify.check(load("reference"), samples=100, time_limit=1e-9).document
    assert len(made["evidence"]["looks"]) == 1
    assert made["verdict"] == "inconclusive"


def test_acceptance_by_position_adds_up() -> None:
    """Positions tell apart what the totals add; under the token rule each accepts as often as p and q overlap.

    The largest of four deviations exceeds 7 standard deviations with probability below 1e-11.
    """
    found = document("reference")["acceptance"]
    for name in ("tested", "accepted"):
        assert sum(position[name] for position in found["positions"]) == found[name]
    for position in found["positions"]:
        n, due = position["tested"], position["mean_overlap"]
        assert abs(position["accepted"] / n - due) < 7 * (due * (1 - due) / n) ** 0.5


def test_cells_of_first_tokens_have_their_ratio() -> None:
    """Cells of one token have p/q as the case gives it; a cell that the draft never gives has none."""
    case = Case.from_rows("given", ["3/5", "2/5", 0], ["4/5", 0, "1/5"], num_draft_tokens=1)
    made = specverify.check(load("reference"), samples=2000, target_tv=0.9, cases=[case]).document
    first = check_named(made, "SV-TOK-001")
    found = dict(zip(first["labels"], first["ratios"], strict=True))
    assert found["token 0"] == pytest.approx(0.75, abs=1e-12)
    assert found["token 1"] is None
    assert found["what cannot happen"] == 0
    assert check_named(made, "SV-LEN-001")["ratios"] == []


@pytest.mark.parametrize("name", ["reference", "naive-redraw"])
def test_every_share_that_may_be_shown_is_counted(name: str) -> None:
    """All cells of all cases and all positions are more than those of the worst cases, which the document shows."""
    made = document(name)
    cells = [check["cells"] or 0 for check in made["checks"]]
    assert made["compared_shares"] > 3 * sum(cells) + len(made["acceptance"]["positions"])


def test_the_counted_shares_are_those_of_one_case() -> None:
    """On the two-token case they are its cells, the one for what cannot happen included, and its one position."""
    case = Case.from_rows("pair", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
    made = specverify.check(load("reference"), samples=2000, target_tv=0.9, cases=[case]).document
    cells = [check["cells"] + 1 for check in made["checks"] if check["cells"] is not None]
    assert made["compared_shares"] == sum(cells) + 1
