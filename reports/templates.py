"""Every page is made by one engine with one set of rules: foreign text is escaped, a missing name is an error."""

from collections.abc import Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["template"]


def template(file: str, filters: Mapping[str, Callable[..., Any]]) -> "Template":
    """Load a template when a page is wanted: its engine is no part of the other forms.

    Args:
        file: name of the template beside this module.
        filters: what the template may apply to a value, by name.

    Returns:
        the template, ready to be rendered.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= filters
    return environment.from_string(resources.files(__package__).joinpath(file).read_text(encoding="utf-8"))
