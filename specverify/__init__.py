"""specverify decides whether a speculative-decoding sampler follows its target distribution.

The names below are imported when they are first used, so that importing the package costs next to nothing.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # what typing.TYPE_CHECKING is, without the cost of importing typing
if TYPE_CHECKING:
    from specverify.cases import Case
    from specverify.checking import check
    from specverify.conformance import parametrize_with_checks
    from specverify.contract import verifier
    from specverify.generating import Generation, Round, generator
    from specverify.reports import Report

__all__ = [
    "Case",
    "Generation",
    "Report",
    "Round",
    "__version__",
    "check",
    "generator",
    "parametrize_with_checks",
    "verifier",
]

_HOMES = {
    "Case": "specverify.cases",
    "Generation": "specverify.generating",
    "Report": "specverify.reports",
    "Round": "specverify.generating",
    "check": "specverify.checking",
    "generator": "specverify.generating",
    "parametrize_with_checks": "specverify.conformance",
    "verifier": "specverify.contract",
}


def __getattr__(name: str) -> object:
    """Import a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'specverify' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, also those not imported yet."""
    return sorted({*globals(), *_HOMES})
