"""A sampler is named by where it is written or by a registered name, and becomes a Verifier."""

from __future__ import annotations

import inspect
import os
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec

from specverify.contract import Verifier
from specverify.errors import SamplerLoadError
from specverify.generating import as_sampler
from specverify.importing import explained, find_attribute, import_file, import_module
from specverify.nearest import did_you_mean
from specverify.wording import brief, clip, printable

__all__ = ["load", "names"]

GROUP = "specverify.samplers"

BUILT_IN = {
    "reference": ("specverify.adapters.builtin:reference", "token rule, the exact NumPy kernel"),
    "reference-block": ("specverify.adapters.builtin:reference_block", "block rule, the exact NumPy kernel"),
    "reference-rrs": ("specverify.adapters.trees:reference_rrs", "tree rule rrs, the exact NumPy kernel"),
    "reference-target-only": (
        "specverify.adapters.trees:reference_target_only",
        "tree rule target_only, the exact NumPy kernel",
    ),
    "reference-generate": (
        "specverify.adapters.loop_reference:reference_generate",
        "generate loop with the token rule, in NumPy",
    ),
    "reference-fast": (
        "specverify.adapters.fast_reference:reference_fast",
        "token rule, the exact kernel compiled by numba (extra: fast)",
    ),
    "reference-torch": (
        "specverify.adapters.torch_reference:reference_torch",
        "token rule, the exact kernel on torch tensors (extra: torch)",
    ),
    "reference-torch-block": (
        "specverify.adapters.torch_reference:reference_torch_block",
        "block rule, the exact kernel on torch tensors (extra: torch)",
    ),
    "reference-compiled": (
        "specverify.adapters.compiled_reference:reference_compiled",
        "token rule, the exact kernel compiled by torch (extra: torch; a C++ compiler)",
    ),
    "reference-triton": (
        "specverify.adapters.triton_reference:reference_triton",
        "token rule, the exact kernel in Triton (torch and triton; CUDA, or TRITON_INTERPRET=1)",
    ),
    "naive-redraw": ("specverify.adapters.builtin:naive_redraw", "wrong on purpose: redraws from the target (K02)"),
    "transformers": (
        "specverify.adapters.transformers:speculative_sampling",
        "Hugging Face transformers, _speculative_sampling (extra: transformers)",
    ),
    "transformers-assisted": (
        "specverify.adapters.transformers_generate:assisted",
        "Hugging Face transformers, generate with a draft model (extra: transformers)",
    ),
    "transformers-prompt-lookup": (
        "specverify.adapters.transformers_generate:prompt_lookup",
        "Hugging Face transformers, generate with drafts from the tokens before (extra: transformers)",
    ),
    "transformers-universal": (
        "specverify.adapters.transformers_universal:universal",
        "Hugging Face transformers, generate with a draft model of another vocabulary (extra: transformers)",
    ),
    "mlx-lm": ("specverify.adapters.mlx_lm:speculative", "mlx-lm, speculative_generate_step (mlx and mlx-lm)"),
    "llama-cpp": ("specverify.adapters.llama_cpp:drafting", "llama-cpp-python, generate with a draft model (and gguf)"),
    "llama-cpp-processors": (
        "specverify.adapters.llama_processors:processors",
        "llama-cpp-python, generate with a draft model and a logits processor (and gguf)",
    ),
    "sglang-chain": ("specverify.adapters.sglang:chain", "SGLang's chain kernel, token rule (sglang==0.5.23)"),
    "sglang-chain-block": (
        "specverify.adapters.sglang:chain_block",
        "SGLang's chain kernel, block rule (sglang==0.5.23)",
    ),
    "lmdeploy": ("specverify.adapters.lmdeploy:rejection_sampling", "LMDeploy's default backend (lmdeploy==0.18.0)"),
}
"""Name to where it is written and what it is. These names come before entry points of the same name."""

NEEDS = {
    "reference-fast": ("numba",),
    "reference-torch": ("torch",),
    "reference-torch-block": ("torch",),
    "reference-compiled": ("torch",),
    "reference-triton": ("torch", "triton"),
    "transformers": ("torch", "transformers"),
    "transformers-assisted": ("torch", "transformers"),
    "transformers-prompt-lookup": ("torch", "transformers"),
    "transformers-universal": ("torch", "transformers"),
    "mlx-lm": ("mlx", "mlx_lm"),
    "llama-cpp": ("llama_cpp", "gguf"),
    "llama-cpp-processors": ("llama_cpp", "gguf"),
    "sglang-chain": ("torch", "triton"),
    "sglang-chain-block": ("torch", "triton"),
    "lmdeploy": ("torch",),
}
"""The packages that a built-in needs, beside an engine of which one file is loaded; the extra is in its description."""

INSTALLED_AS = {"mlx": "'mlx[cpu]'", "mlx_lm": "mlx-lm", "llama_cpp": "llama-cpp-python"}
"""What to install for a package that is not installed by its own name."""


def names() -> dict[str, str]:
    """Give every registered name with a one-line description; nothing is imported for it.

    Example:
        >>> names()["reference"]
        'token rule, the exact NumPy kernel'
    """
    installed = {point.name: f"installed, {point.value}" for point in entry_points(group=GROUP)}
    return installed | {name: description for name, (_, description) in BUILT_IN.items()}


def load(target: str) -> Verifier:
    """Find a sampler by its name.

    Args:
        target: "package.module:attribute", "path/to/file.py:attribute" (attributes may be dotted), a registered name,
            or "fault:ID" for a known fault by id or name. Modules are looked for in the working directory too; a file
            may import its neighbours.

    Raises:
        SamplerLoadError: There is nothing of that name, or it cannot be imported; one line says what to do.
        ContractError: It was found, and its declaration breaks the contract.

    Example:
        >>> load("reference").rule
        'token'
    """
    if not isinstance(target, str):
        raise SamplerLoadError(f"expected the name of a sampler as text, got {brief(target)}; see 'specverify list'")
    where, colon, attribute = target.rpartition(":")
    if not colon:
        return _registered(target)
    if where == "fault":
        return _fault(attribute)
    if not where or not attribute:
        raise SamplerLoadError(f"expected module:attribute or file.py:attribute, got {brief(target)}")
    module = import_file(where) if where.endswith(".py") or os.sep in where else import_module(where)
    return _declared(find_attribute(module, attribute, where), target)


def _fault(name: str) -> Verifier:
    from specverify.faults import KNOWN_FAULTS, fault_sampler

    for fault in KNOWN_FAULTS.values():
        if name in (fault.id, fault.name):
            return fault_sampler(fault)
    known = [*KNOWN_FAULTS, *(fault.name for fault in KNOWN_FAULTS.values())]
    raise SamplerLoadError(
        f"expected the id or name of a fault, got {brief(name)}{did_you_mean(name, known)}; "
        f"see 'specverify list faults'"
    )


def _registered(name: str) -> Verifier:
    if name in BUILT_IN:
        missing = [package for package in NEEDS.get(name, ()) if find_spec(package) is None]
        if missing:
            command = " ".join(INSTALLED_AS.get(package, package) for package in missing)
            raise SamplerLoadError(f"{name} needs {' and '.join(missing)}, not installed here: pip install {command}")
        return load(BUILT_IN[name][0])
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _installed(point)
    raise SamplerLoadError(_unknown(name))


def _installed(point: EntryPoint) -> Verifier:
    with explained(f"loading the installed sampler {point.name!r} ({point.value})"):
        found = point.load()
    return _declared(found, point.value)


def _unknown(name: str) -> str:
    if name.endswith(".py"):
        found = [key for key, value in vars(import_file(name)).items() if isinstance(value, Verifier)]
        return f"expected file.py:attribute, got a file alone; write {name}:{found[0] if found else 'my_verifier'}"
    module, dot, attribute = name.rpartition(".")
    written = f"; write {_shown(f'{module}:{attribute}')} for an attribute of a module" if dot else ""
    return (
        f"expected a registered name, module:attribute or file.py:attribute, got {brief(name)}{written}"
        f"{did_you_mean(name, names())}; registered: {', '.join(sorted(names()))}"
    )


def _declared(found: object, target: str) -> Verifier:
    named = _shown(target)
    if not callable(found):
        raise SamplerLoadError(
            f"expected {named} to be a verifier or a function, got {type(found).__name__} {brief(found)}"
        )
    if inspect.isclass(found):
        raise SamplerLoadError(f"expected {named} to be a verifier or a function, got a class; name an instance of it")
    return as_sampler(found)


def _shown(text: str) -> str:
    return clip(printable(text), 200)
