"""The site says of a check, a fault, a rule or a case what ``specverify explain`` says, for both read one record.

Used by MkDocs as a hook (see mkdocs.yml): it adds the pages of the catalogues to the site, links every id in every page
to its own, and refuses a page that would load anything from elsewhere. Without MkDocs, ``pages`` gives the sources.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from specverify.checks import CATALOGUE as CHECKS
from specverify.faults import KNOWN_FAULTS as FAULTS
from specverify.faults import Fault, LoopFault
from specverify.listing import explanations, listings

if TYPE_CHECKING:
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

__all__ = ["linked", "loaded_from_elsewhere", "on_files", "on_page_markdown", "on_post_page", "pages"]

AREAS: Final = {
    "Form": ("STR", "RPL"),
    "Support": ("SUP",),
    "Output": ("TOK", "JNT"),
    "Independence": ("IND",),
    "Rule": ("DRF", "ACC", "RES", "POS", "BON", "LEN", "RUL"),
    "Reported rounds of loops": ("PRP", "RND"),
    "All evidence together": ("ALL",),
}
FAMILIES: Final = {
    "K": "Verification of one draft per position",
    "M": "Several drafts per position, and trees",
    "Q": "The law that the draft is said to have",
    "L": "Sampling parameters in generate loops",
    "G": "Rows, caches and ends of generate loops",
    "C": "What a generate loop is called with",
}
_BYLINES: Final = {
    "checks": "What must hold, by area: the areas are those of the README. `specverify list checks` lists the same.",
    "faults": "What goes wrong in real samplers, by level. `specverify list faults` lists the same.",
    "rules": "The rules of verification that a sampler can declare. `specverify list rules` lists the same.",
    "cases": "The inputs whose exact laws are known. `specverify list cases` lists the same.",
}

_LINK: Final = r"(?<!!)\[[^\]\n]*\]\([^)\n]*\)"
_KEPT: Final = rf"^```.*?^```$|^\#[^\n]*|`[^`\n]*`|{_LINK}|<[^>\n]*>"
_ID: Final = r"(?<![\w-])(?:SV-[A-Z]{3}-\d{3}|[CGKLMQ]\d\d[a-f]?)(?![\w-])"
_ISSUE: Final = r"(?<![\w/])[\w.-]+/[\w.-]+#\d+"
_PAPER: Final = r"\barXiv \d{4}\.\d{5}"
_PARTS: Final = re.compile(
    rf"(?P<kept>{_KEPT})|(?P<id>{_ID})|(?P<issue>{_ISSUE})|(?P<paper>{_PAPER})", re.MULTILINE | re.DOTALL
)
_LOADED: Final = re.compile(
    r"<(?:script|img|iframe|link(?![^>]*canonical))\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^>]*>"
)


def pages() -> dict[str, str]:
    """Give the sources of all generated pages, in Markdown, by their paths below docs/."""
    texts = {name: explain() for name, explain in explanations().items()}
    found = {_path(key): _page(texts[key], _on_the_command_line(key)) for key in (*CHECKS, *FAULTS)}
    found["checks/index.md"] = _index("checks", {area: _checks_of(codes) for area, codes in AREAS.items()})
    found["faults/index.md"] = _index("faults", {title: _faults_of(level) for level, title in FAMILIES.items()})
    for kind in ("rules", "cases"):
        sections = (_section(name, texts[name]) for name in listings()[kind]())
        found[f"{kind}.md"] = "\n".join([f"# {kind.capitalize()}\n\n{_BYLINES[kind]}\n", *sections])
    return found


def linked(markdown: str, source: str, paths: Iterable[str]) -> str:
    """Link ids of checks and faults to their pages, issues to GitHub and papers to arXiv; code and headings stay.

    Args:
        markdown: The source of a page.
        source: Its path below docs/.
        paths: The paths of all pages; an id without one, and that of the page itself, stays as it is.
    """
    known = set(paths) - {source}

    def link(part: re.Match[str]) -> str:
        text = part[0]
        if part["id"] and _path(text) in known:
            return f"[{text}]({posixpath.relpath(_path(text), posixpath.dirname(source) or '.')})"
        if part["issue"]:
            return f"[{text}](https://github.com/{text.replace('#', '/issues/')})"
        return f"[{text}](https://arxiv.org/abs/{text.split()[1]})" if part["paper"] else text

    return _PARTS.sub(link, markdown)


def loaded_from_elsewhere(html: str) -> list[str]:
    """List the tags of a page that would make a browser ask another host for something."""
    return _LOADED.findall(html)


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, and the colours of code, to what MkDocs found."""
    from mkdocs.structure.files import File
    from pygments.formatters import HtmlFormatter

    styles = {"default": "light", "github-dark": "dark"}
    colours = (
        HtmlFormatter(style=style).get_style_defs(f'[data-bs-theme="{mode}"] .codehilite')
        for style, mode in styles.items()
    )
    for path, content in {**pages(), "code.css": "\n".join(colours)}.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Link what the page names."""
    return linked(markdown, page.file.src_uri, (file.src_uri for file in files.documentation_pages()))


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """Refuse a page that would load a script, a style or a picture from elsewhere."""
    from mkdocs.exceptions import PluginError

    loaded = loaded_from_elsewhere(output)
    if loaded:
        raise PluginError(f"{page.file.src_uri}: expected nothing that is loaded from elsewhere, got {loaded[0]}")
    return output


def _path(key: str) -> str:
    return f"{'checks' if key.startswith('SV-') else 'faults'}/{key}.md"


def _page(text: str, more: str) -> str:
    title, *lines = text.strip().splitlines()
    return f"# {_plain(' '.join(title.split()))}\n\n{_body(lines)}\n---\n\n{more}\n"


def _section(name: str, text: str) -> str:
    title, *lines = text.strip().splitlines()
    return f"## {name}\n\n{_body([title.partition(': ')[2], '', *lines])}"


def _body(lines: Iterable[str]) -> str:
    """Make a paragraph of every line with a label ("Law:  ..."), and of lines that stand together."""
    labelled = (re.match(r"([A-Z]\w+|first [pq]): +(.*)", line) or line for line in lines)
    found = (line if isinstance(line, str) else f"\n**{line[1]}:** {_plain(line[2])}" for line in labelled)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(found).strip("\n")) + "\n"


def _plain(text: str) -> str:
    return re.sub(r"[\\`*_\[\]]", r"\\\g<0>", text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;"))


def _on_the_command_line(key: str) -> str:
    said = f"`specverify explain {key}` prints this page"
    if key in CHECKS:
        alone = "" if key.startswith("SV-ALL") else f", and `specverify check TARGET --only {key}` runs the check alone"
        return f"{said}{alone}."
    fault = FAULTS[key]
    if not fault.runnable:
        return f"{said}. It cannot be run: {fault.not_run}."
    return f"{said}, and `specverify check fault:{key}` runs a sampler that has the fault."


def _checks_of(codes: Iterable[str]) -> str:
    rows = ((c.id, c.title, c.claim, c.scope) for c in CHECKS.values() if c.id.split("-")[1] in codes)
    return _table(("id", "title", "what must hold", "scope"), rows)


def _faults_of(level: str) -> str:
    rows = ((f.id, f.name, f"it {f.claim}", _shows(f)) for f in FAULTS.values() if f.level == level)
    return _table(("id", "name", "mechanism", "shows in"), rows)


def _shows(fault: Fault | LoopFault) -> str:
    return "the law" if fault.shows == "law" else fault.shows


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (f"| {' | '.join(map(_plain, row))} |" for row in rows)
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines]) + "\n"


def _index(kind: str, tables: Mapping[str, str]) -> str:
    sections = (f"## {title}\n\n{table}" for title, table in tables.items())
    return "\n".join([f"# {kind.capitalize()}\n\n{_BYLINES[kind]}\n", *sections])
