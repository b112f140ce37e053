"""The report of a run: one versioned document, and the views of it that people read."""

from .claims import claim_parts
from .compare import compare
from .document import SCHEMA_VERSION, Report
from .forms import FORMS, Form, save
from .html import html
from .junit import junit
from .markdown import markdown
from .phrases import law
from .terminal import render, render_check, wants_color
from .text import entries, hanging, scientific, table

__all__ = [
    "FORMS",
    "SCHEMA_VERSION",
    "Form",
    "Report",
    "claim_parts",
    "compare",
    "entries",
    "hanging",
    "html",
    "junit",
    "law",
    "markdown",
    "render",
    "render_check",
    "save",
    "scientific",
    "table",
    "wants_color",
]
