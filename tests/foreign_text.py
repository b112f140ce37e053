"""Text as a careless or hostile sampler may put into its name, its messages and its warnings."""

import copy
from typing import Any

HARMLESS = "x"
FOREIGN = {
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)></details></table><!-- <b>",
    "markdown": "**a** _b_ ~~c~~ `d` [e](http://evil.example) ![f](http://evil.example/f.png) \\| $g$ \\",
    "table": "a | b || c\n|---|---|\n| d | e |",
    "blocks": "- a\n\n# b\n> c\n    d\n1. e\n---\n```\nf\n```\n~~~",
    "starts": "# heading",
    "list": "1. one",
    "links": "http://evil.example www.evil.example me@evil.example mailto:me@evil.example @someone #12 :tada:",
    "references": "&lt;b&gt; &#124; &amp;amp; ]]> <![CDATA[ %s {{ 7*7 }} {% raw %}",
    "quotes": "\"a\" 'b' `c` ``d`` ```e```",
    "emoji": "🎉 👩‍💻 🏳️‍🌈 e\u0301 漢字",
    "right to left": "שלום עולם مرحبا \u202eevil\u202c \u2067x",
    "controls": "\x00\x01\x1b[31mred\x1b[0m\x07\x0b\x0c\x85\r\n\u2028\ufffe\uffff",
    "endless": "a" * 10_000,
    "many lines": "line\n" * 500,
}


def filled(document: dict[str, Any], text: str) -> dict[str, Any]:
    """Copy a document of a failed run, with a text wherever text comes from a sampler, its cases or its files."""
    document = copy.deepcopy(document)
    document["sampler"].update(name=text, rule=text, framework=text, device=text, dtype=text, version=text)
    document["rule"].update(declared=text, not_rejected=[text, text])
    document["tool"]["version"] = text
    document.update(coverage=text, warnings=[text, text])
    for check in document["checks"]:
        check.update(title=text, worst_case=text, labels=[text for _ in check["labels"]])
        check["reason" if check["status"] in ("inconclusive", "not_applicable") else "message"] = text
    for candidate in document["diagnosis"]:
        candidate["message"] = text
    shown = document["counterexample"]
    shown.update(case=text, reproduce=text)
    for side in ("observed", "expected"):
        shown[side] = {text: {text: 0.5}}
    return document
