"""Pictures become inline SVG by matplotlib, a library that people know and that is maintained for the long run.

So no plotting code of its own has to be kept. matplotlib is the extra ``plots``: where it is missing, a page shows
tables. The same picture gives the same bytes. Text stays text, colours are the page's own, and pyplot is not imported.
"""

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from .pictures import Picture

__all__ = ["draw"]

_COLORS: Final = {"#010101": "ink", "#020202": "muted", "#030303": "line", "#040404": "exact", "#050505": "seen"}
_INK, _MUTED, _LINE, _EXACT, _SEEN = _COLORS
_WIDTH: Final = 4.4  # inches; the page scales it
_LABEL: Final = 26  # letters in a line of a label
_LABEL_LINES: Final = 3
_LARGE: Final = 1000
_STEEP: Final = 20  # times the threshold beyond which a linear axis would hide it
_STYLE: Final = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9.5,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "xtick.color": _LINE,
    "xtick.labelcolor": _INK,
    "ytick.color": _LINE,
    "ytick.labelcolor": _INK,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
}


def draw(picture: Picture) -> str | None:
    """Draw a picture.

    Args:
        picture: what to draw.

    Returns:
        an ``svg`` element for a page that defines the colours ``--ink``, ``--muted``, ``--line``, ``--exact`` and
        ``--seen``, and has elements with the ids ``KEY-title`` and ``KEY-about`` that name it; None without matplotlib.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        return None
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # it only measures text; the page's own font shows it
        matplotlib.rcdefaults()  # whatever the user has set is for the user's own figures
        matplotlib.rcParams.update(_STYLE | {"svg.hashsalt": picture.key})
        figure = Figure(figsize=(_WIDTH, 2.8), layout="constrained", facecolor="none")
        axes = figure.add_subplot(facecolor="none")
        _KINDS[picture.kind](axes, picture)
        figure.legend(loc="outside upper left", ncols=2, borderpad=0, handletextpad=0.5)
        FigureCanvasSVG(figure).print_svg(text := io.StringIO(), metadata={"Date": None})
    return _inlined(text.getvalue(), picture.key)


def _shares(axes: Any, picture: Picture) -> None:
    """Draw a line for each cell: a bar across it where the exact share is, a dot with its interval for the observed."""
    places = range(len(picture.rows))
    exact, seen = ([values[i] for _, values in picture.rows] for i in (0, 1))
    lows, highs = ([(values[2:] or values[1:] * 2)[i] for _, values in picture.rows] for i in (0, 1))
    axes.hlines(places, lows, highs, color=_SEEN, linewidth=2)
    axes.plot(seen, places, "o", color=_SEEN, markersize=5, label="observed")
    axes.plot(exact, places, "|", color=_EXACT, markersize=13, markeredgewidth=2.5, label=picture.columns[0])
    labels = [_label(label) for label, _ in picture.rows]
    lines = 1 + max(label.count("\n") for label in labels)
    axes.set_yticks(places, labels)
    axes.figure.set_figheight(0.95 + max(len(labels), 2) * (0.12 + 0.15 * lines))
    axes.set_ylim(len(picture.rows) - 0.5, -0.5)
    axes.set_xlim(0, 1.06 * max(*exact, *highs, 1e-12))
    if axes.get_xlim()[1] > _LARGE:
        _count_rows(axes.xaxis)
    axes.set_xlabel(picture.axis)


def _label(text: str) -> str:
    """Break a label into a few short lines; the table beside the drawing has all of it."""
    lines = textwrap.wrap(text, _LABEL) or [""]
    return "\n".join(lines[:_LABEL_LINES]) + ("…" if len(lines) > _LABEL_LINES else "")


def _ratios(axes: Any, picture: Picture) -> None:
    """Draw a dot with its interval for each cell over p/q, and the line at 1 about which a correct sampler scatters."""
    x, seen, lows, highs = zip(*(values for _, values in picture.rows), strict=True)
    axes.axhline(1, color=_EXACT, linewidth=2, label="exact")
    axes.vlines(x, lows, highs, color=_SEEN, linewidth=2)
    axes.plot(x, seen, "o", color=_SEEN, markersize=5, label="observed")
    axes.set_xscale("log")
    axes.set_xlim(min(*x, 1) / 1.3, max(*x, 1) * 1.3)
    axes.xaxis.set_major_locator(_round_steps())
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("p/q of the cell")
    axes.set_ylabel(picture.axis)


def _looks(axes: Any, picture: Picture) -> None:
    """Draw the evidence at every look, and the threshold."""
    rows, values = zip(*(values for _, values in picture.rows), strict=True)
    axes.axhline(picture.threshold, color=_EXACT, linewidth=2, label="threshold: proves a fault")
    axes.plot(rows, values, "-o", color=_SEEN, markersize=4, label="evidence")
    axes.set_xlim(0, 1.04 * max(rows))
    if max(values) > _STEEP * picture.threshold:
        axes.set_yscale("symlog", linthresh=10)
        axes.set_ylim(1.5 * min(*values, -1), 5 * max(values))
    axes.yaxis.set_major_formatter("{x:,.4g}" if max(values) < 1e4 else "{x:,.0f}")
    _count_rows(axes.xaxis)
    axes.set_xlabel("rows verified")
    axes.set_ylabel(picture.axis)


def _count_rows(axis: Any) -> None:
    """Mark large numbers at a few places, with their thousands apart."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(4))
    axis.set_major_formatter(_thousands)


def _round_steps() -> Any:
    from matplotlib.ticker import LogLocator

    return LogLocator(subs=(1, 2, 5))


def _thousands(value: float, _: int) -> str:
    return f"{value / 1e6:g} M" if value >= 1e6 else f"{value:,.0f}"


_KINDS: Final[Mapping[str, Callable[[Any, Picture], None]]] = {"shares": _shares, "ratios": _ratios, "looks": _looks}


def _inlined(text: str, key: str) -> str:
    """Make a whole SVG document an element of a page: no metadata, no style of its own, no id that nothing uses."""
    box = re.search(r'viewBox="([^"]*)"', text)
    assert box is not None
    body = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", body)
    body = re.sub(r' style="[^"]*"', _of_page, body.replace("xlink:href", "href"))
    body = re.sub(r">\s+<", ">\n<", body).strip()
    return f'<svg viewBox="{box[1]}" role="img" aria-labelledby="{key}-title {key}-about">\n{body}\n</svg>'


def _of_page(style: re.Match[str]) -> str:
    """Leave the font to the page, and take its colours."""
    text = re.sub(r" font-family: [^;]*;", "", style[0])
    for color, name in _COLORS.items():
        text = text.replace(color, f"var(--{name})")
    return text
