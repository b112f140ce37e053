"""Sampling parameters make the law that their definitions say: against fractions, by hand, and against transformers."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from specverify.errors import ConfigError
from specverify.processing import EDGE, PLAIN, Grammar, Sampling
from specverify.properties import SamplingParameters

NOTHING = np.zeros((1, 0), dtype=np.int64)
TURNS = Grammar(allowed=((0,), (1, 2)), after=((1, 0, 0), (1, 0, 1)), vocab_size=3)
SHARES = 16
Law = tuple[Fraction, ...]


def scored(row: Any) -> np.ndarray:
    """Give a row of probabilities as log-probabilities, float64 [1, V]."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log([[float(x) for x in row]]))


def law(sampling: Sampling, row: Any, generated: Any = NOTHING, prompt: tuple[int, ...] = (), eos: Any = None) -> Any:
    """Give the law after one row of tokens."""
    return sampling.law(scored(row), np.array(generated, dtype=np.int64).reshape(1, -1), prompt, eos)[0].tolist()


def sixteenths(rng: np.random.Generator) -> Law:
    """Draw a law of two to six tokens whose probabilities are sixteenths: zeros and ties are common."""
    size = int(rng.integers(2, 7))
    favoured = rng.integers(0, size, 3)
    units = np.bincount(rng.choice(favoured if rng.integers(2) else np.arange(size), SHARES), minlength=size)
    return tuple(Fraction(int(unit), SHARES) for unit in units)


# --- temperature and filters against exact fractions ------------------------------------------------------------------


def same(sampling: Sampling, exact: SamplingParameters, row: Law) -> None:
    """Hold a law to the fractions: the same support, token by token, and values to the last digits."""
    given, due = law(sampling, row), exact.law(row)
    assert [x > 0 for x in given] == [x > 0 for x in due], (sampling, row)
    np.testing.assert_allclose(given, [float(x) for x in due], rtol=0, atol=1e-14, err_msg=f"{sampling} of {row}")


@pytest.mark.parametrize("seed", range(4))
def test_temperature_and_filters_are_those_of_the_fractions(seed: int) -> None:
    """Any temperature 1/n with any filters keeps the same tokens, ties and zeros included, and gives the same law."""
    rng = np.random.default_rng(seed)
    for _ in range(300):
        row, n = sixteenths(rng), int(rng.integers(1, 5))
        top_k = int(rng.integers(0, len(row) + 1))
        top_p, min_p = (Fraction(int(rng.integers(least, SHARES + 1)), SHARES) for least in (1, 0))
        exact = SamplingParameters(temperature=Fraction(1, n), top_k=top_k or None, top_p=top_p, min_p=min_p)
        same(Sampling(temperature=1 / n, top_k=top_k, top_p=float(top_p), min_p=float(min_p)), exact, row)


@pytest.mark.parametrize("seed", range(4))
def test_rounding_decides_no_edge(seed: int) -> None:
    """A sum that is exactly top_p has reached it, and a share that is exactly min_p is kept, at any temperature."""
    rng = np.random.default_rng(seed)
    for _ in range(300):
        row, n = sixteenths(rng), int(rng.integers(1, 5))
        tempered = SamplingParameters(temperature=Fraction(1, n)).law(row)
        ranked = sorted(tempered, reverse=True)
        top_p = sum(ranked[: int(rng.integers(1, len(row) + 1))], Fraction(0))
        same(
            Sampling(temperature=1 / n, top_p=float(top_p)),
            SamplingParameters(temperature=Fraction(1, n), top_p=top_p),
            row,
        )
        min_p = ranked[int(rng.integers(len(row)))] / ranked[0]
        same(
            Sampling(temperature=1 / n, min_p=float(min_p)),
            SamplingParameters(temperature=Fraction(1, n), min_p=min_p),
            row,
        )


def test_only_rounding_is_forgiven_at_an_edge() -> None:
    """A top_p or min_p that is further from an edge than EDGE decides by itself."""
    assert law(Sampling(top_p=0.5 + 2 * EDGE), [0.5, 0.3, 0.2])[1] > 0
    assert law(Sampling(top_p=0.5 + EDGE / 2), [0.5, 0.3, 0.2]) == [1, 0, 0]
    assert law(Sampling(min_p=0.5 + 2 * EDGE), [0.5, 0.25, 0.25]) == [1, 0, 0]
    assert law(Sampling(top_p=1e-300), [0.2, 0.8]) == [0, 1]


def test_of_equal_tokens_the_lower_id_is_kept() -> None:
    """Top-k and top-p cut a tie by id, and min-p keeps all of it."""
    row = [0.25, 0.25, 0.25, 0.25]
    assert law(Sampling(top_k=2), row) == law(Sampling(top_p=0.5), row) == [0.5, 0.5, 0, 0]
    assert law(Sampling(min_p=1), row) == row


def test_the_order_of_the_filters_matters() -> None:
    """Temperature comes before top-p, and top-p sums what top-k left, renormalised."""
    row = [0.5, 0.3, 0.2]
    assert law(Sampling(temperature=0.5, top_p=0.6), row) == [1, 0, 0]  # 25/38 > .6 already
    assert law(Sampling(top_k=2, top_p=0.6), row) == [1, 0, 0]  # 5/8 > .6 already
    np.testing.assert_allclose(law(Sampling(top_p=0.6), row), [5 / 8, 3 / 8, 0])


# --- what depends on the tokens before, by hand ----------------------------------------------------------------------


def test_a_repetition_penalty_multiplies_log_probabilities() -> None:
    """A token of the prompt or since has its log-probability doubled: its probability is squared, once."""
    np.testing.assert_allclose(
        law(Sampling(repetition_penalty=2), [0.5, 0.25, 0.25], [1, 1], (0,)), np.array([4, 1, 4]) / 9
    )


def test_a_repetition_penalty_divides_a_positive_score() -> None:
    """A bias comes first: a score above zero is divided by the penalty."""
    sampling = Sampling(repetition_penalty=2, logit_bias=(np.log(8), 0, 0))  # the score of token 0 is log 4
    np.testing.assert_allclose(law(sampling, [0.5, 0.25, 0.25], [0]), np.array([8, 1, 1]) / 10)


def test_a_frequency_penalty_counts_what_was_generated() -> None:
    """A token that came twice pays twice, and the prompt does not count."""
    sampling = Sampling(frequency_penalty=np.log(2))
    np.testing.assert_allclose(law(sampling, [0.5, 0.25, 0.25], [0, 0, 1], (2, 2)), np.array([1, 1, 2]) / 4)


def test_each_row_has_its_own_history() -> None:
    """Rows of a batch are penalised for their own tokens only."""
    rows = Sampling(frequency_penalty=np.log(4)).law(np.log(np.full((3, 2), 0.5)), np.array([[0], [1], [1]]), ())
    np.testing.assert_allclose(rows, [[0.2, 0.8], [0.8, 0.2], [0.8, 0.2]])


def test_a_bias_is_added() -> None:
    """A bias of log 2 doubles the odds, and one of minus infinity rules a token out."""
    np.testing.assert_allclose(law(Sampling(logit_bias=(np.log(2), 0, -np.inf)), [0.5, 0.25, 0.25]), [0.8, 0.2, 0])


def test_the_end_is_impossible_before_its_time() -> None:
    """With a minimum of two the end cannot be the first or the second token, and may be the third."""
    sampling, row = Sampling(min_new_tokens=2), [0.5, 0.25, 0.25]
    for generated, due in (([], [2 / 3, 0, 1 / 3]), ([0], [2 / 3, 0, 1 / 3]), ([0, 2], row)):
        np.testing.assert_allclose(law(sampling, row, generated, eos=1), due)
    assert law(sampling, row) == row  # no token ends a sequence


def test_a_grammar_follows_what_was_generated() -> None:
    """The state is that after the generated tokens, without the prompt."""
    row = [0.5, 0.25, 0.25]
    for generated, due in (([], [1, 0, 0]), ([0], [0, 0.5, 0.5]), ([0, 2], [0, 0.5, 0.5]), ([0, 1], [1, 0, 0])):
        assert law(Sampling(allowed_tokens=TURNS), row, generated, (0,)) == due


def test_impossible_tokens_stay_impossible() -> None:
    """Minus infinity goes through every parameter together, without a NaN or a warning."""
    sampling = Sampling(0.5, 2, 0.9, 0.1, 0.5, -3.0, (5.0, -np.inf, 1.0), 1, TURNS)
    for penalty in (0.5, 2.0):
        given = law(Sampling(repetition_penalty=penalty, frequency_penalty=-3, logit_bias=(9, 9, 9)), [0, 1, 0], [0, 0])
        assert given == [0, 1, 0]
    assert law(sampling, [0, 0.5, 0.5], [0, 0], (0,), 1) == [0, 0, 1]


def test_a_temperature_near_zero_is_the_greedy_limit() -> None:
    """The smallest temperature there is gives the likeliest token, not a NaN."""
    assert law(Sampling(temperature=5e-324), [0.25, 0.5, 0.25]) == [0, 1, 0]


def test_nothing_changes_nothing() -> None:
    """Without parameters the law is the model's, and scores are a copy of its row."""
    row = scored([0.5, 0.25, 0.25])
    assert PLAIN.set_names == set()
    assert PLAIN.scores(row, NOTHING, (0,), 1) is not row
    assert law(PLAIN, [0.5, 0.25, 0.25], [1], (0,), 1) == [0.5, 0.25, 0.25]


def test_what_is_passed_to_a_generator() -> None:
    """Parameters are passed as they are, a bias as an array, and no grammar as one that allows everything."""
    assert Sampling(top_k=3).argument("top_k", 2) == 3
    assert PLAIN.argument("logit_bias", 2).tolist() == [0, 0]
    assert Sampling(logit_bias=(1, -np.inf)).argument("logit_bias", 2).tolist() == [1, -np.inf]
    assert PLAIN.argument("allowed_tokens", 2)(np.array([[0, 1], [1, 1]])).all()
    assert Sampling(logit_bias=(0.0, 0.0), min_p=0.5).set_names == {"logit_bias", "min_p"}


# --- against the processors of transformers --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processors() -> Any:
    """Give transformers.generation, with torch beside it."""
    pytest.importorskip("torch")
    return pytest.importorskip("transformers.generation")


def theirs(steps: list[Any], log_probs: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Apply processors one after the other, and softmax."""
    import torch

    scores = torch.tensor(log_probs)
    for step in steps:
        scores = step(torch.tensor(tokens), scores)
    return np.asarray(scores.softmax(-1).numpy())


PROMPT = (0, 3)
BIAS = (0.5, -2.0, 0.0, 1.0, -0.25)
FIVE = Grammar(allowed=((0, 1, 2), (1, 2, 3, 4)), after=((1, 1, 0, 0, 0), (0, 0, 1, 1, 1)), vocab_size=5)
END = 4


def their_steps(processors: Any, sampling: Sampling) -> list[Any]:
    """Make the processors that ``generate`` would, in its order."""
    set_names, steps = sampling.set_names, []
    if "logit_bias" in set_names:
        bias = {(token,): value for token, value in enumerate(sampling.logit_bias)}
        steps.append(processors.SequenceBiasLogitsProcessor(bias))
    if "repetition_penalty" in set_names:
        steps.append(processors.RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if "min_new_tokens" in set_names:
        least = sampling.min_new_tokens
        steps.append(processors.MinNewTokensLengthLogitsProcessor(len(PROMPT), least, [END], device="cpu"))
    if sampling.allowed_tokens is not None:
        grammar = sampling.allowed_tokens

        def allowed(_: int, tokens: Any) -> list[int]:
            return np.flatnonzero(grammar(tokens[None, len(PROMPT) :].numpy())[0]).tolist()

        steps.append(processors.PrefixConstrainedLogitsProcessor(allowed, 1))
    for name, warper in (("temperature", "Temperature"), ("top_k", "TopK"), ("top_p", "TopP"), ("min_p", "MinP")):
        if name in set_names:
            steps.append(getattr(processors, f"{warper}LogitsWarper")(getattr(sampling, name)))
    return steps


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.6),
        Sampling(temperature=3),
        Sampling(top_k=2),
        Sampling(top_p=0.7),
        Sampling(min_p=0.4),
        Sampling(repetition_penalty=1.7),
        Sampling(repetition_penalty=0.6),
        Sampling(logit_bias=BIAS),
        Sampling(min_new_tokens=2),
        Sampling(allowed_tokens=FIVE),
        Sampling(temperature=0.6, top_k=3, top_p=0.8, min_p=0.2),
        Sampling(0.7, 3, 0.9, 0.1, 1.5, 0, BIAS, 3, FIVE),
    ],
)
@pytest.mark.parametrize("length", [0, 1, 3])
def test_laws_are_those_of_transformers(processors: Any, sampling: Sampling, length: int) -> None:
    """On rows without ties the processors of transformers, in the order of its generate, give the same law."""
    rng = np.random.default_rng(7)
    log_probs = np.log(rng.dirichlet(np.ones(5), 200))
    generated = rng.integers(0, 5, (200, length))
    tokens = np.concatenate([np.tile(PROMPT, (200, 1)), generated], axis=1)
    due = theirs(their_steps(processors, sampling), log_probs, tokens)
    given = sampling.law(log_probs, generated, PROMPT, END)
    assert ((given > 0) == (due > 0)).all()
    np.testing.assert_allclose(given, due, atol=1e-6)  # some of their constants are float32


def test_a_tie_is_cut_where_transformers_keeps_it(processors: Any) -> None:
    """The difference that is known: top-k of transformers keeps all tokens that tie with the last one kept."""
    row, tokens = scored([0.5, 0.25, 0.25]), np.array([[0]])
    assert theirs([processors.TopKLogitsWarper(2)], row, tokens).tolist() == [[0.5, 0.25, 0.25]]
    assert (law(Sampling(top_k=2), np.exp(row[0]))[2], law(Sampling(top_k=3), np.exp(row[0]))[2]) == (0, 0.25)


def test_a_penalty_of_logits_is_another_law(processors: Any) -> None:
    """A repetition penalty is not blind to a constant: on logits it is not what it is on log-probabilities."""
    row, tokens = scored([0.5, 0.25, 0.25]), np.array([[0]])
    step = [processors.RepetitionPenaltyLogitsProcessor(2.0)]
    given = law(Sampling(repetition_penalty=2), np.exp(row[0]), [0])
    np.testing.assert_allclose(theirs(step, row, tokens)[0], given)
    assert abs(theirs(step, row + 1, tokens)[0] - given).max() > 0.05


# --- outside the domain ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", value) for value in (0, -1, float("nan"), float("inf"), "1", True, None, 1 + 0j)),
        *(("top_k", value) for value in (-1, 2.0, None, True)),
        *(("top_p", value) for value in (0, 1.01, -0.5, float("nan"), "p")),
        *(("min_p", value) for value in (-0.1, 1.01, float("nan"))),
        *(("repetition_penalty", value) for value in (0, -2, float("inf"))),
        *(("frequency_penalty", value) for value in (float("nan"), float("inf"), [1])),
        *(("logit_bias", value) for value in ((float("nan"),), (float("inf"),), ("a",), 3, [[1, 2]])),
        *(("min_new_tokens", value) for value in (-1, 0.5)),
        *(("allowed_tokens", value) for value in (len, (0, 1))),
    ],
)
def test_parameters_outside_their_domain_are_refused(name: str, value: Any) -> None:
    """One line names the parameter, what it may be, and what was given."""
    with pytest.raises(ConfigError, match=rf"^expected {name} to be .*, got [^\n]*$"):
        Sampling(**{name: value})


@pytest.mark.parametrize(
    ("allowed", "after", "message"),
    [
        (((0,), ()), ((0, 1), (1, 0)), "expected state 1 of a grammar to allow a token, got none"),
        (((2,),), ((0, 0),), "expected a token allowed in state 0 of a grammar to be an integer from 0 to 1, got 2"),
        (((0,),), ((0, 1),), "expected a state after state 0 of a grammar to be an integer from 0 to 0, got 1"),
        (((0,),), ((0,),), "expected a grammar with one list"),
        (((0,),), ((0, 0), (0, 0)), "expected a grammar with one list"),
        ((), (), "expected a grammar with one list"),
    ],
)
def test_a_grammar_that_stops_is_refused(allowed: Any, after: Any, message: str) -> None:
    """A state that allows nothing, or a token or state that is not there, is named in one line."""
    with pytest.raises(ConfigError, match=rf"^{message}[^\n]*$"):
        Grammar(allowed, after, 2)


@pytest.mark.parametrize(
    ("sampling", "cause"),
    [
        (Sampling(logit_bias=(-np.inf, -np.inf, 0)), "logit_bias"),
        (Sampling(min_new_tokens=2, allowed_tokens=TURNS), "allowed_tokens, min_new_tokens"),
        (PLAIN, "the model alone"),
    ],
)
def test_parameters_that_leave_nothing_are_named(sampling: Sampling, cause: str) -> None:
    """Where no token is left the error says after which tokens, and under which parameters."""
    row = np.array([[np.nan] * 3]) if sampling is PLAIN else scored([0.5, 0.5, 0])
    with pytest.raises(ConfigError, match=rf"after the generated tokens \[\], got none under {cause}; allow"):
        sampling.law(row, NOTHING, (), 0)
