"""The kit's own generate loop: the exact speculative loop, every row on its own seed, with a report of its rounds."""

from __future__ import annotations

from specverify.faults.loop_samplers import loop_sampler, own_streams
from specverify.faults.loop_steps import LoopEdit

__all__ = ["reference_generate"]

reference_generate = loop_sampler(LoopEdit(), "reference-generate", rule="token", streams=own_streams)
"""Draft from q, verify each token on its own, emit what was accepted and one token more."""
