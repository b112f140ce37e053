"""A sampler is found by module, file or registered name, and a name that leads nowhere is explained in one line."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from specverify import registry
from specverify.errors import ContractError, SamplerLoadError

GOOD = """
import specverify.contract
from neighbour import SUFFIX

def plain(draft_tokens):
    return draft_tokens

@specverify.contract.verifier(name="good" + SUFFIX)
def good(draft_tokens):
    return draft_tokens

class space:
    inner = good

number = 3
blob = b"x" * 9999
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Make a working directory with a sampler file and a module that it imports."""
    (tmp_path / "good_sampler.py").write_text(GOOD)
    (tmp_path / "neighbour.py").write_text("SUFFIX = '!'\n")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work inside that directory."""
    monkeypatch.chdir(folder)
    return folder


def refused(target: str) -> str:
    """Give the one line that a target is refused with."""
    with pytest.raises(SamplerLoadError) as told:
        registry.load(target)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_file_and_attribute(folder: Path) -> None:
    """A file is imported with its neighbours, whatever the working directory, and the search path is put back."""
    path = list(sys.path)
    assert registry.load(f"{folder}/good_sampler.py:good").name == "good!"
    assert registry.load(f"{folder}/good_sampler.py:space.inner").name == "good!"
    assert registry.load(f"{folder}/good_sampler.py:plain").name == "plain"
    assert sys.path == path


@pytest.mark.usefixtures("inside")
def test_module_in_the_working_directory() -> None:
    """A module is looked for in the working directory, which the console script does not do by itself."""
    assert registry.load("good_sampler:good").name == "good!"


def test_files_of_the_same_name_do_not_meet(folder: Path) -> None:
    """Two files with the same name in different folders are two modules."""
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "same.py").write_text(f"def {name}(draft_tokens): return draft_tokens\n")
    assert registry.load(f"{folder}/a/same.py:a").name == "a"
    assert registry.load(f"{folder}/b/same.py:b").name == "b"


def test_built_in_names_are_described_and_loaded() -> None:
    """Every built-in that needs no extra loads, claims its rule, and has a description."""
    assert set(registry.names()) >= {"reference", "reference-block", "reference-torch", "naive-redraw", "transformers"}
    assert all(registry.names().values())
    for name, rule in {"reference": "token", "reference-block": "block", "naive-redraw": "token"}.items():
        found = registry.load(name)
        assert (found.name, found.rule, found.readonly) == (name, rule, True)
        assert found.asks >= {"num_draft_tokens", "uniforms"}


def test_loading_the_reference_imports_no_torch() -> None:
    """Only the adapter that is asked for is imported."""
    code = (
        "import sys; from specverify import registry; registry.names(); registry.load('reference'); "
        "sys.exit('torch' in sys.modules or 'specverify.adapters.transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_entry_points_are_registered(monkeypatch: pytest.MonkeyPatch, inside: Path) -> None:
    """An installed package's entry point is a name; a broken one is explained."""
    points = [
        EntryPoint("theirs", "good_sampler:good", registry.GROUP),
        EntryPoint("gone", "no_such_module_of_theirs:x", registry.GROUP),
        EntryPoint("leaves", "leaving:x", registry.GROUP),
        EntryPoint("reference", "good_sampler:good", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda **_: points)
    monkeypatch.syspath_prepend(str(inside))
    assert registry.load("theirs").name == "good!"
    assert registry.names()["theirs"] == "installed, good_sampler:good"
    assert registry.load("reference").name == "reference"
    assert "'gone'" in refused("gone")
    assert "ModuleNotFoundError" in refused("gone")
    (inside / "leaving.py").write_text("raise GeneratorExit('two\\nlines')\n")
    assert refused("leaves").startswith("loading the installed sampler 'leaves' (leaving:x) failed: GeneratorExit: two")


def test_unknown_names_get_the_nearest() -> None:
    """A name that nothing has is answered with the nearest and the list."""
    assert "did you mean 'reference'?" in refused("refrence")
    assert "registered: lmdeploy, naive-redraw, reference" in refused("refrence")
    assert "write my.module:verify" in refused("my.module.verify")


@pytest.mark.usefixtures("inside")
def test_missing_files_modules_and_attributes_get_the_nearest() -> None:
    """Each missing part is named, with the nearest that exists."""
    assert "did you mean 'good_sampler.py'?" in refused("good_samplr.py:good")
    assert "did you mean 'good_sampler'?" in refused("good_samplr:good")
    assert "did you mean 'specverify.evidence'?" in refused("specverify.evidenc:x")
    assert "no 'goood'; did you mean 'good'?" in refused("good_sampler.py:goood")
    assert "got no 'inne'; did you mean 'inner'?" in refused("good_sampler.py:space.inne")


def test_a_directory_or_device_is_no_file(inside: Path) -> None:
    """What is there but is no file is called what it is, and never suggested."""
    (inside / "folder.py").mkdir()
    for target in ("folder.py:f", "folder.py", "./folder.py/:f"):
        assert refused(target).endswith("which is a directory; name a file in it")
    assert "'folder.py'" not in refused("foldr.py:f")
    assert refused("/dev/null:f").endswith("which is no regular file")
    assert "which cannot be read (RuntimeError: " in refused("~no_such_user_here/x.py:f")


@pytest.mark.parametrize("target", ["{}", "{}.{}", "{}:f", "{}.py:f", "good_sampler.py:{}", "fault:{}", "os:{}"])
def test_an_endless_target_is_echoed_short(target: str) -> None:
    """Every form of a target is cut where an error repeats it, and what would act on a terminal is escaped."""
    told = refused(target.replace("{}", "\x1b" + "a" * 9999))
    assert len(told) < 900
    assert "\x1b" not in told


@pytest.mark.usefixtures("inside")
def test_a_path_of_any_bytes_is_a_path() -> None:
    """A file whose name is no text is imported like any other."""
    name = os.fsdecode(b"good\xff.py")
    Path(name).write_text("def f(draft_tokens): return draft_tokens\n")
    assert registry.load(f"{name}:f").name == "f"


def test_a_module_that_is_no_package_has_no_modules() -> None:
    """A module below one that is no package is missing like any other."""
    assert "no module named 'json.decoder.x'" in refused("json.decoder.x:y")


@pytest.mark.usefixtures("inside")
def test_what_is_no_function_is_refused() -> None:
    """An attribute that cannot be called, or a class, is refused."""
    assert "got int 3" in refused("good_sampler.py:number")
    assert "name an instance" in refused("good_sampler.py:space")
    assert "got bytes b'xxx" in refused("good_sampler.py:blob")
    assert len(refused("good_sampler.py:blob")) < 300


@pytest.mark.usefixtures("inside")
def test_a_file_or_colon_alone_says_what_to_write() -> None:
    """A file without an attribute is answered with the target to write."""
    assert refused("good_sampler.py").endswith("write good_sampler.py:good")
    assert "got 'good_sampler.py:'" in refused("good_sampler.py:")
    assert "got ':good'" in refused(":good")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("def f(:\n", ["SyntaxError", "bad.py:1)"]),
        ("\n1 / 0\n", ["ZeroDivisionError: division by zero", "bad.py:2)"]),
        ("def g():\n    raise ValueError('two\\nlines')\ng()\n", ["ValueError: two lines", "bad.py:2)"]),
        ("raise SystemExit(3)\n", ["SystemExit: 3", "bad.py:1)"]),
        ("raise GeneratorExit('early')\n", ["GeneratorExit: early", "bad.py:1)"]),
        ("raise StopIteration\n", ["failed: StopIteration (", "bad.py:1)"]),
        ("import asyncio\nraise asyncio.CancelledError\n", ["failed: CancelledError (", "bad.py:2)"]),
        ("class Own(BaseException): pass\nraise Own('\\x1b[31m\\udcff')\n", ["Own: \\x1b[31m\\udcff", "bad.py:2)"]),
        ("raise ValueError('x' * 9999)\n", ["xxx... (9,999 characters)", "bad.py:1)"]),
        ("class Mute(Exception):\n    def __str__(self): 1 / 0\nraise Mute\n", ["failed: Mute (", "bad.py:3)"]),
        ("import no_such_package\n", ["No module named 'no_such_package'", "bad.py:1)"]),
        ("from . import x\n", ["a file inside a package is named as package.module:attribute"]),
    ],
)
def test_an_import_that_fails_is_one_line_with_its_place(inside: Path, text: str, parts: list[str]) -> None:
    """Syntax errors, exceptions and exits at import give type, message, file and line."""
    (inside / "bad.py").write_text(text)
    for target in ("bad.py:f", "bad:f", "bad.py"):
        if target == "bad:f" and "from ." in text:
            continue  # Python then says the same without our advice being true
        told = refused(target)
        assert all(part in told for part in parts), told
    assert not [name for name in sys.modules if "specverify_target_bad" in name]


def test_an_interruption_at_import_passes(inside: Path) -> None:
    """The user's Ctrl-C during a slow import is no fault of the module."""
    (inside / "slow.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        registry.load("slow.py:f")


@pytest.mark.parametrize("error", ["RuntimeError('two\\nlines')", "SystemExit(3)", "GeneratorExit()", "Own()"])
def test_a_module_that_makes_its_attributes_may_fail(inside: Path, error: str) -> None:
    """Whatever a module's __getattr__ raises is told in one line with its place; a missing name stays one."""
    (inside / "lazy.py").write_text(
        "class Own(BaseException): pass\n"
        f"def __getattr__(name):\n    raise AttributeError(name) if name != 'f' else {error}\n"
    )
    for module in ("lazy.py", "lazy"):
        told = refused(f"{module}:f")
        assert told.startswith(f"looking up f in {module} failed: {error.partition('(')[0]}")
        assert told.endswith("lazy.py:3)")
        assert "got no 'g'" in refused(f"{module}:g")


def test_numpys_handling_of_errors_is_put_back_after_an_import(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that makes NumPy raise does not make the kit raise: neither a file, a module, nor an entry point."""
    before = np.geterr()
    text = "import numpy as np\nnp.seterr(all='raise')\ndef f(draft_tokens): return draft_tokens\n"
    (inside / "strict.py").write_text(text)
    (inside / "strict_too.py").write_text(text)
    monkeypatch.setattr(registry, "entry_points", lambda **_: [EntryPoint("their", "strict_too:f", registry.GROUP)])
    monkeypatch.syspath_prepend(str(inside))
    for target in ("strict.py:f", "strict:f", "their"):
        registry.load(target)
        assert np.geterr() == before


def test_a_broken_declaration_passes_as_its_own_error(inside: Path) -> None:
    """A contract error at decoration is not wrapped: it says what to do already."""
    (inside / "wrong.py").write_text(
        "import specverify.contract\n@specverify.contract.verifier\ndef f(draft_token): pass\n"
    )
    with pytest.raises(ContractError, match="nearest first: draft_tokens"):
        registry.load("wrong.py:f")


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its packages the adapter's name says what to install."""
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    assert refused("transformers").endswith("pip install torch transformers")
    for name in ("reference-torch", "reference-torch-block"):
        assert refused(name) == f"{name} needs torch, not installed here: pip install torch"


@pytest.mark.parametrize("name", ["correct", "broken"])
def test_examples_load(pytestconfig: pytest.Config, name: str) -> None:
    """The examples are found as a newcomer would name them."""
    assert registry.load(f"{pytestconfig.rootpath}/examples/{name}.py:my_verifier").rule == "token"
