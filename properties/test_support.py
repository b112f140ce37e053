"""Support: nothing that the target forbids is ever emitted, at any uniform that a generator can give, 0 included.

Continuous uniforms never show the end points; those of a float type hit 0 once in 2**24 draws, or once in 256.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from specverify.arrays import FloatArray, IntArray
from specverify.properties import pairs, reproducible, uniforms
from specverify.reference import (
    RULES,
    Kernel,
    Row,
    Rule,
    ScriptedTape,
    Tape,
    acceptance,
    choose,
    flip,
    residual,
    verify_block,
    verify_token,
)

NAMES = [("accept", 0), ("final",), ("emit", 0), ("emit", 1)]
GRIDS = ["float64", "float32", "bfloat16"]
STEP = Fraction(1, 2**24)


def allowed(rule: Rule, pair: tuple[Row, Row], drafted: int, script: Sequence[float]) -> bool:
    """Say whether all that a rule emits has positive probability under the target."""
    p, q = pair
    kept, following = rule(ScriptedTape(dict(zip(NAMES, script, strict=True))), [drafted], [q], [p, p])
    return all(p[x] > 0 for x in [drafted] * kept + ([] if following is None else [following]))


def allowed_by_kernel(kernel: Kernel, pair: tuple[Row, Row], drafted: int, accept: float, final: float) -> bool:
    """Say the same of a vectorised kernel on the rows as floats."""
    p, q = (np.array([[row]], dtype=np.float64) for row in pair)
    drafts = np.array([[drafted]])
    kept, following = kernel(drafts, q, np.repeat(p, 2, axis=1), np.array([[accept]]), np.array([final]))
    return bool(p[0, 0, following[0]] > 0 and (kept[0] == 0 or p[0, 0, drafted] > 0))


@pytest.mark.parametrize("dtype", GRIDS)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@reproducible
@given(pair=pairs(3), drafted=st.sampled_from(range(3)), data=st.data())
def test_a_rule_emits_nothing_forbidden(
    rule: Rule, dtype: str, pair: tuple[Row, Row], drafted: int, data: st.DataObject
) -> None:
    """Whatever the uniforms of the grid, its end points among them, every emitted token has p > 0."""
    assume(pair[1][drafted] > 0)
    assert allowed(rule, pair, drafted, [data.draw(uniforms(dtype)) for _ in NAMES])


@pytest.mark.parametrize("dtype", GRIDS)
@pytest.mark.parametrize("kernel", [verify_token, verify_block], ids=["token", "block"])
@reproducible
@given(pair=pairs(3), drafted=st.sampled_from(range(3)), data=st.data())
def test_a_kernel_emits_nothing_forbidden(
    kernel: Kernel, dtype: str, pair: tuple[Row, Row], drafted: int, data: st.DataObject
) -> None:
    """The same of the vectorised kernels, whose sums are rounded: subnormal probabilities included."""
    assume(float(pair[1][drafted]) > 0)
    assert allowed_by_kernel(kernel, pair, drafted, data.draw(uniforms(dtype)), data.draw(uniforms(dtype)))


def closed_coin(
    tape: Tape, draft_tokens: Sequence[int], draft_probs: Sequence[Row], target_probs: Sequence[Row]
) -> tuple[int, int | None]:
    """Accept a draft where u <= p/q, which on a grid is u < p/q + step (fault K17)."""
    x, p, q = draft_tokens[0], target_probs[0], draft_probs[0]
    if flip(tape, ("accept", 0), acceptance(p[x], q[x]) + STEP):
        return 1, choose(tape, ("final",), target_probs[1])
    return 0, choose(tape, ("final",), residual(p, q))


def closed_kernel(
    drafts: IntArray, draft_probs: FloatArray, target_probs: FloatArray, accept: FloatArray, final: FloatArray
) -> tuple[IntArray, IntArray]:
    """Run the token kernel with the same coin."""
    return verify_token(drafts, draft_probs, target_probs, accept - float(STEP), final)


def test_a_coin_that_includes_its_threshold_is_seen() -> None:
    """At u = 0 a closed comparison accepts a forbidden draft; at every other uniform it cannot be told."""
    forbidden = (Fraction(0), Fraction(1)), (Fraction(1, 2), Fraction(1, 2))
    for u, holds in ((0.0, False), (float(STEP), True)):
        assert allowed(closed_coin, forbidden, 0, [u, 0.5, 0.5, 0.5]) == holds
        assert allowed_by_kernel(closed_kernel, forbidden, 0, u, 0.5) == holds
