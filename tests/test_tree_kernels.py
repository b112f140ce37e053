"""The array kernels of the tree rules equal the rules in every cell of the uniforms' cube, and edits are noticed."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from tree_cells import Array, Kernel, disagreements

from specverify.reference import TreeRule, rrs, target_only, verify_rrs, verify_target_only

LOPSIDED = (-1, 0, 0, -1)
BINARY = (-1, -1, 0, 0, 1, 1)


def without_draft(parents: Sequence[int], tokens: Array, _: Array, target: Array, accept: Array, final: Array) -> Array:
    """Call the target-only kernel with the arguments of the other."""
    return verify_target_only(parents, tokens, target, accept, final)


@pytest.mark.parametrize("mode", ["with_replacement", "without_replacement", "top"])
@pytest.mark.parametrize("name", ["W402", "W637", "T3"])
def test_the_recursive_kernel_equals_its_rule(name: str, mode: str) -> None:
    """No point of any cell of any draft of a lopsided tree disagrees."""
    compared, wrong = disagreements(rrs, verify_rrs, LOPSIDED, mode, name)
    assert compared > 200
    assert wrong == 0


@pytest.mark.parametrize("mode", ["without_replacement", "top"])
@pytest.mark.parametrize("name", ["W402", "W637", "T3"])
def test_the_target_only_kernel_equals_its_rule(name: str, mode: str) -> None:
    """No point of any cell of any draft of a lopsided tree disagrees."""
    compared, wrong = disagreements(target_only, without_draft, LOPSIDED, mode, name)
    assert compared > 200
    assert wrong == 0


@pytest.mark.parametrize(("rule", "kernel"), [(rrs, verify_rrs), (target_only, without_draft)])
def test_kernels_equal_their_rules_on_a_binary_tree(rule: TreeRule, kernel: Kernel) -> None:
    """No point disagrees on the full binary tree of two levels, breadth first."""
    assert disagreements(rule, kernel, BINARY, "without_replacement", "AB")[1] == 0


def inverted(parents: Sequence[int], tokens: Array, _: Array, target: Array, accept: Array, final: Array) -> Array:
    """Test target-only coins against the wrong side."""
    return verify_target_only(parents, tokens, target, 1 - accept - 2**-53, final)


def stale(parents: Sequence[int], tokens: Array, draft: Array, target: Array, accept: Array, final: Array) -> Array:
    """Run the recursive kernel on rows of the root alone."""
    return verify_rrs(parents, tokens, draft, np.broadcast_to(target[:, :1], target.shape), accept, final)


@pytest.mark.parametrize(("rule", "kernel"), [(target_only, inverted), (rrs, stale)])
def test_edited_kernels_disagree(rule: TreeRule, kernel: Kernel) -> None:
    """A kernel with turned coins, or with the root's rows everywhere, is told from the rule."""
    assert disagreements(rule, kernel, LOPSIDED, "without_replacement", "W637")[1] > 0


def test_nodes_that_do_not_exist_are_skipped() -> None:
    """A token of -1 is never tested, whatever its uniform."""
    p = np.tile([0.6, 0.4], (1, 4, 1))
    q = np.array([[[0.8, 0.2], [0.0, 1.0], [0.0, 0.0]]])
    tokens, accept, final = np.array([[0, 1, -1]]), np.array([[0.9, 0.0, 0.0]]), np.array([0.9])
    assert verify_rrs([-1, -1, -1], tokens, q, p, accept, final).tolist() == [[1, 1]]
    refused = np.array([[0.7, 0.0, 0.0]])
    assert verify_target_only([-1, -1, -1], np.array([[0, -1, -1]]), p, refused, final).tolist() == [[1, -1]]


def test_inputs_are_not_written() -> None:
    """Read-only views are enough."""
    arrays = [np.array([[0, 1]]), np.full((1, 2, 2), 0.5), np.full((1, 3, 2), 0.5), np.zeros((1, 2)), np.zeros(1)]
    for array in arrays:
        array.flags.writeable = False
    assert verify_rrs((-1, -1), *arrays).tolist() == [[0, 0]]
    assert verify_target_only((-1, -1), arrays[0], *arrays[2:]).tolist() == [[0, 0]]


GIVEN: dict[str, Any] = {
    "parents": [-1, -1],
    "draft_tokens": np.array([[0, 1]]),
    "draft_probs": np.full((1, 2, 2), 0.5),
    "target_probs": np.full((1, 3, 2), 0.5),
    "accept": np.zeros((1, 2)),
    "final": np.zeros(1),
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"parents": [-1]}, "expected shapes"),
        ({"parents": [-1, 1]}, "expected the parent of node 1 in -1 .. 0, got 1"),
        ({"draft_probs": np.full((1, 2, 3), 0.5)}, "expected draft_probs"),
        ({"draft_tokens": np.array([[0, 2]])}, r"expected draft_tokens in \[-1, 2\), got a value outside it in row 0"),
        ({"accept": np.ones((1, 2))}, r"expected accept in \[0, 1\)"),
        ({"final": np.ones(1)}, r"expected final in \[0, 1\)"),
        ({"target_probs": np.zeros((1, 3, 2))}, "expected a target row with mass in row 0, got zeros"),
    ],
)
def test_bad_arguments_are_refused(changed: dict[str, Any], message: str) -> None:
    """One line says what was expected and what was got."""
    with pytest.raises(ValueError, match=message):
        partial(verify_rrs, **{**GIVEN, **changed})()
