"""The examples are what they say: one is correct, the other is convicted and its fault named."""

from pathlib import Path

import specverify
from specverify.registry import load

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_correct_example_is_conformant() -> None:
    """The ten lines of a correct verifier pass."""
    sampler = load(f"{EXAMPLES / 'correct.py'}:my_verifier")
    report = specverify.check(sampler, samples=300, target_tv=0.9, alpha=1e-10)
    assert (report.verdict, report.rule["conforms"]) == ("conformant", True)


def test_the_broken_example_is_named() -> None:
    """The same lines with a redraw from the target are convicted, also in the tokens form, as K02."""
    report = specverify.check(load(f"{EXAMPLES / 'broken.py'}:my_verifier"), samples=300)
    assert report.verdict == "nonconformant"
    assert report.diagnosis[0]["fault"] == "K02"
