"""A table as a model of transformers has its laws on every path, and a cache that holds too much gives another."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specverify.errors import ConfigError
from specverify.loop_menu import EOS, base_loop
from specverify.loops import MarkovModel, prefixes
from specverify.processing import PLAIN

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
models = pytest.importorskip("specverify.transformers_models")

TABLE: Any = base_loop().target
CONTEXT = np.array([[1, 0, 2, 2, 1, 1, 0], [2, 1, 0, 0, 2, 0, 1]])


def due(model: Any, tokens: np.ndarray, start: int = 0) -> np.ndarray:
    """Give log p after each token from ``start`` on: float64 [B, T - start, V]."""
    return np.stack([model(tokens[:, : end + 1]) for end in range(start, tokens.shape[1])], axis=1)


def forward(model: Any, tokens: np.ndarray, **given: Any) -> np.ndarray:
    """Give the logits of a forward pass."""
    logits: np.ndarray = model(torch.tensor(tokens), **given).logits.numpy()
    return logits


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_a_full_forward_pass_gives_every_row(order: int) -> None:
    """Without a cache, the logits after each token are the table's log-probabilities, whatever its order."""
    rows = np.random.default_rng(order).dirichlet(np.ones(3), (2, 3**order))
    table = MarkovModel(np.log(rows), order)
    model = models.as_transformers(table)
    np.testing.assert_allclose(forward(model, CONTEXT), due(table, CONTEXT), atol=1e-6)
    assert model(torch.tensor(CONTEXT)).logits.dtype == torch.float32


@pytest.mark.parametrize("pieces", [[1] * 7, [3, 1, 3], [3, 4], [7]])
def test_a_cache_carries_the_context(pieces: list[int]) -> None:
    """Fed in pieces with a cache, token by token or several at once, the logits are those of the whole."""
    model, cache = models.as_transformers(TABLE), transformers.DynamicCache()
    parts = np.split(CONTEXT, np.cumsum(pieces)[:-1], axis=1)
    logits = [forward(model, part, **{models.CACHE: cache}) for part in parts]
    np.testing.assert_allclose(np.concatenate(logits, axis=1), due(TABLE, CONTEXT), atol=1e-6)
    assert cache.get_seq_length() == CONTEXT.shape[1]


@pytest.mark.parametrize("cropped", [True, False])
def test_a_cropped_cache_forgets_rejected_drafts(cropped: bool) -> None:
    """After a rollback the next rows are those of what was kept; without it they are those of another context."""
    model, cache = models.as_transformers(TABLE), transformers.DynamicCache()
    rejected = np.concatenate([CONTEXT[:, :4], 2 - CONTEXT[:, 4:6]], axis=1)
    forward(model, rejected, **{models.CACHE: cache})
    if cropped:
        cache.crop(-2)
    positions = torch.arange(4, CONTEXT.shape[1])[None]
    logits = forward(model, CONTEXT[:, 4:], position_ids=positions, **{models.CACHE: cache})
    wrong = np.abs(logits - due(TABLE, CONTEXT, 4)).max(axis=(1, 2))
    assert (wrong < 1e-6).all() if cropped else (wrong > 0.1).all()


def test_a_row_at_another_position_is_another_law() -> None:
    """Positions that are off by one give the rows of another phase."""
    shifted = forward(models.as_transformers(TABLE), CONTEXT, position_ids=torch.arange(1, 8)[None])
    assert (np.abs(shifted - due(TABLE, CONTEXT)).max(axis=2) > 0.01).mean() > 0.9


def test_masked_tokens_are_as_good_as_missing() -> None:
    """Padding on the left that is masked, with positions that do not count it, changes no row."""
    padded = np.concatenate([np.full((2, 2), 2), CONTEXT], axis=1)
    mask = torch.tensor(np.arange(9)[None] >= 2).long().expand(2, -1)
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    logits = forward(models.as_transformers(TABLE), padded, attention_mask=mask, position_ids=positions)
    np.testing.assert_allclose(logits[:, 2:], due(TABLE, CONTEXT), atol=1e-6)


def test_the_end_of_sequence_is_the_models_own() -> None:
    """The library is told the table's end of sequence, and of no padding or beginning."""
    for eos in (None, EOS):
        configuration = models.as_transformers(replace(TABLE, eos_token_id=eos)).generation_config
        assert (configuration.eos_token_id, configuration.pad_token_id, configuration.bos_token_id) == (eos, None, None)


def test_a_model_of_another_kind_is_one_line() -> None:
    """Only a table can be made a model; the message says how to bring one's own."""
    with pytest.raises(ConfigError, match="expected a MarkovModel or a TransformersModel") as told:
        models.as_transformers(lambda tokens: tokens)
    assert "\n" not in str(told.value)


# --- Llamas ----------------------------------------------------------------------------------------------------------


def test_a_llama_says_what_its_forward_pass_says() -> None:
    """Its laws are the softmax of its logits, with and without a cache, and a seed gives one model."""
    llama, tokens = models.random_llama(4, seed=9, eos_token_id=3), CONTEXT
    model = models.as_transformers(llama)
    assert (llama.vocab_size, llama.eos_token_id, model) == (4, 3, llama.model)
    cache = transformers.DynamicCache()
    parts = [model(torch.tensor(part), **{models.CACHE: cache}).logits for part in np.split(tokens, [3, 4], axis=1)]
    cached = torch.log_softmax(torch.cat(parts, dim=1).double(), dim=-1).detach().numpy()
    np.testing.assert_allclose(cached, due(llama, tokens), atol=1e-5)
    np.testing.assert_array_equal(llama(tokens), models.random_llama(4, seed=9)(tokens))
    assert np.abs(llama(tokens) - models.random_llama(4, seed=8)(tokens)).max() > 0.1


def test_making_a_llama_draws_nothing_from_the_global_generator() -> None:
    """A loop that makes one on its way goes on with the numbers that it was seeded for."""
    state = torch.get_rng_state()
    models.random_llama(4, seed=9)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_laws_of_a_llama_are_enumerated() -> None:
    """A case holds the softmax of the model's logits after every prefix, cut to the three likeliest where asked."""
    plain, cooled = models.llama_cases()
    assert (plain.name, cooled.name) == ("loop-llama", "loop-llama-temperature")
    for case in (plain, cooled):
        loop = case.loop
        contexts = np.concatenate([np.tile(loop.prompt, (16, 1)), prefixes(4, 2)], axis=1)
        logits = loop.target.model(torch.tensor(contexts)).logits[:, -1].double() / loop.sampling.temperature
        if loop.sampling is not PLAIN:
            logits[logits < logits.topk(3).values[:, -1:]] = -torch.inf
        np.testing.assert_allclose(case.target[2], logits.softmax(dim=-1).numpy(), atol=1e-6)
        assert (loop.vocab_size, loop.num_draft_tokens, len(case.target)) == (4, 2, 3)


def test_the_rows_of_a_llama_tell_contexts_apart() -> None:
    """Rows are far from fair, from the draft's, and from those of other contexts."""
    case = models.llama_cases()[0]
    target, draft = case.target[1], case.draft[1]
    assert (np.abs(target - 0.25).sum(axis=1) > 0.3).all()
    assert (np.abs(target - draft).sum(axis=1) > 0.3).all()
    apart = np.abs(case.target[2][:, None] - case.target[2]).sum(axis=2)[np.triu_indices(16, 1)] / 2
    assert np.median(apart) > 0.1
