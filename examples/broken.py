"""A broken verifier: after a rejection it draws from the target p itself, so what q likes comes out too often."""

import numpy as np

import specverify


@specverify.verifier(rule="token")
def my_verifier(draft_tokens, draft_probs, target_probs, generator):
    """Accept with min(1, p/q), but replace a rejected token with a draw from p instead of the residual (p - q)+."""
    tokens = np.full((len(draft_tokens), draft_tokens.shape[1] + 1), -1)
    for row, draft in enumerate(draft_tokens):
        for i, p in enumerate(target_probs[row]):
            if i < len(draft) and generator.random() * draft_probs[row, i, draft[i]] < p[draft[i]]:
                tokens[row, i] = draft[i]
                continue
            tokens[row, i] = generator.choice(len(p), p=p / p.sum())
            break
    return tokens
