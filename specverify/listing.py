"""Every name that the kit knows can be listed with a line on it, and checks, faults and rules can be explained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specverify.cases import Case
    from specverify.loops import Loop

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


def _stage_cases() -> list[Case]:
    from specverify.independence import cases

    return [stage.case for loops in (False, True) for stage in cases(None, loops=loops)]


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
    return texts | {case.name: partial(_case, case) for case in (*_stage_cases(), *_all_cases())}


def _case(case: Case) -> str:
    from specverify.reports import law

    size = f"{case.vocab_size} tokens, {case.num_draft_tokens} drafted"
    if case.tree is not None:
        size += f" at most on a path; parents {', '.join(map(str, case.tree.parents))}; siblings {case.tree.mode}"
    if case.loop is not None:
        size = _loop(case.loop)
    context = "rows depend on the tokens before them" if case.contextual else "rows ignore the tokens before them"
    shown = case.vocab_size <= MAX_SHOWN and case.num_draft_tokens > 0
    rows = (("p", case.target_row(())), ("q", case.draft_row(()))) if shown else ()
    first = "".join(f"\nfirst {name}:  {law([[_plain(x) for x in row]])[0]}" for name, row in rows)
    return f"case {case.name}: {case.description}\n\n{size}; {context}{first}"


def _plain(value: object) -> float | str:
    return value if isinstance(value, float) else str(value)


def _loop(loop: Loop) -> str:
    """Say what a generate loop is asked for."""
    parts = [f"{loop.vocab_size} tokens, {loop.num_draft_tokens} drafted per round, {loop.max_new_tokens} new ones"]
    parts[0] += f" after the prompt {_tokens(loop.prompt)}"
    if loop.mate:
        parts[0] += f", beside rows with the prompt {_tokens(loop.mate)}"
    if loop.process:
        parts.append("in a fresh process")
    if loop.target.eos_token_id is not None:
        parts.append(f"token {loop.target.eos_token_id} ends a sequence")
    asked = [_parameter(name, getattr(loop.sampling, name)) for name in sorted(loop.sampling.set_names)]
    return "; ".join([*parts, ", ".join(asked) or "no sampling parameters"])


def _parameter(name: str, value: object) -> str:
    from specverify.processing import Grammar

    if isinstance(value, Grammar):
        states = [
            f"state {state} allows {' or '.join(f'{x} (then state {value.after[state][x]})' for x in allowed)}"
            for state, allowed in enumerate(value.allowed)
        ]
        return f"{name}: {', '.join(states)}"
    return f"{name} {_tokens(value) if isinstance(value, tuple) else value}"


def _tokens(values: Iterable[object]) -> str:
    return " ".join(map(str, values))
