"""The pytest plugin: loaded in every pytest run of an environment, so it brings nothing along until it is used.

It is used when one of its options is given, when a test was made by ``specverify.parametrize_with_checks``, or when one
asks for the fixture ``specverify_sampler``. What it then does is in ``specverify.conformance``.
"""

import pytest

__all__: list[str] = []

TYPE_CHECKING = False  # what typing.TYPE_CHECKING is, without the cost of importing typing
if TYPE_CHECKING:
    from specverify.contract import Verifier
    from specverify.options import Options
    from specverify.sharing import SharedCheck

_FOUND = {f"specverify_{name}" for name in ("sampler", "check", "status", "verdict", "coverage")}
"""Properties that every report of a check has, all of them texts."""


_ONE_EACH = "a file for each sampler there"
_OPTIONS: dict[str, dict[str, object]] = {
    "sampler": {"action": "append", "metavar": "TARGET", "help": "sampler to check; may be given several times"},
    "profile": {"metavar": "NAME", "help": "how many samples: quick, ci or release (quick)"},
    "seed": {"type": int, "metavar": "N", "help": "root of all randomness: same seed, same counts (0)"},
    "alpha": {
        "type": float,
        "metavar": "A",
        "help": "most that false alarms may be per sampler, and once more for random pairs (1e-6)",
    },
    "samples": {"type": int, "metavar": "N", "help": "rows of every case, instead of those of the profile"},
    "target_tv": {
        "type": float,
        "metavar": "TV",
        "help": "detectable total variation needed (the profile's)",
    },
    "timeout": {"type": float, "metavar": "S", "help": "fail a call that hangs so long or ends its process"},
    "workers": {"type": int, "metavar": "N", "help": "processes that share the work of each run (1)"},
    "known_failures": {
        "metavar": "FILE",
        "help": "TOML of tolerated failures: reasons by check, or a table of them by sampler",
    },
    "json": {"metavar": "FOLDER", "help": f"write the report document, {_ONE_EACH}"},
    "html": {"metavar": "FOLDER", "help": f"write the report as HTML, {_ONE_EACH}"},
    "markdown": {"metavar": "FOLDER", "help": f"write the report as Markdown, {_ONE_EACH}"},
    "junit": {"metavar": "FOLDER", "help": f"write the report as JUnit XML, a case per check, {_ONE_EACH}"},
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the options, which have the names of the configuration and of the forms of a report."""
    group = parser.getgroup("specverify", "specverify: is a speculative-decoding sampler correct?")
    for name, described in _OPTIONS.items():
        group.addoption(f"--specverify-{name.replace('_', '-')}", **described)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; where options were given, find out at once whether they make sense."""
    config.addinivalue_line("markers", "specverify: checks of a sampler, made by specverify.parametrize_with_checks")
    if any(config.getoption(f"specverify_{name}") is not None for name in _OPTIONS):
        from specverify.conformance import prepare

        prepare(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per sampler, or per sampler and check, of those functions that ask for it."""
    marked = metafunc.definition.get_closest_marker("specverify") is not None
    if marked or "specverify_sampler" in metafunc.fixturenames:
        from specverify.conformance import parametrize

        parametrize(metafunc)


@pytest.hookimpl(tryfirst=True)  # before any are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse the decorator where pytest makes no tests of it: it would be passed over in silence."""
    functions = (item for item in items if isinstance(item, pytest.Function) and not hasattr(item, "callspec"))
    unmade = [item for item in functions if item.get_closest_marker("specverify") is not None]
    if unmade:
        from specverify.conformance import refuse_unmade

        refuse_unmade(config, unmade)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say of every sampler whose checks ran what the verdict is and what it rests on."""
    every = (report for reports in terminalreporter.stats.values() for report in reports)
    checks = [report for report in every if _texts(report) >= _FOUND]
    if checks:
        from specverify.summary import summary

        terminalreporter.section("specverify")
        terminalreporter.write(summary(checks))


def _texts(report: object) -> set[str]:
    """Name the properties of a report that are texts; a user's test may have any."""
    return {name for name, value in getattr(report, "user_properties", ()) if isinstance(value, str)}


@pytest.fixture(scope="session")
def specverify_sampler(request: pytest.FixtureRequest) -> "Verifier":
    """Each sampler of --specverify-sampler, else of the configuration, else the reference: loaded, as a Verifier."""
    sampler: Verifier = request.param
    return sampler


@pytest.fixture(scope="session")
def specverify_options(specverify_sampler: "Verifier", pytestconfig: pytest.Config) -> "Options":
    """What is asked for of specverify_sampler, for runs of one's own: each has a budget alpha of its own."""
    from specverify.session import Session

    return Session.of(pytestconfig).options_of(specverify_sampler)


@pytest.fixture(scope="session")
def specverify_check(request: pytest.FixtureRequest) -> "SharedCheck":
    """Each check, to be called with specverify_sampler; all of one sampler share one run."""
    check: SharedCheck = request.param
    return check
