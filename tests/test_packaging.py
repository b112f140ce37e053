"""What is installed is what was meant: every sub-package, honest public names, and next to no cost on import."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

import specverify

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]


def python(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run an interpreter of its own."""
    return subprocess.run([sys.executable, *arguments], text=True, capture_output=True, check=True, timeout=60)


def test_every_sub_package_is_listed() -> None:
    """Each folder with an __init__ below the mapped ones is in pyproject, and each listed package exists."""
    found = set()
    for package, folder in SETUPTOOLS["package-dir"].items():
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add(".".join([package, *init.parent.relative_to(ROOT / folder).parts]))
    assert found == set(SETUPTOOLS["packages"])


def test_no_folder_of_modules_lacks_an_init() -> None:
    """A folder of modules that is no package would be left out of the wheel without a word."""
    for folder in SETUPTOOLS["package-dir"].values():
        for module in (ROOT / folder).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), module


def test_the_schema_and_the_pages_are_shipped() -> None:
    """Data files of the reports are named in pyproject and typed users find the marker."""
    assert {"*.json", "*.html"} <= set(SETUPTOOLS["package-data"]["specverify.reports"])
    assert (ROOT / "reports" / "compare.html").exists()
    assert (ROOT / "reports" / "report.schema.json").exists()
    assert (ROOT / "reports" / "report.html").exists()
    assert (ROOT / "specverify" / "py.typed").exists()


def test_public_names_are_sorted_and_true() -> None:
    """Every name in __all__ can be had, they are sorted, and none is missing from dir."""
    assert specverify.__all__ == sorted(specverify.__all__)
    for name in specverify.__all__:
        assert getattr(specverify, name) is not None
    assert set(specverify.__all__) <= set(dir(specverify))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The lazy module still says no."""
    assert not hasattr(specverify, "no_such_name")


def test_import_brings_nothing_along() -> None:
    """Importing the package, or asking the command line for its version, imports neither NumPy nor the engine."""
    heavy = "print(sorted({'numpy', 'scipy', 'torch', 'pytest', 'hypothesis'} & set(sys.modules)))"
    assert python("-c", f"import sys, specverify; {heavy}").stdout == "[]\n"
    version = "try:\n    main(['--version'])\nexcept SystemExit:\n    pass\n"
    assert python("-c", f"import sys\nfrom specverify.cli import main\n{version}{heavy}").stdout.endswith("\n[]\n")


def test_the_reference_imports_torch_only_for_what_needs_it() -> None:
    """Neither the import nor a star import brings torch; its kernels are listed, and an unknown name is an error."""
    code = (
        "import sys, specverify.reference as r\nfrom specverify.reference import *\n"
        "print('torch' in sys.modules, 'verify_token_torch' in dir(r), hasattr(r, 'verify_tokens'))"
    )
    assert python("-c", code).stdout == "False True False\n"


def test_the_gpu_tests_are_collected_without_torch() -> None:
    """Where torch is missing every test of theirs is there, and says that it is skipped for that."""
    run = "import sys, pytest; sys.modules['torch'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    told = python("-c", run, "-rs", "-q", "-p", "no:cacheprovider", "--pyargs", "specverify.gpu_tests").stdout
    assert re.search(r"^SKIPPED \[\d+\] .*: torch is not installed: specverify\[torch\]$", told, re.MULTILINE), told
    assert re.search(r"^\d+ skipped in", told, re.MULTILINE), told


def test_reports_are_imported_without_what_draws_them() -> None:
    """Who prints to a terminal waits neither for the templates nor for matplotlib."""
    code = "import sys, specverify.reports; print(sorted({'jinja2', 'matplotlib', 'numpy'} & set(sys.modules)))"
    assert python("-c", code).stdout == "[]\n"


def test_import_takes_less_than_ten_milliseconds() -> None:
    """The best of five imports, as the interpreter itself times it, stays under 10 ms."""
    times = []
    for _ in range(5):
        log = python("-X", "importtime", "-c", "import specverify").stderr
        found = re.search(r"\|\s*(\d+) \| specverify$", log, re.MULTILINE)
        assert found, log
        times.append(int(found[1]))
    assert min(times) < 10_000


def test_the_version_can_be_read_without_importing() -> None:
    """The version stays a literal, which the build reads."""
    text = (ROOT / "specverify" / "__init__.py").read_text(encoding="utf-8")
    assert re.search(rf'^__version__ = "{re.escape(specverify.__version__)}"$', text, re.MULTILINE)


def test_the_readme_commands_name_sessions_that_exist() -> None:
    """The two commands of the README are the ones that the noxfile answers."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "python3 -m venv .venv && .venv/bin/pip install -q nox && .venv/bin/nox -s demo\n" in readme
    assert "\npython3 -m venv .venv && .venv/bin/pip install -q nox && .venv/bin/nox\n" in readme
    assert "def demo(session: nox.Session)" in (ROOT / "noxfile.py").read_text(encoding="utf-8")


def test_the_readme_sampler_runs() -> None:
    """The sampler that the README shows is accepted by the decorator, and still is the function it was."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = readme.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    generator = np.random.default_rng(0)
    sure = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    assert names["my_verifier"](np.array([[1]]), sure[:, :1], sure, generator) == [[1, 0]]
    assert names["my_verifier"](np.array([[0]]), np.array([[[1.0, 0.0]]]), sure, generator) == [[1]]
