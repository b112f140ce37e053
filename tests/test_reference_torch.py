"""The torch kernels give the tokens and the errors of the NumPy kernels, bit for bit, and write and hoard nothing."""

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from cell_tables import random_table

from specverify import Case, check
from specverify.adapters.builtin import reference
from specverify.gpu_tests import KINDS, Batch, batch, moved, on_tensors, tensors
from specverify.menu import menu
from specverify.randomness import Uniforms
from specverify.reference import RULES, CellProof, cell_proof, verify_block, verify_token
from specverify.registry import load
from specverify.tolerance import DEFAULT_TOLERANCE

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402 - torch may be missing

from specverify.reference import verify_block_torch, verify_token_torch  # noqa: E402

PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "token": (verify_token, verify_token_torch),
    "block": (verify_block, verify_block_torch),
}
rules = pytest.mark.parametrize("rule", PAIRS)
dtypes = pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])


def equal(result: tuple[Any, Any], expected: tuple[Any, Any]) -> bool:
    """Return whether tensors are int64 and hold what the arrays do."""
    return all(
        tensor.dtype == torch.int64 and np.array_equal(tensor.numpy(), array)
        for tensor, array in zip(result, expected, strict=True)
    )


def agree(rule: str, given: Batch, dtype: str) -> bool:
    """Return whether both kernels of a rule give the same on a batch."""
    on_numpy, on_torch = PAIRS[rule]
    return equal(on_torch(*tensors(given, "cpu", dtype)), on_numpy(*given))


def changed(given: Batch, **changes: Any) -> Batch:
    """Return a copy of a batch in which some entries, by argument and index, have other values."""
    copies = {name: array.copy() for name, array in given._asdict().items()}
    for name, (index, value) in changes.items():
        copies[name][index] = value
    return Batch(**copies)


@rules
@dtypes
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("size", "gamma", "vocab"),
    [(0, 2, 3), (1, 0, 1), (40, 1, 1), (100, 8, 2), (60, 3, 5), (30, 0, 7), (30, 2, 257), (8, 2, 9001)],
)
def test_tokens_are_those_of_numpy(rule: str, dtype: str, kind: str, size: int, gamma: int, vocab: int) -> None:
    """Whatever the rows, the dtype and the shape, full or ragged: every accepted count and token is the same."""
    for ragged in (False, True):
        assert agree(rule, batch(kind, size, gamma, vocab, dtype=dtype, seed=1, ragged=ragged), dtype)


@rules
@pytest.mark.parametrize(("size", "gamma", "vocab", "dtype"), [(1024, 4, 64, "float32"), (5, 1, 131072, "bfloat16")])
def test_large_batches_and_vocabularies_agree(rule: str, size: int, gamma: int, vocab: int, dtype: str) -> None:
    """A batch of 1024 rows, and a vocabulary of 131072 tokens, give what NumPy gives."""
    assert agree(rule, batch("random", size, gamma, vocab, dtype=dtype, seed=2), dtype)


@rules
@pytest.mark.parametrize("piece", [1, 300, 5000])
def test_the_piece_size_changes_nothing(monkeypatch: pytest.MonkeyPatch, rule: str, piece: int) -> None:
    """Tokens do not depend on how many rows are worked on at a time."""
    monkeypatch.setattr("specverify.reference.torch_draw._PIECE", piece)
    assert agree(rule, batch("zeros", 50, 3, 100, dtype="float32", seed=3, ragged=True), "float32")


@pytest.mark.parametrize("units", [2**62, 12])
@pytest.mark.parametrize("final", [0.0, 2.0**-60, 0.3, 0.7, 1 - 2.0**-53])
def test_the_draw_is_the_integer_inverse_cdf(units: int, final: float) -> None:
    """The token is the one that Python's own integers give, without rounding, also for rows of tiny mass."""
    rows = batch("random", 50, 0, 97, dtype="float64", seed=4).target_probs * (units * 2.0**-62)
    rows[:, 0, -1] += 2.0**-62
    none, finals = np.empty((50, 0)), np.full(50, final)
    _, tokens = on_tensors(verify_token_torch, "cpu")(none.astype(int), np.empty((50, 0, 97)), rows, none, finals)
    for row, drawn in zip(rows[:, 0], tokens, strict=True):
        weights = [int(float(p) * 2**62) for p in row]
        passed = int(final * 2**64) * sum(weights) >> 64
        assert drawn == next(x for x in range(97) if sum(weights[: x + 1]) > passed)


def test_the_drawn_weight_is_an_exact_product() -> None:
    """The high word of 64 uniform bits times a total is that of Python's integers, carries and all."""
    rng = np.random.default_rng(13)
    edges = np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)
    bits = np.concatenate([edges, rng.integers(0, 2**64, 500, np.uint64), rng.integers(0, 2**34, 500, np.uint64)])
    totals = np.concatenate([[0, 1, 2**63 - 1, 2**63 - 1], rng.integers(0, 2**63 - 1, 1000)])
    high_word = import_module("specverify.reference.torch_draw").high_word
    drawn = high_word(torch.from_numpy(bits.view(np.int64)), torch.from_numpy(totals)).tolist()
    assert drawn == [u * t >> 64 for u, t in zip(bits.tolist(), totals.tolist(), strict=True)]


@rules
@pytest.mark.parametrize("token", [-1, 10**6])
def test_what_lies_beyond_a_row_is_not_read(rule: str, token: int) -> None:
    """Padding of ragged rows may hold any token, and rows of NaN."""
    given = batch("random", 60, 4, 7, dtype="float64", seed=14, ragged=True)
    padding = np.arange(4) >= given.num_draft_tokens[:, None]
    padded = changed(
        given,
        draft_tokens=(padding, token),
        draft_probs=(padding, np.nan),
        target_probs=(np.pad(padding, ((0, 0), (1, 0))), np.nan),
    )
    assert agree(rule, padded, "float64")
    assert equal(PAIRS[rule][1](*tensors(padded, "cpu", "float64")), PAIRS[rule][0](*given))


@rules
@pytest.mark.parametrize("name", ["AB", "AB4", "C3", "zeros", "equal", "disjoint", "W402", "W637"])
def test_kernels_equal_the_rules_on_built_in_tables(rule: str, name: str) -> None:
    """No point of any cell of a built-in case disagrees with the rule."""
    case = next(case for case in menu() if case.name == name)
    kernel = on_tensors(PAIRS[rule][1], "cpu")
    proof = cell_proof(RULES[rule], kernel, case.target_row, case.draft_row, case.num_draft_tokens)
    assert proof == CellProof(proof.cells, proof.cells * 3 ** (case.num_draft_tokens + 1), 0)


@rules
@pytest.mark.parametrize(("vocab", "gamma", "tables"), [(2, 3, 12), (4, 2, 6)])
def test_kernels_equal_the_rules_on_random_tables(rule: str, vocab: int, gamma: int, tables: int) -> None:
    """No point of any cell of 18 random tables with zeros disagrees with the rule."""
    kernel = on_tensors(PAIRS[rule][1], "cpu")
    zeros = 0
    for seed in range(tables):
        target, draft = random_table(seed, vocab)
        zeros += target(()).count(Fraction(0)) + draft(()).count(Fraction(0))
        assert cell_proof(RULES[rule], kernel, target, draft, gamma).disagreements == 0
    assert zeros > 0


def redraw_from_target(x: Any, q: Any, p: Any, accept: Any, final: Any, lengths: Any) -> Any:
    """Replace a refused draft by a draw from p."""
    num_accepted, _ = verify_token_torch(x, q, p, accept, final, lengths)
    return verify_token_torch(x, q, p, torch.zeros_like(accept), final, num_accepted)


@pytest.mark.parametrize(("rule", "kernel"), [("token", redraw_from_target), ("block", verify_token_torch)])
def test_the_cell_proof_rejects_edited_kernels(rule: str, kernel: Callable[..., Any]) -> None:
    """A redraw from the target, and the token rule in place of the block rule, disagree on a witness table."""
    case = next(case for case in menu() if case.name == "W402")
    proof = cell_proof(RULES[rule], on_tensors(kernel, "cpu"), case.target_row, case.draft_row, case.num_draft_tokens)
    assert proof.disagreements > 10
    assert rule == "block" or proof.disagreements == 180  # as many as of the same edit in NumPy


@rules
def test_the_comparison_rejects_rounded_rows(rule: str) -> None:
    """A kernel that rounds its rows to 16 bits does not give the tokens of one that takes them as they are."""
    given = batch("random", 500, 2, 1000, dtype="float32", seed=5)
    on_numpy, on_torch = PAIRS[rule]
    assert not equal(on_torch(*tensors(given, "cpu", "bfloat16")), on_numpy(*given))


END = (2, 0, -1)
BAD: dict[str, dict[str, Any]] = {
    "a draft beyond the vocabulary": {"draft_tokens": ((1, 0), 10**6)},
    "a negative draft": {"draft_tokens": ((1, 1), -1)},
    "a final uniform of 1": {"final": (3, 1.0)},
    "a final uniform that is NaN": {"final": (3, np.nan)},
    "too long a draft": {"num_draft_tokens": (2, 3)},
    "a negative length": {"num_draft_tokens": (2, -1)},
    "NaN in a residual": {"target_probs": (END, np.nan), "accept": (2, 0.99)},
    "NaN in a draft": {"draft_probs": (END, np.nan), "accept": (2, 0.99)},
    "a draft that is too negative": {"draft_probs": (END, -2.0), "accept": (2, 0.99)},
    "infinity in a bonus row": {"target_probs": ((2, -1, 1), np.inf), "accept": (2, 0.0)},
    "a negative bonus row": {"target_probs": ((2, -1, 1), -0.5), "accept": (2, 0.0)},
    "too much mass in a bonus row": {"target_probs": ((2, -1, 1), 2.0), "accept": (2, 0.0)},
    "a bonus row of zeros": {"target_probs": ((2, -1), 0.0), "accept": (2, 0.0)},
    "NaN where the block rule looks ahead": {"target_probs": ((2, 1, 1), np.nan), "accept": (2, 0.99)},
    "nothing to replace with": {"target_probs": ((2, 0), 0.0), "accept": (2, 0.99)},
    "two faults": {"final": (3, 1.0), "draft_tokens": ((1, 0), 10**6)},
}


def told(kernel: Callable[..., Any], arguments: Batch) -> str:
    """Return the one line that a kernel refuses its arguments with, or nothing."""
    try:
        kernel(*arguments)
    except ValueError as error:
        return str(error)
    return ""


@rules
@pytest.mark.parametrize("vocab", [4, 9001])
@pytest.mark.parametrize("what", BAD)
def test_errors_are_those_of_numpy(rule: str, vocab: int, what: str) -> None:
    """What one kernel refuses the other refuses in the same words, of the same row."""
    given = batch("random", 4, 2, vocab, dtype="float64", seed=6)
    given = changed(given, draft_tokens=((2, 0), 0), draft_probs=((2, 0, 0), 1.0))  # row 2 can be rejected
    bad = changed(given, **BAD[what])
    expected, found = (
        told(kernel, arguments)
        for kernel, arguments in zip(PAIRS[rule], (bad, tensors(bad, "cpu", "float64")), strict=True)
    )
    assert expected == found
    assert (expected == "") == (rule == "token" and what.startswith("NaN where the block"))


@rules
def test_an_empty_residual_over_no_law_is_refused_alike(rule: str) -> None:
    """Where the residual is empty and the target then has a negative weight, both kernels refuse the row."""
    p, q = np.array([[[0.5, -0.5]] * 2]), np.array([[[1.0, 0.0]]])
    given = Batch(np.array([[0]]), q, p, np.array([[0.9]]), np.array([0.5]), np.array([1]))
    expected, found = (
        told(kernel, arguments)
        for kernel, arguments in zip(PAIRS[rule], (given, tensors(given, "cpu", "float64")), strict=True)
    )
    assert expected == found
    assert expected.startswith("expected weights >= 0 of sum below 2 in row 0")


@rules
@pytest.mark.parametrize("place", range(1, 5))
def test_shapes_that_do_not_fit_are_refused_alike(rule: str, place: int) -> None:
    """Each argument that is a row short gives the line that NumPy gives."""
    given = batch("random", 4, 2, 3, dtype="float64", seed=7)
    short = Batch(*(array[:-1] if i == place else array for i, array in enumerate(given)))
    expected, found = (
        told(kernel, arguments)
        for kernel, arguments in zip(PAIRS[rule], (short, tensors(short, "cpu", "float64")), strict=True)
    )
    assert expected == found
    assert expected.startswith("expected shapes")


@rules
def test_left_out_lengths_are_full_ones(rule: str) -> None:
    """Without lengths every row has as many drafts as there are columns."""
    given = tensors(batch("random", 30, 3, 5, dtype="float32", seed=8), "cpu", "float32")
    kernel = PAIRS[rule][1]
    assert all(torch.equal(a, b) for a, b in zip(kernel(*given), kernel(*given[:5]), strict=True))


@rules
@dtypes
def test_inputs_are_never_written(rule: str, dtype: str) -> None:
    """Every argument is afterwards what it was before, drafts of ragged rows and empty residuals included."""
    for kind in ("random", "equal"):
        given = tensors(batch(kind, 40, 3, 9, dtype=dtype, seed=9, ragged=True), "cpu", dtype)
        before = [tensor.clone() for tensor in given]
        PAIRS[rule][1](*given)
        assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))


@rules
def test_views_give_what_their_copies_give(rule: str) -> None:
    """Expanded rows, tensors of any strides and rows that carry gradients are read as they are."""
    given = tensors(batch("random", 40, 3, 9, dtype="float32", seed=10), "cpu", "float32")
    kernel = PAIRS[rule][1]
    strided = given._replace(
        draft_probs=given.draft_probs.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        target_probs=given.target_probs.repeat_interleave(2, 2)[..., ::2].requires_grad_(),
        accept=given.accept.T.contiguous().T,
    )
    assert not any(tensor.is_contiguous() for tensor in strided[1:4])
    assert all(torch.equal(a, b) for a, b in zip(kernel(*strided), kernel(*given), strict=True))
    rows = given._replace(
        draft_probs=given.draft_probs[:1].expand(40, -1, -1), target_probs=given.target_probs[:1].expand(40, -1, -1)
    )
    copies = Batch(*(tensor.clone() for tensor in rows))
    assert all(torch.equal(a, b) for a, b in zip(kernel(*rows), kernel(*copies), strict=True))


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Notes which operations run and how many elements the largest of their results has."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation; a result that shares the memory of an argument costs nothing."""
        result = func(*args, **(kwargs or {}))
        self.names.add(func.overloadpacket.__name__)
        if torch.is_tensor(result) and result._base is None and not result._is_view():
            self.largest = max(self.largest, result.untyped_storage().nbytes() // result.element_size())
        return result


@rules
def test_work_is_done_in_pieces_without_waiting(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    """Nothing near the size of the emitting rows is made, and no operation needs to know a result before the end."""
    size, vocab = 512, 1000
    monkeypatch.setattr("specverify.reference.torch_draw._PIECE", 8 * vocab)
    given = tensors(batch("random", size, 3, vocab, dtype="float32", seed=11), "cpu", "float32")
    with Recorder() as seen:
        PAIRS[rule][1](*given)
    assert 8 * vocab <= seen.largest <= size * vocab / 10  # the sums of blocks are of all rows
    assert not seen.names & {"nonzero", "masked_select", "_local_scalar_dense", "item", "equal"}
    equal_rows = tensors(batch("equal", 4, 1, 3, dtype="float64", seed=12), "cpu", "float64")
    equal_rows.target_probs[:, 0] *= 0.5  # then a rejection leaves no residual
    equal_rows.accept[:] = 0.9
    with Recorder() as seen:
        PAIRS[rule][1](*equal_rows)
    assert "nonzero" in seen.names  # the control: a second draw for rows that are known only then


@pytest.mark.parametrize(
    ("name", "on_numpy"), [("reference-torch", "reference"), ("reference-torch-block", "reference-block")]
)
def test_the_samplers_are_those_of_numpy(name: str, on_numpy: str) -> None:
    """With the same seed the report has the same numbers, to the last bit, whichever kernel ran."""
    cases = [case for case in menu() if case.name in ("W402", "W637-ragged", "zeros")]
    first, second = (
        check(load(sampler), cases=cases, samples=3000, alpha=1e-10, target_tv=0.5) for sampler in (name, on_numpy)
    )
    assert first.verdict == second.verdict == "conformant"
    numbers = [
        [(entry["id"], entry["statistic"], entry["p_value"]) for entry in report.checks] for report in (first, second)
    ]
    assert numbers[0] == numbers[1]
    assert first.document["sampler"]["framework"] == "torch"


FINE = [case for case in menu() if case.name in ("AB", "T3", "W402", "zeros")]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["reference-torch", "reference-torch-block"])
def test_sixteen_bits_are_no_fault(name: str, dtype: str) -> None:
    """Rows of 16 bits with the uniforms of the kit pass every check, at 100,000 rows a case."""
    report = check(moved(load(name), "cpu", dtype), cases=FINE, samples=100_000, alpha=1e-10)
    assert report.verdict == "conformant", str(report)


@pytest.mark.parametrize(("bits", "verdict"), [(24, "conformant"), (8, "nonconformant")])
def test_uniforms_of_eight_bits_are_a_fault_in_sixteen_bits_too(bits: int, verdict: str) -> None:
    """A sampler that cuts its uniforms to what bfloat16 holds accepts too often what it should hardly ever accept."""

    def cut(uniforms: Any, **arguments: Any) -> Any:
        coarse = Uniforms(*(np.floor(u * 2.0**bits) / 2.0**bits for u in (uniforms.accept, uniforms.final)))
        return reference.function(**arguments, uniforms=coarse)

    sampler = dataclasses.replace(
        reference, function=cut, name="cut", dtype="float16", tolerance=DEFAULT_TOLERANCE["float16"]
    )
    rare = Case.from_rows("rare", ["41/10000", "9959/10000"], ["1/2", "1/2"], num_draft_tokens=1)
    assert check(sampler, cases=[rare], samples=100_000, alpha=1e-10).verdict == verdict
