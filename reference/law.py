"""The exact law of a rule on conditional models: every draft enumerated outside, the rule enumerated inside.

A model maps a prefix (a tuple of token ids) to its next-token row. A law is a dict; what it leaves out has
probability zero. Rows of Fractions give exact laws, rows of floats give floats.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple, TypeAlias, TypeVar

from .rules import LongerRule, Row, Rule
from .tape import Number, Tape, branches

Tokens: TypeAlias = tuple[int, ...]
Model: TypeAlias = Callable[[Tokens], Row]
K = TypeVar("K", bound=Hashable)


class Outcome(NamedTuple):
    """One round: the drafted tokens, how many were accepted, and the token emitted after them (None: none).

    ``extra`` holds what a faulty rule emits after that token; a correct one emits nothing more.
    """

    draft_tokens: Tokens
    num_accepted: int
    next_token: int | None
    extra: Tokens = ()

    @property
    def emitted(self) -> Tokens:
        """The tokens that the round emits."""
        last = () if self.next_token is None else (self.next_token,)
        return self.draft_tokens[: self.num_accepted] + last + self.extra


def outcome_law(rule: Rule | LongerRule, target: Model, draft: Model, num_draft_tokens: int) -> dict[Outcome, Number]:
    """Return the law of (drafted tokens, accepted length, next token) in one round of a rule, correct or not.

    >>> from specverify.reference import token
    >>> p, q = (Fraction(3, 5), Fraction(2, 5)), (Fraction(4, 5), Fraction(1, 5))
    >>> law = outcome_law(token, lambda prefix: p, lambda prefix: q, 1)
    >>> str(law[Outcome((0,), 0, 1)]), str(expected_tokens(law))
    ('1/5', '9/5')
    """
    return _collect(
        (branch.output, weight * branch.weight)
        for draft_tokens, weight in target_law(draft, num_draft_tokens).items()
        for branch in branches(_run(rule, target, draft, draft_tokens))
    )


def _run(rule: Rule | LongerRule, target: Model, draft: Model, draft_tokens: Tokens) -> Callable[[Tape], Outcome]:
    draft_probs = [draft(draft_tokens[:i]) for i in range(len(draft_tokens))]
    target_probs = [target(draft_tokens[:i]) for i in range(len(draft_tokens) + 1)]
    return lambda tape: Outcome(draft_tokens, *rule(tape, draft_tokens, draft_probs, target_probs))


def branch_law(run: Callable[[Tape], K]) -> dict[K, Number]:
    """Return the law of what a run gives, over every way it can go; ``run`` must depend on its tape alone.

    >>> from specverify.reference import choose
    >>> {k: str(v) for k, v in branch_law(lambda tape: choose(tape, ("draw",), [1, 2])).items()}
    {0: '1/3', 1: '2/3'}
    """
    return _collect((branch.output, branch.weight) for branch in branches(run))


def round_law(outcomes: Mapping[Outcome, Number]) -> dict[Tokens, Number]:
    """Return the law of the tuple that one round emits."""
    return _collect((outcome.emitted, weight) for outcome, weight in outcomes.items())


def accept_tail(outcomes: Mapping[Outcome, Number]) -> tuple[Number, ...]:
    """Return P(num_accepted >= i) for i = 1 .. number of drafted tokens."""
    longest = max(len(outcome.draft_tokens) for outcome in outcomes)
    return tuple(sum(w for outcome, w in outcomes.items() if outcome.num_accepted > i) for i in range(longest))


def expected_tokens(outcomes: Mapping[Outcome, Number]) -> Number:
    """Return the mean number of tokens that one round emits, replacement or bonus included."""
    return sum(weight * len(outcome.emitted) for outcome, weight in outcomes.items())


def completed_law(outcomes: Mapping[Outcome, Number], target: Model, length: int) -> dict[Tokens, Number]:
    """Return the law of the first ``length`` tokens when the target continues the round (strong validity)."""
    return _extend(round_law(outcomes), target, length)


def target_law(target: Model, length: int) -> dict[Tokens, Number]:
    """Return the law of ``length`` tokens drawn from a model alone.

    >>> target_law(lambda prefix: (Fraction(1), Fraction(0)), 2)
    {(0, 0): Fraction(1, 1)}
    """
    return _extend({(): Fraction(1)}, target, length)


def _extend(law: Mapping[Tokens, Number], model: Model, length: int) -> dict[Tokens, Number]:
    while any(len(tokens) < length for tokens in law):
        law = _collect(longer for tokens, weight in law.items() for longer in _step(tokens, weight, model, length))
    return _collect((tokens[:length], weight) for tokens, weight in law.items())


def _step(tokens: Tokens, weight: Number, model: Model, length: int) -> list[tuple[Tokens, Number]]:
    if len(tokens) >= length:
        return [(tokens, weight)]
    return [((*tokens, x), weight * chance) for x, chance in enumerate(model(tokens)) if chance > 0]


def _collect(pairs: Iterable[tuple[K, Number]]) -> dict[K, Number]:
    law: defaultdict[K, Number] = defaultdict(Fraction)
    for key, weight in pairs:
        law[key] += weight
    return dict(law)


def total_variation(a: Mapping[K, Number], b: Mapping[K, Number]) -> Number:
    """Return half the summed absolute difference of two laws."""
    pairs = [(a.get(key, 0), b.get(key, 0)) for key in {**a, **b}]
    return sum(max(x - y, y - x) for x, y in pairs) / 2
