"""Faults of the form: where the bonus comes from, rows that share their randomness, and what is not a law at all."""

from __future__ import annotations

from specverify.faults.edits import Edit
from specverify.faults.record import Fault
from specverify.faults.samplers import raced_rows, shared_rows

__all__ = ["FAULTS"]

FAULTS = (
    Fault(
        "K16",
        "rows_share_stream",
        "uses the same uniforms for all rows of a call",
        "every row alone is right, but the rows of a batch depend on each other: many samples are worth one",
        "give each row, not each batch slot or call, a stream of its own",
        exposed_by="a batch of two, compared between rows",
        hidden_by="every histogram, whatever its size, and calls of one row",
        provenance="NVIDIA/TensorRT-LLM#17599, anthony-chaudhary/fak#13146",
        shows="sharing",
        build=shared_rows,
    ),
    Fault(
        "K20",
        "nonfinite_row",
        "emits token 0 for a row that is not finite",
        "a NaN or infinity, as from a division by temperature 0, silently becomes a token",
        "raise, or follow a stated policy",
        exposed_by="one row of NaN",
        hidden_by="every input that is a probability distribution, which is all that this kit hands over",
        provenance="vllm-project/vllm#53029, vllm-project/vllm#45060, vllm-project/vllm#41834, "
        "vllm-project/vllm#27077, NVIDIA/TensorRT-LLM#12588",
        shows="numerics",
        not_run="it shows on rows that are not finite, and the kit hands over none",
    ),
    Fault(
        "K24",
        "race_sync",
        "now and then decides a row with its neighbour's uniforms, as a kernel without a barrier does",
        "the same call repeated gives another output, and rows depend on each other",
        "put the barrier between writing and reading the shared memory",
        exposed_by="the same call repeated, with many rows and a large vocabulary",
        hidden_by="histograms, and replays of few rows",
        provenance="flashinfer-ai/flashinfer#424",
        shows="replay",
        build=raced_rows,
    ),
    Fault(
        "K31",
        "bonus_from_draft",
        "draws the bonus token from the draft",
        "after full acceptance the next token follows q, not p",
        "draw the bonus from the target row after the last draft",
        exposed_by="one draft, looking at the token after it is accepted",
        hidden_by="histograms of the first token, and tests that replace the bonus",
        edit=Edit(bonus=lambda p, q: q),  # noqa: ARG005
    ),
)
"""The faults of this family."""
