"""A verifier says by its parameter names what it needs, and by its options what it promises.

Everything is checked when the declaration is read, so that a misspelt name costs a second and not a run. The kit
supplies drafts, q and p; the verifier returns which drafted tokens stay and what follows them (module ``reading``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import index
from typing import Any, overload

from specverify.declaring import array_names, check_options, check_texts, function_name, parameters_asked
from specverify.tolerance import DEFAULT_TOLERANCE

__all__ = ["Verifier", "verifier"]


@dataclass(frozen=True, eq=False)
class Verifier:
    """A sampler that verifies drafts supplied by the kit; calling it calls the original function.

    Attributes:
        function: What runs.
        name: Shown in reports.
        asks: The parameter names that are passed, always by keyword.
        rule: The verification rule it claims to follow, or None.
        framework: "numpy" or "torch": what its arrays are.
        device: Where torch tensors live.
        dtype: Float type of its arrays.
        tolerance: Tolerance class (module ``tolerance``).
        max_batch: Largest number of rows one call may get, or None.
        readonly: It promises not to write, and may get read-only views.
        mutates: Array arguments that it is known to overwrite.
        version: Version of the engine behind it, for the report.
        kind: "verifier", which gets drafts or models and gives one round, or "generator", which is a whole loop.
    """

    function: Callable[..., Any]
    name: str
    asks: frozenset[str]
    rule: str | None = None
    framework: str = "numpy"
    device: str = "cpu"
    dtype: str = "float64"
    tolerance: str = "exact"
    max_batch: int | None = None
    readonly: bool = False
    mutates: frozenset[str] = frozenset()
    version: str = ""
    kind: str = "verifier"

    @property
    def loops(self) -> bool:
        """Whether it is a whole generate loop."""
        return self.kind == "generator"

    @property
    def drafts(self) -> bool:
        """Whether it drafts by itself, from models, instead of verifying drafts of the kit."""
        return self.loops or "target_model" in self.asks

    @property
    def tree(self) -> bool:
        """Whether it verifies trees, which have several drafts per position."""
        return "parents" in self.asks

    def __post_init__(self) -> None:
        # help() and inspect.signature() then show the function that the user wrote.
        object.__setattr__(self, "__doc__", self.function.__doc__)
        object.__setattr__(self, "__wrapped__", self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original function."""
        return self.function(*args, **kwargs)


@overload
def verifier(function: Callable[..., Any], /) -> Verifier: ...
@overload
def verifier(
    *,
    rule: str | None = None,
    framework: str = "numpy",
    device: str = "cpu",
    dtype: str = "float64",
    tolerance: str | None = None,
    max_batch: int | None = None,
    readonly: bool = False,
    mutates: Iterable[str] = (),
    name: str | None = None,
    version: str = "",
) -> Callable[[Callable[..., Any]], Verifier]: ...
def verifier(
    function: Any = ...,  # None is not left out, but a mistake
    /,
    *,
    rule: str | None = None,
    framework: str = "numpy",
    device: str = "cpu",
    dtype: str = "float64",
    tolerance: str | None = None,
    max_batch: int | None = None,
    readonly: bool = False,
    mutates: Iterable[str] = (),
    name: str | None = None,
    version: str = "",
) -> Verifier | Callable[[Callable[..., Any]], Verifier]:
    """Declare a verifier; its parameter names say what it is called with.

    A parameter with a known name is passed (also when it has a default, unless functools.partial bound it); one with an
    unknown name must have a default and keeps it; ``*args`` and ``**kwargs`` get nothing. At least the drafts or the
    target must be asked for: a verifier that ignores the drafts is lossless, only slow.

    Args:
        function: What to declare, when used bare; any callable but a class, a coroutine or a generator function.
        rule: A name of specverify.reference.RULES, or of TREE_RULES for a verifier that asks for parents; left out,
            only losslessness is required.
        framework: "numpy" or "torch".
        device: A torch device such as "cuda"; "cpu" for NumPy.
        dtype: "float64", "float32", "bfloat16" (torch only) or "float16".
        tolerance: A tolerance class; by default that of the dtype.
        max_batch: Largest number of rows one call may get; 1 for samplers that take one sequence.
        readonly: It promises not to write: NumPy then gets read-only views, faster for large vocabularies.
        mutates: Array arguments that it overwrites, such as ("draft_probs",).
        name: Name in reports; by default the function's.
        version: Version of the engine behind it.

    Returns:
        The Verifier, or a decorator that makes it.

    Raises:
        ContractError: A parameter or option is not one on offer; the message names the nearest that is.

    Example:
        >>> @verifier(max_batch=1)
        ... def reject_all(draft_tokens, target_probs, seed):
        ...     return [0], [int(target_probs[0, 0].argmax())]
        >>> reject_all.name, sorted(reject_all.asks)
        ('reject_all', ['draft_tokens', 'seed', 'target_probs'])
    """

    def declare(function: Callable[..., Any]) -> Verifier:
        label = function_name(function) if name is None else name
        check_texts(label, name=label, device=device, version=version)
        asks = parameters_asked(label, function)
        written = array_names(label, mutates)
        check_options(
            label,
            asks,
            rule=rule,
            framework=framework,
            device=device,
            dtype=dtype,
            tolerance=tolerance,
            max_batch=max_batch,
            readonly=readonly,
            mutates=written,
        )
        return Verifier(
            function=function,
            name=label,
            asks=asks,
            rule=rule,
            framework=framework,
            device=device,
            dtype=dtype,
            tolerance=tolerance or DEFAULT_TOLERANCE[dtype],
            max_batch=None if max_batch is None else index(max_batch),
            readonly=readonly,
            mutates=written,
            version=version,
        )

    return declare if function is ... else declare(function)
