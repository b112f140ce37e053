"""What the tests of one pytest run share: the settings, the samplers, and one run per sampler and options.

Everything is settled when tests are collected; a mistake is then an error of one line. Options of the command line come
first, then those of a decorator, the environment, the configuration, the default. Known failures of all of these hold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from specverify.config import OPTIONS, read_settings, read_toml
from specverify.contract import Verifier
from specverify.declaring import function_name
from specverify.errors import ConfigError
from specverify.folders import absolute
from specverify.generating import as_sampler
from specverify.known_failures import KnownFailure, entries_by_sampler, require_samplers
from specverify.options import Options
from specverify.registry import load
from specverify.reports import FORMS, scientific
from specverify.sharing import SharedCheck, SharedRun, is_factory
from specverify.wording import brief

__all__ = ["Sampler", "Session", "report_uncollected"]

Sampler = Callable[..., Any]

_NAME: Final = "specverify-session"
_DEFAULT: Final = "reference"
_CHOOSING: Final = ("collectonly", "lf")  # options with which not every test is collected, or none is run


class Session:
    """The plugin that is registered once specverify is used.

    Args:
        config: The configuration of pytest.

    Raises:
        SpecverifyError: Options of the command line or the configuration make no sense.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._named = tuple(dict.fromkeys(config.getoption("specverify_sampler") or ()))
        folders = {form: _made_folder(config.getoption(f"specverify_{form}")) for form in FORMS}
        self._folders = {form: folder for form, folder in folders.items() if folder is not None}
        given = {name: config.getoption(f"specverify_{name}") for name in OPTIONS}
        self._options = {name: value for name, value in given.items() if value is not None}
        self._settings = read_settings(config.invocation_params.dir)
        file = config.getoption("specverify_known_failures")
        entries = {} if file is None else read_toml(file, "the known failures")
        self._listed = entries_by_sampler(entries, self._named or self._settings.samplers)
        self._configured = self._settings.known_failures
        self._settings = self._settings.excusing(self._listed)
        self._loaded: dict[str, Sampler] = {}
        self._used: set[str] = set()
        self._runs: dict[Any, SharedRun] = {}
        self._chosen({}, {}, None)
        for target in self._named:
            self._load(target)

    @classmethod
    def of(cls, config: pytest.Config) -> Session:
        """Give the session of a pytest run, begun when first asked for."""
        found = config.pluginmanager.get_plugin(_NAME)
        if found is None:
            found = cls(config)
            config.pluginmanager.register(found, _NAME)
        session: Session = found
        return session

    def named(self) -> dict[str, Sampler]:
        """Load the samplers of the command line, else of the configuration, else the reference.

        Raises:
            SpecverifyError: One cannot be loaded.
        """
        targets = self._named or self._settings.samplers or (_DEFAULT,)
        self._used.update(targets)
        return {target: self._load(target) for target in targets}

    def named_runs(self) -> list[SharedRun]:
        """Give the runs of these samplers."""
        return [self._run(target, sampler, {}, {}) for target, sampler in self.named().items()]

    def options_of(self, sampler: Verifier) -> Options:
        """Give the options that were asked for of one of these samplers, its known failures among them."""
        target = next(target for target, loaded in self._loaded.items() if loaded is sampler)
        return Options.checked(sampler, **self._asked(target, sampler, {}, {}))

    def runs(self, samplers: object, options: Mapping[str, Any], known_failures: object) -> list[SharedRun]:
        """Give the runs that a decorator asks for.

        Raises:
            SpecverifyError: A sampler, an option or a known failure makes no sense.
        """
        found = self._by_name(samplers)
        known = entries_by_sampler(known_failures, found)
        require_samplers(known, found)
        return [self._run(name, sampler, options, known.get(name, {})) for name, sampler in found.items()]

    def pytest_report_header(self) -> str:
        """Say at the top what the command line asks for."""
        chosen = self._chosen({}, {}, None)
        return f"specverify: {''.join(f'{target}, ' for target in self._named)}{_described(chosen)}"

    def pytest_report_collectionfinish(self) -> list[str]:
        """Say of the samplers that the command line does not name, once they are known, how they are checked."""
        runs = [run for run in self._runs.values() if run.name not in self._named]
        return [f"specverify: {run.label}, {_described(run.options)}" for run in runs]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        """Report samplers that no test uses, and known failures of those that no test is about, which excuse nothing.

        Of the command line it is an error of the collection. The configuration holds for other runs as well: a
        warning, which is an error as well where warnings are. Deselected tests have asked as well.
        """
        samplers = [(run.name, run.sampler) for run in self._runs.values()] + list(self._loaded.items())
        names = [name for known_as in samplers for name in _names(*known_as)]
        try:
            self._require_used(items)
            require_samplers(self._listed, names)
            for name in self._configured:
                _warn_unless_checked(name, names)
        except (ConfigError, pytest.PytestConfigWarning) as error:
            report_uncollected(self._config, "samplers", str(error))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Let nothing that an earlier test did count as a call of this one."""
        for check in _checks(item):
            check.called = False

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Fail a test that would pass without having called its check."""
        result = yield
        for check in _checks(pyfuncitem):
            if not check.called:
                pytest.fail(f"specverify: expected a call of {check!r}, got none; write check(sampler)", pytrace=False)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Add to a test's properties what its check found, before the report takes them over."""
        if call.when == "call":
            for check in _checks(item):
                item.user_properties += check.properties()

    def _require_used(self, items: Sequence[pytest.Item]) -> None:
        """Refuse samplers of the command line that no test has asked for, where there is a test to run."""
        unused = [target for target in self._named if target not in self._used]
        chosen = any(self._config.getoption(name, False) for name in _CHOOSING)
        if unused and items and not chosen:
            raise ConfigError(
                f"expected a test of the sampler {brief(unused[0])}, got none; add --pyargs specverify.properties, or "
                f"ask for the fixture specverify_sampler"
            )

    def _run(
        self, name: str, sampler: Sampler, asked: Mapping[str, Any], known: Mapping[str, KnownFailure]
    ) -> SharedRun:
        """Give the one run of a sampler with these options."""
        options = self._asked(name, sampler, asked, known)
        key = (name, id(sampler), repr(options))
        if key not in self._runs:
            self._runs[key] = self._begun(name, sampler, options)
        return self._runs[key]

    def _asked(
        self, name: str, sampler: Sampler, asked: Mapping[str, Any], known: Mapping[str, KnownFailure]
    ) -> dict[str, Any]:
        """Give the options of a sampler, with the known failures of all sources and what names it, if anything does."""
        reasons = self._settings.excusing({name: known}).known_of(*_names(name, sampler))
        return self._chosen(asked, reasons, name if self._loaded.get(name) is sampler else None)

    def _begun(self, name: str, sampler: Sampler, options: Mapping[str, Any]) -> SharedRun:
        """Begin a run, and tell apart those of samplers of one name, or of one sampler with several options."""
        taken = {run.file_stem.casefold() for run in self._runs.values()}
        labels = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
        runs = (SharedRun(name, label, sampler, options, self._folders) for label in labels)
        return next(run for run in runs if run.file_stem.casefold() not in taken)

    def _chosen(self, asked: Mapping[str, Any], known: Mapping[str, str], target: str | None) -> dict[str, Any]:
        """Put together the options of a run, and refuse those that make no sense."""
        options = {**self._settings.options, **asked, **self._options, "known_failures": dict(known), "target": target}
        Options.checked(None, **options)
        return options

    def _by_name(self, samplers: object) -> dict[str, Sampler]:
        if isinstance(samplers, str) or not isinstance(samplers, Iterable):
            raise ConfigError(f"expected a list of samplers, got {brief(samplers)}; write [my_verifier]")
        found: dict[str, Sampler] = {}
        for name, sampler in map(self._ready, samplers):
            if name in found:
                raise ConfigError(f"expected samplers of different names, got {brief(name)} twice; give one a name=")
            found[name] = sampler
        if not found:
            raise ConfigError("expected at least one sampler, got an empty list; write [my_verifier]")
        return found

    def _ready(self, sampler: Any) -> tuple[str, Sampler]:
        """Give name and sampler; what is named is loaded, and a factory is left for when it is needed."""
        if isinstance(sampler, str):
            self._used.add(sampler)
            return sampler, self._load(sampler)
        return function_name(sampler) if is_factory(sampler) else as_sampler(sampler).name, sampler

    def _load(self, target: str) -> Sampler:
        if target not in self._loaded:
            self._loaded[target] = load(target)
        return self._loaded[target]


def report_uncollected(config: pytest.Config, where: str, problem: str) -> None:
    """Make a problem that shows only after the collection an error of it, with workers too.

    Args:
        config: The configuration of pytest.
        where: What the problem is found in.
        problem: What is wrong, in one line.
    """
    report = pytest.CollectReport(where, "failed", f"specverify: {problem}", [])
    config.hook.pytest_collectreport(report=report)


def _checks(item: pytest.Item) -> list[SharedCheck]:
    """Give the checks that a test was made for: one, or none."""
    callspec = getattr(item, "callspec", None)
    return [] if callspec is None else [check for check in callspec.params.values() if isinstance(check, SharedCheck)]


def _names(name: str, sampler: Sampler) -> tuple[str, ...]:
    """Give the names under which known failures of a sampler may be listed."""
    return (sampler.name, name) if isinstance(sampler, Verifier) else (name,)


def _warn_unless_checked(name: str, names: Iterable[str]) -> None:
    """Warn of entries of the configuration that excuse nothing, with the sampler that may be meant."""
    try:
        require_samplers([name], names)
    except ConfigError as error:
        warnings.warn(f"specverify: {error}", pytest.PytestConfigWarning, stacklevel=2)


def _described(options: Mapping[str, Any]) -> str:
    chosen = Options.checked(None, **options)
    return f"profile {chosen.profile}, seed {chosen.seed}, alpha {scientific(chosen.alpha)}"


def _made_folder(path: str | None) -> Path | None:
    """Make the folder of the reports before anything runs."""
    if path is None:
        return None
    if not path:
        raise ConfigError("expected a folder for the reports, got ''; name one, it gets a file for each sampler")
    folder = Path(absolute(path))  # a test may change the working directory
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot write reports to {brief(path)}: {error.strerror}; name a folder, it gets a file for each sampler"
        ) from error
    return folder
