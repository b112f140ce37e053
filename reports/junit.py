"""A dashboard that reads JUnit XML shows a check that was not decided as anything but a pass.

One suite for the report and one test case for each check, in the elements that Surefire, Jenkins, GitLab and GitHub's
report actions share. Checks are not timed one by one, since all are answered by the same samples.
"""

import re
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree

from specverify.wording import printable

from .claims import Document, claim, shown
from .phrases import cells, figures
from .statuses import COMBINED, FAILED
from .terminal import render

__all__ = ["junit"]

_NO_XML: Final = re.compile("[\ufffe\uffff]")  # of the characters that XML lacks, those that printable leaves


def junit(document: Document) -> str:
    r"""Write a report as JUnit XML.

    A failed check is a failure. One that is not applicable or a known failure is skipped with its reason, and so is one
    left open when a fault was proved; where the verdict itself is inconclusive, an open check is an error, and so is
    SV-ALL-001, so that no dashboard shows the run as passed.

    Args:
        document: a report document.

    Returns:
        the XML text, in UTF-8. Characters that XML cannot hold are escaped as ``\x1b``.

    Example:
        >>> from specverify.reports import FORMS
        >>> FORMS["junit"].write is junit
        True
    """
    text = render(document)
    document = shown(document)
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite")
    _add_properties(suite, document)
    speaker, doubt = _speaker(document), f"INCONCLUSIVE{claim(document)}"
    for check in document["checks"]:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_xml(document["sampler"]["name"]), name=_xml(check["id"]), time="0"
        )
        _add_outcome(case, check, document["verdict"], doubt if check["id"] == speaker else "")
    _add_text(suite, "system-out", text)
    _set_totals(suite, document)
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data.decode("utf-8") + "\n"


def _add_properties(suite: ElementTree.Element, document: Document) -> None:
    sampler, options = document["sampler"], document["options"]
    values = {
        "verdict": document["verdict"],
        "lossless": document["lossless"],
        "rule": document["rule"]["declared"],
        "coverage": document["coverage"],
        "detectable_tv": document["detectable_tv"]["value"],
        **{name: options[name] for name in ("alpha", "beta", "seed", "profile", "target_tv")},
        **{name: sampler[name] for name in ("framework", "device", "dtype", "version")},
        "specverify": document["tool"]["version"],
    }
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in values.items():
        text = "unknown" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        ElementTree.SubElement(properties, "property", name=name, value=_xml(text))


def _speaker(document: Document) -> str | None:
    """Name the check whose test case also says that the verdict is inconclusive, if it is."""
    if document["verdict"] != "inconclusive" or not document["checks"]:
        return None
    ids = [str(check["id"]) for check in document["checks"]]
    return COMBINED[0] if COMBINED[0] in ids else ids[-1]


def _add_outcome(case: ElementTree.Element, check: Document, verdict: str, doubt: str) -> None:
    """Say how a check ended; one that passed has nothing to say.

    Args:
        case: the test case of the check.
        check: its entry in the document.
        verdict: the verdict of the run.
        doubt: why the verdict is inconclusive, for the check that says so, else empty.
    """
    status = check["status"]
    if status in FAILED:
        said = check["message"] or check["reason"] or check["title"]
        text = "\n".join([said, *(line for line in (figures(check), *cells(check)) if line)])
        _add_trouble(
            case, "failure" if status == "failed" else "error", check["scope"], f"{check['title']}: {said}", text
        )
    elif doubt or (verdict == status == "inconclusive"):
        said = doubt or check["reason"]
        _add_trouble(case, "error", "inconclusive", said, said)
    elif status != "passed":
        reason = f"{status.replace('_', ' ')}: {check['reason']}"
        ElementTree.SubElement(case, "skipped", message=_xml(" ".join(reason.split())))


def _add_trouble(case: ElementTree.Element, element: str, kind: str, message: str, text: str) -> None:
    _add_text(case, element, text, message=_xml(" ".join(message.split())), type=kind)


def _set_totals(suite: ElementTree.Element, document: Document) -> None:
    """Count the outcomes as they were written, and say when and how long the run was."""
    for total, name in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(total, str(len(suite.findall(f"testcase/{name}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("name", _xml(f"specverify {document['sampler']['name']}"))
    suite.set("time", f"{document['timing']['total_s']:.3f}")
    created = datetime.fromisoformat(document["created"])
    local = created.astimezone(UTC) if created.tzinfo else created
    suite.set("timestamp", local.strftime("%Y-%m-%dT%H:%M:%S"))  # the schemas allow no offset


def _add_text(parent: ElementTree.Element, name: str, text: str, **attributes: str) -> None:
    ElementTree.SubElement(parent, name, attributes).text = _xml(text)


def _xml(text: str) -> str:
    return _NO_XML.sub(lambda found: ascii(found[0])[1:-1], printable(text, lines=True))
