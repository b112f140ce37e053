"""The array kernels draw by exact integers, leave inputs alone, stay flat in memory, and refuse what is no law."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from specverify.reference import Kernel, Name, Number, ScriptedTape, block, token, verify_block, verify_token

Array = npt.NDArray[Any]
Batch = tuple[Array, Array, Array, Array, Array]
LAST = 1 - 2.0**-53  # the largest uniform below 1
KERNELS = [verify_token, verify_block]
both = pytest.mark.parametrize("kernel", KERNELS)


def batch(seed: int, size: int, gamma: int, vocab: int, dtype: str = "float64") -> Batch:
    """Return a random batch whose rows hold zeros and small and large probabilities."""
    generator = np.random.default_rng([seed, vocab])

    def rows(count: int) -> Array:
        weights = generator.gamma(0.5, size=(size, count, vocab)) * (generator.random((size, count, vocab)) < 0.8)
        weights[..., -1] += 1e-3
        normalised: Array = weights / weights.sum(axis=-1, keepdims=True)
        return normalised.astype(dtype)

    draft_tokens = generator.integers(0, vocab, (size, gamma))
    return draft_tokens, rows(gamma), rows(gamma + 1), generator.random((size, gamma)), generator.random(size)


def equal(a: tuple[Array, Array], b: tuple[Array, Array]) -> bool:
    """Return whether two results are the same, bit for bit, as int64."""
    return all(x.dtype == y.dtype == np.int64 and np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@both
@pytest.mark.parametrize(
    ("size", "gamma", "vocab"), [(40, 1, 1), (200, 3, 2), (200, 2, 3), (60, 2, 300), (20, 2, 40000)]
)
def test_two_levels_draw_the_same_tokens(
    monkeypatch: pytest.MonkeyPatch, kernel: Kernel, size: int, gamma: int, vocab: int
) -> None:
    """Block sums with a rescan, and one cumulated sum over the batch, agree on the same uniforms."""
    case = batch(1, size, gamma, vocab)
    monkeypatch.setattr("specverify.reference.draw.BATCHED_VOCAB", 0)
    two_level = kernel(*case)
    monkeypatch.setattr("specverify.reference.draw.BATCHED_VOCAB", 2**20)
    assert equal(two_level, kernel(*case))
    assert vocab == 1 or len(set(two_level[1].tolist())) > 1


@both
@pytest.mark.parametrize("piece", [16, 64, 96, 4096])
def test_the_piece_size_changes_nothing(monkeypatch: pytest.MonkeyPatch, kernel: Kernel, piece: int) -> None:
    """Tokens do not depend on how many are worked on at a time, in either path."""
    case = batch(2, 30, 2, 256)
    expected = kernel(*case)
    monkeypatch.setattr("specverify.reference.draw._PIECE", piece)
    assert equal(kernel(*case), expected)
    monkeypatch.setattr("specverify.reference.draw.BATCHED_VOCAB", 0)
    assert equal(kernel(*case), expected)


@pytest.mark.parametrize("units", [2**62, 12])
@pytest.mark.parametrize("final", [0.0, 2.0**-60, 0.3, 0.5, 0.7, LAST])
def test_the_draw_is_the_integer_inverse_cdf(units: int, final: float) -> None:
    """The token is the one that Python's own integers give, without rounding, for 50 rows, also of tiny mass."""
    none = np.empty((50, 0), np.int64)
    rows = batch(3, 50, 0, 97)[2] * (units * 2.0**-62)
    rows[:, 0, -1] += 2.0**-62
    _, tokens = verify_token(none, np.empty((50, 0, 97)), rows, none.astype(float), np.full(50, final))
    for row, drawn in zip(rows[:, 0], tokens, strict=True):
        weights = [int(float(p) * 2**62) for p in row]
        passed = int(final * 2**64) * sum(weights) >> 64
        assert drawn == next(x for x in range(97) if sum(weights[: x + 1]) > passed)
        assert weights[drawn] > 0


@pytest.mark.parametrize(("rule", "kernel"), [(token, verify_token), (block, verify_block)])
@pytest.mark.parametrize(("gamma", "vocab"), [(0, 3), (1, 1), (1, 4), (3, 5)])
def test_kernels_follow_the_scalar_rules(rule: Any, kernel: Kernel, gamma: int, vocab: int) -> None:
    """Row by row, the same uniforms give what the rule gives on floats."""
    case = batch(4, 300, gamma, vocab)
    num_accepted, next_token = kernel(*case)
    for row, (x, q, p, accept, final) in enumerate(zip(*case, strict=True)):
        script: dict[Name, Number] = {("accept", i): u for i, u in enumerate(accept)}
        script[("final",)] = final
        assert rule(ScriptedTape(script), x.tolist(), q.tolist(), p.tolist()) == (num_accepted[row], next_token[row])


@both
def test_an_empty_residual_falls_back_to_the_target(kernel: Kernel) -> None:
    """Where q exceeds p everywhere a rejection draws from p, and never a token with p = 0."""
    q = np.tile([[[0.3, 0.0, 0.6, 0.4]]], (4, 1, 1))
    p = np.tile([[[0.2, 0.0, 0.4, 0.4]]], (4, 2, 1))
    final = np.array([0.0, 0.3, 0.7, LAST])
    num_accepted, next_token = kernel(np.zeros((4, 1), np.int64), q, p, np.full((4, 1), 0.9), final)
    assert num_accepted.tolist() == [0, 0, 0, 0]
    assert next_token.tolist() == [0, 0, 3, 3] or next_token.tolist() == [0, 2, 3, 3]


@both
@pytest.mark.parametrize("vocab", [8, 40_000])
@pytest.mark.parametrize("final", [0.0, LAST])
def test_zero_weight_tokens_are_never_drawn(kernel: Kernel, vocab: int, final: float) -> None:
    """At both ends of the uniform, residual and bonus draw the first and last token that have weight."""
    p = np.zeros((2, 2, vocab))
    p[:, :, [1, vocab // 2, vocab - 2]] = [0.25, 0.5, 0.25]
    q = np.zeros((2, 1, vocab))
    q[:, :, [0, 1, vocab - 2, vocab - 1]] = [0.25, 0.2, 0.3, 0.25]
    num_accepted, next_token = kernel(np.array([[0], [1]]), q, p, np.full((2, 1), 0.5), np.full(2, final))
    assert num_accepted.tolist() == [0, 1]
    assert next_token.tolist() == ([1, 1] if final == 0 else [vocab // 2, vocab - 2])


@both
def test_the_smallest_uniform_accepts_no_impossible_token(kernel: Kernel) -> None:
    """A uniform of 0 accepts any possible token, and none with p = 0, whatever q is."""
    q = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 1.0]]])
    p = np.array([[[0.0, 1.0]] * 2, [[0.0, 1.0]] * 2, [[1.0, 0.0]] * 2])
    num_accepted, next_token = kernel(np.zeros((3, 1), np.int64), q, p, np.zeros((3, 1)), np.zeros(3))
    assert num_accepted.tolist() == [0, 0, 1]
    assert next_token.tolist() == [1, 1, 0]


def test_an_impossible_draft_after_equal_laws_costs_only_itself() -> None:
    """Where w = 1 and p = q leave 0/0, the block rule and its kernel keep the prefix."""
    row, x = [[0.0, 0.25, 0.75]], [1, 0]
    for accept in (0.0, LAST):
        script: dict[Name, Number] = {("accept", 0): accept, ("accept", 1): accept, ("final",): 0.5}
        assert block(ScriptedTape(script), x, row * 2, row * 3) == (1, 2)
        q, p = np.array([row * 2]), np.array([row * 3])
        result = verify_block(np.array([x]), q, p, np.full((1, 2), accept), np.array([0.5]))
        assert [array.tolist() for array in result] == [[1], [2]]


@both
def test_subnormal_probabilities_meet_the_accept_test(kernel: Kernel) -> None:
    """With p >= q a token is accepted up to the largest uniform, also where u * q would round up to q."""
    tiny = 5e-324
    values = [(tiny, tiny), (3 * tiny, 3 * tiny), (1e-310, 1e-310), (2 * tiny, tiny), (tiny, 2 * tiny), (0.0, tiny)]
    p = np.array([[[p, 1.0]] * 2 for p, _ in values])
    q = np.array([[[q, 1.0]] for _, q in values])
    num_accepted, _ = kernel(np.zeros((6, 1), np.int64), q, p, np.full((6, 1), LAST), np.full(6, 0.5))
    assert num_accepted.tolist() == [1, 1, 1, 1, 0, 0]
    num_accepted, _ = kernel(np.zeros((6, 1), np.int64), q, p, np.full((6, 1), 0.25), np.full(6, 0.5))
    assert num_accepted.tolist() == [1, 1, 1, 1, 1, 0]


@both
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("vocab", [7, 20_000])
def test_low_precision_inputs_are_taken_as_their_values(kernel: Kernel, dtype: str, vocab: int) -> None:
    """Rounded probabilities and uniforms give what the same values give in float64."""
    x, q, p, accept, final = batch(5, 40, 2, vocab, dtype)
    accept, final = accept.astype("float32"), np.minimum(final.astype("float32"), np.float32(0.999))
    wide = kernel(x, q.astype(float), p.astype(float), accept.astype(float), final.astype(float))
    assert equal(kernel(x, q, p, accept, final), wide)


@both
@pytest.mark.parametrize("vocab", [5, 10_000])
@pytest.mark.parametrize(("token", "chance"), [(-1, float("nan")), (2, 0.5), (10**6, 0.5)])
def test_ragged_rows_are_rows_of_their_own_length(kernel: Kernel, vocab: int, token: int, chance: float) -> None:
    """A row of n drafts gives what it gives alone, whatever its padding holds."""
    x, q, p, accept, final = batch(6, 24, 3, vocab)
    x = np.where(x % 3 == 0, x, np.argmax(p[:, :3], axis=2))  # enough accepted tokens to reach every length
    lengths = np.arange(24) % 4
    padding = np.arange(3) >= lengths[:, None]
    x[padding], q[padding], p[:, 1:][padding] = token, chance, chance
    together = kernel(x, q, p, accept, final, lengths)  # type: ignore[call-arg]
    for row, n in enumerate(lengths):
        one = slice(row, row + 1)
        alone = kernel(x[one, :n], q[one, :n], p[one, : n + 1], accept[one, :n], final[one])
        assert equal((together[0][one], together[1][one]), alone)
    assert {n - a for n, a in zip(lengths, together[0], strict=True)} >= {0, 1}


@both
@pytest.mark.parametrize("vocab", [6, 9_000])
def test_broadcast_views_are_read_and_left_alone(kernel: Kernel, vocab: int) -> None:
    """Read-only stride-0 inputs give what full copies give, and nothing is written."""
    x, q, p, accept, final = batch(7, 30, 2, vocab)
    q, p = q[:1], p[:1]
    views = np.broadcast_to(q, (30, 2, vocab)), np.broadcast_to(p, (30, 3, vocab))
    for array in (x, accept, final):
        array.setflags(write=False)
    before = q.copy(), p.copy()
    result = kernel(x, *views, accept, final)
    assert equal(result, kernel(x, views[0].copy(), views[1].copy(), accept, final))
    assert np.array_equal(q, before[0])
    assert np.array_equal(p, before[1])


@both
@pytest.mark.parametrize(
    ("size", "vocab", "limit"), [(48, 262_144, 3 * 2**20), (40_000, 64, 12 * 2**20), (3_000, 8_000, 4 * 2**20)]
)
def test_memory_stays_flat(kernel: Kernel, size: int, vocab: int, limit: int) -> None:
    """Nothing of the size of the batch of rows is made: it would take 300, 61 and 576 MB here."""
    x, q, p, _, _ = batch(8, 1, 2, vocab)
    generator = np.random.default_rng(8)
    accept, final = generator.random((size, 2)), generator.random(size)
    views = np.broadcast_to(q, (size, 2, vocab)), np.broadcast_to(p, (size, 3, vocab))
    tokens = np.broadcast_to(x, (size, 2))
    tracemalloc.start()
    try:
        kernel(tokens, *views, accept, final)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit


@both
@pytest.mark.parametrize("vocab", [4, 40_000])
@pytest.mark.parametrize(
    "ends", [(0.5, float("nan")), (0.5, float("inf")), (1.0, -0.5), (1.0, 1.0), (0.0, 2.0), (0.0, 1e300)]
)
def test_rows_that_are_no_law_are_refused(kernel: Kernel, vocab: int, ends: tuple[float, float]) -> None:
    """NaN, infinite, negative and over-mass rows to draw from give one line with the row, not a wrong token."""
    x, q, p, accept, final = batch(9, 3, 0, vocab)
    p[2, 0] = 0
    p[2, 0, [0, -1]] = ends
    with pytest.raises(ValueError, match=r"^expected weights >= 0 of sum below 2 in row 2, .*: pass probabilities$"):
        kernel(x, q, p, accept, final)


@both
@pytest.mark.parametrize("bad", [float("nan"), -2.0])
def test_residuals_that_are_no_law_are_refused(kernel: Kernel, bad: float) -> None:
    """A draft row that is NaN, or so negative that the residual has too much mass, is refused."""
    q, p = np.array([[[1.0, bad]]]), np.array([[[0.0, 1.0]] * 2])
    with pytest.raises(ValueError, match=r"^expected weights >= 0 of sum below 2 in row 0"):
        kernel(np.array([[0]]), q, p, np.array([[0.5]]), np.array([0.5]))


@both
def test_a_row_without_mass_is_refused(kernel: Kernel) -> None:
    """A target row of zeros has no token to give."""
    x, q, p, accept, final = batch(9, 2, 0, 3)
    p[1] = 0
    with pytest.raises(ValueError, match=r"^expected a target row with mass to draw from in row 1, got zeros"):
        kernel(x, q, p, accept, final)


WRONG: dict[str, Callable[[Batch], Batch]] = {
    "shapes": lambda b: (b[0], b[1][:, :1], *b[2:]),
    "final": lambda b: (*b[:4], np.ones_like(b[4])),
    "draft_tokens": lambda b: (b[0] + 3, *b[1:]),
}


@both
@pytest.mark.parametrize("what", WRONG)
def test_arguments_that_do_not_fit_are_refused(kernel: Kernel, what: str) -> None:
    """Wrong shapes, uniforms of 1 and tokens outside the vocabulary give one line that says so."""
    with pytest.raises(ValueError, match=rf"^expected {what} .*got .*: .*$"):
        kernel(*WRONG[what](batch(10, 4, 2, 3)))


def test_lengths_out_of_range_are_refused() -> None:
    """A row cannot have more drafts than the batch has columns."""
    with pytest.raises(ValueError, match=r"^expected num_draft_tokens in 0 \.\. 2, got a value outside it in row 3"):
        verify_token(*batch(10, 4, 2, 3), np.array([0, 1, 2, 3]))
