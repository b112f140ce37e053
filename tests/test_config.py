"""What is written in files or the environment configures the command line and pytest alike, and is read strictly."""

import datetime
from pathlib import Path

import pytest
from plugin_projects import WRONG_RESIDUAL

from specverify.cli import main
from specverify.config import Settings, read_settings, read_toml
from specverify.errors import ConfigError
from specverify.known_failures import KnownFailure
from specverify.reports import Report

TABLE = """
[tool.specverify]
profile = "ci"
seed = 3
alpha = 1e-4
samples = 100
target_tv = 0.9
timeout = 10
samplers = ["reference", "my_file.py:mine"]

[tool.specverify.known_failures.mine]
SV-RES-001 = "as published"
SV-ACC-001 = { reason = "rounds", issue = "issue 12", until = 2999-12-31 }
"""


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without what the environment may say."""
    for name in ("SPECVERIFY_PROFILE", "SPECVERIFY_SEED"):
        monkeypatch.delenv(name, raising=False)


def write(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    """Write a configuration into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath(name).write_text(text, encoding="utf-8")
    return folder


def test_every_setting_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys arrive under their names, and each known failure as one line."""
    monkeypatch.chdir(tmp_path)
    assert read_settings(write(tmp_path, TABLE)) == Settings(
        {"profile": "ci", "seed": 3, "alpha": 1e-4, "samples": 100, "target_tv": 0.9, "timeout": 10},
        ("reference", "my_file.py:mine"),
        {
            "mine": {
                "SV-RES-001": KnownFailure("as published"),
                "SV-ACC-001": KnownFailure("rounds (issue 12)", datetime.date(2999, 12, 31)),
            }
        },
    )


def test_the_nearest_file_with_settings_counts(tmp_path: Path) -> None:
    """From a folder upwards: specverify.toml or a pyproject.toml with the table, and nothing above it."""
    write(tmp_path, "[tool.specverify]\nseed = 1\n")
    inner = write(tmp_path / "a", "[tool.other]\nseed = 2\n") / "b"
    inner.mkdir()
    assert read_settings(inner).options == {"seed": 1}
    write(inner, "[tool.specverify]\nprofile = 'ci'\n")
    assert read_settings(inner).options == {"profile": "ci"}
    write(inner, "seed = 4\n", "specverify.toml")
    assert read_settings(inner).options == {"seed": 4}


def test_nothing_set_is_nothing(tmp_path: Path) -> None:
    """Without a file and environment every option is left to its default."""
    assert read_settings(tmp_path) == Settings()


def test_paths_start_where_the_file_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path to a sampler means the same file from wherever one starts; other names are left alone."""
    inner = write(tmp_path, "[tool.specverify]\nsamplers = ['x/f.py:mine', '/y/f.py:mine', 'm.n:mine']\n") / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert read_settings(inner).samplers == ("../x/f.py:mine", "/y/f.py:mine", "m.n:mine")


def test_the_environment_comes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Profile and seed can be set there; an empty variable is not set, and one that is no number is an error."""
    write(tmp_path, "[tool.specverify]\nprofile = 'ci'\nseed = 1\n")
    monkeypatch.setenv("SPECVERIFY_SEED", "12")
    monkeypatch.setenv("SPECVERIFY_PROFILE", "")
    assert read_settings(tmp_path).options == {"profile": "ci", "seed": 12}
    for text in ("x", "-1", "1.5", "²", "1_0", "1" * 5000):
        monkeypatch.setenv("SPECVERIFY_SEED", text)
        with pytest.raises(ConfigError, match=r"^expected SPECVERIFY_SEED to be an integer, got '.*"):
            read_settings(tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sample = 1", "got the key 'sample'; did you mean 'samples'?"),
        ("zzz = 1", "got the key 'zzz'; known are profile, seed,"),
        ("profile = 1", "expected profile in .*pyproject.toml to be text, got 1"),
        ("seed = 1.5", "expected seed in .* to be an integer, got 1.5"),
        ("seed = true", "expected seed in .* to be an integer, got True"),
        ("alpha = '1e-6'", "expected alpha in .* to be a number, got '1e-6'"),
        ("samplers = 'reference'", "expected samplers in .* to be a list of names, got 'reference'"),
        ("samplers = [1]", "expected samplers in .* to be a list of names"),
        ("known_failures = 1", "expected known_failures in .* to be a table, got 1"),
        ("known_failures.mine = 'x'", "expected the known failures of mine as a table by check, got 'x'"),
        ("known_failures.mine.SV-RES-001 = ''", "known failure SV-RES-001: expected a reason, got none"),
        ("known_failures.mine.SV-RES-001.untill = 1", "got the key 'untill'"),
        ("known_failures.mine.SV-RES-1 = 'x'", "expected the id of a check, got 'SV-RES-1'; did you mean 'SV-RES-001'"),
        ("known_failures.SV-RES-001 = 'x'", "expected known failures by sampler, got checks alone for 0 samplers"),
        ("=", "expected TOML in"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    """An unknown key or a wrong type is an error that names the file or the entry."""
    with pytest.raises(ConfigError, match=told) as caught:
        read_settings(write(tmp_path, f"[tool.specverify]\n{text}\n"))
    assert "\n" not in str(caught.value)


def test_the_table_is_a_table(tmp_path: Path) -> None:
    """A value in place of the table is an error, and not a file without settings."""
    with pytest.raises(ConfigError, match=r"expected tool\.specverify in .* to be a table, got 3"):
        read_settings(write(tmp_path, "[tool]\nspecverify = 3\n"))


def test_known_failures_of_all_sources_hold() -> None:
    """More of them are added by sampler and check, and a sampler may go by several names."""
    first, second = KnownFailure("x"), KnownFailure("y")
    read = Settings(known_failures={"mine": {"SV-RES-001": first}})
    read = read.excusing({"mine": {"SV-ACC-001": second}, "other": {}})
    assert read.known_of("mine", "other") == {"SV-RES-001": "x", "SV-ACC-001": "y"}


def test_checks_alone_are_those_of_the_one_sampler(tmp_path: Path) -> None:
    """Where the configuration names one sampler, its known failures need no name."""
    text = "[tool.specverify]\nsamplers = ['reference']\nknown_failures.SV-RES-001 = 'x'\n"
    assert read_settings(write(tmp_path, text)).known_failures == {"reference": {"SV-RES-001": KnownFailure("x")}}


def test_an_entry_that_is_renewed_has_not_expired() -> None:
    """What counts is the entry that is used, and whether it holds is asked of no other."""
    old, new = KnownFailure("x", datetime.date(2020, 1, 1)), KnownFailure("y")
    read = Settings(known_failures={"mine": {"SV-RES-001": old}})
    assert read.known_of("other") == {}
    assert read.excusing({"mine": {"SV-RES-001": new}}).known_of("mine") == {"SV-RES-001": "y"}
    with pytest.raises(ConfigError, match="known failure SV-RES-001: expired on 2020-01-01"):
        read.known_of("mine")


@pytest.mark.parametrize("name", ["specverify.toml", "known.toml"])
def test_nested_tables_without_end_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    """TOML that nests deeper than Python can follow is an error that names the file."""
    folder = write(tmp_path, f"a = {'[' * 20_000}", name)
    own = name == "specverify.toml"
    with pytest.raises(ConfigError, match=f"expected TOML in .*{name}, but .*; correct the file"):
        _ = read_settings(folder) if own else read_toml(folder / name, "the known failures")


def test_a_configuration_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder or a dead link of its name is a mistake, and not a project without settings."""
    own = tmp_path / "specverify.toml"
    own.mkdir()
    with pytest.raises(ConfigError, match=r"cannot read the configuration in .*specverify\.toml'"):
        read_settings(tmp_path)
    own.rmdir()
    own.symlink_to("nowhere")
    with pytest.raises(ConfigError, match=r"cannot read the configuration in .*specverify\.toml'"):
        read_settings(tmp_path)


def test_files_may_begin_with_the_mark_of_their_encoding(tmp_path: Path) -> None:
    """A mark before the first line, as some editors write it, is no part of the first key."""
    write(tmp_path, "\ufeffseed = 4\n", "specverify.toml")
    assert read_settings(tmp_path).options == {"seed": 4}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A path that leads nowhere is an error that names it, and so is a file that is no TOML."""
    with pytest.raises(ConfigError, match=r"cannot read the known failures in .*none\.toml"):
        read_toml(tmp_path / "none.toml", "the known failures")
    file = write(tmp_path, "[") / "pyproject.toml"
    with pytest.raises(ConfigError, match=r"expected TOML in .*pyproject\.toml"):
        read_toml(file, "the known failures")


def test_the_command_line_is_configured_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A check takes its options and known failures from the file, and what is typed takes their place."""
    known = "known_failures.mine.SV-RES-001 = 'as published'"
    write(tmp_path, WRONG_RESIDUAL, "my_sampler.py")
    monkeypatch.chdir(
        write(tmp_path, f"[tool.specverify]\nsamples = 200\ntarget_tv = 0.8\nseed = 1\nalpha = 1e-10\n{known}\n")
    )
    only = ["check", "my_sampler.py:mine", "--only", "SV-RES-001,SV-LEN-001", "--json", "out.json"]
    assert main(only) == 0
    document = Report.read("out.json").document
    options = {name: document["options"][name] for name in ("samples", "target_tv", "seed", "alpha")}
    assert options == {"samples": 200, "target_tv": 0.8, "seed": 1, "alpha": 1e-10}
    assert document["summary"]["known_failures"] == 1
    main([*only, "--seed", "2", "--alpha", "1e-11", "--samples", "100", "--target-tv", "0.9"])
    document = Report.read("out.json").document
    options = {name: document["options"][name] for name in options}
    assert options == {"samples": 100, "target_tv": 0.9, "seed": 2, "alpha": 1e-11}
    capsys.readouterr()
    assert main(["power", "--cells", "4"]) == 0
    assert "alpha 1e-10 shared by" in capsys.readouterr().out
    write(tmp_path, "[tool.specverify]\nsample = 200\n")
    assert main(only) == 2
    assert "got the key 'sample'; did you mean 'samples'?" in capsys.readouterr().err
