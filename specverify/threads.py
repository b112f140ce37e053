"""Small inputs are verified by one thread: on busy machines torch's thread pool costs ten times what it saves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["one_torch_thread"]


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread, and put its setting back at the end; without torch this does nothing.

    Example:
        >>> with one_torch_thread():
        ...     pass
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
