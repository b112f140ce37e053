"""A mistake in what pytest is asked for is one line before anything runs, and what is asked for has one order."""

import pytest
from plugin_projects import CORRECT, TESTS, run

import specverify
from specverify.checks import CATALOGUE
from specverify.conformance import parametrize_with_checks
from specverify.registry import load
from specverify.reports import FORMS
from specverify.sharing import SharedCheck, SharedRun, is_factory

pytest_plugins = ["pytester"]

USAGE, COLLECTION, NOTHING = 4, 2, 5


@pytest.fixture
def user(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with a sampler and its test file, and no environment that says anything.

    The plugin of Hypothesis is left out: it is slow to load, which happens anew for every run in one process.
    """
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:cacheprovider")
    for name in ("SPECVERIFY_PROFILE", "SPECVERIFY_SEED"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(my_sampler=CORRECT, test_mine=TESTS.format(options=""))
    pytester.syspathinsert()
    return pytester


def collected(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Collect without running."""
    return pytester.runpytest_inprocess("--collect-only", "-q", *arguments)


def lines(result: pytest.RunResult) -> list[str]:
    """Give every line that was told, on either stream, without the marks before errors."""
    return [line.removeprefix("ERROR: ") for line in (*result.outlines, *result.errlines)]


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--specverify-sampler=refrence", "expected a registered name, *did you mean 'reference'?*"),
        ("--specverify-sampler=nowhere:it", "expected an importable module, got 'nowhere'*"),
        ("--specverify-profile=slow", "expected a profile of quick, ci, release, got 'slow'"),
        ("--specverify-alpha=0", "expected alpha to be a number between 0 and 1*"),
        ("--specverify-seed=-1", "expected seed to be an integer from 0*"),
        ("--specverify-samples=0", "expected samples to be an integer from 1*"),
        ("--specverify-target-tv=2", "expected target_tv to be a number between 0 and 1*"),
        ("--specverify-timeout=0", "expected timeout to be a positive number of seconds*"),
        ("--specverify-known-failures=none.toml", "cannot read the known failures in 'none.toml'*"),
        ("--specverify-json=", "expected a folder for the reports, got ''*"),
        ("--specverify-markdown=my_sampler.py", "cannot write reports to 'my_sampler.py'*name a folder*"),
    ],
)
def test_a_wrong_option_is_a_usage_error_of_one_line(user: pytest.Pytester, option: str, told: str) -> None:
    """The status is that of wrong use, nothing is collected, and there is no traceback."""
    result = user.runpytest_inprocess(option)
    assert result.ret == USAGE
    result.stderr.fnmatch_lines([f"ERROR: specverify: {told}"])
    assert len([line for line in result.errlines if line]) == 1
    assert not any("collected" in line for line in result.outlines)


def test_no_test_is_the_status_of_pytest(user: pytest.Pytester) -> None:
    """A selection that leaves nothing is never a success."""
    assert user.runpytest_inprocess("-k", "no_such_test").ret == NOTHING


@pytest.mark.parametrize(
    ("samplers", "options", "told"),
    [
        (
            "[mine]",
            "known_failures={'SV-RES-01': 'x'}",
            "expected the id of a check, got 'SV-RES-01'; did you*'SV-RES-001'?*",
        ),
        (
            "[mine]",
            "known_failures={'mime': {'SV-RES-001': 'x'}}",
            "expected *, got those of 'mime'; did you mean 'mine'?",
        ),
        (
            "[mine]",
            "known_failures={'mine': {'SV-RES-001': ''}}",
            "known failure SV-RES-001: expected a reason, got none*",
        ),
        ("[mine]", "known_failures=['SV-RES-001']", "expected known failures as a table by sampler, got *"),
        ("[mine]", "known_failures={'SV-ALL-001': 'x'}", "expected the checks that are known to fail, got SV-ALL-001*"),
        (
            "[mine, 'reference']",
            "known_failures={'SV-RES-001': 'x'}",
            "expected *by sampler, got checks alone for 2 samplers*",
        ),
        ("[mine, mine]", "", "expected samplers of different names, got 'mine' twice*"),
        ("[]", "", "expected at least one sampler, got an empty list*"),
        ("mine", "", "expected a list of samplers, got *; write [[]my_verifier]"),
        ("['refrence']", "", "expected a registered name, *did you mean 'reference'?*"),
        ("[lambda target_prob: 0]", "", "verifier '<lambda>': unknown parameter 'target_prob'*"),
        ("[mine]", "profile='slow'", "expected a profile of quick, ci, release, got 'slow'"),
    ],
)
def test_a_wrong_decorator_is_an_error_of_the_collection(
    user: pytest.Pytester, samplers: str, options: str, told: str
) -> None:
    """The error is one line that names the nearest known name, under the file of the test."""
    user.makepyfile(test_mine=TESTS.replace("[mine]", samplers).format(options=options))
    result = user.runpytest_inprocess()
    assert result.ret == COLLECTION
    result.stdout.fnmatch_lines(["*ERROR collecting test_mine.py*", f"specverify: {told}", "*short test summary*"])


@pytest.mark.parametrize("distributed", [False, True])
def test_a_file_may_not_excuse_a_sampler_that_is_not_there(user: pytest.Pytester, distributed: bool) -> None:
    """An entry for no tested sampler is an error of the collection, with workers too; a known one is none."""
    user.makepyfile(test_mine=TESTS.format(options="samples=50"))
    user.path.joinpath("known.toml").write_text('[mime]\nSV-RES-001 = "x"\n', encoding="utf-8")
    arguments = ["--specverify-known-failures=known.toml", *(["-n1"] if distributed else [])]
    session = run(user.path, *arguments)
    assert session.status == COLLECTION if not distributed else session.status != 0
    told = "specverify: expected known failures of a sampler that is checked, got those of 'mime'; did you mean 'mine'?"
    assert told in session.text
    assert "Traceback" not in session.text
    user.path.joinpath("known.toml").write_text('[mine]\nSV-RES-001 = "x"\n', encoding="utf-8")
    assert collected(user, arguments[0]).ret == 0


def test_the_configuration_is_warned_of_a_sampler_that_is_not_there(user: pytest.Pytester) -> None:
    """It holds for other runs too: a warning in the summary, with workers as well; an error where warnings are."""
    user.makepyfile(test_mine=TESTS.format(options="samples=50"))
    user.makepyprojecttoml("[tool.specverify.known_failures]\nmime.SV-RES-001 = 'x'\nmine.SV-RES-001 = 'x'\n")
    told = "specverify: expected known failures of a sampler that is checked, got those of 'mime'; did you mean 'mine'?"
    result = collected(user)
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"*PytestConfigWarning: {told}"])
    spread = run(user.path, "-n2", "-k", "SV-STR-001")
    assert (spread.status, spread.text.count(told)) == (0, 1)
    assert collected(user, "-W", "error").ret == COLLECTION
    user.makepyprojecttoml("[tool.specverify.known_failures]\nmine.SV-RES-001 = 'x'\n")
    assert "Warning" not in "\n".join(collected(user, "-W", "error").outlines)


def described(result: pytest.RunResult) -> str:
    """Give the line that says how the sampler is checked."""
    return next(line for line in result.outlines if line.startswith("specverify: mine, "))


def test_the_order_of_precedence(user: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Command line, decorator, environment, configuration, default: each takes the place of those after it."""
    assert described(collected(user)) == "specverify: mine, profile quick, seed 0, alpha 1e-6"
    user.makepyprojecttoml('[tool.specverify]\nprofile = "release"\nseed = 1\nalpha = 1e-3\n')
    assert described(collected(user)) == "specverify: mine, profile release, seed 1, alpha 0.001"
    monkeypatch.setenv("SPECVERIFY_SEED", "2")
    monkeypatch.setenv("SPECVERIFY_PROFILE", "ci")
    assert described(collected(user)) == "specverify: mine, profile ci, seed 2, alpha 0.001"
    user.makepyfile(test_mine=TESTS.format(options="seed=3"))
    assert described(collected(user)) == "specverify: mine, profile ci, seed 3, alpha 0.001"
    assert described(collected(user, "--specverify-seed=4")) == "specverify: mine, profile ci, seed 4, alpha 0.001"


def test_a_wrong_configuration_is_told_where_it_is_used(user: pytest.Pytester) -> None:
    """An unknown key is an error with the nearest known one; where nothing is checked, it is not even read."""
    user.makepyprojecttoml("[tool.specverify]\nsample = 100\n")
    result = collected(user)
    assert result.ret == COLLECTION
    result.stdout.fnmatch_lines(
        ["specverify: expected a setting of specverify in *, got the key 'sample'; did you mean 'samples'?"]
    )
    assert user.runpytest_inprocess("--specverify-seed=1").ret == USAGE
    user.makepyfile(test_mine="def test_nothing(): pass")
    assert collected(user).ret == 0


@pytest.mark.parametrize(
    ("body", "outcome", "told"),
    [
        ("pass", "failed", "specverify: expected a call of <check SV-ACC-001 of mine>, got none; write check(sampler)"),
        ("assert check", "failed", "*TypeError: expected <check SV-ACC-001 of mine> to be called, got asked whether*"),
        ("__import__('pytest').skip('no device')", "skipped", "*25 skipped*"),
        ("assert False", "failed", "*AssertionError*"),
    ],
)
def test_a_test_that_never_calls_its_check_does_not_pass(
    user: pytest.Pytester, body: str, outcome: str, told: str
) -> None:
    """It fails with a line that says what to write; one that ends otherwise ends as it would."""
    user.makepyfile(test_mine=TESTS.replace("check(sampler)", body).format(options=""))
    result = user.runpytest_inprocess()
    result.assert_outcomes(**{outcome: len(CATALOGUE)})
    result.stdout.fnmatch_lines([told])


SOMETIMES = """
import pytest
import specverify
from my_sampler import mine

@pytest.fixture
def verdict(sampler, check):
    check(sampler)

@specverify.parametrize_with_checks([mine], samples=20)
@pytest.mark.parametrize("calls", [True, False])
def test_direct(sampler, check, calls):
    if calls:
        check(sampler)

@specverify.parametrize_with_checks([mine], samples=20)
@pytest.mark.usefixtures("verdict")
def test_by_fixture(sampler, check):
    pass
"""


def test_each_test_calls_its_check_itself(user: pytest.Pytester) -> None:
    """That another test has called the same check does not count, and that a fixture of the test has does."""
    user.makepyfile(test_mine=SOMETIMES)
    result = user.runpytest_inprocess("-k", "SV-STR-001")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["FAILED *test_direct*[[]*False*"])


TEST_CASE = """
import unittest
import specverify

class TestMine(unittest.TestCase):
    @specverify.parametrize_with_checks(["reference"])
    def test_conformance(self):
        pass
"""


def test_a_unittest_is_refused(user: pytest.Pytester) -> None:
    """There pytest makes no tests of the decorator: an error of the collection; without it there is none."""
    user.makepyfile(test_mine=TEST_CASE)
    result = user.runpytest_inprocess()
    assert result.ret == COLLECTION
    result.stdout.fnmatch_lines(
        ["specverify: expected *, got test_mine.py::TestMine::test_conformance, *move it out of its unittest.TestCase"]
    )
    user.makepyfile(test_mine=TEST_CASE.replace("@specverify", "# @specverify"))
    user.runpytest_inprocess().assert_outcomes(passed=1)


CLASS = """
import specverify

@specverify.parametrize_with_checks(name for name in ["reference", "naive-redraw"])
class TestMine:
    def test_one(self, sampler, check):
        check(sampler)

    def test_two(self, sampler, check):
        check(sampler)
"""


def test_samplers_of_a_generator_are_those_of_every_method(user: pytest.Pytester) -> None:
    """What can be gone through only once is kept."""
    user.makepyfile(test_mine=CLASS)
    result = collected(user)
    due = {f"{name}-{check}" for name in ("reference", "naive-redraw") for check in CATALOGUE}
    assert result.ret == 0
    for test in ("test_one", "test_two"):
        assert {line.partition("[")[2].rstrip("]") for line in result.outlines if f"::{test}[" in line} == due


def test_a_sampler_that_no_test_uses_is_refused(user: pytest.Pytester) -> None:
    """One of the command line is an error of the collection, unless nothing is run; deselected tests do use it."""
    named, told = "--specverify-sampler=reference", "specverify: expected a test of the sampler 'reference', got none;*"
    result = user.runpytest_inprocess(named)
    assert result.ret == COLLECTION
    result.stdout.fnmatch_lines([told])
    assert user.runpytest_inprocess(named, "-k", "no_such_test").ret == NOTHING
    assert collected(user, named).ret == 0
    empty = user.mkdir("empty")
    assert user.runpytest_inprocess(named, str(empty)).ret == NOTHING
    body = "def test_alone(specverify_sampler): pass\ndef test_other(): pass"
    for used in (body, TESTS.replace("[mine]", "['reference']").format(options="")):
        user.makepyfile(test_used=used)
        assert user.runpytest_inprocess(named, "-k", "test_other or no_such_test").ret in (0, NOTHING)


def test_properties_of_a_users_own_are_left_alone(user: pytest.Pytester) -> None:
    """The summary is of tests of checks, whatever other tests record under its names."""
    user.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.parametrize("value", ["mine", 3])
        def test_own(record_property, value):
            record_property("specverify_sampler", value)

        def test_all(record_property):
            for name in ("sampler", "check", "status", "verdict", "coverage"):
                record_property(f"specverify_{name}", 3)
        """
    )
    result = user.runpytest_inprocess()
    result.assert_outcomes(passed=3)
    assert result.ret == 0
    assert not any("= specverify =" in line for line in result.outlines)


FIXTURES = """
def test_alone(specverify_sampler):
    pass

def test_both(specverify_sampler, specverify_check):
    pass
"""


def names(result: pytest.RunResult) -> set[str]:
    """Give the ids of parameters."""
    return {line.partition("[")[2].rstrip("]") for line in result.outlines if "[" in line}


def test_the_fixtures_are_given_the_samplers(user: pytest.Pytester) -> None:
    """One test per sampler, or per sampler and check: of the command line, of the configuration, or the reference."""
    user.makepyfile(test_mine=FIXTURES)

    def due(*targets: str) -> set[str]:
        return set(targets) | {f"{target}-{check}" for target in targets for check in CATALOGUE}

    assert names(collected(user)) == due("reference")
    given = ("--specverify-sampler=my_sampler.py:mine", "--specverify-sampler=reference-block")
    assert names(collected(user, *given)) == due("my_sampler.py:mine", "reference-block")
    user.makepyprojecttoml('[tool.specverify]\nsamplers = ["my_sampler.py:mine"]\n')
    assert names(collected(user)) == due("my_sampler.py:mine")
    assert names(collected(user, given[1])) == due("reference-block")


def test_the_fixture_is_a_loaded_verifier(user: pytest.Pytester) -> None:
    """What a test is given can be called with, and asked for, everything that the sampler declares."""
    user.makepyfile(
        test_mine="""
        def test_alone(specverify_sampler):
            assert (specverify_sampler.name, specverify_sampler.rule) == ("mine", "token")
        """
    )
    user.runpytest_inprocess("--specverify-sampler=my_sampler.py:mine").assert_outcomes(passed=1)


CONFIGURED = """
[tool.specverify]
samples = 70
seed = 1
alpha = 1e-3
timeout = 9
known_failures.mine.SV-LEN-001 = "old"
"""
ASKED = ("--specverify-sampler=my_sampler.py:mine", "--specverify-alpha=1e-4", "--specverify-known-failures=known.toml")


@pytest.fixture
def configured(user: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder where everything that can be configured is, but for the profile."""
    user.makepyprojecttoml(CONFIGURED)
    user.path.joinpath("known.toml").write_text('SV-ACC-001 = "of the one sampler"\n', encoding="utf-8")
    monkeypatch.setenv("SPECVERIFY_SEED", "2")
    monkeypatch.setenv("SPECVERIFY_SAMPLES", "abc")  # which is no setting
    return user


def test_the_options_of_a_sampler_are_those_of_the_session(configured: pytest.Pytester) -> None:
    """The fixture has what was settled of all sources, the sampler's own known failures and what names it."""
    configured.makepyfile(
        test_mine="""
        def test_options(specverify_options):
            found = specverify_options
            assert (found.samples, found.seed, found.alpha, found.timeout) == (70, 2, 1e-4, 9)
            assert (found.profile, found.target) == ("quick", "my_sampler.py:mine")
            assert found.known_failures == {"SV-LEN-001": "old", "SV-ACC-001": "of the one sampler"}
        """
    )
    configured.runpytest_inprocess(*ASKED).assert_outcomes(passed=1)


def test_random_pairs_are_run_as_asked_for(configured: pytest.Pytester) -> None:
    """They get the options of the session, and what a pass is worth is a property of the test, without a warning."""
    configured.makepyfile(
        test_mine="""
        import pytest
        from specverify.properties import test_random_pairs as module
        from specverify.random_pairs import RandomPairs

        test_random_pairs = module.test_random_pairs
        due = {"samples": 70, "seed": 2, "alpha": 1e-4, "timeout": 9, "target": "my_sampler.py:mine"}
        known = {"SV-LEN-001": "old", "SV-ACC-001": "of the one sampler"}

        @pytest.fixture(autouse=True)
        def _recorded(monkeypatch):
            def recorded(sampler, **options):
                assert (sampler.name, options) == ("mine", due | {"known_failures": known})
                return RandomPairs("conformant", "what the pass is worth")

            monkeypatch.setattr(module, "check_random_pairs", recorded)
        """
    )
    configured.runpytest_inprocess(*ASKED, "--junitxml=junit.xml").assert_outcomes(passed=1, warnings=0)
    told = '<property name="specverify_random_pairs" value="what the pass is worth" />'
    assert told in configured.path.joinpath("junit.xml").read_text(encoding="utf-8")


def test_tests_of_one_run_are_one_group(user: pytest.Pytester) -> None:
    """Tests that share a run share a group of pytest-xdist, others do not; all have the mark of the plugin."""
    more = TESTS.replace("test_conformance", "test_again").format(options="seed=1")
    user.makepyfile(test_mine=TESTS.format(options="") + more)
    items, _ = user.inline_genitems()
    groups = {item.originalname: set() for item in items}  # type: ignore[attr-defined,var-annotated]
    for item in items:
        (group,) = item.iter_markers("xdist_group")
        groups[item.originalname].add(group.args[0])  # type: ignore[attr-defined]
    assert groups == {"test_conformance": {"mine"}, "test_again": {"mine-2"}}
    assert {item.nodeid.partition("[")[2][:-1] for item in items} == {f"mine-{check}" for check in CATALOGUE}
    assert len(collected(user, "-m", "specverify").outlines) > len(CATALOGUE)


def test_options_and_marker_are_documented(user: pytest.Pytester) -> None:
    """Help, markers and fixtures name what the plugin brings, and strict markers know it, also without xdist."""
    told = "\n".join(user.runpytest_inprocess("--help").outlines)
    for name in ("sampler", "profile", "seed", "alpha", "samples", "target-tv", "timeout", "known-failures", *FORMS):
        assert f"--specverify-{name}=" in told
    assert "@pytest.mark.specverify:" in "\n".join(user.runpytest_inprocess("--markers").outlines)
    fixtures = "\n".join(user.runpytest_inprocess("--fixtures").outlines)
    for name in ("sampler", "options", "check"):
        assert f"specverify_{name} [session scope]" in fixtures
    assert "once more for random pairs" in " ".join(told.split()), "the budget of random pairs is one of their own"
    assert collected(user, "--strict-markers", "-p", "no:xdist").ret == 0


def test_a_check_is_called_with_its_own_sampler() -> None:
    """Another sampler has no run of its own: that is a mistake in the test and not a finding."""
    shared = SharedRun("mine", "mine", load("reference"), {}, {})
    with pytest.raises(TypeError, match="expected the sampler that came with <check SV-RES-001 of mine>"):
        SharedCheck("SV-RES-001", shared)(load("reference-block"))
    assert not shared.made
    assert SharedCheck("SV-RES-001", shared).properties() == []


def test_what_is_a_factory() -> None:
    """Only a plain function without any parameter is one: a verifier has to ask for something."""
    assert is_factory(lambda: 0)
    assert not is_factory(lambda seed: seed)
    assert not is_factory(load("reference"))
    assert not is_factory(dict)


def test_the_decorator_is_a_public_name() -> None:
    """It is imported when it is first used."""
    assert specverify.parametrize_with_checks is parametrize_with_checks
    assert "parametrize_with_checks" in specverify.__all__
