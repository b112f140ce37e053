"""Faults of rules for several drafts per position: siblings and levels of a tree that are not independent as they seem.

Every node of a tree is tested against what its earlier siblings left of the target; here one of these parts is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from specverify.contract import Verifier
from specverify.faults.record import Fault
from specverify.faults.rounds import tree_round_sampler
from specverify.faults.trees import BINARY, TREE_FAULT_RULES, TREE_ROUNDS, tree_fault_sampler
from specverify.reference import Model, Number, Outcome, branch_law, tree_law

__all__ = ["FAULTS"]


def _settled(
    name: str, target: Model, draft: Model, *, parents: Sequence[int] = (-1, -1), mode: str = "with_replacement"
) -> dict[Outcome, Number]:
    return tree_law(TREE_FAULT_RULES[name], parents, mode, target, draft)


def _played(name: str, target: Model, draft: Model) -> dict[Outcome, Number]:
    law = branch_law(lambda tape: TREE_ROUNDS[name](tape, target, draft))
    return {Outcome(tokens[:-1], len(tokens) - 1, tokens[-1]): weight for tokens, weight in law.items()}


def _sampler(name: str) -> Callable[[str], Verifier]:
    return lambda _: tree_fault_sampler(name)  # which names it itself


def _player(name: str) -> Callable[[str], Verifier]:
    return lambda _: tree_round_sampler(name)


EAGLE = "compare SafeAILab/EAGLE#50, which does not state the mechanism"

FAULTS = (
    Fault(
        "M01",
        "duplicates_merged",
        "tests a token that was drafted twice among siblings only once",
        "a second draw of the same token is another draw: it is due its own test against the residual",
        "test every sibling, also one that repeats an earlier one",
        exposed_by="three tokens and two siblings",
        hidden_by="two tokens",
        tree=partial(_settled, "M01"),
        build=_sampler("M01"),
    ),
    Fault(
        "M02",
        "residual_not_renormalised",
        "tests the next sibling against the residual without normalising it",
        "the residual then has less mass than a law, so that later siblings are accepted too rarely",
        "divide the residual by its sum before the next sibling is tested",
        exposed_by="two tokens and two siblings",
        provenance=f"the family of tree residuals, {EAGLE}",
        tree=partial(_settled, "M02"),
        build=_sampler("M02"),
    ),
    Fault(
        "M03",
        "sibling_tested_against_p",
        "tests every sibling against the whole target",
        "after a rejection only the residual is owed; drafts of the first kind are given a second chance",
        "replace p by the normalised residual after every rejection",
        exposed_by="two tokens and two siblings",
        provenance="ggml-org/llama.cpp#5625; compare SafeAILab/EAGLE#50 with its repair SafeAILab/EAGLE#47",
        tree=partial(_settled, "M03"),
        build=_sampler("M03"),
    ),
    Fault(
        "M04",
        "final_draw_from_p",
        "draws the token after the last rejected sibling from the target",
        "what is still owed is the last residual; drawing from p gives rejected mass back",
        "draw from the residual that the last sibling left",
        exposed_by="two tokens and two siblings",
        provenance="ggml-org/llama.cpp#5625",
        tree=partial(_settled, "M04"),
        build=_sampler("M04"),
    ),
    Fault(
        "M05",
        "one_coin_for_siblings",
        "tests all siblings of a level with one uniform",
        "given that the first sibling was rejected the uniform is large, so that the second is accepted too rarely",
        "take a fresh uniform for every sibling",
        exposed_by="the table W637 with two siblings",
        hidden_by="AB, C3 and T3, where the law comes out right",
        provenance="compare flashinfer-ai/flashinfer#424",
        tree=partial(_settled, "M05"),
        build=_sampler("M05"),
    ),
    Fault(
        "M06",
        "wor_scored_with_q",
        "draws siblings without replacement, but scores each with the whole draft row q",
        "the second sibling was drawn from q without the first, divided by 1 - q(first)",
        "score each sibling with the law that it was drawn from, its earlier siblings removed and normalised",
        exposed_by="three tokens and two siblings",
        hidden_by="two tokens",
        provenance="SafeAILab/EAGLE#74, whose answer states the correct rule",
        tree=partial(_settled, "M06", mode="without_replacement"),
        build=_sampler("M06"),
    ),
    Fault(
        "M07",
        "top_k_scored_with_q",
        "takes the two likeliest tokens as siblings, but scores them with q",
        "they were not sampled: each is certain given the row, so that dividing by q accepts it too often",
        "score them as point masses: accept with p, and remove the token from p after a rejection",
        exposed_by="two tokens and two siblings",
        provenance="apple/ml-recurrent-drafter#6 (a beam as the draft)",
        tree=partial(_played, "M07"),
        plays=True,
        build=_player("M07"),
    ),
    Fault(
        "M08",
        "best_of_two",
        "submits the likelier of two sampled drafts, and scores it as one draw",
        "the better of two draws has another law than q: likely tokens come more often",
        "score it with its own law, C(x)^2 - C(<x)^2 with C the cumulated q in order of likelihood",
        exposed_by="two tokens",
        provenance="apple/ml-recurrent-drafter#6",
        tree=partial(_played, "M08"),
        plays=True,
        build=_player("M08"),
    ),
    Fault(
        "M09",
        "kseq_rho1_clipped",
        "accepts siblings by the K-SEQ rule with rho = 1, and clips the negative residual at 0",
        "with so small a rho more mass is accepted than the target has; clipping hides that",
        "take rho = k, or the smallest rho for which the residual stays positive",
        exposed_by="two tokens and two siblings",
        tree=partial(_settled, "M09"),
        build=_sampler("M09"),
    ),
    Fault(
        "M10",
        "target_only_draft_probs",
        "hands the draft's probabilities to the target-only tree rule, which expects zeros",
        "the draw after all siblings were rejected then subtracts the draft from the target",
        "pass zeros",
        exposed_by="the table W637 with two siblings and two levels",
        hidden_by="rows that ignore the context, and one level",
        tree=partial(_played, "M10"),
        plays=True,
        build=_player("M10"),
    ),
    Fault(
        "M11",
        "target_only_duplicate_siblings",
        "has the same token twice among the siblings of the target-only tree rule",
        "the rule adds the target's mass up over siblings, and counts that token twice",
        "keep siblings distinct",
        exposed_by="two tokens and two siblings",
        tree=partial(_played, "M11"),
        plays=True,
        build=_player("M11"),
    ),
    Fault(
        "M12",
        "target_only_coin_reused",
        "walks down the whole tree with one uniform",
        "the uniform that took the first token is small or large accordingly, so that the next level is biased",
        "take a fresh uniform for every level",
        exposed_by="two tokens and two levels",
        hidden_by="one level",
        provenance="compare flashinfer-ai/flashinfer#424",
        tree=partial(_settled, "M12", parents=BINARY, mode="top"),
        build=_sampler("M12"),
    ),
)
"""The faults of this family."""
