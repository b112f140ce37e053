"""Statistics: what a kernel draws fits the exact law of its rule, on random float pairs and on the two-token example.

The frequencies of (drafted tokens, accepted length, next token) hold everything that a rule decides. All draws follow
from one seed; with any other seed, too, a correct kernel fails any test here with probability below 1e-9.
"""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case
from specverify.evidence import Fit, gof
from specverify.faults import CATALOGUE
from specverify.properties import float_pairs, reproducible
from specverify.randomness import Uniforms
from specverify.reference import (
    Kernel,
    Outcome,
    Rule,
    block,
    completed_law,
    outcome_law,
    token,
    verify_block,
    verify_token,
)
from specverify.registry import load
from specverify.sampling import CaseSampler

SEED = 20
ROWS = 10_000
EXAMPLES = 50
LEVEL = 1e-10 / EXAMPLES  # of one example; EXAMPLES is the most that a test runs


def verify_naively(
    draft_tokens: IntArray, draft_probs: FloatArray, target_probs: FloatArray, accept: FloatArray, final: FloatArray
) -> tuple[IntArray, IntArray]:
    """Run the built-in naive redraw on given uniforms, as the kernels of the reference are run."""
    lengths = np.full(len(draft_tokens), draft_tokens.shape[1])
    uniforms = Uniforms(accept, final)
    num_accepted, next_token = load("naive-redraw")(draft_tokens, lengths, draft_probs, target_probs, uniforms)
    return num_accepted, next_token


def observe(kernel: Kernel, case: Case) -> Counter[Outcome]:
    """Count the outcomes of one batch of a case whose rows ignore the context."""
    rng = np.random.default_rng(SEED)
    draft_tokens, _ = CaseSampler(case).draft(ROWS, rng)
    draft_probs, target_probs = (
        np.broadcast_to(np.concatenate(model), (ROWS, len(model), case.vocab_size))
        for model in (case.draft, case.target)
    )
    accept, final = rng.random(draft_tokens.shape), rng.random(ROWS)
    num_accepted, next_token = kernel(draft_tokens, draft_probs, target_probs, accept, final)
    rows = zip(draft_tokens.tolist(), num_accepted.tolist(), next_token.tolist(), strict=True)
    return Counter(Outcome(tuple(drafted), kept, following) for drafted, kept, following in rows)


def fit(rule: Rule, kernel: Kernel, case: Case) -> Fit:
    """Test what a kernel draws against the exact law of a rule, with a p-value that is valid however small it is."""
    law = outcome_law(rule, case.target_row, case.draft_row, case.num_draft_tokens)
    seen = observe(kernel, case)
    outcomes = {**law, **seen}
    return gof([seen[o] for o in outcomes], [float(law.get(o, 0)) for o in outcomes], rigorous=True)


def fit_first_token(kernel: Kernel, case: Case, law: list[float]) -> Fit:
    """Test the first token that a kernel emits against a law."""
    first: Counter[int | None] = Counter()
    for outcome, count in observe(kernel, case).items():
        first[outcome.emitted[0]] += count
    return gof([first[x] for x in range(case.vocab_size)], law)


@pytest.fixture
def two_tokens() -> Case:
    """Make the two-token example."""
    return Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)


@pytest.fixture
def mirrored() -> Case:
    """Make the pair on which token and block verification differ from the second draft on."""
    return Case.from_rows("SUN", ["1/3", "2/3"], ["2/3", "1/3"], num_draft_tokens=2)


@st.composite
def float_cases(draw: st.DrawFn) -> Case:
    """Generate cases of two drafted tokens with float rows of their own at every position."""
    size = draw(st.integers(2, 4))
    rows: list[tuple[FloatArray, FloatArray]] = [draw(float_pairs(size)) for _ in range(3)]
    p, q = np.stack([p for p, _ in rows]), np.stack([q for _, q in rows[:2]])
    return Case.from_rows("floats", p, q, num_draft_tokens=2)


@pytest.mark.parametrize(("rule", "kernel"), [(token, verify_token), (block, verify_block)], ids=["token", "block"])
@settings(reproducible, max_examples=EXAMPLES)
@given(case=float_cases())
def test_a_kernel_draws_what_its_rule_says(rule: Rule, kernel: Kernel, case: Case) -> None:
    """The outcomes of the vectorised kernel have the law of the rule, at random float rows."""
    assert fit(rule, kernel, case).p_value > LEVEL


def test_the_kernels_are_told_apart(mirrored: Case) -> None:
    """Where the two rules differ, each kernel fits its own rule and not the other."""
    assert fit(token, verify_token, mirrored).p_value > LEVEL
    assert fit(block, verify_block, mirrored).p_value > LEVEL
    assert fit(block, verify_token, mirrored).p_value < LEVEL
    assert fit(token, verify_block, mirrored).p_value < LEVEL


@pytest.mark.parametrize(
    ("rule", "law"),
    [(token, ("3/5", "2/5")), (CATALOGUE["K02"].rule, ("18/25", "7/25"))],
    ids=["token", "naive-redraw"],
)
def test_the_two_token_example_exactly(rule: Rule, law: tuple[str, str], two_tokens: Case) -> None:
    """From p = (.6, .4) and q = (.8, .2) the token rule gives .6/.4; a redraw from the target gives .72/.28."""
    outcomes = outcome_law(rule, two_tokens.target_row, two_tokens.draft_row, 1)
    assert completed_law(outcomes, two_tokens.target_row, 1) == {(x,): Fraction(law[x]) for x in range(2)}


def test_the_two_token_example_in_frequencies(two_tokens: Case) -> None:
    """The kernel's first token fits .6/.4; the naive redraw's does not, and fits .72/.28, which the other does not."""
    assert fit_first_token(verify_token, two_tokens, [0.6, 0.4]).p_value > LEVEL
    assert fit_first_token(verify_naively, two_tokens, [0.6, 0.4]).p_value < LEVEL
    assert fit_first_token(verify_naively, two_tokens, [0.72, 0.28]).p_value > LEVEL
    assert fit_first_token(verify_token, two_tokens, [0.72, 0.28]).p_value < LEVEL


def test_the_naive_redraw_follows_the_law_of_its_fault(two_tokens: Case) -> None:
    """All that the naive redraw does has the exact law of fault K02, and not that of the token rule."""
    assert fit(CATALOGUE["K02"].rule, verify_naively, two_tokens).p_value > LEVEL
    assert fit(token, verify_naively, two_tokens).p_value == 0, "a replacement came that the residual does not hold"
