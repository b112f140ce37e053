"""A reader of HTML pages that forgives less than a browser does: what is opened is closed, and once."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "input", "hr"}
CELLS = ("td", "th", "dt", "dd")
HEADINGS = ("h1", "h2", "h3", "h4")


@dataclass(eq=False)
class Element:
    """An element with its attributes, its children, and all text in it."""

    tag: str
    attributes: dict[str, str]
    children: list["Element"] = field(default_factory=list)
    text: str = ""

    def all(self, *tags: str) -> Iterator["Element"]:
        """Walk the elements below, in the order of the page; those of some tags, or all."""
        for child in self.children:
            if not tags or child.tag in tags:
                yield child
            yield from child.all(*tags)


class Page(HTMLParser):
    """A page read strictly: a tag that is not closed, or closed twice, is an AssertionError."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("page", {})
        self._open = [self.root]
        self.feed(text)
        self.close()
        assert self._open == [self.root], f"{self._open[-1].tag} is never closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Add an element that closes itself."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Close the element that is open."""
        assert self._open[-1].tag == tag, f"{tag} closes {self._open[-1].tag}"
        self._open.pop()
        if tag in CELLS:
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        """Give the text to every element around it."""
        for element in self._open:
            element.text += data

    def ids(self) -> list[str]:
        """List the ids of the page."""
        return [element.attributes["id"] for element in self.root.all() if "id" in element.attributes]

    def with_id(self, name: str) -> Element:
        """Find an element by its id."""
        return next(element for element in self.root.all() if element.attributes.get("id") == name)
