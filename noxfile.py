"""The project's own machinery: every session says what it does, and takes what it installs from pyproject.toml.

Bare ``nox`` runs what has to pass before a change goes in: lint, types, tests, wheel.
"""

import shutil
from pathlib import Path
from typing import Final

import nox

nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["lint", "types", "tests", "wheel"]

_ROOT: Final = Path(__file__).parent
_PROJECT: Final = nox.project.load_toml(_ROOT / "pyproject.toml")
_PINNED: Final = ("-c", "constraints.txt")
_ENGINES: Final = ("mlx", "mlx_lm", "llama_cpp", "gguf", "sglang", "lmdeploy")  # that adapters call
_EXTRAS: Final = ("torch", "transformers", "numba", "triton", *_ENGINES)
_TYPED_APART: Final = ("noxfile.py", "docs/generate.py", "tests", "benchmarks")

_IMPORT_ALL: Final = """
import importlib, pkgutil, sys, specverify
names = ["specverify", *(found.name for found in pkgutil.walk_packages(specverify.__path__, "specverify."))]
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in sys.argv[1:]:
            raise
        print(f"{name} needs {error.name}, which is an extra")
print(f"imported {len(names)} modules from {specverify.__path__[0]}")
"""


def _group(name: str) -> list[str]:
    return list(nox.project.dependency_groups(_PROJECT, name))


@nox.session
def demo(session: nox.Session) -> None:
    """Check a correct sampler and a wrong one, and leave an HTML report; needs no torch."""
    session.install("-q", "-e", ".[plots]")
    session.run("specverify", "check", "reference")
    print(flush=True)
    files = ("--json", "demo-report.json", "--html", "demo-report.html")
    session.run("specverify", "check", "naive-redraw", *files, success_codes=[1])
    print("\nDemo finished: reference is conformant, naive-redraw was caught. Open demo-report.html for its report.")


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests, torch and the examples of the docstrings included; or pytest with the arguments given."""
    session.install("-q", *_PINNED, "-e", ".[transformers,fast]", *_group("test"), *_group("kernels"))
    session.run("pytest", *(session.posargs or ("-n", "2", "--dist", "worksteal")))


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    session.install("-q", *_group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types, strictly: the packages, then the files around them."""
    session.install("-q", "-e", ".", *_group("types"))
    session.run("mypy")
    session.run("mypy", *_TYPED_APART)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheel, install it away from the checkout, import every module, run a short check and its suite."""
    shutil.rmtree(_ROOT / "build", ignore_errors=True)  # what an older build left there would be packed again
    empty = Path(session.create_tmp())
    shutil.rmtree(empty)
    empty.mkdir()
    session.run("pip", "wheel", "-q", "--no-deps", "-w", str(empty / "dist"), ".")
    session.install("-q", "--force-reinstall", *map(str, (empty / "dist").glob("specverify-*.whl")))
    (empty / "away").mkdir()
    session.chdir(empty / "away")
    session.run("python", "-c", _IMPORT_ALL, *_EXTRAS)
    session.run("specverify", "--version")
    files = ("--json", "report.json", "--html", "report.html")
    session.run("specverify", "check", "reference", "--samples", "2000", "--target-tv", "0.5", *files)
    session.run("specverify", "compare", "report.json", "--html", "comparison.html")
    samplers = ("--specverify-sampler=reference", "--specverify-sampler=reference-block")
    few = ("--specverify-samples=2000", "--specverify-target-tv=0.5", "--specverify-alpha=1e-10")
    session.run("pytest", "--pyargs", "specverify.properties", *samplers, *few)


@nox.session
def browser(session: nox.Session) -> None:
    """Look at the HTML report in the system's Chromium (apt-get install chromium); without one the tests skip."""
    session.install("-q", *_PINNED, "-e", ".", *_group("browser"))
    session.run("pytest", "tests/test_report_browser.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Write docs/performance.md, and print the engine's own cost (some minutes); with arguments, pytest."""
    session.install("-q", *_PINNED, "-e", ".[transformers,fast]", *_group("bench"))
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": "benchmarks"}
    if session.posargs:
        session.run("pytest", "benchmarks", *session.posargs, env=alone)
    else:
        session.run("python", "benchmarks/table.py", env=alone)
        session.run("python", "benchmarks/engine.py", env=alone)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into site/; a link, an anchor or a page that leads nowhere fails it."""
    session.install("-q", *_PINNED, "-e", ".", *_group("docs"))
    session.run("mkdocs", "build", "--strict", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure which lines and branches the tests reach."""
    session.install("-q", *_PINNED, "-e", ".[transformers,fast]", *_group("test"), *_group("kernels"))
    session.run("coverage", "run", "-m", "pytest", *session.posargs)
    session.run("coverage", "report", "--show-missing", "--skip-covered")


@nox.session
def seeds(session: nox.Session) -> None:
    """Run what is random in the shipped suite, with few rows, under 100 seeds or those given (twenty minutes)."""
    session.install("-q", "-e", ".", *_group("test"))
    suite = ("-q", "properties", "-k", "random_pairs or conformance")
    few = ("--specverify-samples=4000", "--specverify-target-tv=0.9")
    for seed in session.posargs or map(str, range(100)):
        session.run("pytest", *suite, *few, f"--specverify-seed={seed}")


@nox.session
def calibration(session: nox.Session) -> None:
    """Measure error rates of whole suites: 2,000 small ones, 20 quick ones a control and a fault (hours)."""
    session.install("-q", "-e", ".")
    session.run("python", "tests/calibration.py", *session.posargs, env={"OPENBLAS_NUM_THREADS": "1"})


@nox.session
def agreement(session: nox.Session) -> None:
    """Compare all back ends on the CPU, row by row, on ten million rows and more (half an hour)."""
    session.install("-q", *_PINNED, "-e", ".[torch,fast]")
    session.run("python", "tests/agreement.py", *session.posargs, env={"OPENBLAS_NUM_THREADS": "1"})


@nox.session
def detection(session: nox.Session) -> None:
    """Measure how many samples each known fault needs, against the information bound (half an hour)."""
    session.install("-q", "-e", ".")
    session.run("python", "tests/detection.py", *session.posargs, env={"OPENBLAS_NUM_THREADS": "1"})


@nox.session
def power(session: nox.Session) -> None:
    """Measure the power of checks and suites against what is promised, and write docs/power.md (minutes)."""
    session.install("-q", "-e", ".")
    session.run("python", "tests/powers.py", *session.posargs, env={"OPENBLAS_NUM_THREADS": "1"})


@nox.session
def loop_matrix(session: nox.Session) -> None:
    """Measure which faults of generate loops are found, and write docs/loop-matrix.md (an hour)."""
    session.install("-q", "-e", ".")
    session.run("python", "tests/loop_matrix.py", *session.posargs, env={"OPENBLAS_NUM_THREADS": "1"})


@nox.session
def matrix(session: nox.Session) -> None:
    """Measure which checks find which fault, and write docs/detection-matrix.md (an hour)."""
    session.install("-q", "-e", ".")
    session.run("python", "tests/matrix.py", *session.posargs, env={"OPENBLAS_NUM_THREADS": "1"})
