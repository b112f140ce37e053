"""Random rational tables on which kernels are proved equal to the rules."""

from fractions import Fraction

import numpy as np

from specverify.reference import Model

Pair = tuple[Model, Model]


def random_table(seed: int, vocab: int) -> Pair:
    """Return random rational models of small denominators in which about a quarter of the cells are zero."""

    def model(side: int) -> Model:
        def row(prefix: tuple[int, ...]) -> list[Fraction]:
            generator = np.random.default_rng([seed, side, len(prefix), *prefix])
            weights = generator.integers(1, 9, vocab) * (generator.random(vocab) < 0.75)
            weights[generator.integers(vocab)] += 1
            return [Fraction(int(w), int(weights.sum())) for w in weights]

        return row

    return model(0), model(1)
