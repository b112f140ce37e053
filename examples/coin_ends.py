"""A sampler with injected coins gets the first and the last coin of float32: no token of probability zero may follow.

    TRITON_INTERPRET=1 python examples/coin_ends.py sglang-chain

Both coins are within [0, 1), but each comes once in 2**24 draws: no sample shows what happens there. This says nothing
about the law of the sampler.
"""

import sys

import numpy as np

from specverify.contract import Verifier
from specverify.randomness import Uniforms
from specverify.registry import load

COINS = (0.0, 1 - 2.0**-24)
SIZES = (3, 4, 5, 8, 16, 32, 64, 128, 256, 512, 1000, 4097)
LAWS = 4


def laws(vocab: int, seed: int = 0) -> np.ndarray:
    """Make target laws whose first and last token are impossible: float32 [LAWS, 1, V], the first of them flat."""
    inner = np.random.default_rng(seed).dirichlet(np.ones(vocab - 2), (LAWS, 1))
    inner[0] = 1 / (vocab - 2)
    return np.pad(inner, ((0, 0), (0, 0), (1, 1))).astype("float32")


def bonus(sampler: Verifier, target: np.ndarray, coin: float) -> np.ndarray:
    """Give the bonus token of each law at a coin, nothing being drafted: int [LAWS]."""
    arrays = {
        "draft_tokens": np.zeros((LAWS, 0), dtype="int64"),
        "num_draft_tokens": np.zeros(LAWS, dtype="int64"),
        "draft_probs": target[:, :0],
        "target_probs": target,
    }
    coins = np.zeros((LAWS, 0), dtype="float32"), np.full(LAWS, coin, dtype="float32")
    if sampler.framework == "torch":
        import torch

        arrays = {name: torch.tensor(array, device=sampler.device) for name, array in arrays.items()}
        coins = tuple(torch.tensor(coin, device=sampler.device) for coin in coins)
    result = sampler(**{name: arrays[name] for name in arrays if name in sampler.asks}, uniforms=Uniforms(*coins))
    tokens = result[1] if isinstance(result, tuple) else result[:, 0]
    return np.array(tokens.tolist())


def main(name: str) -> None:
    """Print for every coin and size how many laws yield a token that they exclude."""
    sampler = load(name)
    print(f"{sampler.name} ({sampler.version}), {LAWS} laws of each size, the first one flat")
    for coin in COINS:
        for vocab in SIZES:
            target = laws(vocab)
            tokens = bonus(sampler, target, coin)
            wrong = np.flatnonzero(target[np.arange(LAWS), 0, tokens] == 0)
            told = ", ".join(f"law {law}: token {tokens[law]}" for law in wrong)
            print(f"coin {coin:.8f}, {vocab:5} tokens: {len(wrong)} of {LAWS} impossible {told}")


if __name__ == "__main__":
    main(sys.argv[1])
