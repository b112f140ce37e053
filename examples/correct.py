"""A correct verifier: keep a drafted token with probability min(1, p/q), else draw from what q gave too little of."""

import numpy as np

import specverify


@specverify.verifier(rule="token")
def my_verifier(draft_tokens, draft_probs, target_probs, generator):
    """Accept with min(1, p/q); after a rejection draw from the residual (p - q)+, at the end from p."""
    tokens = np.full((len(draft_tokens), draft_tokens.shape[1] + 1), -1)
    for row, draft in enumerate(draft_tokens):
        for i, p in enumerate(target_probs[row]):
            weights = p
            if i < len(draft):
                q = draft_probs[row, i]
                if generator.random() * q[draft[i]] < p[draft[i]]:
                    tokens[row, i] = draft[i]
                    continue
                weights = np.maximum(p - q, 0)
            tokens[row, i] = generator.choice(len(p), p=weights / weights.sum())
            break
    return tokens
