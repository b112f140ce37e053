"""A pytest run leaves the report of every sampler in the forms that were asked for, each where it was asked for."""

from pathlib import Path

import pytest
from plugin_projects import CORRECT, TESTS, WRONG_RESIDUAL, project, run

from specverify.registry import load
from specverify.reports import FORMS, Report
from specverify.sharing import SharedCheck, SharedRun

OPTIONS = [f"--specverify-{form}=kept" for form in FORMS]


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_every_form_of_a_report_is_written(workers: tuple[str, ...], tmp_path: Path) -> None:
    """One folder takes all forms; each holds what the document says, with workers too, and nothing half written."""
    session = run(project(tmp_path, WRONG_RESIDUAL), *OPTIONS, *workers)
    assert session.status == 1, session.text
    kept = tmp_path / "kept"
    assert {file.name for file in kept.iterdir()} == {"mine.json", "mine.html", "mine.md", "mine.xml"}
    document = Report.read(kept / "mine.json").document
    assert document["verdict"] == "nonconformant"
    for form in FORMS.values():
        assert kept.joinpath(f"mine{form.suffix}").read_text(encoding="utf-8") == form.write(document)


def test_reports_go_where_the_run_began(tmp_path: Path) -> None:
    """A folder is that of the working directory at the start, wherever a test goes."""
    moving = "import os\n\ndef test_moving(tmp_path): os.chdir(tmp_path)\n"
    project(tmp_path, CORRECT)
    tmp_path.joinpath("test_mine.py").write_text(moving + TESTS.format(options="samples=20"), encoding="utf-8")
    session = run(tmp_path, "--specverify-html=pages", "-k", "moving or SV-STR-001")
    assert session.status == 0, session.text
    assert [file.name for file in tmp_path.joinpath("pages").iterdir()] == ["mine.html"]


def test_every_sampler_has_a_file_of_its_own(tmp_path: Path) -> None:
    """A target that is a path becomes the name of a file in the folder, not a path below it."""
    shared = SharedRun(
        "a/b.py:c", "a/b.py:c", load("reference"), {"samples": 1, "only": ("SV-TOK-001",)}, {"json": tmp_path}
    )
    assert shared.problem is None
    shared.write()
    assert [file.name for file in tmp_path.iterdir()] == [shared.file_stem + ".json"] == ["a_b.py_c.json"]


def test_a_long_name_is_that_of_a_file() -> None:
    """It is cut to what file systems take, in bytes, and what is cut off still tells files apart."""

    def file_stem(label: str) -> str:
        return SharedRun(label, label, load("reference"), {}, {}).file_stem

    found = [file_stem(letter * 300 + end) for letter in "aé" for end in "12"]
    assert len(set(found)) == len(found)
    assert all(len(name.encode()) < 225 for name in found)
    assert file_stem("a" * 200) == "a" * 200


@pytest.mark.parametrize("form", FORMS)
def test_a_report_that_cannot_be_written_fails_one_test(form: str, tmp_path: Path) -> None:
    """What was found is kept: the first test says why there is no file, and those after it end as their checks did."""
    made = []

    def factory() -> object:
        made.append(1)
        return load("reference")

    shared = SharedRun("mine", "mine", factory, {"samples": 50, "only": ("SV-TOK-001", "SV-STR-001")}, {form: tmp_path})
    name = f"mine{FORMS[form].suffix}"
    (tmp_path / name).mkdir()
    with pytest.raises(pytest.fail.Exception, match=rf"^specverify: cannot write the report to '.*{name}': .*$"):
        SharedCheck("SV-TOK-001", shared)(factory)
    SharedCheck("SV-TOK-001", shared)(factory)
    SharedCheck("SV-STR-001", shared)(factory)
    assert (made, [file.name for file in tmp_path.iterdir()]) == ([1], [name])
