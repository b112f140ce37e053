"""A verification rule written once, against named lazy uniforms, can be enumerated exactly, sampled, or replayed.

A rule may ask one thing of a uniform: ``u < threshold``. Three tapes answer: the one inside ``branches`` tries every
answer, ``RandomTape`` draws, ``ScriptedTape`` plays given numbers. Fractions stay exact; floats stay floats.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

Number: TypeAlias = Fraction | float
Name: TypeAlias = tuple[str | int, ...]
Box: TypeAlias = dict[Name, tuple[Number, Number]]
T = TypeVar("T")


class LazyUniform:
    """A uniform on [0, 1) that answers only ``u < threshold``."""

    def __init__(self, below: Callable[[Number], bool]) -> None:
        self._below = below

    def __lt__(self, threshold: Number) -> bool:
        return self._below(threshold)


class Tape:
    """Randomness by name: asking twice for a name gives the same uniform, made when it is first asked for."""

    def __init__(self, make: Callable[[Name], LazyUniform]) -> None:
        self._make = make
        self._uniforms: dict[Name, LazyUniform] = {}

    def uniform(self, name: Name) -> LazyUniform:
        """Return the uniform of this name."""
        if name not in self._uniforms:
            self._uniforms[name] = self._make(name)
        return self._uniforms[name]


def _known(value: Number) -> LazyUniform:
    return LazyUniform(lambda threshold: bool(value < threshold))


class RandomTape(Tape):
    """Uniforms drawn from a NumPy generator, in the order in which the rule first asks for them."""

    def __init__(self, generator: np.random.Generator) -> None:
        super().__init__(lambda _: _known(generator.random()))


class ScriptedTape(Tape):
    """Given uniforms by name; a name that the rule asks for and the script lacks is a LookupError.

    >>> flip(ScriptedTape({("accept", 0): 0.25}), ("accept", 0), Fraction(1, 4))
    False
    """

    def __init__(self, values: Mapping[Name, Number]) -> None:
        super().__init__(lambda name: _known(self._look_up(name)))
        self._values = values

    def _look_up(self, name: Name) -> Number:
        if name not in self._values:
            raise LookupError(f"the rule asked for uniform {name}, the script has {list(self._values)}: add it")
        return self._values[name]


class _ExactTape(Tape):
    """One run: the scripted answers first, then yes to every open question, its no being left for later."""

    def __init__(self, script: tuple[bool, ...]) -> None:
        super().__init__(lambda name: LazyUniform(partial(self._below, name)))
        self._script = script
        self._taken: tuple[bool, ...] = ()
        self.pending: list[tuple[bool, ...]] = []
        self.weight: Number = 1
        self.box: Box = {}

    def _below(self, name: Name, threshold: Number) -> bool:
        lo, hi = self.box.get(name, (0, 1))
        cut = min(max(threshold, lo), hi)  # clipped, so that rounding takes no chance out of [0, 1]
        yes = self._branch((cut - lo) / (hi - lo))
        self.box[name] = (lo, cut) if yes else (cut, hi)
        return yes

    def _branch(self, chance: Number) -> bool:
        if chance in (0, 1):
            return bool(chance)  # forced: not a choice
        if len(self._taken) == len(self._script):
            self.pending.append((*self._taken, False))
            self._script += (True,)
        answer = self._script[len(self._taken)]
        self._taken += (answer,)
        self.weight *= chance if answer else 1 - chance
        return answer


class Branch(NamedTuple, Generic[T]):
    """One way a run can go: its probability, its output, and the interval [lo, hi) of every uniform it read."""

    weight: Number
    output: T
    box: Box


def branches(run: Callable[[Tape], T]) -> Iterator[Branch[T]]:
    """Enumerate every way a run can go: the boxes cut the unit cube, and exact weights add up to exactly 1.

    ``run`` is executed once per branch, so it must depend on its tape alone.

    >>> [(str(b.weight), b.output) for b in branches(lambda tape: flip(tape, ("accept", 0), Fraction(1, 3)))]
    [('1/3', True), ('2/3', False)]
    """
    scripts: list[tuple[bool, ...]] = [()]
    while scripts:
        tape = _ExactTape(scripts.pop())
        output = run(tape)
        scripts += tape.pending
        yield Branch(tape.weight, output, tape.box)


def flip(tape: Tape, name: Name, probability: Number) -> bool:
    """Answer yes with this probability: ``uniform(name) < probability``."""
    return tape.uniform(name) < probability


def choose(tape: Tape, name: Name, weights: Sequence[Number]) -> int:
    """Draw an index in proportion to weights >= 0, by inverse CDF in id order; never one of weight zero.

    >>> choose(ScriptedTape({("final",): 0.5}), ("final",), [1, 0, 1])
    2
    """
    positive = [x for x, weight in enumerate(weights) if weight > 0]
    if not positive:
        raise ValueError(f"expected a positive weight to draw {name} from, got {list(weights)}: check the row")
    exact = not any(isinstance(weight, float) for weight in weights)
    cumulative: Number = Fraction(0) if exact else 0.0  # integers are exact too, but their quotients are not
    total = sum((weights[x] for x in positive), cumulative)
    for x in positive[:-1]:
        cumulative += weights[x]
        if tape.uniform(name) < cumulative / total:
            return x
    return positive[-1]
