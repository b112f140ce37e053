"""The fast samplers of the faults do what the edited rules say: proved cell by cell, or counted where they race."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fault_inputs import assert_frequencies, model, of_levels, random_levels

from specverify.contract import Verifier
from specverify.faults import CATALOGUE, BlockEdit, Edit, Fault, fault_sampler, kernel
from specverify.faults.kernels import round_kernel
from specverify.faults.tapes import play
from specverify.reading import OutputFault, read
from specverify.reference import Branch, Name, Outcome, Tape, branches, cell_proof

RUNNABLE = [fault for fault in CATALOGUE.values() if fault.level in "KQ" and fault.runnable]
GIVEN = [fault for fault in RUNNABLE if not fault.drafts and fault.build is None]
DRAFTING = [fault for fault in RUNNABLE if fault.drafts]
Array = npt.NDArray[Any]


def ids(fault: Fault) -> str:
    """Name a parameter."""
    return fault.id


@pytest.mark.parametrize("fault", GIVEN, ids=ids)
@pytest.mark.parametrize("seed", range(3))
def test_kernels_are_their_rules_in_every_cell(fault: Fault, seed: int) -> None:
    """On random tables with zeros, whose rows depend on the context."""
    target, draft = (of_levels(random_levels(seed + 10 * side, 3, 2)) for side in range(2))
    proof = cell_proof(fault.rule, kernel(fault.edit), target, draft, 2)
    assert proof.cells > 6
    assert proof.disagreements == 0


@pytest.mark.parametrize("fault", GIVEN, ids=ids)
def test_kernels_differ_from_the_correct_rule(fault: Fault) -> None:
    """The proof can fail on W402, but for a step of 2^-24 and a tail that is not there."""
    rule = Edit() if isinstance(fault.edit, Edit) else BlockEdit()
    proof = cell_proof(fault.rule, kernel(rule), model("W402", "p"), model("W402", "q"), 2)
    assert (proof.disagreements > 0) == (fault.id not in ("K17", "K18"))


def table(levels: tuple[Array, ...]) -> Callable[[Array], Array]:
    """Make the model that a drafting sampler asks for: log-probabilities after drafted tokens."""
    size = levels[0].shape[1]
    with np.errstate(divide="ignore"):
        logs = [np.log(level.astype(np.float64)) for level in levels]

    def rows(tokens: Array) -> Array:
        return np.asarray(logs[tokens.shape[1]][tokens @ size ** np.arange(tokens.shape[1])[::-1]])

    return rows


def inside(cell: Branch[Outcome], names: list[Name]) -> Iterator[tuple[float, ...]]:
    """Give points of a cell near both ends and in the middle of every side."""
    sides = [tuple(map(float, cell.box.get(name, (0, 1)))) for name in names]
    steps = [min(1e-6, (hi - lo) / 4) for lo, hi in sides]
    return product(*((lo + step, (lo + hi) / 2, hi - step) for (lo, hi), step in zip(sides, steps, strict=True)))


@pytest.mark.parametrize("fault", [fault for fault in DRAFTING if fault.id != "K13"], ids=ids)
@pytest.mark.parametrize("seed", range(2))
def test_rounds_are_as_the_rule_says_in_every_cell(fault: Fault, seed: int) -> None:
    """Drafting included: each cell of the uniforms of drafts, tests and the final token has the output of the rule."""
    target, draft = random_levels(seed, 3, 2), random_levels(seed + 20, 3, 1)
    assert isinstance(fault.edit, Edit)

    def run(tape: Tape) -> Outcome:
        return play(fault.edit, of_levels(target), of_levels(draft), 2, tape)

    names: list[Name] = [*product(("draft", "accept"), range(2)), ("final",)]
    cells = list(branches(run))
    points = np.array([point for cell in cells for point in inside(cell, names)])
    found = round_kernel(fault.edit, table(draft), table(target), points[:, :2], points[:, 2:4], points[:, 4])
    expected = np.repeat([(*o.draft_tokens, o.num_accepted, o.next_token or 0) for _, o, _ in cells], 3**5, axis=0)
    assert np.array_equal(np.column_stack(found), expected)


@pytest.mark.parametrize("fault", DRAFTING, ids=ids)
def test_drafting_samplers_have_the_exact_law(fault: Fault) -> None:
    """Called as the engine calls them; K13 races exponentials and reuses them, and has the law of the closed form."""
    target, draft = random_levels(5, 3, 2), random_levels(6, 3, 1)
    rows = 200_000
    models = {"target_model": table(target), "draft_model": table(draft)}
    drawn, kept, token = fault_sampler(fault)(**models, num_draft_tokens=np.full(rows, 2), seed=1)
    assert drawn.dtype == kept.dtype == token.dtype == np.int64
    counts = Counter(Outcome((a, b), k, y) for a, b, k, y in np.column_stack([drawn, kept, token]).tolist())
    assert_frequencies(counts, fault.exact_law(of_levels(target), of_levels(draft), 2))


def test_the_reused_race_is_seen_in_the_counts() -> None:
    """The counts of K13 on C3 would not pass as those of the token rule."""
    levels = {side: tuple(np.array([model("C3", side)(())] * 3**i, dtype=object) for i in range(2)) for side in "pq"}
    models = {"target_model": table(levels["p"]), "draft_model": table(levels["q"])}
    drawn, kept, token = fault_sampler(CATALOGUE["K13"])(**models, num_draft_tokens=np.full(200_000, 1), seed=1)
    first = Counter(np.where(kept == 1, drawn[:, 0], token).tolist())
    exact = {0: 37 / 70, 1: 19 / 70, 2: 1 / 5}
    assert_frequencies(first, exact)
    with pytest.raises(AssertionError):
        assert_frequencies(first, dict(enumerate(model("C3", "p")(()))))


def batch(rows: int, seed: int = 0) -> dict[str, Any]:
    """Draw a ragged batch of W402, with 0 to 2 drafts a row."""
    rng = np.random.default_rng(seed)
    p, q = model("W402", "p"), model("W402", "q")
    lengths = rng.integers(0, 3, rows)
    drafts = np.full((rows, 2), -1, dtype=np.int64)
    draft, target = np.zeros((rows, 2, 3)), np.full((rows, 3, 3), 1 / 3)
    for b, length in enumerate(lengths):
        for i in range(length + 1):
            prefix = tuple(drafts[b, :i].tolist())
            target[b, i] = np.array(p(prefix), dtype=float)
            if i < length:
                draft[b, i] = np.array(q(prefix), dtype=float)
                drafts[b, i] = rng.choice(3, p=draft[b, i])
    return {"draft_tokens": drafts, "num_draft_tokens": lengths, "draft_probs": draft, "target_probs": target}


CHAINS = [fault for fault in RUNNABLE if not fault.drafts]


@pytest.mark.parametrize("fault", CHAINS, ids=ids)
@pytest.mark.parametrize("rows", [1, 50])
def test_samplers_take_any_batch_and_follow_their_seed(fault: Fault, rows: int) -> None:
    """Ragged batches too; nothing is written, and the same seed gives the same, but for the race."""
    sampler, arguments = fault_sampler(fault), batch(rows)
    assert (sampler.name, sampler.readonly) == (f"fault:{fault.id}", True)
    assert sampler.rule == ("block" if isinstance(fault.edit, BlockEdit) else "token")
    for array in arguments.values():
        array.flags.writeable = False
    first, second = (np.column_stack(as_pair(sampler, arguments, seed=3)) for _ in range(2))
    assert first.shape[0] == rows
    assert fault.id == "K24" or np.array_equal(first, second)


def as_pair(sampler: Verifier, arguments: dict[str, Any], seed: int) -> tuple[Array, ...]:
    """Give the columns of what a sampler returns in either form."""
    found = sampler(**arguments, seed=seed)
    return found if isinstance(found, tuple) else (found,)


def test_rows_that_share_their_stream_agree() -> None:
    """K16 decides equal rows equally, and other calls otherwise."""
    arguments = {name: np.repeat(array[7:8], 64, axis=0) for name, array in batch(20).items()}
    calls = [fault_sampler(CATALOGUE["K16"])(**arguments, seed=seed) for seed in range(40)]
    assert all(len({*zip(*(part.tolist() for part in call), strict=True)}) == 1 for call in calls)
    assert len({call[1][0] for call in calls}) > 1


def test_a_race_spoils_a_few_rows() -> None:
    """K24 gives another output when the same call is repeated, in about one row of fifty; its rows have the law."""
    arguments = {name: np.repeat(array, 100, axis=0) for name, array in batch(100).items()}
    sampler = fault_sampler(CATALOGUE["K24"])
    first, second = (np.column_stack(sampler(**arguments, seed=0)) for _ in range(2))
    changed = (first != second).any(axis=1).mean()
    assert 0.001 < changed < 0.04


@pytest.mark.parametrize("fault", ["K26", "K32", "K33"])
def test_longer_rounds_emit_what_the_exact_law_says(fault: str) -> None:
    """The lines of tokens have the law of the whole text, and the contract's reader refuses them."""
    rows, levels = 100_000, [random_levels(seed, 3, 2) for seed in (1, 2)]
    rng = np.random.default_rng(0)
    target, draft = (table(side) for side in levels)
    drafts = np.empty((rows, 0), dtype=np.int64)
    for _ in range(2):
        ends = np.cumsum(np.exp(draft(drafts)), axis=1)
        drafts = np.hstack([drafts, (rng.random((rows, 1)) >= ends / ends[:, -1:]).sum(axis=1, keepdims=True)])
    arguments = {
        "draft_tokens": drafts,
        "num_draft_tokens": np.full(rows, 2),
        "draft_probs": np.stack([np.exp(draft(drafts[:, :i])) for i in range(2)], axis=1),
        "target_probs": np.stack([np.exp(target(drafts[:, :i])) for i in range(3)], axis=1),
    }
    lines = fault_sampler(CATALOGUE[fault])(**arguments, seed=1)
    counts = Counter(tuple(x for x in line if x >= 0) for line in lines.tolist())
    law: Counter[tuple[int, ...]] = Counter()
    exact = CATALOGUE[fault].exact_law(of_levels(levels[0]), of_levels(levels[1]), 2)
    for outcome, weight in exact.items():
        law[outcome.emitted] += weight  # type: ignore[assignment]
    assert_frequencies(counts, law)
    with pytest.raises(OutputFault):
        read(lines, drafts, np.full(rows, 2), 3)


def test_a_large_vocabulary_is_no_matter() -> None:
    """One row of 262144 tokens, for the rules that look at whole rows."""
    rng = np.random.default_rng(0)
    p, q = (row / row.sum() for row in rng.random((2, 262144)))
    arguments = {
        "draft_tokens": np.array([[5]]),
        "num_draft_tokens": np.array([1]),
        "draft_probs": q[None, None],
        "target_probs": np.stack([p, p])[None],
    }
    for fault in ("K03b", "K04", "K18", "K21", "K27e", "Q02c"):
        kept, token = fault_sampler(CATALOGUE[fault])(**arguments, seed=0)
        assert 0 <= kept[0] <= 1
        assert 0 <= token[0] < 262144
