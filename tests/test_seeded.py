"""The same seed gives the same tokens on every back end, bit for bit, for every type of array and in any batch."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided

import specverify
from specverify import reference
from specverify.gpu_tests import KINDS, Batch, batch, tensors
from specverify.registry import load

SEED, FIRST = 0x0123456789ABCDEF, 2**32 - 20  # the low word of a trial overflows inside a batch

Answer = tuple[list[int], list[int]]


def on_numpy(given: Batch, **options: Any) -> Answer:
    """Verify with the NumPy kernel."""
    return _run(reference.verify_token_seeded, given, **options)


def on_torch(given: Batch, dtype: str = "float64", **options: Any) -> Answer:
    """Verify with the torch kernel, on tensors of the dtype itself."""
    return _run(reference.verify_token_seeded_torch, tensors(given, "cpu", dtype), **options)


def fast(given: Batch, **options: Any) -> Answer:
    """Verify with the kernel that numba compiles."""
    pytest.importorskip("numba", reason="needs numba (extra fast)")
    return _run(reference.verify_token_fast, given, **options)


def _run(kernel: Callable[..., Any], given: Batch, seed: int = SEED, first_trial: int = FIRST) -> Answer:
    arrays = given.draft_tokens, given.draft_probs, given.target_probs
    stop, tokens = kernel(*arrays, seed, first_trial, given.num_draft_tokens)
    return stop.tolist(), tokens.tolist()


OTHERS = {"torch": on_torch, "fast": fast}
others = pytest.mark.parametrize("back_end", OTHERS)


@others
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_back_ends_agree(kind: str, dtype: str, back_end: str) -> None:
    """Random and hard inputs, ragged drafts, vocabularies of one token, of less than a block and of many."""
    options = {"dtype": dtype} if back_end == "torch" else {}
    for size, gamma, vocab in ((40, 3, 1), (200, 1, 2), (200, 4, 5), (60, 0, 33), (60, 3, 257), (9, 2, 9001)):
        given = batch(kind, size, gamma, vocab, dtype=dtype, seed=1, ragged=True)
        assert OTHERS[back_end](given, **options) == on_numpy(given)


@others
@pytest.mark.parametrize("vocab", [32_768, 131_072, 50_257])
def test_wide_rows_agree(vocab: int, back_end: str) -> None:
    """The vocabularies of models, whether or not blocks of tokens fill them."""
    given = batch("random", 6, 4, vocab, dtype="float32", seed=2, ragged=True)
    options = {"dtype": "float32"} if back_end == "torch" else {}
    assert OTHERS[back_end](given, **options) == on_numpy(given)


@others
def test_a_row_depends_on_its_own_trial_alone(back_end: str) -> None:
    """Cut into batches, a run gives the same tokens; another seed gives others."""
    given = batch("random", 90, 3, 40, dtype="float64", seed=3, ragged=True)
    whole = OTHERS[back_end](given)
    for start, stop in ((0, 1), (1, 37), (37, 90)):
        part = Batch(*(array[start:stop] for array in given))
        found = OTHERS[back_end](part, first_trial=FIRST + start)
        assert found == tuple(kind[start:stop] for kind in whole)
    assert OTHERS[back_end](given, seed=SEED + 1) != whole
    assert OTHERS[back_end](given, seed=SEED ^ 1 << 63) != whole


@others
def test_one_row_for_all_is_read_as_such(back_end: str) -> None:
    """Views that repeat one row, which large batches are handed as, give what copies of it give."""
    one = batch("random", 1, 3, 700, dtype="float64", seed=4)
    drafts = batch("random", 80, 3, 700, dtype="float64", seed=4)
    views = drafts._replace(
        draft_probs=as_strided(one.draft_probs, drafts.draft_probs.shape, (0, *one.draft_probs.strides[1:])),
        target_probs=as_strided(one.target_probs, drafts.target_probs.shape, (0, *one.target_probs.strides[1:])),
    )
    copies = views._replace(draft_probs=views.draft_probs.copy(), target_probs=views.target_probs.copy())
    assert OTHERS[back_end](views) == OTHERS[back_end](copies) == on_numpy(copies)


WRONG: dict[str, tuple[Callable[[Batch], Batch], str]] = {
    "length": (lambda b: b._replace(num_draft_tokens=b.num_draft_tokens + 4), r"num_draft_tokens in 0 \.\. 2, .* 0:"),
    "token": (lambda b: b._replace(draft_tokens=b.draft_tokens + 9), r"draft_tokens in \[0, 9\), .* row 0"),
    "shape": (lambda b: b._replace(target_probs=b.target_probs[:, 1:]), "expected shapes"),
    "nan": (lambda b: b._replace(target_probs=b.target_probs * np.nan), "weights >= 0 of sum below 2 in row 0"),
    "sum": (lambda b: b._replace(target_probs=b.target_probs * 5), "weights >= 0 of sum below 2 in row"),
    "negative": (lambda b: b._replace(target_probs=b.target_probs - 0.2), "weights >= 0 of sum below 2 in row"),
    "zeros": (lambda b: b._replace(target_probs=b.target_probs * 0), "target row with mass to draw from in row 0"),
}


@pytest.mark.parametrize("back_end", ["numpy", *OTHERS])
@pytest.mark.parametrize("wrong", WRONG)
def test_back_ends_refuse_alike(wrong: str, back_end: str) -> None:
    """What cannot be verified is refused in one line, whatever computes."""
    spoil, message = WRONG[wrong]
    given = spoil(batch("random", 30, 2, 9, dtype="float64", seed=5))
    with pytest.raises(ValueError, match=message):
        {"numpy": on_numpy, **OTHERS}[back_end](given)


@others
@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": 2**64}, {"first_trial": -1}, {"first_trial": 2**64 - 3}])
def test_seeds_and_trials_are_of_64_bits(wrong: dict[str, int], back_end: str) -> None:
    """None is cut in silence; the last trials of all are verified."""
    given = batch("random", 4, 1, 3, dtype="float64", seed=6)
    with pytest.raises(ValueError, match=r"in 0 \.\. 2\*\*64 - 1, got"):
        OTHERS[back_end](given, **wrong)
    last = {"seed": 2**64 - 1, "first_trial": 2**64 - 4}
    assert OTHERS[back_end](given, **last) == on_numpy(given, **last)


def test_the_fast_reference_is_conformant() -> None:
    """It is a registered sampler like any other, and runs through the suite."""
    pytest.importorskip("numba", reason="needs numba (extra fast)")
    report = specverify.check(load("reference-fast"), samples=2000, target_tv=0.5)
    assert (report.verdict, report.document["sampler"]["rule"]) == ("conformant", "token")
    assert report.document["sampler"]["version"].startswith("numba ")


def test_words_of_torch_are_those_of_numpy() -> None:
    """Both make the published words, and the same draws from them at the ends of the range of trials."""
    on_host, on_device = (import_module(f"specverify.reference.{name}") for name in ("philox", "philox_torch"))
    counter = tuple(torch.tensor([word]) for word in (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344))
    words = on_device.philox4x32_torch(counter, 0x299F31D0A4093822)
    assert [f"{int(word):08x}" for word in words] == ["d16cfe09", "94fdcceb", "5001e420", "24126ea1"]
    for first in (0, FIRST, 2**63 - 2, 2**64 - 40):
        accept, bits = on_host.philox_draws(SEED, 40, 3, first)
        found = on_device.philox_draws_torch(SEED, 40, 3, first)
        assert (found[0].numpy() == accept).all()
        assert (found[1].numpy().view(np.uint64) == bits).all()
