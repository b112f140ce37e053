"""The models that are files are made only for loops that ask for one, since they need an engine that reads them."""

from __future__ import annotations

from types import ModuleType

from specverify.errors import SamplerLoadError

__all__ = ["gguf_models"]


def gguf_models() -> ModuleType:
    """Import ``specverify.gguf_models``.

    Raises:
        SamplerLoadError: What it needs is not installed.
    """
    try:
        from specverify import gguf_models as made
    except ImportError:
        raise SamplerLoadError(
            "target_model_gguf needs llama_cpp and gguf, not installed here: pip install llama-cpp-python gguf"
        ) from None
    return made
