"""Whoever reads only the end of a pytest run knows of every sampler the verdict, and which checks it rests on.

It is made from the reports of the tests alone, which reach the main process from every worker, without the engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from specverify.reports import hanging
from specverify.wording import printable

__all__ = ["summary"]


def summary(reports: Iterable[Any]) -> str:
    r"""Give the verdict and the coverage of every sampler, and the failures that are known.

    Args:
        reports: Reports of pytest with the properties that ``SharedCheck.properties`` gives.

    Returns:
        Lines, each ended; what limits a verdict stands right behind it.

    Example:
        >>> from types import SimpleNamespace
        >>> found = {"sampler": "mine", "check": "SV-RES-001", "status": "passed"}
        >>> found |= {"verdict": "conformant", "coverage": "22 of 22 checks ran"}
        >>> properties = [(f"specverify_{name}", value) for name, value in found.items()]
        >>> summary([SimpleNamespace(user_properties=properties)])
        'mine: CONFORMANT. 22 of 22 checks ran\n'
    """
    verdicts: dict[str, str] = {}
    known: dict[str, dict[str, str]] = {}
    for report in reports:
        found = dict(report.user_properties)
        name = found["specverify_sampler"]
        limits = f" {found['specverify_limits']}" if "specverify_limits" in found else ""
        verdicts[name] = f"{found['specverify_verdict'].upper()}{limits}. {found['specverify_coverage']}"
        if found["specverify_status"] == "known_failure":
            known.setdefault(name, {})[found["specverify_check"]] = found["specverify_reason"]
    lines = []
    for name, text in sorted(verdicts.items()):
        lines.append(f"{name}: {text}")
        lines += [f"  known failure {check}: {reason}" for check, reason in sorted(known.get(name, {}).items())]
    return "".join(hanging(printable(line)) for line in lines)
