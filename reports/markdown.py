"""A reviewer who opens a workflow run reads the verdict first, then what is wrong and how to see it again.

The text is for the step summary of GitHub: tables and HTML elements that GitHub keeps, nothing that it strips.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from . import speed
from .claims import Document, bet, claim, facts, shown
from .markup import LIMIT, Section, code, escaped, fenced, fitted, row
from .phrases import cells, example_title, figures, law, p_value, quantities, suspects
from .statuses import STATUSES, VERDICTS, failures, known_failures
from .text import number

__all__ = ["markdown"]

_COLUMNS: Final = ("", "check", "status", "worst case", "n", "p", "log10 E", "detectable TV")


def markdown(document: Document, *, limit: int = LIMIT) -> str:
    """Write a report for the step summary of a GitHub workflow.

    Args:
        document: a report document.
        limit: bytes that the text may have in UTF-8; a section too long for it is cut and says so.

    Returns:
        the text. What comes from the sampler is shown as text, whatever is in it.

    Example:
        >>> from specverify.reports import FORMS
        >>> FORMS["markdown"].write is markdown
        True
    """
    document = shown(document)
    return fitted(
        [
            _verdict(document),
            _failures(document["checks"]),
            _diagnosis(document["diagnosis"]),
            *_counterexample(document["counterexample"]),
            _known(document["checks"]),
            _warnings(document["warnings"][document["verdict"] == "inconclusive" :]),
            *_speed(document),
            _checks(document["checks"]),
        ],
        limit,
    )


def _verdict(document: Document) -> Section:
    name, sign = document["sampler"]["name"], VERDICTS[document["verdict"]].emoji
    told = facts(document) | ({"E": bet(document)} if bet(document) else {})
    lines = [f"- **{label}:** {escaped(text)}\n" for label, text in told.items()]
    verdict = escaped(f"{document['verdict'].upper()}{claim(document)}")
    return Section(f"## {sign} {code(name, len(name))}\n\n**Verdict:** {verdict}\n\n", lines, "facts")


def _section(title: str, items: Sequence[str], name: str) -> Section:
    """A section with a heading; without items there is nothing of it."""
    return Section(f"\n### {title}\n\n" if items else "", items, name)


def _failures(checks: Sequence[Document]) -> Section:
    failed = failures(checks)
    title = f"Failed: {len(failed)} of {len(checks)} checks"
    return _section(title, [_failure(check) for check in failed], "failed checks")


def _known(checks: Sequence[Document]) -> Section:
    known = known_failures(checks)
    lines = [f"- **{escaped(c['id'])}** {escaped(c['title'])}: {escaped(c['reason'])}\n" for c in known]
    return _section(f"Known failures: {len(known)} of {len(checks)} checks", lines, "known failures")


def _failure(check: Document) -> str:
    details = [escaped(line) for line in (figures(check), *cells(check)) if line]
    lines = "".join(f"  - <span>{line}</span>\n" for line in details)
    message = escaped(check["message"] or check["reason"])
    return f'- **{escaped(check["id"])}** {escaped(check["title"])}<br><span dir="auto">{message}</span>\n{lines}'


def _diagnosis(candidates: Sequence[Document]) -> Section:
    lines = [f"- **{escaped(name)}** {escaped(text)}\n" for name, text in suspects(candidates)]
    return _section("What it looks like", lines, "candidates")


def _counterexample(example: Document | None) -> Iterator[Section]:
    """The smallest input with exact and observed values, then the line that shows it again."""
    if example is None:
        return
    drafted = f"{example['draft']} drafted token{'' if example['draft'] == 1 else 's'}"
    laws = "".join(f"- {name}: {_law(example, key)}\n" for name, key in (("target p", "p"), ("draft q", "q")))
    columns = f"{row(['', '', 'exact', 'observed'])}\n{row(['---', '---', '---:', '---:'])}\n"
    rows = [
        f"{row([escaped(quantity), code(label), due, seen])}\n"
        for quantity, parts in quantities(example)
        for label, due, seen in parts
    ]
    title = f"\n### {example_title(example)}: {code(example['case'])}, {drafted}\n\n"
    yield Section(f"{title}{laws}\n{columns}", rows, "values")
    yield Section(f"\nReproduce:\n\n{fenced(example['reproduce'])}\n", [], "")


def _law(example: Document, key: str) -> str:
    return "; ".join(code(line, len(line)) for line in law(example[key], example.get("rows_by", "")))


def _warnings(warnings: Sequence[str]) -> Section:
    return _section("Warnings", [f'- <span dir="auto">{escaped(text)}</span>\n' for text in warnings], "warnings")


def _speed(document: Document) -> Iterator[Section]:
    """Acceptance and lengths, with what keeps them from being read as more than they are."""
    found = document["acceptance"]
    if found is None:
        return
    yield _section("Speed", [f"- {escaped(sentence)}\n" for sentence in speed.sentences(document)], "sentences")
    yield _table(
        ("tokens per call of the target, on one witness case", "mean"),
        [(escaped(name), f"{value:.3g}") for name, value in speed.headroom(found)],
    )
    yield _table(
        ("cost of a draft step, in target steps", "drafted tokens", "modelled speed-up"),
        [_modelled(entry) for entry in found.get("speedup_model", ())],
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Section:
    """A table whose last columns are numbers; without rows there is nothing of it."""
    begin = f"\n{row(head)}\n{row(['---', *['---:'] * (len(head) - 1)])}\n"
    return Section(begin if rows else "", [f"{row(cells)}\n" for cells in rows], "rows")


def _modelled(entry: Document) -> tuple[str, str, str]:
    tokens = entry.get("num_draft_tokens")
    return f"{entry['draft_cost']:g}", "-" if tokens is None else str(tokens), f"{entry['speedup']:.2f}"


def _checks(checks: Sequence[Document]) -> Section:
    head = f"\n<details><summary>All {len(checks)} checks</summary>\n\n"
    columns = f"{row(_COLUMNS)}\n{row(['---'] * 4 + ['---:'] * 4)}\n"
    return Section(head + columns, [_check(check) for check in checks], "checks", tail="\n</details>\n")


def _check(check: Document) -> str:
    status = check["status"].replace("_", " ")
    told = f"{status}: {check['reason']}" if check["reason"] else status
    named = f"{check['id']} {check['title']}"
    worst = code(check["worst_case"]) if check["worst_case"] else "-"
    tail, tv = p_value(check), number(check["detectable_tv"], ".2g")
    numbers = (format(check["n"], ","), tail, number(check["log10_e"], ".1f"), tv)
    return f"{row([STATUSES[check['status']].emoji, escaped(named), escaped(told), worst, *map(escaped, numbers)])}\n"
