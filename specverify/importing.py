"""The user's module, file or attribute is found and imported; what goes wrong is told in one line, not a traceback."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
import traceback
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np

from specverify.errors import SamplerLoadError, SpecverifyError
from specverify.folders import working_directory
from specverify.nearest import did_you_mean
from specverify.wording import brief, clip, printable, told

__all__ = ["explained", "find_attribute", "import_file", "import_module"]

EXTRAS = ("torch", "transformers")


def import_module(name: str) -> ModuleType:
    """Import a module by its dotted name; the working directory is looked into first.

    Raises:
        SamplerLoadError: There is no such module, or importing it fails.

    Example:
        >>> import_module("specverify.nearest").__name__
        'specverify.nearest'
    """
    with _search_path(working_directory()), explained(f"importing {_shown(name)}"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # the module is there, something that it imports is not
            raise SamplerLoadError(
                f"expected an importable module, got {brief(name)}: no module named {brief(error.name)}"
                f"{did_you_mean(name, _modules_near(error.name))}; modules are looked for in the working directory "
                f"and among installed packages"
            ) from None


def import_file(path: str) -> ModuleType:
    """Import a Python file under a name of its own, with its folder importable meanwhile.

    Raises:
        SamplerLoadError: There is no such file, or importing it fails.
    """
    file = _existing_file(path)
    name = f"specverify_target_{file.stem}_{zlib.crc32(os.fsencode(file)):08x}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SamplerLoadError(f"expected a Python file ending in .py, got {brief(path)}; rename it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up there
    with _search_path(file.parent), explained(f"importing {_shown(path)}", file):
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
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
        with explained(f"looking up {_shown(dotted)} in {_shown(where)}"):
            try:
                found = getattr(found, name)
            except AttributeError:
                raise SamplerLoadError(
                    f"expected {_shown(where)} to have the attribute {brief(dotted)}, got no {brief(name)}"
                    f"{did_you_mean(name, _functions(found))}"
                ) from None
    return found


def _functions(owner: object) -> list[str]:
    """Name what can be called there, as far as it can be read without running code of the owner."""
    offered = {**vars(type(owner)), **getattr(owner, "__dict__", {})}
    return [key for key, value in offered.items() if key[:1] != "_" and callable(value)]


def _shown(text: str) -> str:
    """Give a name without quotes, short and harmless."""
    return clip(printable(text), 200)


def _existing_file(path: str) -> Path:
    problem, near = "which does not exist", ""
    try:
        file = Path(path).expanduser().resolve()
        if file.is_file():
            return file
        if file.is_dir():
            problem = "which is a directory; name a file in it"
        elif file.exists():
            problem = "which is no regular file"
        else:
            siblings = sorted(found for found in file.parent.glob("*.py") if found.is_file())
            near = did_you_mean(path, [str(Path(path).parent / found.name) for found in siblings])
    except (OSError, ValueError, RuntimeError) as error:  # too long, not permitted, no such home directory
        problem = f"which cannot be read ({told(error, 200)})"
    raise SamplerLoadError(f"expected a Python file, got {brief(path, 200)}, {problem}{near}")


def _modules_near(missing: str) -> list[str]:
    parent, _, _ = missing.rpartition(".")
    folders = getattr(sys.modules[parent], "__path__", []) if parent in sys.modules else [str(working_directory())]
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
def explained(what: str, file: Path | None = None) -> Iterator[None]:
    """Turn whatever foreign code raises into one line, and undo what it does to NumPy's handling of errors.

    The errors of a declaration pass as they are, and so does the user's interruption.

    Args:
        what: What is being done.
        file: The file whose lines are to be named in the message.

    Raises:
        SamplerLoadError: It failed.

    Example:
        >>> with explained("loading x"):
        ...     pass
    """
    try:
        with np.errstate():
            yield
    except (SpecverifyError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise SamplerLoadError(f"{what} failed: {told(error)}{_place(error, file)}{_advice(error)}") from error


def _place(error: BaseException, file: Path | None) -> str:
    if isinstance(error, SyntaxError):
        return f" ({error.filename}:{error.lineno})"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    frames = [f for f in frames if f.filename != __file__]
    own = [f for f in frames if file is not None and f.filename == str(file)] or frames
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""


def _advice(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return f"; install {error.name} in this environment"
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "; a file inside a package is named as package.module:attribute"
    return ""
