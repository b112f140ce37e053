"""The user's module, file or attribute is found and imported; what goes wrong is told in one line, not a traceback."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import traceback
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from specverify.errors import SamplerLoadError, SpecverifyError
from specverify.nearest import did_you_mean

__all__ = ["find_attribute", "import_file", "import_module"]

EXTRAS = ("torch", "transformers")


def import_module(name: str) -> ModuleType:
    """Import a module by its dotted name; the working directory is looked into first.

    Raises:
        SamplerLoadError: There is no such module, or importing it fails.

    Example:
        >>> import_module("specverify.nearest").__name__
        'specverify.nearest'
    """
    with _search_path(Path.cwd()), _explained(name):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # the module is there, something that it imports is not
            raise SamplerLoadError(
                f"expected an importable module, got {name!r}: no module named {error.name!r}"
                f"{did_you_mean(name, _modules_near(error.name))}; modules are looked for in the working directory "
                f"and among installed packages"
            ) from None


def import_file(path: str) -> ModuleType:
    """Import a Python file under a name of its own, with its folder importable meanwhile.

    Raises:
        SamplerLoadError: There is no such file, or importing it fails.
    """
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        near = [str(Path(path).parent / found.name) for found in sorted(file.parent.glob("*.py"))]
        raise SamplerLoadError(f"expected a Python file, got {path!r}, which does not exist{did_you_mean(path, near)}")
    name = f"specverify_target_{file.stem}_{zlib.crc32(str(file).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SamplerLoadError(f"expected a Python file ending in .py, got {path!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up there
    with _search_path(file.parent), _explained(path, file):
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


def find_attribute(module: ModuleType, dotted: str, where: str) -> object:
    """Follow a dotted name from a module.

    Raises:
        SamplerLoadError: A step is missing; the nearest name there is given.

    Example:
        >>> find_attribute(sys.modules["sys"], "version_info.major", "sys")
        3
    """
    found: object = module
    for name in dotted.split("."):
        if not hasattr(found, name):
            offered = [key for key in dir(found) if not key.startswith("_") and callable(getattr(found, key, None))]
            raise SamplerLoadError(
                f"expected {where} to have the attribute {dotted!r}, got no {name!r}{did_you_mean(name, offered)}"
            )
        found = getattr(found, name)
    return found


def _modules_near(missing: str) -> list[str]:
    parent, _, _ = missing.rpartition(".")
    folders = sys.modules[parent].__path__ if parent in sys.modules else [str(Path.cwd())]
    prefix = f"{parent}." if parent else ""
    return [info.name for info in pkgutil.iter_modules(folders, prefix)]


@contextmanager
def _search_path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


@contextmanager
def _explained(where: str, file: Path | None = None) -> Iterator[None]:
    """Turn whatever an import raises into one line; a declaration's own errors pass as they are."""
    try:
        yield
    except SpecverifyError:
        raise
    except (Exception, SystemExit) as error:
        raise SamplerLoadError(
            f"importing {where} failed: {_one_line(error)}{_place(error, file)}{_advice(error)}"
        ) from error


def _one_line(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(text.split())}"


def _place(error: BaseException, file: Path | None) -> str:
    if isinstance(error, SyntaxError):
        return f" ({error.filename}:{error.lineno})"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    frames = [f for f in frames if f.filename != __file__]
    own = [f for f in frames if file is not None and f.filename == str(file)] or frames
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""


def _advice(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return f"; pip install 'specverify[{error.name}]'"
    if "relative import" in str(error):
        return "; a file inside a package is named as package.module:attribute"
    return ""
