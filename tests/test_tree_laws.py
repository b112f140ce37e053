"""The tree rules reproduce every recorded exact law with ``==``, and are lossless on trees that were not recorded."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from cell_tables import random_table
from tree_inputs import as_law, full_tree, model, models, records

from specverify.reference import (
    RULES,
    TREE_MODES,
    TREE_RULES,
    Outcome,
    RandomTape,
    ScriptedTape,
    Tape,
    block,
    branches,
    children,
    completed_law,
    expected_tokens,
    outcome_law,
    rrs,
    sibling_law,
    target_law,
    target_only,
    token,
    total_variation,
    traversal,
    tree_law,
    tree_round,
)

LENGTHS = ("rrs", "rrs_wor", "traversal", "traversal_wor")
LOPSIDED = (-1, 0, 0, -1, 1)


def test_recorded_lengths_are_reproduced() -> None:
    """The mean number of tokens of the recursive and the traversal rule, with and without replacement, is exact."""
    found = records(*LENGTHS)
    for record in found:
        rule, without = record["variant"].removesuffix("_wor"), record["variant"].endswith("_wor")
        mode = "without_replacement" if without else "with_replacement"
        tree = full_tree(record["k"], record["depth"])
        law = tree_law(TREE_RULES[rule], tree, mode, *models(record["input"]))
        assert expected_tokens(law) == Fraction(record["value"]), record
    assert Counter(record["variant"] for record in found) == dict.fromkeys(LENGTHS, 21)


@pytest.mark.parametrize(("variant", "mode"), [("rrs_k2", "with_replacement"), ("rrs_wor_k2", "without_replacement")])
def test_recorded_first_tokens_are_reproduced(variant: str, mode: str) -> None:
    """The first token of recursive rejection sampling over two siblings has the recorded law, which is the target's."""
    for record in records(variant):
        target, draft = models(record["input"])
        law = completed_law(tree_law(rrs, (-1, -1), mode, target, draft), target, 1)
        assert law == as_law(record["law"]) == target_law(target, 1)


def test_recorded_laws_of_the_target_only_rule_are_reproduced() -> None:
    """On the tree of the two likeliest tokens per node, two levels deep, first token and joint law are the target's."""
    found = records("target_only_top2_tree")
    for record in found:
        target, draft = models(record["input"])
        law = tree_law(target_only, full_tree(2, 2), "top", target, draft)
        if record["quantity"] == "first_token_law":
            assert completed_law(law, target, 1) == as_law(record["law"])
        else:
            assert total_variation(completed_law(law, target, 3), target_law(target, 3)) == Fraction(record["value"])
    assert len(found) == 10


@pytest.mark.parametrize("mode", TREE_MODES)
@pytest.mark.parametrize("rule", ["rrs", "traversal"])
@pytest.mark.parametrize("seed", range(6))
def test_rules_are_lossless_on_random_tables_with_zeros(rule: str, mode: str, seed: int) -> None:
    """On a lopsided tree in an order that is not breadth first, the completed block has the target's joint law."""
    target, draft = random_table(seed, 3)
    law = tree_law(TREE_RULES[rule], LOPSIDED[:4], mode, target, draft)
    assert sum(law.values()) == 1
    assert completed_law(law, target, 3) == target_law(target, 3)


@pytest.mark.parametrize("mode", ["without_replacement", "top"])
@pytest.mark.parametrize("seed", range(6))
def test_the_target_only_rule_is_lossless_for_distinct_siblings(mode: str, seed: int) -> None:
    """However distinct siblings were drawn, the completed block has the target's joint law, three levels deep."""
    target, draft = random_table(seed, 3)
    law = tree_law(target_only, LOPSIDED, mode, target, draft)
    assert completed_law(law, target, 4) == target_law(target, 4)


@pytest.mark.parametrize("seed", range(6))
def test_rules_agree_on_point_masses(seed: int) -> None:
    """On deterministic trees the three rules have one law of path and next token."""
    pair = random_table(seed, 3)
    laws = [tree_law(rule, LOPSIDED, "top", *pair) for rule in (rrs, traversal, target_only)]
    assert laws[0] == laws[1] == laws[2]


@pytest.mark.parametrize(("tree_rule", "rule"), [(rrs, token), (traversal, block)])
@pytest.mark.parametrize("name", ["AB", "T3", "W402", "W637"])
def test_on_a_chain_they_are_token_and_block_verification(tree_rule: object, rule: object, name: str) -> None:
    """One child per node gives the law of emitted tokens of the chain rule of the same order."""
    chain_rule = next(found for found in RULES.values() if found is rule)
    settled = next(found for found in TREE_RULES.values() if found is tree_rule)
    target, draft = models(name)
    law = tree_law(settled, (-1, 0), "with_replacement", target, draft)
    due: dict[tuple[int, ...], Fraction] = {}
    for outcome, weight in outcome_law(chain_rule, target, draft, 2).items():
        due[outcome.emitted] = due.get(outcome.emitted, Fraction(0)) + Fraction(weight)
    assert {outcome.emitted: weight for outcome, weight in law.items()} == due


def test_more_siblings_than_tokens_end_the_level() -> None:
    """Where no draft mass is left a node does not exist: its token is -1, its law all zeros, and it is skipped."""
    target, draft = models("AB")
    for mode in ("without_replacement", "top"):
        for rule in (rrs, traversal, target_only):
            pair, triple = (tree_law(rule, tree, mode, target, draft) for tree in ((-1, -1), (-1, -1, -1, 2)))
            assert pair == triple
    assert list(sibling_law("without_replacement", [Fraction(1), Fraction(0)], [0])) == [0, 0]
    assert list(sibling_law("top", [0.5, 0.5], [0, 1])) == [0, 0]


def test_the_likeliest_tokens_come_in_order_and_ties_go_to_the_lower_id() -> None:
    """The siblings of mode "top" are point masses on the likeliest token that is left."""
    row = [Fraction(1, 4), Fraction(3, 8), Fraction(3, 8)]
    assert [list(sibling_law("top", row, earlier)).index(1) for earlier in ([], [1], [1, 2])] == [1, 2, 0]


def test_an_unknown_mode_is_refused() -> None:
    """The message names the modes on offer."""
    with pytest.raises(ValueError, match=r"expected a mode of with_replacement, without_replacement, top, got 'best'"):
        sibling_law("best", [1.0], [])


def test_nodes_are_drawn_only_when_they_are_looked_at() -> None:
    """A round that accepts its first node asks for no uniform of the siblings that come after it."""
    target, draft = model("T3", "p"), model("T3", "q")
    script = {("draft", 0): 0, ("accept", 0): 0, ("final",): 0}

    def run(tape: Tape) -> Outcome:
        return tree_round(tape, rrs, (-1, -1, -1), "without_replacement", target, draft)

    assert run(ScriptedTape(script)) == Outcome((0,), 1, 0)
    short = [branch for branch in branches(run) if branch.output.num_accepted and ("draft", 1) not in branch.box]
    assert short


def test_a_random_tape_plays_the_enumerated_law() -> None:
    """Under a seeded generator 4000 rounds stay within 6 standard deviations of the exact probabilities."""
    target, draft = models("W637")
    law = tree_law(traversal, (-1, -1), "without_replacement", target, draft)
    tape_source = np.random.default_rng(11)
    played = Counter(
        tree_round(RandomTape(tape_source), traversal, (-1, -1), "without_replacement", target, draft)
        for _ in range(4000)
    )
    assert set(played) <= set(law)
    for outcome, chance in law.items():
        due = 4000 * float(chance)
        assert abs(played[outcome] - due) < 6 * np.sqrt(due) + 6


def test_children_keep_their_order() -> None:
    """The children of a node are its later indices, in order."""
    assert [children(LOPSIDED, node) for node in (-1, 0, 1, 2)] == [[0, 3], [1, 2], [4], []]
