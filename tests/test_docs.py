"""What README and the pages under docs/ say is true: links lead somewhere, examples run, numbers are the kit's."""

import contextlib
import doctest
import html
import io
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cmarkgfm
import pytest

import specverify
from specverify.checks import CATALOGUE as CHECKS
from specverify.cli import main
from specverify.config import OPTIONS
from specverify.faults import KNOWN_FAULTS as FAULTS
from specverify.listing import explanations, listings
from specverify.loop_menu import loop_menu
from specverify.menu import menu
from specverify.registry import load

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HOOKS = runpy.run_path(str(DOCS / "generate.py"))
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW_BY_ROW = [
    check for check in CHECKS if not check.startswith(("SV-IND", "SV-ALL"))
]  # those of large batches are slow
FOREIGN = {"--pyargs", "--dist", "--junitxml", "--no-deps"}  # options of pytest, its plugins, and pip


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Give the generated pages."""
    found: dict[str, str] = HOOKS["pages"]()
    return found


def blocks(page: str, language: str) -> list[str]:
    """List the code of one language in a page of docs/."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [code for name, code in FENCE.findall(text) if name == language]


def prose(text: str) -> str:
    """Leave the code out of a page."""
    return re.sub(r"`[^`]*`", "", FENCE.sub("", text))


def words(markdown: str) -> str:
    """Render a page and give its words, as a reader sees them."""
    rendered = cmarkgfm.github_flavored_markdown_to_html(markdown)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", rendered)).split())


def anchors(markdown: str) -> set[str]:
    """Give the anchors of a page, as GitHub and MkDocs both make them."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", markdown), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of the checkout, and an anchor is one of its headings."""
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text)):
        path, _, anchor = target.partition("#")
        if not target.startswith("https://"):
            file = page.parent / path if path else page
            assert file.is_file(), target
            assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), target


def test_every_page_is_in_the_navigation(pages: dict[str, str]) -> None:
    """Each page under docs/, and each index of a catalogue, is named in mkdocs.yml once; none that is missing is."""
    named = re.findall(
        r"^ +- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    indexes = [path for path in pages if not re.match(r"(checks|faults)/(?!index)", path)]
    assert sorted(named) == sorted([*(file.name for file in DOCS.glob("*.md")), *indexes])


def test_every_check_and_fault_has_a_page_that_says_what_explain_says(pages: dict[str, str]) -> None:
    """The page of an id, rendered, is the text of ``specverify explain`` word for word, before its closing line."""
    texts = explanations()
    for kind, catalogue in (("checks", CHECKS), ("faults", FAULTS)):
        assert {path for path in pages if path.startswith(f"{kind}/SV") or re.match(rf"{kind}/[CGKLMQ]", path)} == {
            f"{kind}/{key}.md" for key in catalogue
        }
        for key in catalogue:
            body, _, closing = pages[f"{kind}/{key}.md"].rpartition("\n---\n")
            assert words(body) == " ".join(texts[key]().split()), key
            assert f"specverify explain {key}" in closing


@pytest.mark.parametrize("kind", ["rules", "cases"])
def test_rules_and_cases_are_explained_on_one_page(kind: str, pages: dict[str, str]) -> None:
    """Each has a heading, and below it the words of its explanation."""
    texts, page = explanations(), words(pages[f"{kind}.md"])
    for name in listings()[kind]():
        said = " ".join(texts[name]().partition(": ")[2].split())
        assert f"{name} {said}" in page, name


def test_indexes_list_every_id_once(pages: dict[str, str]) -> None:
    """No check lacks an area, no fault a family, and none is in two."""
    for kind, catalogue in (("checks", CHECKS), ("faults", FAULTS)):
        ids = [key for key in re.findall(r"^\| (\S+) \|", pages[f"{kind}/index.md"], re.MULTILINE) if key != "id"]
        assert sorted(ids) == sorted(catalogue)


def test_ids_issues_and_papers_are_linked() -> None:
    """Text is linked relative to its page; code, headings, links and the page itself are left alone."""
    paths = ["checks/SV-RES-001.md", "faults/K13.md", "faults/K02.md"]
    text = "# K02\nSV-RES-001, K02 and K13, not K99 or `K13` or [K13](x.md): vllm-project/vllm#47386, arXiv 2211.17192"
    assert HOOKS["linked"](text, "faults/K02.md", paths) == (
        "# K02\n[SV-RES-001](../checks/SV-RES-001.md), K02 and [K13](K13.md), not K99 or `K13` or [K13](x.md): "
        "[vllm-project/vllm#47386](https://github.com/vllm-project/vllm/issues/47386), "
        "[arXiv 2211.17192](https://arxiv.org/abs/2211.17192)"
    )
    assert HOOKS["linked"]("```\nK02\n```\nK02", "index.md", paths) == "```\nK02\n```\n[K02](faults/K02.md)"


def test_a_page_that_loads_from_elsewhere_is_found() -> None:
    """Scripts, styles and pictures of other hosts are found; links to read, and files of the site, are not."""
    fine = (
        '<a href="https://arxiv.org">x</a><link rel="canonical" href="https://site"><script src="../js/a.js"></script>'
    )
    for tag in ('<script async src="https://cdn/x.js">', '<link href="//fonts/x.css" rel="stylesheet">'):
        assert HOOKS["loaded_from_elsewhere"](fine + tag) == [tag]
    assert HOOKS["loaded_from_elsewhere"](fine) == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: path.name)
def test_ids_that_pages_name_exist(page: Path) -> None:
    """No page names a check or a fault that is not in the catalogues."""
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"SV-[A-Z]{3}-\d{3}", text)) <= set(CHECKS)
    assert set(re.findall(r"(?<![\w-])[CGKLMQ]\d\d[a-f]?(?!\w)", text)) <= set(FAULTS)


def test_every_setting_is_in_the_table(pytestconfig: pytest.Config) -> None:
    """The table of settings has each key that a file may set, and each option of the plugin, once."""
    rows = re.findall(
        r"^\| (?:`(\w+)`)? ?\| `(--specverify-[a-z-]+)` \|", (DOCS / "ci.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(key for key, _ in rows if key) == sorted([*OPTIONS, "samplers", "known_failures"])
    assert sorted(option for _, option in rows) == sorted(_options_of_the_plugin(pytestconfig))


def test_options_that_pages_name_exist(pytestconfig: pytest.Config) -> None:
    """Every option in the pages, and in the README, is one of the command line, of the plugin, or of pytest."""
    known = FOREIGN | _options_of_the_plugin(pytestconfig) | set(_options_of_the_command_line())
    for page in [ROOT / "README.md", *DOCS.glob("*.md")]:
        named = re.findall(r"(?<![\w-])--[a-z][\w-]*\w", page.read_text(encoding="utf-8"))
        assert set(named) <= known | {"--specverify"}, page.name


def _options_of_the_plugin(config: pytest.Config) -> set[str]:
    return {f"--{name.replace('_', '-')}" for name in vars(config.option) if name.startswith("specverify_")}


def _options_of_the_command_line() -> Iterator[str]:
    for command in ("check", "report", "compare", "list", "explain", "power"):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), pytest.raises(SystemExit):
            main([command, "--help"])
        yield from re.findall(r"--[a-z-]+", said.getvalue())


EXAMPLES = [
    tuple(re.findall(r"^\$ specverify check (\S+\.py):(\w+)\n\2: ([A-Z]+)", console, re.MULTILINE))
    for console in blocks("writing-a-verifier.md", "console")
]
RUNS = [run for runs in EXAMPLES for run in runs]


def test_every_example_is_run_and_every_run_has_an_example() -> None:
    """Each block of Python in the page is a file that a command after it checks, and no command names another."""
    files = re.findall(r"^# (\S+\.py)\n", "\n".join(blocks("writing-a-verifier.md", "python")), re.MULTILINE)
    assert len(files) == len(blocks("writing-a-verifier.md", "python")) == len(EXAMPLES)
    assert sorted(files) == sorted({file for file, _, _ in RUNS})
    assert len(RUNS) >= 7


@pytest.mark.parametrize(("file", "name", "verdict"), RUNS)
def test_examples_get_the_verdict_that_the_page_states(file: str, name: str, verdict: str, tmp_path: Path) -> None:
    """A file of the page, run with few rows, is called what stands below it, and the wrong one is named."""
    code = next(code for code in blocks("writing-a-verifier.md", "python") if code.startswith(f"# {file}\n"))
    if "import torch" in code:
        pytest.importorskip("torch")
    (tmp_path / file).write_text(code, encoding="utf-8")
    sampler = load(f"{tmp_path / file}:{name}")
    only = () if sampler.max_batch else ROW_BY_ROW
    report = specverify.check(sampler, samples=300, target_tv=0.9, alpha=1e-10, only=only)
    assert report.verdict.upper() == verdict, str(report)
    assert verdict == "CONFORMANT" or report.diagnosis[0]["fault"] == "Q04a"


LOOP = [case for case in loop_menu() if case.name == "loop"]
OF_ROUNDS = ["SV-PRP-001", "SV-RND-001", "SV-RND-002"]
LOOP_RUNS = re.findall(
    r"^\$ specverify check (\S+\.py):(\w+).*\n\2: ([A-Z]+)", "\n".join(blocks("generators.md", "console")), re.MULTILINE
)


def check_loop(path: Path, name: str) -> specverify.Report:
    """Check a generate loop on the first case, by its structure, its joint law, and its rounds."""
    only = ["SV-STR-001", "SV-JNT-001", *OF_ROUNDS]
    options: dict[str, Any] = {"samples": 1000, "target_tv": 0.9, "alpha": 1e-10, "stop_early": False}
    return specverify.check(load(f"{path}:{name}"), cases=LOOP, only=only, **options)


@pytest.mark.parametrize(("file", "name", "verdict"), LOOP_RUNS)
def test_loops_get_the_verdict_that_their_page_states(file: str, name: str, verdict: str, tmp_path: Path) -> None:
    """A loop of the page or of examples/, run with few rows, gets the verdict stated, and the wrong one is named."""
    path = ROOT / file
    if not path.is_file():
        (code,) = blocks("generators.md", "python")
        path = tmp_path / file
        path.write_text(code, encoding="utf-8")
    report = check_loop(path, name)
    assert report.verdict.upper() == verdict, str(report)
    assert verdict == "CONFORMANT" or report.diagnosis[0]["fault"] == "G03"


def test_the_loops_of_the_examples_differ_by_one_line() -> None:
    """The broken loop is the correct one without its rollback, and both are on the page."""
    correct, broken = (
        (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8").partition("import numpy")[2].splitlines()
        for name in ("my_loop", "broken_loop")
    )
    (missing,) = [line for line in correct if line not in broken]
    assert missing.strip().startswith("del cache[start + kept :]")
    assert [line for line in correct if line != missing] == broken
    assert {"examples/my_loop.py", "examples/broken_loop.py", "with_rounds.py"} == {file for file, _, _ in LOOP_RUNS}


@pytest.mark.parametrize(
    ("edits", "fails"),
    [
        ({"p=q[-1]))": "p=q[-1] ** 4 / sum(q[-1] ** 4)))"}, {"SV-PRP-001"}),
        (
            {
                "rounds = [], []": "rounds, rejected = [], [], []",
                "[*prompt[0], *text]": "[*prompt[0], *text, *rejected]",
                "        text +=": "        rejected += drafts[kept:]\n        text +=",
            },
            {"SV-RND-001", "SV-RND-002"},
        ),
        ({"weights = p[kept] if": "weights = p[kept - 1] if"}, {"SV-RND-002"}),
    ],
    ids=["drafts", "context", "bonus"],
)
def test_rounds_say_where_a_loop_goes_wrong(edits: dict[str, str], fails: set[str], tmp_path: Path) -> None:
    """What the page says that a wrong draft, a wrong context and a wrong bonus fail, the loop with that fault fails."""
    (code,) = blocks("generators.md", "python")
    for old, new in edits.items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    (tmp_path / "faulty.py").write_text(code, encoding="utf-8")
    statuses = {check["id"]: check["status"] for check in check_loop(tmp_path / "faulty.py", "with_rounds").checks}
    assert {check for check in OF_ROUNDS if statuses[check] == "failed"} == fails
    assert statuses["SV-JNT-001"] == "failed"


def test_numbers_of_the_statistics_page_are_the_kits() -> None:
    """Its examples print what stands there, and its text has no number with a decimal point that they lack."""
    code = "\n".join(blocks("statistics.md", "python"))
    test = doctest.DocTestParser().get_doctest(code, {}, "statistics.md", None, 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
    text = prose((DOCS / "statistics.md").read_text(encoding="utf-8"))
    numbers = set(re.findall(r"(?<![\w.])\d*\.\d+", text))
    assert numbers
    assert numbers <= set(re.findall(r"(?<![\w.])\d*\.\d+", code))


def patterns() -> Iterator[tuple[str, set[str], set[str]]]:
    """Read the table of patterns: each fault with the checks that fail and those that pass."""
    for line in (DOCS / "triage.md").read_text(encoding="utf-8").splitlines():
        cells = line.split("|")[1:-1]
        if len(cells) == 4 and "SV-" in cells[1]:
            fails, passes = (set(re.findall(r"SV-[A-Z]{3}-\d{3}", cell)) for cell in cells[1:3])
            yield from ((fault, fails, passes) for fault in re.findall(r"[KMQ]\d\d[a-e]?", cells[3]))


@pytest.mark.parametrize(("fault", "fails", "passes"), list(patterns()))
def test_faults_show_the_patterns_of_the_triage_page(fault: str, fails: set[str], passes: set[str]) -> None:
    """The sampler of a fault fails the checks that its row of the table names, and passes the others there."""
    cases = [case for case in menu() if case.name in ("AB4", "T3", "W402")]
    report = specverify.check(
        load(f"fault:{fault}"), cases=cases, samples=20_000, target_tv=0.9, alpha=1e-10, stop_early=False
    )
    statuses = {check["id"]: check["status"] for check in report.checks}
    assert {statuses[check] for check in fails} == {"failed"}
    assert {statuses[check] for check in passes} <= {"passed"}


def test_the_example_of_the_property_page_holds() -> None:
    """The property test that the page shows passes as it stands."""
    (code,) = blocks("property-testing.md", "python")
    found: dict[str, object] = {}
    exec(code, found)
    test = found["test_the_residual_is_a_law"]
    assert callable(test)
    test()
