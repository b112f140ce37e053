"""The report of a run: one versioned document, and the views of it that people read."""

from . import pictures, speed
from .document import SCHEMA_VERSION, Report
from .html import html
from .terminal import render, wants_color
from .text import entries, hanging, scientific, table

__all__ = [
    "SCHEMA_VERSION",
    "Report",
    "entries",
    "hanging",
    "html",
    "pictures",
    "render",
    "scientific",
    "speed",
    "table",
    "wants_color",
]
