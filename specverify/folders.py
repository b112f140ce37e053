"""The working directory may be deleted under a process: who needs it then says so in one line."""

from os.path import abspath, isabs
from pathlib import Path

from specverify.errors import ConfigError

__all__ = ["absolute", "working_directory"]


def working_directory() -> Path:
    """Give the working directory.

    Raises:
        ConfigError: It is not there any more, or may not be read.

    Example:
        >>> working_directory().is_absolute()
        True
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError(
            f"cannot find the working directory: {error.strerror}; change to a folder that is there"
        ) from error


def absolute(path: str) -> str:
    """Give a path as it is written from the root; only a relative one needs the working directory.

    Args:
        path: Any path, which need not be there.

    Returns:
        The same path, without following links.

    Raises:
        ConfigError: It is relative, and the working directory is not there any more.

    Example:
        >>> absolute("/a/../b")
        '/b'
    """
    return abspath(path) if isabs(path) else abspath(working_directory() / path)
