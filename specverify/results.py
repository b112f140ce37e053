"""The report document says what a run found, in the form that ``reports/report.schema.json`` describes."""

from __future__ import annotations

import importlib.metadata
import math
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from specverify import __version__
from specverify.arrays import IntArray
from specverify.checks import CATALOGUE
from specverify.contract import Verifier
from specverify.counterexample import counterexample, simplicity
from specverify.diagnosis import diagnose
from specverify.evidence import Fit, binomial_p, pearson
from specverify.findings import Finding
from specverify.judging import COMBINED, Judgement, ProbeResult
from specverify.lengths import acceptance
from specverify.loop_menu import PROCESSES
from specverify.options import MISS, Options
from specverify.plan import Plan
from specverify.probes import Probe
from specverify.progress import NAMING
from specverify.reports import SCHEMA_VERSION, Report
from specverify.suite import Progress, Run
from specverify.tolerance import allowance
from specverify.wording import times

__all__ = ["came", "report"]

SHOWN_CELLS = 32
SHOWN_CASES = 3
MANY = 100  # expected events that are written out
PACKAGES = ("numpy", "scipy", "torch", "transformers")


def report(run: Run, progress: Callable[[Progress], None] | None = None) -> Report:
    """Write down what a run found.

    Args:
        run: A run that was executed.
        progress: Told when a fault begins to be named.

    Returns:
        The report.
    """
    judgement = Judgement(run)
    if judgement.verdict == "nonconformant":
        run.tell(progress, NAMING)
    checks = [_check(judgement, check) for check in CATALOGUE]
    summary = _summary(checks)
    verifier = judgement.plan.verifier
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "specverify", "version": __version__},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "sampler": _sampler(verifier),
        "environment": _environment(),
        "options": _options(judgement.options),
        "verdict": judgement.verdict,
        "lossless": judgement.lossless,
        "rule": {
            "declared": verifier.rule,
            "conforms": judgement.conforms,
            "not_rejected": judgement.not_rejected,
        },
        "coverage": _coverage(summary, checks, run),
        "detectable_tv": _detectable(judgement),
        "tolerance": {"class": verifier.tolerance, "allowance": _allowance(judgement)},
        "summary": summary,
        "checks": checks,
        "diagnosis": [vars(candidate) | {"same_law": list(candidate.same_law)} for candidate in diagnose(judgement)],
        "counterexample": counterexample(judgement),
        "acceptance": acceptance(judgement.plan.runs),
        "evidence": _evidence(run),
        "compared_shares": _compared(judgement),
        "timing": _timing(run),
        "warnings": _warnings(judgement),
    }
    return Report(document)


def _sampler(verifier: Verifier) -> dict[str, Any]:
    named = {name: getattr(verifier, name) for name in ("name", "rule", "framework", "device", "dtype")}
    return {**named, "kind": verifier.kind, "version": verifier.version or None}


def _options(options: Options) -> dict[str, Any]:
    named = ("profile", "seed", "alpha", "target_tv", "samples", "require", "time_limit", "timeout")
    return {**{name: getattr(options, name) for name in named}, "beta": MISS, "only": list(options.only)}


def _check(judgement: Judgement, check: str) -> dict[str, Any]:
    record = CATALOGUE[check]
    status, reason = judgement.statuses[check]
    failing = judgement.applies(check) and judgement.fails(check) and status != "not_applicable"
    entry: dict[str, Any] = {
        "id": check,
        "title": record.title,
        "scope": record.scope,
        "status": status,
        "reason": reason,
        "message": _message(judgement, check) if failing else "",
        "worst_case": None,
        "n": 0,
        "level": judgement.plan.share,
        "labels": [],
        "observed": [],
        "expected": [],
        "ratios": [],
    }
    entry |= dict.fromkeys(("cells", "statistic", "df", "p_value", "log10_e", "pearson", "detectable_tv"))
    results, findings = judgement.of(check), judgement.findings_of(check)
    if status == "not_applicable":
        entry["level"] = None
    elif results:
        entry |= _probe(results[0])
    elif findings:
        entry |= _finding(findings[0])
    elif check in COMBINED:
        entry["log10_e"] = _finite(judgement.run.log10_e(COMBINED[check]))
    else:
        violations = judgement.violations_of(check)
        entry["worst_case"] = violations[0].case if violations else None
        one = violations[0].case if violations and check != "SV-STR-001" else None
        shown = [run.seen.rows for run in judgement.run.runs if one in (None, run.name)]
        entry["n"] = 0 if check == "SV-RPL-001" else sum(shown)
    return entry


def _probe(result: ProbeResult) -> dict[str, Any]:
    fit, counts, probs = result.fit, result.counts, result.probe.probs
    order = np.argsort(-np.abs(counts - result.n * probs), kind="stable")[:SHOWN_CELLS]
    shown = np.sort(order)
    ran = fit.method != "none"
    return {
        "worst_case": result.run.name,
        "n": result.n,
        "cells": result.probe.cells,
        "statistic": _finite(fit.statistic) if ran else None,
        "df": fit.df if ran else None,
        "p_value": _tail(result) if ran or counts[-1] else None,
        "log10_e": _finite(result.log_e / math.log(10)),
        "pearson": _pearson(pearson(counts, probs)),
        "detectable_tv": result.detectable,
        "labels": [result.probe.labels[cell] for cell in shown],
        "observed": [int(counts[cell]) for cell in shown],
        "expected": [float(result.n * probs[cell]) for cell in shown],
        "ratios": _ratios(result.probe, shown),
    }


def _tail(result: ProbeResult) -> float:
    """Give the p-value with what cannot happen counted for itself, which the test pools with cells that may come."""
    hits = int(result.counts[-1])
    if not hits:
        return result.fit.p_value
    return min(1.0, 2 * min(result.fit.p_value, float(binomial_p(hits, result.n, result.probe.probs[-1]))))


def _ratios(probe: Probe, shown: IntArray) -> list[float | None]:
    """Give p/q of the shown cells; None where the draft gives nothing, and no list where cells hold no first tokens."""
    if probe.draft_probs is None:
        return []
    due = np.append(probe.probs[:-1], 0.0)  # the last cell's share is lent, not the target's
    pairs = zip(due[shown].tolist(), probe.draft_probs[shown].tolist(), strict=True)
    return [_finite(p / q) if q > 0 else None for p, q in pairs]


def _pearson(fit: Fit) -> dict[str, Any] | None:
    if fit.method != "pearson":
        return None
    return {"statistic": fit.statistic, "df": fit.df, "p_value": fit.p_value}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "worst_case": finding.case,
        "n": finding.n,
        "p_value": finding.p_value,
        "labels": ["compared"],
        "observed": [finding.observed],
        "expected": [finding.expected],
    }


def _message(judgement: Judgement, check: str) -> str:
    """Say what was expected, what was got, and where, for the strongest evidence of a failing check."""
    violations = judgement.violations_of(check)
    if violations:
        others = {violation.case for violation in violations} - {violations[0].case}
        more = f" Also on {len(others)} more case{'' if len(others) == 1 else 's'}." if others else ""
        return f"On case {violations[0].case}: {violations[0].message}.{more}"
    findings, results = judgement.findings_of(check), judgement.of(check)
    if findings:
        return f"On case {findings[0].case}: {findings[0].message}."
    if check in COMBINED:
        return _together(judgement, COMBINED[check])
    failing = [result for result in results if result.probe.key in judgement.rejected]
    worst = failing[0]
    return f"What should hold: {CATALOGUE[check].claim} On case {worst.run.name}, {came(worst)}." + _elsewhere(
        judgement, failing
    )


def came(result: ProbeResult) -> str:
    """Say how often the cell that surprises most came, and how often it was due."""
    cell = int(result.furthest()[0])
    due = result.n * result.probe.probs[cell]
    never = cell == len(result.counts) - 1  # its share is only lent
    expected = "none" if never else f"{due:,.1f}" if due >= MANY else f"{due:.3g}"
    often = times(int(result.counts[cell]))
    return f"'{result.probe.labels[cell]}' came {often} in {result.n:,} events, expected {expected}"


def _elsewhere(judgement: Judgement, failing: list[ProbeResult]) -> str:
    """Name the simplest of the other cases on which a check failed."""
    runs = {r.run.name: r.run for r in failing if r.run is not failing[0].run}
    names = sorted(runs, key=lambda name: simplicity(judgement.plan, runs[name]))
    return f" Also on {', '.join(names[:SHOWN_CASES])}." if names else ""


def _together(judgement: Judgement, scope: str) -> str:
    """Say what speaks most among the checks that the combined evidence counts."""
    counted = [r for r in judgement.results if r.log_e > 0 and (not scope or CATALOGUE[r.probe.check].scope == scope)]
    leading = [r.probe.key for r in sorted(counted, key=lambda r: -r.log_e)[:3]]
    most = f"; of the single checks most is from {', '.join(leading)}" if leading else ""
    return f"All evidence together, that of the laws of known faults included, is proof of a fault{most}."


def _summary(checks: list[dict[str, Any]]) -> dict[str, int]:
    count = Counter(check["status"] for check in checks)
    return {
        "ran": len(checks) - count["not_applicable"],
        "passed": count["passed"],
        "failed": count["failed"],
        "not_applicable": count["not_applicable"],
        "known_failures": count["known_failure"],
        "inconclusive": count["inconclusive"],
    }


def _coverage(summary: dict[str, int], checks: list[dict[str, Any]], run: Run) -> str:
    sizes = [case.case.vocab_size for case in run.plan.runs]
    spread = f"{min(sizes)} to {max(sizes)}" if len(set(sizes)) > 1 else f"{sizes[0]}" if sizes else ""
    cases = f" on {len(sizes)} case{'' if len(sizes) == 1 else 's'} of {spread} tokens" if sizes else ""
    text = f"{summary['ran']} of {len(checks)} checks ran{cases}"
    for status, name in (("not_applicable", "not applicable"), ("inconclusive", "inconclusive")):
        reasons = dict.fromkeys(check["reason"] for check in checks if check["status"] == status)
        if reasons:
            text += f", {summary[status]} {name} ({'; '.join(reasons)})"
    if summary["known_failures"]:
        text += f", {summary['known_failures']} known failure{'' if summary['known_failures'] == 1 else 's'}"
    return text


def _detectable(judgement: Judgement) -> dict[str, Any]:
    by_size = []
    for headline in judgement.headlines:
        first = [r for r in judgement.of("SV-TOK-001") if r.run is headline.result.run]
        if headline.headline and first:
            result = first[0]
            by_size.append(
                {
                    "class": headline.size_class,
                    "case": result.run.name,
                    "cells": result.probe.cells,
                    "n": result.n,
                    "value": result.detectable,
                }
            )
    worst = judgement.worst
    return {
        "value": None if worst is None else worst.value,
        "case": None if worst is None else worst.result.run.name,
        "cells": None if worst is None else worst.result.probe.cells,
        "by_size": by_size,
    }


def _allowance(judgement: Judgement) -> float:
    sizes = [run.case.vocab_size for run in judgement.run.runs]
    return max((allowance(judgement.plan.verifier.tolerance, size) for size in sizes), default=0.0)


def _evidence(run: Run) -> dict[str, Any]:
    """Write down the evidence at every look: all of it where a rule is asserted, else that against losslessness."""
    check = "SV-ALL-001" if run.plan.rule is None else "SV-ALL-002"
    logs = [look.evidence.whole if COMBINED[check] == "" else look.evidence.lossless for look in run.looks]
    looks = [
        {"rows": look.rows, "log10_e": _finite(value / math.log(10))}
        for look, value in zip(run.looks, logs, strict=True)
    ]
    return {"check": check, "threshold": run.threshold, "looks": looks}


def _compared(judgement: Judgement) -> int:
    """Count the shares among which the report chooses what it shows: all cells, and the positions of drafts."""
    positions = max((run.case.num_draft_tokens for run in judgement.plan.runs), default=0)
    return sum(len(result.counts) for result in judgement.results) + positions


def _environment() -> dict[str, Any]:
    loaded = [name for name in PACKAGES if name in sys.modules]
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: importlib.metadata.version(name) for name in loaded},
    }


def _timing(run: Run) -> dict[str, Any]:
    return {
        "total_s": time.monotonic() - run.started,
        "sampler_s": sum(case.seen.seconds for case in run.runs),
        "calls": sum(case.seen.calls for case in run.runs),
        "rows": sum(case.seen.rows for case in run.runs),
    }


def _warnings(judgement: Judgement) -> list[str]:
    doubts = judgement.doubts if judgement.verdict == "inconclusive" else []
    seen = (text for run in judgement.run.runs for text in run.seen.warnings)
    return [*doubts, *judgement.run.warnings, *dict.fromkeys(seen), *_left_out(judgement.plan)]


def _left_out(plan: Plan) -> list[str]:
    """Say which cases of a loop were not run for want of a name to load it by."""
    if not plan.verifier.loops or plan.given or not plan.runs or plan.options.target is not None:
        return []
    text = f"the {PROCESSES} cases in fresh processes were not run, where a loop is loaded by name"
    return [f"{text}; give its name, such as 'my_file.py:my_loop', in place of the function"]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
