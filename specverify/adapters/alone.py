"""One file of an installed engine is loaded alone, where its package as a whole needs a device that is not there.

The file is the engine's own, unedited. Other modules that it imports and that cannot be imported here are stood in for
while it is loaded: an adapter says which, and with what.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from specverify.errors import SamplerLoadError
from specverify.wording import told

__all__ = ["EngineMissing", "load_alone", "stand_in", "standing_in", "versions"]


class EngineMissing(SamplerLoadError, ModuleNotFoundError):
    """A package that an adapter calls is not installed, or has not the file that is loaded.

    >>> EngineMissing("none found", name="engine").name
    'engine'
    """


def stand_in(name: str, **attributes: Any) -> ModuleType:
    """Make an empty module, a package too, that has the attributes given.

    Example:
        >>> stand_in("engine.logger", level=3).level
        3
    """
    module = ModuleType(name)
    module.__path__ = []
    vars(module).update(attributes)
    return module


@contextmanager
def standing_in(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Put modules in the place of others, or of none, as long as the block lasts.

    Example:
        >>> with standing_in({"engine": stand_in("engine", version=1)}):
        ...     import engine
        >>> engine.version, "engine" in sys.modules
        (1, False)
    """
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def load_alone(package: str, file: str, install: str) -> ModuleType:
    """Load one file of an installed package under its dotted name; the package itself is not imported.

    Args:
        package: Name of the package, such as "sglang".
        file: Path of the file inside it, such as "kernels/reject.py".
        install: The command that installs it, for the message.

    Raises:
        EngineMissing: The package is not installed, or has no such file.
        SamplerLoadError: The file cannot be imported.
    """
    spec = PathFinder.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise EngineMissing(f"expected {package} to be installed, found none; {install}", name=package)
    path = Path(next(iter(spec.submodule_search_locations)), file)
    if not path.is_file():
        message = f"expected {file} in the {package} that is installed, found none; {install}"
        raise EngineMissing(message, name=package)
    name = ".".join([package, *Path(file).with_suffix("").parts])
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    with standing_in({name: module}):
        try:
            found.loader.exec_module(module)
        except Exception as error:  # whatever an engine raises where something that it needs is missing
            raise SamplerLoadError(f"loading {file} of {package} failed: {told(error)}; {install}") from error
    return module


def versions(*packages: str) -> str:
    """Give the installed version of each package, for a report; none of them is imported.

    Example:
        >>> versions("pytest").startswith("pytest ")
        True
    """
    return ", ".join(f"{package} {version(package)}" for package in packages)
