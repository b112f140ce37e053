"""Engines made up for the tests: packages in a folder with the files, names and signatures that the adapters load."""

from __future__ import annotations

from pathlib import Path

import pytest

import specverify.adapters
from specverify.contract import Verifier
from specverify.registry import load

SGLANG = '''
from specverify.reference import verify_block_torch, verify_token_torch


def chain_speculative_sampling_triton(
    predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token, retrive_next_sibling,
    uniform_samples, uniform_samples_for_final_sampling, target_probs, draft_probs,
    threshold_single, threshold_acc, deterministic, *, block_verification=False,
):
    """Write to the first three arguments; what lies in ``predicts`` after the last token is stale."""
    assert uniform_samples.shape == candidates.shape == retrive_index.shape == accept_index.shape
    drafts, coins = candidates[:, 1:], uniform_samples[:, :-1]
    verify = verify_block_torch if block_verification else verify_token_torch
    accepted, token = verify(drafts, draft_probs, target_probs, coins, uniform_samples_for_final_sampling)
    predicts[retrive_index[:, :-1]] = drafts.to(predicts.dtype)
    predicts[retrive_index[range(len(drafts)), accepted]] = token.to(predicts.dtype)
    accept_token_num += accepted
'''

INTERFACE = '''
from .base import BuildSpec


class RejectionSamplingImpl:
    """Has no method here."""


class RejectionSamplingBuildSpec(BuildSpec[RejectionSamplingImpl]):
    """Is not used."""
'''

LMDEPLOY = '''
import torch
from specverify.reference import verify_token_torch
from ..rejection_sampling import RejectionSamplingImpl


class DefaultRejectionSamplingImpl(RejectionSamplingImpl):
    def forward(self, target_logits, draft_token_ids, bonus_token_ids, *, is_greedy, draft_probs=None):
        """Take the bonus from the caller, and the coins from torch's global generator."""
        assert is_greedy is None and target_logits.shape == draft_probs.shape
        batch, length = draft_token_ids.shape
        coins, final = torch.rand((batch, length)), torch.rand(batch)
        unread = torch.full((batch, 1, target_logits.shape[2]), 1 / target_logits.shape[2])
        probs = torch.cat((target_logits.softmax(-1), unread), 1)
        accepted, token = verify_token_torch(draft_token_ids, draft_probs, probs, coins, final)
        token = torch.where(accepted == length, bonus_token_ids, token)
        tokens = torch.cat((draft_token_ids, token[:, None]), 1).scatter(1, accepted[:, None], token[:, None])
        tokens = tokens.where(torch.arange(length + 1) <= accepted[:, None], -1)
        return tokens, length - accepted, token
'''

FILES = {
    "sglang/kernels/ops/speculative/reject_sampling.py": SGLANG,
    "lmdeploy/pytorch/backends/rejection_sampling.py": INTERFACE,
    "lmdeploy/pytorch/backends/default/rejection_sampling.py": LMDEPLOY,
}
ADAPTERS = {"chain": "sglang", "chain_block": "sglang", "rejection_sampling": "lmdeploy"}


def install(folder: Path, patch: pytest.MonkeyPatch, files: dict[str, str] | None = None) -> None:
    """Write packages to a folder, with versions, and make it the first that Python looks into."""
    for name, text in (FILES if files is None else files).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        # Importing the package as a whole needs a GPU, as it does with the engines.
        (folder / file.relative_to(folder).parts[0] / "__init__.py").write_text("raise ImportError('no GPU')")
    for package in ("sglang", "lmdeploy", "triton"):
        (folder / f"{package}-0.0.dist-info").mkdir(exist_ok=True)
        (folder / f"{package}-0.0.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.0\n"
        )
    patch.setenv("TRITON_INTERPRET", "1")  # so that tensors are on the CPU
    patch.syspath_prepend(str(folder))


def adapted(function: str, folder: Path, edits: dict[str, str] | None = None) -> Verifier:
    """Load a copy of an adapter in which some words are replaced by others.

    Args:
        function: Of ADAPTERS.
        folder: Where the copy goes.
        edits: Each of the words, which the adapter has once, to what takes their place.
    """
    source = Path(specverify.adapters.__file__).with_name(f"{ADAPTERS[function]}.py").read_text(encoding="utf-8")
    for old, new in (edits or {}).items():
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    copy = folder / f"adapter_{ADAPTERS[function]}.py"
    copy.write_text(source, encoding="utf-8")
    return load(f"{copy}:{function}")
