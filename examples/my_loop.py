"""A correct generate loop: after a round its cache holds what was accepted, and nothing else.

Check it with ``specverify check examples/my_loop.py:my_loop``.
"""

import numpy as np

import specverify


@specverify.generator
def my_loop(target_model, draft_model, prompt, num_draft_tokens, max_new_tokens, eos_token_id, temperature, seed):
    """Generate from every prompt; a cache is here the list of the tokens that it was filled with."""
    rng = np.random.default_rng(seed)

    def law(model, cache):
        weights = np.exp(model(np.array([cache]))[0] / temperature)
        return weights / weights.sum()

    def draw(weights):
        return int(np.searchsorted(weights.cumsum(), rng.random() * weights.sum(), side="right"))

    tokens = np.full((len(prompt), max_new_tokens), -1)
    for row, cache in enumerate(prompt.tolist()):
        text = []
        while len(text) < max_new_tokens and eos_token_id not in text:
            start, q = len(cache), []
            for _ in range(num_draft_tokens):
                q.append(law(draft_model, cache))
                cache.append(draw(q[-1]))
            drafts, kept = cache[start:], 0
            p = [law(target_model, cache[: start + i]) for i in range(num_draft_tokens + 1)]
            while kept < num_draft_tokens and rng.random() * q[kept][drafts[kept]] < p[kept][drafts[kept]]:
                kept += 1
            del cache[start + kept :]  # roll back: rejected drafts are no part of the text
            cache.append(draw(p[kept] if kept == num_draft_tokens else np.maximum(p[kept] - q[kept], 0)))
            text += [*drafts[:kept], cache[-1]]
        if eos_token_id in text:
            del text[text.index(eos_token_id) + 1 :]
        tokens[row, : len(text)] = text[:max_new_tokens]
    return tokens
