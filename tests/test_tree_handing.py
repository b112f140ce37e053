"""Trees of drafts: their shape, how their siblings are drawn, what a verifier is handed, and what is read back."""

from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from specverify.cases import Case
from specverify.contract import Verifier, verifier
from specverify.errors import ConfigError, ContractError
from specverify.handing import Handed
from specverify.menu import menu
from specverify.reading import OutputFault, read_tree
from specverify.reference import sibling_law
from specverify.sampling import CaseSampler
from specverify.tree import Tree, sibling_rows

LOPSIDED = (-1, 0, 0, -1)
FOUR = frozenset({"parents", "draft_tokens", "draft_probs", "target_probs"})
W637 = next(case for case in menu() if case.name == "W637")


@verifier
def everything(
    parents: Any,
    draft_tokens: Any,
    draft_probs: Any,
    draft_logits: Any,
    target_probs: Any,
    target_logits: Any,
    uniforms: Any,
    seeds: Any,
) -> Any:
    """Ask for all that a tree verifier can get."""


def drawn(mode: str, rows: int = 500, parents: tuple[int, ...] = LOPSIDED) -> tuple[Case, Any]:
    """Return a tree case and some trees drawn for it."""
    case = W637.with_tree(Tree(parents, mode), "tree")
    return case, CaseSampler(case).draft(rows, np.random.default_rng(3))[0]


def prefix(tokens: Any, parents: tuple[int, ...], node: int) -> tuple[int, ...]:
    """Return the tokens from the root to a node."""
    return () if node < 0 else (*prefix(tokens, parents, parents[node]), int(tokens[node]))


@pytest.mark.parametrize("mode", ["with_replacement", "without_replacement", "top"])
def test_rows_handed_over_are_those_of_the_paths(mode: str) -> None:
    """Row 0 is p after the prompt, row i + 1 p after node i; each node comes with its law given earlier siblings."""
    case, tokens = drawn(mode)
    given = Handed(case, everything).batch(tokens, np.full(len(tokens), 2), 7).arguments
    assert given["parents"].tolist() == list(LOPSIDED)
    for row in range(0, len(tokens), 25):
        for node, parent in enumerate(LOPSIDED):
            earlier = [int(tokens[row, i]) for i in range(node) if LOPSIDED[i] == parent]
            law = sibling_law(mode, case.draft_row(prefix(tokens[row], LOPSIDED, parent)), earlier)
            assert given["draft_probs"][row, node] == pytest.approx([float(x) for x in law], abs=1e-15)
            due = case.target_row(prefix(tokens[row], LOPSIDED, node))
            assert given["target_probs"][row, node + 1].tolist() == [float(x) for x in due]
        assert given["target_probs"][row, 0].tolist() == [float(x) for x in case.target_row(())]
    for model in ("draft", "target"):
        assert np.exp(given[f"{model}_logits"]) == pytest.approx(given[f"{model}_probs"], abs=1e-15)
    assert given["uniforms"].accept.shape == (len(tokens), 4)
    assert given["uniforms"].final.shape == given["seeds"].shape == (len(tokens),)


@pytest.mark.parametrize("mode", ["with_replacement", "without_replacement", "top"])
def test_siblings_are_drawn_by_their_laws(mode: str) -> None:
    """Of 40000 trees every combination of tokens comes as often as is due, within 6 standard deviations."""
    case, tokens = drawn(mode, 40000, (-1, -1, 0))
    counts = Counter(map(tuple, tokens.tolist()))
    for x, y, z in product(range(3), repeat=3):
        first, second = (sibling_law(mode, case.draft_row(()), earlier) for earlier in ([], [x]))
        chance = float(
            Fraction(first[x]) * Fraction(second[y]) * Fraction(sibling_law(mode, case.draft_row((x,)), [])[z])
        )
        assert abs(counts[x, y, z] - 40000 * chance) <= 6.5 * np.sqrt(40000 * chance)


def test_the_law_of_a_large_vocabulary_is_drawn_piece_by_piece() -> None:
    """Rows beyond one piece of work get siblings that differ."""
    flat = np.full(4096, 1 / 4096)
    case = Case.from_rows("flat", flat, flat, num_draft_tokens=1).with_tree(Tree((-1,) * 3, "without_replacement"), "t")
    tokens, lengths = CaseSampler(case).draft(600, np.random.default_rng(1))
    assert (np.sort(tokens, axis=1)[:, 1:] > np.sort(tokens, axis=1)[:, :-1]).all()
    assert (tokens >= 0).all()
    assert (lengths == 1).all()


@pytest.mark.parametrize("mode", ["without_replacement", "top"])
def test_siblings_beyond_the_vocabulary_do_not_exist(mode: str) -> None:
    """They have the token -1 and a law of zeros, and so have their children."""
    case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=2)
    case = case.with_tree(Tree((-1, -1, -1, 2), mode), "crowded")
    tokens, lengths = CaseSampler(case).draft(50, np.random.default_rng(2))
    assert (tokens[:, :2] >= 0).all()
    assert (tokens[:, 2:] == -1).all()
    given = Handed(case, everything).batch(tokens, lengths, 0).arguments
    assert not given["draft_probs"][:, 2:].any()
    assert given["target_probs"].sum(axis=2) == pytest.approx(np.ones((50, 5)))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_low_precision_rows_are_rounded(dtype: str) -> None:
    """Trees come in the dtype that was declared, and the null law is that of the rounded rows, tree included."""
    half = Verifier(print, "half", FOUR, dtype=dtype)
    case = W637.with_tree(Tree(LOPSIDED, "with_replacement"), "tree")
    handed = Handed(case, half)
    tokens, lengths = CaseSampler(handed.case).draft(20, np.random.default_rng(4))
    given = handed.batch(tokens, lengths, 0).arguments
    assert given["draft_probs"].dtype == given["target_probs"].dtype == np.dtype(dtype)
    assert handed.case.tree == case.tree


def test_arguments_are_private_and_changes_are_noticed() -> None:
    """What a verifier writes to its arguments is named, the parents included."""
    case, tokens = drawn("without_replacement", 10)
    handed = Handed(case, everything)
    batch = handed.batch(tokens, np.full(10, 2), 0)
    assert handed.changed(batch) == []
    batch.arguments["parents"][0] = 5
    batch.arguments["draft_probs"][0, 0, 0] += 1
    assert handed.changed(batch) == ["draft_probs", "parents"]


def test_read_only_verifiers_get_views_that_cannot_be_written() -> None:
    """A verifier that promised not to write cannot."""
    promised = Verifier(print, "promised", FOUR, readonly=True)
    case, tokens = drawn("top", 3)
    given = Handed(case, promised).batch(tokens, np.full(3, 2), 0).arguments
    assert not any(given[name].flags.writeable for name in given)


TREE = Tree((-1, -1, 1), "with_replacement")
DRAWN = np.array([[2, 2, 0], [1, 0, 1]])


@pytest.mark.parametrize(
    ("tokens", "path", "accepted", "last"),
    [
        ([[2, 0, 1], [0, 1, 0]], [[2, 0], [0, 1]], [2, 2], [1, 0]),
        ([[2, 1, -1], [2, -1, -1]], [[2, -1], [-1, -1]], [1, 0], [1, 2]),
        ([[0], [1]], [[-1, -1], [-1, -1]], [0, 0], [0, 1]),
    ],
)
def test_paths_are_read(tokens: Any, path: Any, accepted: Any, last: Any) -> None:
    """Equal siblings are both followed, and the last token need not be drafted."""
    found = read_tree(tokens, TREE, DRAWN, 3)
    assert [part.tolist() for part in found] == [path, accepted, last]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([[0, 1, -1], [0, 1, 0]], r"row 0 \(draft_tokens \[2, 2, 0\]\): got tokens \[0, 1, -1\], expected a path"),
        ([[2, 0, 1], [1, 1, 0]], r"row 1 .*expected a path of drafted tokens from the root, and one more token"),
        ([[-1, -1, -1], [0, 1, 0]], "row 0 .*expected a path"),
        ([[2, -1, 0], [0, 1, 0]], "expected -1 only after the last"),
        ([[3, -1, -1], [0, 1, 0]], "expected -1 to 2"),
        ([[2, 0, 1, 0], [0, 1, 0, 0]], r"expected \[2, at most 3\]"),
        (([1, 1], [0, 0]), "got a tuple from a tree verifier"),
        (None, "got None for tokens"),
    ],
)
def test_what_is_no_path_is_a_fault(result: Any, message: str) -> None:
    """The first row that breaks the contract is shown."""
    with pytest.raises(OutputFault, match=message):
        read_tree(result, TREE, DRAWN, 3)


@pytest.mark.parametrize(
    ("parents", "mode", "message"),
    [
        ((), "top", "got ()"),
        ((0,), "top", "number parents before their children"),
        ((-1, 2, 0), "top", "number parents before their children"),
        ((-1,), "best", "expected a mode of with_replacement, without_replacement, top, got 'best'"),
    ],
)
def test_trees_that_are_none_are_refused(parents: tuple[int, ...], mode: str, message: str) -> None:
    """A parent comes before its children, and the mode is known."""
    with pytest.raises(ConfigError) as told:
        Tree(parents, mode)
    assert message in str(told.value)


def test_a_tree_is_as_deep_as_its_case() -> None:
    """Otherwise one line says what to do; a shorter case has fewer drafted tokens and the same rows."""
    with pytest.raises(ConfigError, match=r"expected a tree as deep as the 2 drafted tokens .* got depth 1"):
        W637.with_tree(Tree((-1, -1), "top"), "flat")
    short = W637.shortened(1)
    assert short.with_tree(Tree((-1, -1), "top"), "flat").target_row((2,)) == W637.target_row((2,))
    assert (short.num_draft_tokens, short.exact) == (1, True)


def test_rows_without_siblings_are_normalised_and_not_written() -> None:
    """Missing siblings change nothing."""
    rows = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    left = sibling_rows(rows, [np.array([0, -1]), np.array([2, -1])])
    assert left == pytest.approx(np.array([[0, 1, 0], [0.5, 0.3, 0.2]]))
    assert rows.tolist() == [[0.5, 0.3, 0.2]] * 2


def declared(rule: str | None, *names: str) -> Verifier:
    """Declare a verifier of a rule that asks for these."""
    scope: dict[str, Any] = {}
    exec(f"def sampler({', '.join(names)}): ...", scope)
    return verifier(rule=rule)(scope["sampler"])


def test_tree_rules_are_for_tree_verifiers() -> None:
    """A verifier that asks for parents declares a tree rule, any other a rule of chains."""
    assert declared("rrs", "parents", "draft_tokens", "draft_logits").tree
    assert declared("target_only", "parents", "draft_tokens", "target_probs").tree
    assert not declared("token", "draft_tokens").tree
    with pytest.raises(ContractError, match="expected rule to be one of rrs, target_only, traversal, got 'token'"):
        declared("token", "parents", "draft_tokens")
    with pytest.raises(ContractError, match="expected rule to be one of token, block, match, one_hot, got 'rrs'"):
        declared("rrs", "draft_tokens")


@pytest.mark.parametrize("rule", ["rrs", "traversal"])
def test_rules_that_divide_by_the_draft_must_be_told_its_law(rule: str) -> None:
    """Without it nodes are scored as certain, which is the target-only rule."""
    with pytest.raises(ContractError, match=r"come with draft_probs or draft_logits, got neither; .*'target_only'"):
        declared(rule, "parents", "draft_tokens", "target_probs")


def test_a_verifier_that_drafts_gets_no_tree() -> None:
    """Models and parents exclude each other."""
    with pytest.raises(ContractError, match="expected either models, to draft by itself, or drafts of the kit"):
        declared(None, "parents", "target_model")
