"""Faults of generate loops have the laws that are said of them, their samplers follow those, and controls are exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fault_inputs import model
from scipy.special import xlogy
from scipy.stats import chi2

from specverify.cases import Case
from specverify.contract import Verifier
from specverify.errors import ConfigError
from specverify.faults import CATALOGUE, KNOWN_FAULTS, LOOP_FAULTS, LoopFault, fault_sampler
from specverify.faults.loop_controls import CONTROLS
from specverify.faults.loop_fault import due_law
from specverify.faults.loop_law import block_law, turn_law
from specverify.faults.loop_steps import Asked, LoopEdit, State, play_turn
from specverify.generating import Generation
from specverify.loop_menu import flat_loop, loop_menu
from specverify.loops import Loop
from specverify.menu import menu
from specverify.processing import Sampling
from specverify.reference import Model, Outcome, Tape, branch_law, completed_law, target_law, total_variation
from specverify.registry import load

CASES = {case.name: case for case in loop_menu()}
SHOWN = [fault for fault in LOOP_FAULTS.values() if fault.shows == "law"]
ROWS = 2000
FALSE_ALARM = 1e-9
Array = npt.NDArray[Any]

DISTANCES = {
    "C03": ("loop-late-end", 0.50),
    "G02": ("loop", 0.30),
    "G03": ("loop", 0.15),
    "G04": ("loop", 0.12),
    "K01-loop": ("loop", 0.25),
    "K02-loop": ("loop", 0.08),
    "G05": ("loop", 0.40),
    "G06": ("loop", 0.45),
    "G07": ("loop", 0.20),
    "G08": ("loop-mates", 0.70),
    "G13": ("loop", 0.50),
    "L01a": ("loop-hot", 0.90),
    "L01b": ("loop-hot", 0.20),
    "L02a": ("loop-temperature", 0.12),
    "L02b": ("loop", 0.80),
    "L03": ("loop-filters", 0.20),
    "L03b": ("loop-top-p", 0.70),
    "L04": ("loop-top-k", 0.20),
    "L05": ("loop-bias", 0.70),
    "L06": ("loop-frequency", 0.25),
    "L06b": ("loop-frequency", 0.15),
    "L06c": ("loop-repetition", 0.12),
    "L07": ("loop-frequency", 0.04),
    "L08": ("loop-grammar", 0.80),
    "L09": ("loop-grammar", 0.50),
    "L11a": ("loop", 0.12),
    "L11b": ("loop-top-k", 0.12),
    "L11c": ("loop-top-k", 0.10),
    "L11e": ("loop-top-k", 0.07),
    "L11f": ("loop-filters", 0.10),
}
"""Where each fault shows, and a distance that it has there at least."""

HIDDEN = {
    "C03": ("loop", "loop-top-k"),
    "G02": ("loop-no-draft",),
    "G03": ("loop-no-draft",),
    "G04": ("loop-no-draft",),
    "K01-loop": ("loop-no-draft",),
    "K02-loop": ("loop-no-draft",),
    "G05": ("loop-no-draft",),
    "G07": ("loop-no-draft",),
    "G08": ("loop", "loop-deep"),
    "L01b": ("loop", "loop-top-p"),
    "L02a": ("loop", "loop-top-p"),
    "L03": ("loop", "loop-top-k", "loop-top-p"),
    "L03b": ("loop", "loop-top-k"),
    "L04": ("loop", "loop-no-draft", "loop-temperature"),
    "L05": ("loop",),
    "L06": ("loop", "loop-bias"),
    "L06b": ("loop", "loop-grammar"),
    "L06c": ("loop",),
    "L07": ("loop", "loop-grammar"),
    "L08": ("loop", "loop-bias"),
    "L09": ("loop",),
    "L11b": ("loop", "loop-temperature"),
    "L11c": ("loop", "loop-temperature"),
    "L11e": ("loop", "loop-temperature"),
    "L11f": ("loop", "loop-top-k"),
}
"""Cases that cannot show a fault."""


def ids(fault: LoopFault) -> str:
    """Name a parameter."""
    return fault.id


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_controls_have_the_law_that_is_due(control: str, case: Case) -> None:
    """Whatever is drafted, however the drafts are processed, and by any lossless rule: exactly, on every case."""
    assert case.loop is not None
    assert np.abs(block_law(CONTROLS[control].edit, case.loop) - due_law(case)).max() < 1e-12


PLAYED = [(name, fault.edit) for name, fault in LOOP_FAULTS.items() if not fault.edit.runs_on]
PLAYED += [(name, control.edit) for name, control in CONTROLS.items()]


@pytest.mark.parametrize("more", [False, True], ids=["as-needed", "overdrafts"])
@pytest.mark.parametrize("name", ["loop", "loop-end", "loop-grammar"])
def test_rounds_position_by_position_have_the_law_of_whole_rounds(name: str, more: bool) -> None:
    """What is not drafted after a rejection has no say: text by text, from the start and after every first token."""
    asked = Asked.of(CASES[name].loop)  # type: ignore[arg-type]
    for key, edit in PLAYED:
        played = replace(edit, overdrafts=more or edit.overdrafts)
        for text in ((), (0,), (1, 0), (0, 1, 0)):
            state = State(text, edit.start)
            whole = branch_law(partial(state_after, played, asked, state))
            short = turn_law(played, asked, state)
            assert by_text(whole) == pytest.approx(by_text(short), abs=1e-12), (key, text)


def state_after(edit: LoopEdit, asked: Asked, state: State, tape: Tape) -> State:
    """Play a round to its end."""
    return play_turn(edit, asked, state, tape).state


def by_text(law: Mapping[State, Any]) -> dict[Any, float]:
    """Give the law of what counts: the text, and what is remembered where more is to come."""
    found: dict[Any, float] = {}
    for state, weight in law.items():
        key = state.text if len(state.text) == 4 or 2 in state.text else state
        found[key] = found.get(key, 0.0) + float(weight)
    return found


def test_the_law_of_the_first_token_is_that_of_the_block() -> None:
    """Also where blocks are too many to be listed."""
    for fault in SHOWN:
        law = fault.law(CASES["loop"]).reshape(3, -1).sum(axis=1)
        assert fault.first_token_law(CASES["loop"]) == pytest.approx(law, abs=1e-12)
    wide = flat_loop(256)
    assert LOOP_FAULTS["G05"].first_token_law(wide) == pytest.approx(np.full(256, 1 / 256))


@pytest.mark.parametrize("fault", SHOWN, ids=ids)
def test_every_fault_differs_where_it_is_said_to(fault: LoopFault) -> None:
    """By the distance that is stated, on the case that its record names; on those that hide it the law is exact."""
    name, least = DISTANCES[fault.id]
    assert fault.case == name
    assert fault.distance(CASES[name]) > least
    assert fault.law(CASES[name]).sum() == pytest.approx(1, abs=1e-12)
    for hiding in HIDDEN.get(fault.id, ()):
        assert fault.distance(CASES[hiding]) < 1e-12, hiding


def test_every_record_is_stated_above_and_reads_as_the_others() -> None:
    """No fault of loops lacks a distance; ids and names are unique among all faults, and each says what it is."""
    assert set(DISTANCES) == {fault.id for fault in SHOWN}
    assert set(KNOWN_FAULTS) == set(CATALOGUE) | set(LOOP_FAULTS)
    assert (
        len({fault.name for fault in KNOWN_FAULTS.values()}) == len(KNOWN_FAULTS) == len(CATALOGUE) + len(LOOP_FAULTS)
    )
    for fault in LOOP_FAULTS.values():
        for part in (fault.claim, fault.wrong, fault.advice, fault.exposed_by, fault.hidden_by, fault.provenance):
            assert part
            assert not part.endswith(".")
        assert all(part[0].islower() for part in (fault.claim, fault.wrong, fault.advice))


def test_laws_of_pairs_of_faults_differ() -> None:
    """No two faults have one law on all of the cases above, so that each can be told from the others."""
    cases = [CASES[name] for name in sorted({name for name, _ in DISTANCES.values()})]
    laws = [np.concatenate([fault.law(case) for case in cases]) for fault in SHOWN]
    for (i, a), (j, b) in product(enumerate(laws), repeat=2):
        assert i >= j or np.abs(a - b).max() > 1e-3, (SHOWN[i].id, SHOWN[j].id)


def test_an_explanation_tells_the_distances() -> None:
    """Those of the cases that show the fault, computed for the text; of seeds it says where they show."""
    text = LOOP_FAULTS["L09"].explain
    assert text.startswith("L09  grammar_row_unmasked\n\nMechanism: it masks")
    assert f"distance of all new tokens: loop-grammar {LOOP_FAULTS['L09'].distance(CASES['loop-grammar']):.6g}." in text
    assert "it shows when a call is repeated" in LOOP_FAULTS["G10"].explain


def test_forms_of_samplers_are_kept_apart() -> None:
    """Faults of loops are those of generators alone, and those of rounds of none."""
    loop, rounds = load("reference-generate"), load("reference")
    assert all(fault.may_be_of(loop) == (fault.shows == "law") for fault in LOOP_FAULTS.values())
    assert not any(fault.may_be_of(rounds) for fault in LOOP_FAULTS.values())
    assert not any(fault.may_be_of(loop) for fault in CATALOGUE.values())
    assert all(fault_sampler(fault).loops for fault in LOOP_FAULTS.values())
    with pytest.raises(ConfigError, match="expected a case of a loop, got one of a round"):
        LOOP_FAULTS["L04"].law(menu()[0])


def arguments(sampler: Verifier, case: Case, seed: int, rows: int = ROWS) -> dict[str, Any]:
    """Build the arguments of a call; every other prompt is that of the mates."""
    assert case.loop is not None
    loop = case.loop
    prompt = np.tile(loop.prompt, (rows, 1))
    prompt[1::2] = loop.mate or loop.prompt
    given: dict[str, Any] = {
        "target_model": loop.target,
        "draft_model": loop.draft,
        "prompt": prompt,
        "num_draft_tokens": loop.num_draft_tokens,
        "max_new_tokens": loop.max_new_tokens,
        "eos_token_id": loop.target.eos_token_id,
        "seed": seed,
        "seeds": np.random.default_rng(seed).integers(0, 2**31, rows),
    }
    given |= {field.name: loop.sampling.argument(field.name, loop.vocab_size) for field in fields(Sampling)}
    return {name: value for name, value in given.items() if name in sampler.asks}


def drawn(sampler: Verifier, case: Case, seed: int, rows: int = ROWS) -> Array:
    """Give the tokens of the rows that count, int64 [n, L]."""
    result = sampler(**arguments(sampler, case, seed, rows))
    tokens = np.asarray(result.tokens if isinstance(result, Generation) else result)
    assert case.loop is not None
    return tokens[::2] if case.loop.mate else tokens


def p_value(tokens: Array, law: Array, case: Case) -> float:
    """Give the p-value of a G-test of blocks, those of a small expectation together; 0 for what cannot happen."""
    eos = case.loop.target.eos_token_id if case.loop else None
    blocks = np.where(tokens < 0, 0 if eos is None else eos, tokens) @ case.vocab_size ** np.arange(
        tokens.shape[1] - 1, -1, -1
    )
    counts = np.bincount(blocks, minlength=len(law))
    if counts[law <= 0].any():
        return 0.0
    small = law * len(tokens) < 10
    seen = np.append(counts[~small], counts[small].sum()).astype(float)
    due = np.append(law[~small], law[small].sum()) * len(tokens)
    seen, due = seen[due > 0], due[due > 0]
    if len(due) == 1:
        return 1.0
    return float(chi2.sf(2 * (xlogy(seen, seen) - xlogy(seen, due)).sum(), len(due) - 1))


@pytest.mark.parametrize("fault", SHOWN, ids=ids)
def test_samplers_follow_their_exact_laws(fault: LoopFault) -> None:
    """On the case that shows them; those of G13 from the second call on."""
    case, sampler = CASES[fault.case], fault_sampler(fault)
    sampler(**arguments(sampler, case, 0, rows=2))
    assert p_value(drawn(sampler, case, 1), fault.law(case), case) > FALSE_ALARM


@pytest.mark.parametrize("name", ["G05", "G06", "G08", "G13", "L01a", "L03b", "L05", "L08"])
def test_the_same_tokens_do_not_follow_the_law_that_is_due(name: str) -> None:
    """The test above can fail: for faults this large the tokens prove the other law wrong."""
    case, sampler = CASES[LOOP_FAULTS[name].case], fault_sampler(LOOP_FAULTS[name])
    sampler(**arguments(sampler, case, 0, rows=2))
    assert p_value(drawn(sampler, case, 1), due_law(case), case) < FALSE_ALARM


@pytest.mark.parametrize("name", ["loop-deep", "loop-mates", "loop-filters", "loop-repetition", "loop-late-end"])
@pytest.mark.parametrize("control", CONTROLS)
def test_samplers_of_controls_follow_the_law_that_is_due(control: str, name: str) -> None:
    """Likewise, also where prompts differ and sequences end."""
    sampler = CONTROLS[control].sampler(control)
    assert p_value(drawn(sampler, CASES[name], 1, 1000), due_law(CASES[name]), CASES[name]) > FALSE_ALARM


@pytest.mark.parametrize("name", ["loop", "loop-deep", "loop-no-draft", "loop-end"])
def test_reported_rounds_make_up_the_tokens(name: str) -> None:
    """Each round emits its accepted drafts and one token more; q is a law where something was drafted, and else 0."""
    case, sampler = CASES[name], load("reference-generate")
    result = sampler(**arguments(sampler, case, 3, rows=50))
    assert case.loop is not None
    texts: list[list[int]] = [[] for _ in range(50)]
    for step in result.rounds:
        assert step.draft_tokens.shape == (50, case.loop.num_draft_tokens)
        assert np.allclose(step.draft_probs.sum(axis=2), step.draft_tokens >= 0)
        for row, kept in enumerate(step.num_accepted):
            if kept >= 0:
                accepted = step.draft_tokens[row, :kept].tolist()
                assert result.tokens[row, len(texts[row]) :][: len(accepted)].tolist() == accepted
                texts[row] += [*accepted, int(result.tokens[row, min(len(texts[row]) + kept, case.num_draft_tokens)])]
            else:
                assert (step.draft_tokens[row] < 0).all()
    assert all(len(text) >= (line >= 0).sum() for text, line in zip(texts, result.tokens, strict=True))


def test_a_loop_that_runs_on_shows_tokens_after_the_end() -> None:
    """G09 keeps them in the round of the end; up to the end its law is the one that is due."""
    case = CASES["loop-end"]
    tokens = drawn(fault_sampler(LOOP_FAULTS["G09"]), case, 1)
    eos = case.loop.target.eos_token_id if case.loop else None
    ended = np.cumsum(tokens == eos, axis=1) - (tokens == eos) > 0
    assert (tokens[ended] >= 0).any()
    assert p_value(np.where(ended, -1, tokens), due_law(case), case) > FALSE_ALARM
    assert LOOP_FAULTS["G09"].distance(case) < 1e-12


def test_seeds_are_kept_by_the_reference_and_by_no_fault_of_seeds() -> None:
    """G10 gives other tokens when the call is repeated, G10b when a row is alone; the reference neither."""
    case = CASES["loop"]
    for name, repeats, stands_alone in (
        ("reference-generate", True, True),
        ("fault:G10", False, False),
        ("fault:G10b", True, False),
        ("fault:G10c", True, False),
    ):
        sampler = load(name)
        tokens = drawn(sampler, case, 5, 64)
        assert (drawn(sampler, case, 5, 64) == tokens).all() == repeats
        given = arguments(sampler, case, 5, 64)
        alone = given | {"prompt": given["prompt"][7:8], "seeds": given["seeds"][7:8]}
        several = [sampler(**alone) for _ in range(3)]
        found = [np.asarray(one.tokens if isinstance(one, Generation) else one) for one in several]
        assert all((one == tokens[7]).all() for one in found) == stands_alone


class TableModel:
    """A model of recorded rows by prefix, after a prompt of one token."""

    eos_token_id: int | None = None

    def __init__(self, row: Model) -> None:
        self.row, self.vocab_size = row, len(row(()))

    def __call__(self, tokens: Array) -> Array:
        """Give log-probabilities after contexts."""
        rows = [self.row(tuple(context[1:])) for context in tokens.tolist()]
        return np.log(np.array(rows, dtype=np.float64))


def recorded(name: str, max_new_tokens: int, sampling: Sampling) -> Loop:
    """Make a loop over a recorded input that drafts all tokens but one in the first round."""
    target, draft = (TableModel(model(name, side)) for side in "pq")
    return Loop(target, draft, (0,), max_new_tokens - 1, max_new_tokens, sampling)


def joint(fault: str, name: str, sampling: Sampling) -> float:
    """Give the distance of three tokens: a round of two raw drafts, which the target completes."""
    loop = recorded(name, 3, sampling)
    edit = replace(LOOP_FAULTS[fault].edit, propose=lambda at: at.q(top_k=0))
    law = branch_law(lambda tape: play_turn(edit, Asked.of(loop), State((), edit.start), tape).state.text)

    def due(prefix: tuple[int, ...]) -> list[float]:
        row: list[float] = loop.target_laws(np.array([prefix], dtype=np.int64).reshape(1, -1))[0].tolist()
        return row

    outcomes = {Outcome(text[:-1], len(text) - 1, text[-1]): weight for text, weight in law.items()}
    return float(total_variation(completed_law(outcomes, due, 3), target_law(due, 3)))


@pytest.mark.parametrize(
    ("fault", "distances"),
    {
        "G04": {"AB": 0.1440, "C3": 0.1100, "T3": 0.0780, "W402": 641 / 2772},
        "G05": {"AB": 0, "C3": 0, "T3": 0, "W402": 27347 / 103950},
        "G06": {"AB": 0.2560, "C3": 0.1800, "T3": 0.2450, "W402": 39818629 / 159759600},
        "G07": {"AB": 0, "C3": 0, "T3": 0, "W402": 438057133 / 4313509200},
        "L11a": {"AB": 96 / 1625, "C3": 27 / 475, "T3": 147 / 1900, "W402": 276700804668472229 / 4992990518597281200},
    }.items(),
)
def test_joint_distances_are_those_on_record(fault: str, distances: Mapping[str, float]) -> None:
    """Over the recorded tables, one round from the start, which the target completes."""
    for name, distance in distances.items():
        assert joint(fault, name, Sampling()) == pytest.approx(distance, abs=1e-12), name


@pytest.mark.parametrize(
    ("fault", "distances"),
    {
        "L04": {"C3": 7 / 25, "T3": 3 / 10, "W402": 113 / 308},
        "L11b": {"C3": 7 / 25, "T3": 3 / 10, "W402": 113 / 308},
        "L11c": {"C3": 4 / 125, "T3": 1 / 20, "W402": 51607 / 1086800},
        "L11e": {"C3": 1 / 40, "T3": 1 / 120, "W402": 1 / 7},
    }.items(),
)
def test_joint_distances_under_a_filter_are_those_on_record(fault: str, distances: Mapping[str, float]) -> None:
    """Likewise, towards the two likeliest tokens, from drafts that are not filtered."""
    for name, distance in distances.items():
        assert joint(fault, name, Sampling(top_k=2)) == pytest.approx(distance, abs=1e-12), name


@pytest.mark.parametrize(
    ("fault", "temperature", "law"),
    [
        ("L01a", 1.0, [1, 0]),
        ("L01b", 0.5, [3 / 5, 2 / 5]),
        ("L02a", 0.5, [81 / 97, 16 / 97]),
        ("L02b", 1.0, [2 / 5, 3 / 5]),
    ],
)
def test_first_tokens_under_a_wrong_temperature_are_those_on_record(
    fault: str, temperature: float, law: list[float]
) -> None:
    """On the case AB, whose due law is (3/5, 2/5) at temperature 1 and (9/13, 4/13) at 1/2."""
    loop = recorded("AB", 2, Sampling(temperature=temperature))
    blocks = LOOP_FAULTS[fault].law(Case.from_loop("AB", loop))
    assert blocks.reshape(2, 2).sum(axis=1) == pytest.approx(law, abs=1e-12)
