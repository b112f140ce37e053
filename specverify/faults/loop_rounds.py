"""The best known faults of a round, in a loop: every draft is kept, or what is refused is drawn from the target again.

They are those of a verifier with the same number, whose law in a loop is that of all new tokens.
"""

from __future__ import annotations

from specverify.faults.loop_fault import LoopFault
from specverify.faults.loop_steps import LoopEdit

__all__ = ["FAULTS"]

FAULTS = (
    LoopFault(
        "K01-loop",
        "accept_all_in_loop",
        "accepts every drafted token",
        "the text follows the draft wherever it was drafted, not the target",
        "accept x only with probability min(1, p(x)/q(x)); look for a coin that is always 0 or a q that is read as 0",
        exposed_by="two tokens and one draft",
        hidden_by="loops without a draft",
        provenance="vllm-project/vllm-ascend#13730, vllm-project/vllm-ascend#13470, huggingface/transformers#28508, "
        "openvinotoolkit/openvino.genai#2331, alibaba/rtp-llm#1311",
        case="loop",
        edit=LoopEdit(accept=lambda at: (1.0,) * at.asked.vocab_size),
    ),
    LoopFault(
        "K02-loop",
        "residual_target_in_loop",
        "redraws from the target after a rejection",
        "what was rejected is rejected for having too little target mass; drawing from all of p gives some of it back, "
        "so the text keeps part of the draft's law",
        "draw the replacement from the positive part of p - q, normalised",
        exposed_by="two tokens, one draft and a rejection",
        hidden_by="loops without a draft",
        provenance="asked in NJUNLP/MCSD#5 and eth-sri/language-model-arithmetic#14; a standard negative control",
        case="loop",
        edit=LoopEdit(replace=lambda at, _: at.p()),
    ),
)
"""The faults of this family."""
