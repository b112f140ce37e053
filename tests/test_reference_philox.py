"""The stream of random words: the published vectors, its layout, and that a row depends on its own trial alone."""

from importlib import import_module

import numpy as np
import pytest

from specverify.reference import verify_token, verify_token_seeded

philox = import_module("specverify.reference.philox")

PUBLISHED = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
"""Counter, key (low word first) and output: the known answers of Random123 for philox4x32 with 10 rounds."""

EDGE = 2**32 - 2


def words(text: str) -> list[int]:
    """Read words of 32 bits."""
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "output"), PUBLISHED)
def test_the_published_vectors(counter: str, key: str, output: str) -> None:
    """The three known answers come out, alone and among others."""
    low, high = words(key)
    for size in (1, 3, 100):
        c0, c1, c2, c3 = (np.full(size, word, np.uint64) for word in words(counter))
        found = philox.philox4x32((c0, c1, c2, c3), high << 32 | low)
        assert [[int(word) for word in kind] for kind in found] == [[word] * size for word in words(output)]


@pytest.mark.parametrize("first_trial", [0, 1, EDGE, 2**64 - 5])
def test_the_layout(first_trial: int) -> None:
    """Counter (trial low, trial high, position, 0); words 0 and 1 make 53 bits, 2 and 3 make 64."""
    seed = 0x0123456789ABCDEF
    accept, bits = philox.philox_draws(seed, 5, 2, first_trial)
    assert (accept.shape, bits.shape, bits.dtype) == ((5, 2), (5, 3), np.uint64)
    for row in range(5):
        for position in range(3):
            counter = [(first_trial + row) & 2**32 - 1, (first_trial + row) >> 32, position, 0]
            c0, c1, c2, c3 = (np.array([word], np.uint64) for word in counter)
            w = [int(word[0]) for word in philox.philox4x32((c0, c1, c2, c3), seed)]
            assert int(bits[row, position]) == w[2] << 32 | w[3]
            if position < 2:
                assert accept[row, position] == ((w[0] >> 5) * 2**26 + (w[1] >> 6)) * 2.0**-53


def test_a_row_depends_on_its_own_trial_alone() -> None:
    """Batches of any size, cut anywhere, give one stream; more drafted tokens add words and change none."""
    accept, bits = philox.philox_draws(9, 20_000, 4, EDGE)
    for start, size in ((0, 1), (1, 6_999), (7_000, 13_000)):
        part = philox.philox_draws(9, size, 4, EDGE + start)
        assert (part[0] == accept[start : start + size]).all()
        assert (part[1] == bits[start : start + size]).all()
    fewer = philox.philox_draws(9, 20_000, 1, EDGE)
    assert (fewer[0] == accept[:, :1]).all()
    assert (fewer[1] == bits[:, :2]).all()


def test_the_words_look_uniform_and_independent() -> None:
    """Among 10^6 words every bit is set about half of the time, and neighbours agree in about half of their bits."""
    _, bits = philox.philox_draws(3, 250_000, 3)
    flat = np.unpackbits(bits.view(np.uint8)).reshape(-1, 64)
    scatter = 7 * 0.5 / np.sqrt(len(flat))  # 7 standard deviations: 64 bits miss with probability 2e-10
    assert (abs(flat.mean(axis=0) - 0.5) < scatter).all()
    for other in (np.roll(flat, 1, axis=0), np.roll(flat, 4, axis=0)):
        assert (abs((flat == other).mean(axis=0) - 0.5) < scatter).all()


@pytest.mark.parametrize("seed", [-1, 2**64])
@pytest.mark.parametrize("given", ["seed", "the trials"])
def test_what_is_no_number_of_64_bits_is_refused(seed: int, given: str) -> None:
    """Seeds and trials are words; none is cut to one in silence."""
    arguments = {"seed": seed} if given == "seed" else {"seed": 0, "first_trial": seed}
    with pytest.raises(ValueError, match=f"^expected {given} in 0 .. 2\\*\\*64 - 1, got {seed}: "):
        philox.philox_draws(size=1, num_draft_tokens=1, **arguments)


def test_the_last_trial_is_the_last_of_the_batch() -> None:
    """A batch that would run past the last trial is refused, one that ends with it is not."""
    assert philox.philox_draws(0, 2, 1, 2**64 - 2)[0].shape == (2, 1)
    with pytest.raises(ValueError, match="expected the trials"):
        philox.philox_draws(0, 2, 1, 2**64 - 1)
    assert philox.philox_draws(0, 0, 1)[1].shape == (0, 2)


def test_seeded_verification_reads_that_stream() -> None:
    """It accepts with the first words of each position, and draws with the last words of the emitting one."""
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(8), (300, 4)), rng.dirichlet(np.ones(8), (300, 3))
    drafts = rng.integers(0, 8, (300, 3))
    lengths = rng.integers(0, 4, 300)
    found = verify_token_seeded(drafts, q, p, 11, 5, lengths)
    accept, bits = philox.philox_draws(11, 300, 3, 5)
    exact = bits[np.arange(300), found[0]] >> np.uint64(11)  # 53 bits, which a float holds
    given = verify_token(drafts, q, p, accept, exact * 2.0**-53, lengths)
    assert (found[0] == given[0]).all()
    assert (found[1] == given[1]).all()
    assert set(found[0].tolist()) == {0, 1, 2, 3}
