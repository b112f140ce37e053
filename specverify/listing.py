"""Every name that the kit knows can be listed with a line on it, and checks, faults and rules can be explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specverify.cases import Case

__all__ = ["explanations", "listings"]

MAX_SHOWN = 8


def listings() -> dict[str, Callable[[], dict[str, str]]]:
    """Give by kind what lists its names, each with a line; nothing is imported before one is called."""
    return {"samplers": _samplers, "checks": _checks, "faults": _faults, "cases": _cases, "rules": _rules}


def _samplers() -> dict[str, str]:
    from specverify.registry import names

    return dict(names())


def _checks() -> dict[str, str]:
    from specverify.checks import CATALOGUE

    return {key: check.title for key, check in CATALOGUE.items()}


def _faults() -> dict[str, str]:
    from specverify.faults import KNOWN_FAULTS

    return {key: f"{fault.name}: {fault.claim}" for key, fault in KNOWN_FAULTS.items()}


def _cases() -> dict[str, str]:
    return {case.name: case.description for case in _all_cases()}


def _all_cases() -> tuple[Case, ...]:
    from specverify.loop_menu import loop_menu
    from specverify.menu import menu
    from specverify.reference import TREE_MODES
    from specverify.tree_menu import tree_menu

    return (*menu(), *tree_menu(TREE_MODES), *loop_menu())


def _rules() -> dict[str, str]:
    from specverify.reference import RULES, TREE_RULES

    return {name: (rule.__doc__ or "").strip().partition("\n")[0] for name, rule in (RULES | TREE_RULES).items()}


def explanations() -> Mapping[str, Callable[[], str]]:
    """Give by id and name what makes the text; the exact laws of a fault are computed for it."""
    import inspect

    from specverify.checks import CATALOGUE as CHECKS
    from specverify.faults import KNOWN_FAULTS as FAULTS
    from specverify.reference import RULES, TREE_RULES

    texts = {key: partial(getattr, check, "explain") for key, check in CHECKS.items()}
    for key, fault in FAULTS.items():
        texts[key] = texts[fault.name] = partial(getattr, fault, "explain")
    for name, rule in (RULES | TREE_RULES).items():
        description = (inspect.getdoc(rule) or "").partition("\n\n>>>")[0]
        texts[name] = partial(str, f"rule {name}: {description}")
    return texts | {case.name: partial(_case, case) for case in _all_cases()}


def _case(case: Case) -> str:
    size = f"{case.vocab_size} tokens, {case.num_draft_tokens} drafted"
    if case.tree is not None:
        size += f" at most on a path; parents {', '.join(map(str, case.tree.parents))}; siblings {case.tree.mode}"
    if case.loop is not None:
        asked = [f"{name} {getattr(case.loop.sampling, name)}" for name in sorted(case.loop.sampling.set_names)]
        size = (
            f"{case.vocab_size} tokens, {case.loop.num_draft_tokens} drafted per round, {case.loop.max_new_tokens} new "
            f"ones after the prompt {' '.join(map(str, case.loop.prompt))}; {', '.join(asked) or 'no filters'}"
        )
    context = "rows depend on the tokens before them" if case.contextual else "rows ignore the tokens before them"
    shown = case.vocab_size <= MAX_SHOWN and case.num_draft_tokens > 0
    rows = (("p", case.target_row(())), ("q", case.draft_row(()))) if shown else ()
    first = "".join(f"\nfirst {name}:  {'  '.join(str(value) for value in row)}" for name, row in rows)
    return f"case {case.name}: {case.description}\n\n{size}; {context}{first}"
