"""A browser shows the HTML report without complaint: nothing loaded, all of it readable, nothing beyond the edge.

Needs the dependency group ``browser`` and a Chromium of the system; ``nox -s browser`` runs it.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_documents import SAMPLERS, document

from specverify.reports import html

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (dependency group browser)")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next((path for path in map(shutil.which, NAMES) if path), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=f"needs one of {', '.join(NAMES)} on the PATH")

CONTRAST = """() => {
  const parse = color => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    throw new Error('no background');
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement, style = getComputedStyle(element);
    if (!node.textContent.trim() || ['STYLE', 'SCRIPT'].includes(element.tagName)) continue;
    const ink = parse(element.closest('svg') ? style.fill : style.color), page = behind(element);
    const [high, low] = [light(ink), light(page)].sort((a, b) => b - a);
    found.push([(high + .05) / (low + .05), node.textContent.trim().slice(0, 40)]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}"""
"""Contrast of every text of the page with what is behind it, by the definition of WCAG 2, smallest first."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium of the system."""
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of every sampler as a file."""
    folder = tmp_path_factory.mktemp("pages")
    found = {name: folder / f"{number}.html" for number, name in enumerate(SAMPLERS)}
    for name, path in found.items():
        path.write_text(html(document(name)), encoding="utf-8")
    return found


def opened(browser: Any, path: Path, *, width: int = 1280, scheme: str = "light") -> Any:
    """Open a file in a window of some width."""
    window = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = window.new_page()
    page.complaints, page.loaded = [], []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: page.loaded.append(request.url))
    page.goto(path.as_uri())
    return page


@pytest.mark.parametrize("name", SAMPLERS)
def test_nothing_is_loaded_and_nothing_complains(name: str, browser: Any, files: dict[str, Path]) -> None:
    """The file is the only request, and the console stays empty."""
    page = opened(browser, files[name])
    assert page.loaded == [files[name].as_uri()]
    assert page.complaints == []
    page.context.close()


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(name: str, scheme: str, browser: Any, files: dict[str, Path]) -> None:
    """Every text stands out by 4.5 to 1 or more, in pictures too; the two schemes differ."""
    page = opened(browser, files[name], scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    found = page.evaluate(CONTRAST)
    assert len(found) > 200
    assert found[0][0] >= 4.5, found[:5]
    bright = page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert bright == (scheme == "light")
    page.context.close()


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_lies_beyond_the_edge(name: str, width: int, browser: Any, files: dict[str, Path]) -> None:
    """The page does not scroll sideways, and its pictures keep their text within their frames."""
    page = opened(browser, files[name], width=width)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """() => [...document.querySelectorAll('svg text')].filter(text => {
             const [a, b] = [text.getBoundingClientRect(), text.closest('svg').getBoundingClientRect()];
             return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1;
           }).map(text => text.textContent)"""
    )
    assert outside == []
    page.context.close()


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(("width", "lines"), [(390, 9), (1280, 3)])
def test_tables_without_pictures_are_read_whole(
    name: str, width: int, lines: int, browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without matplotlib no table of a card is cut at its edge, and no label is broken into many short lines."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    file = tmp_path / "bare.html"
    file.write_text(html(document(name)), encoding="utf-8")
    page = opened(browser, file, width=width)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    cut = "[...document.querySelectorAll('article .scroll')].filter(one => one.scrollWidth > one.clientWidth).length"
    assert page.evaluate(cut) == 0
    tall = page.evaluate(
        """() => Math.max(...[...document.querySelectorAll('article tbody th')].map(
             label => label.clientHeight / parseFloat(getComputedStyle(label).lineHeight)))"""
    )
    assert 0 < tall <= lines + 0.75  # with the space above and below
    page.context.close()


def test_roles_are_what_a_screen_reader_needs(browser: Any, files: dict[str, Path]) -> None:
    """The verdict is the first heading, pictures and tables have names, numbers have headers."""
    page = opened(browser, files["naive-redraw"])
    assert page.get_by_role("heading", level=1).inner_text().startswith("naive-redraw: ")
    assert page.get_by_role("main").count() == page.get_by_role("navigation").count() == 1
    assert page.get_by_role("img", name="Evidence against the sampler").count() == 1
    table = page.get_by_role("table", name="Every check")
    assert table.get_by_role("columnheader").count() == 8
    assert table.get_by_role("rowheader").count() == len(document("naive-redraw")["checks"])
    page.context.close()


def test_the_keyboard_reaches_everything(browser: Any, files: dict[str, Path]) -> None:
    """The first stop skips to the findings and is seen; numbers unfold by the keyboard."""
    page = opened(browser, files["naive-redraw"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details").first.evaluate("one => one.open")
    page.context.close()


def test_print_shows_what_is_folded(browser: Any, files: dict[str, Path]) -> None:
    """On paper the page is light, whatever the screen is, and folded numbers are there."""
    page = opened(browser, files["naive-redraw"], scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("details table").first.evaluate("one => one.checkVisibility({contentVisibilityAuto: true})")
    assert page.evaluate(CONTRAST)[0][0] >= 4.5
    page.context.close()
