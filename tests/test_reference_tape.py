"""One text of a rule runs under every tape: enumerated exactly, drawn at random, and on given uniforms."""

import ast
import doctest
import inspect
import math
import textwrap
from collections import Counter
from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest

from specverify.reference import (
    RULES,
    Name,
    Number,
    Outcome,
    RandomTape,
    ScriptedTape,
    Tape,
    accept_tail,
    branches,
    cell_proof,
    choose,
    expected_tokens,
    flip,
    outcome_law,
    residual,
    target_law,
    verify_token,
)

THIRD = Fraction(1, 3)
P = (Fraction(1, 2), Fraction(3, 10), Fraction(1, 5))
Q = (Fraction(3, 10), Fraction(1, 5), Fraction(1, 2))
MODULES = [inspect.getmodule(f) for f in (flip, residual, target_law, cell_proof, verify_token)]


def coins(tape: Tape) -> tuple[bool, bool, int]:
    """Ask one uniform twice and draw a token from another."""
    return flip(tape, ("a",), THIRD), flip(tape, ("a",), Fraction(1, 2)), choose(tape, ("b",), P)


def test_branches_cut_the_cube_exactly() -> None:
    """Weights add up to 1, each is the volume of its box, and a uniform asked twice is one uniform."""
    found = list(branches(coins))
    assert sum(branch.weight for branch in found) == 1
    for branch in found:
        assert math.prod(hi - lo for lo, hi in branch.box.values()) == branch.weight
    assert Counter(branch.output[:2] for branch in found) == {(True, True): 3, (False, True): 3, (False, False): 3}
    assert sum(b.weight for b in found if b.output[:2] == (False, True)) == Fraction(1, 6)


def test_a_script_from_inside_a_box_replays_its_branch() -> None:
    """Given uniforms from a box, the same rule takes that box's branch."""
    for branch in branches(coins):
        script = {name: (lo + hi) / 2 for name, (lo, hi) in branch.box.items()}
        assert coins(ScriptedTape(script)) == branch.output


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_replays_its_branches_on_scripts(rule: str) -> None:
    """Every rule gives a branch's output at that box's lower corner, which belongs to it."""
    rows = [P, Q, P]
    found = list(branches(lambda tape: RULES[rule](tape, (2, 0), rows[:2], rows[1:] + rows[:1])))
    assert sum(branch.weight for branch in found) == 1
    for branch in found:
        tape = ScriptedTape({name: lo for name, (lo, _) in branch.box.items()})
        assert RULES[rule](tape, (2, 0), rows[:2], rows[1:] + rows[:1]) == branch.output


def test_asking_twice_gives_the_same_uniform_on_every_tape() -> None:
    """A name stands for one uniform, whatever answers it."""

    def same(tape: Tape) -> bool:
        return tape.uniform(("a", 1)) is tape.uniform(("a", 1))

    assert same(RandomTape(np.random.default_rng(0)))
    assert same(ScriptedTape({("a", 1): 0.5}))
    assert all(branch.output for branch in branches(same))


def test_only_less_than_may_be_asked() -> None:
    """The value of a uniform cannot be read, nor compared in another way."""
    u = ScriptedTape({("a",): 0.5}).uniform(("a",))
    for wrong in (lambda: float(u), lambda: u <= 0.5, lambda: u > 0.5, lambda: u + 1):  # type: ignore[arg-type, operator]
        with pytest.raises(TypeError):
            wrong()


def test_a_missing_name_is_named_in_one_line() -> None:
    """A script without a uniform that the rule asks for says which one."""
    with pytest.raises(LookupError, match=r"^the rule asked for uniform \('final',\), the script has .*: add it$"):
        RULES["token"](ScriptedTape({("accept", 0): 0.9}), [2], [Q], [P, P])


def test_the_random_tape_follows_the_exact_law() -> None:
    """20000 rounds of the block rule stay within 6.5 standard deviations, of each of 3 probabilities (alarm 3e-10)."""
    generator, n = np.random.default_rng(5), 20_000
    law = outcome_law(RULES["block"], lambda _: P, lambda _: Q, 1)
    counts: Counter[int] = Counter()
    for _ in range(n):
        tape = RandomTape(generator)
        x = choose(tape, ("draft", 0), Q)
        counts[Outcome((x,), *RULES["block"](tape, [x], [Q], [P, P])).emitted[0]] += 1
    for token, chance in enumerate(P):
        assert sum(w for outcome, w in law.items() if outcome.emitted[0] == token) == chance
        assert abs(counts[token] - n * chance) < 6.5 * math.sqrt(n * chance * (1 - chance))


@pytest.mark.parametrize(("u", "token"), [(0.0, 1), (0.4999, 1), (0.5, 3), (1 - 2.0**-53, 3)])
def test_choose_never_draws_weight_zero(u: float, token: int) -> None:
    """The positive cells share the whole of [0, 1), whatever the weights sum to."""
    assert choose(ScriptedTape({("final",): u}), ("final",), [0.0, 0.1, 0.0, 0.1, 0.0]) == token


def test_the_last_positive_cell_needs_no_uniform() -> None:
    """One possible token is drawn without asking; no possible token is refused."""
    assert choose(ScriptedTape({}), ("final",), [0, Fraction(1, 7), 0]) == 1
    with pytest.raises(ValueError, match=r"^expected a positive weight to draw .* check the row$"):
        choose(ScriptedTape({}), ("final",), [0, 0])


@pytest.mark.parametrize("threshold", [-0.5, 0, 0.0, 1, 1.0, 1.5, float("inf")])
def test_thresholds_outside_the_unit_interval_are_forced(threshold: float) -> None:
    """No threshold makes a probability outside [0, 1]: beyond the ends there is one branch, of weight 1."""
    ((weight, output, _),) = branches(lambda tape: flip(tape, ("a",), threshold))
    assert (weight, output) == (1, threshold >= 1)


def test_float_thresholds_stay_chances() -> None:
    """Many float questions about one uniform give weights in [0, 1] that sum to 1."""
    thresholds = np.random.default_rng(1).random(12).tolist()
    found = list(branches(lambda tape: [flip(tape, ("a",), t) for t in thresholds]))
    assert len(found) == 13
    assert all(0 <= branch.weight <= 1 for branch in found)
    assert sum(branch.weight for branch in found) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("rule", ["token", "block"])
@pytest.mark.parametrize(("p", "accepted"), [(Fraction(1, 2), 1), (Fraction(0), 0)])
def test_a_forced_draft_is_accepted_exactly_if_possible(rule: str, p: Number, accepted: int) -> None:
    """A drafted token with q = 0 neither crashes a rule nor escapes the target."""
    run = RULES[rule]
    (found,) = {b.output[0] for b in branches(lambda tape: run(tape, [0], [[0, 1]], [[p, 1 - p], [1, 0]]))}
    assert found == accepted


@pytest.mark.parametrize("rule", ["token", "block"])
def test_equal_laws_accept_everything(rule: str) -> None:
    """With q = p, where block verification meets 0/0, every draft is accepted."""
    law = outcome_law(RULES[rule], lambda _: P, lambda _: P, 3)
    assert accept_tail(law) == (1, 1, 1)
    assert expected_tokens(law) == 4


@pytest.mark.parametrize("rule", RULES)
def test_no_draft_gives_one_target_token(rule: str) -> None:
    """With nothing drafted a round emits one token of the target."""
    law = outcome_law(RULES[rule], lambda _: P, lambda _: Q, 0)
    assert law == {Outcome((), 0, x): chance for x, chance in enumerate(P)}


def test_an_empty_residual_falls_back_to_the_target() -> None:
    """Rounding can leave nothing to draw a replacement from: then it is the target itself."""
    assert residual([0.5, 0.5], [0.6, 0.5]) == [0.5, 0.5]
    assert residual([0.5, 0.5], [0.4, 0.5], 0.5) == [0.5, 0.5]


@pytest.mark.parametrize("rule", RULES)
def test_rules_read_like_pseudo_code(rule: str) -> None:
    """Each rule is a signature, a docstring and fewer than 15 lines."""
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(RULES[rule]))).body
    assert isinstance(function, ast.FunctionDef)
    body = function.body[1:]
    assert (body[-1].end_lineno or 0) - body[0].lineno + 1 < 15


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_examples_run(module: ModuleType) -> None:
    """The examples of the docstrings print what they say."""
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_shared_randomness_is_enumerated() -> None:
    """One coin for two positions makes them agree: what sharing does is part of the exact law."""

    def run(tape: Tape) -> tuple[bool, bool]:
        name: Name = ("accept", 0)
        return flip(tape, name, THIRD), flip(tape, name, THIRD)

    assert {branch.output: branch.weight for branch in branches(run)} == {
        (True, True): THIRD,
        (False, False): 2 * THIRD,
    }
