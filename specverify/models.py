"""A case as two models, for a verifier that drafts by itself: it asks for the laws of next tokens as an engine does.

What is handed over are log-probabilities of the rows of the case, so that whatever the verifier drafts from them, its
output has a law that is known exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from specverify.arrays import IntArray
from specverify.errors import SpecverifyError
from specverify.reading import on_host

__all__ = ["TableModel"]


class TableModel:
    """A model that gives the log-probabilities of the next token after the tokens that it is called with.

    Args:
        name: The parameter name, for messages.
        table: The rows of all prefixes, log-probabilities [number of rows, V], in the verifier's framework and dtype.
        starts: For each length of prefix, the first row of the table.
        row_index: From prefixes int64 [B, i] to their rows among those of length i, int64 [B].
        placed: Brings an int64 array to the verifier's framework and device.

    Attributes:
        vocab_size: Number V of tokens.
    """

    def __init__(
        self,
        name: str,
        table: Any,
        starts: IntArray,
        row_index: Callable[[IntArray], IntArray],
        placed: Callable[[IntArray], Any],
    ) -> None:
        self.vocab_size = int(table.shape[-1])
        self._name = name
        self._table = table
        self._starts = starts
        self._row_index = row_index
        self._placed = placed

    def __call__(self, tokens: Any) -> Any:
        """Give log p(. | tokens), float [B, V], -inf where the probability is 0.

        Args:
            tokens: int [B, i], the tokens of this round before the next one; [B, 0] for its first token.

        Raises:
            SpecverifyError: The tokens have another shape or are none of the vocabulary.
        """
        prefix = self._checked(on_host(tokens))
        return self._table[self._placed(self._row_index(prefix) + self._starts[prefix.shape[1]])]

    def _checked(self, tokens: object) -> IntArray:
        prefix = np.asarray(tokens)
        longest = len(self._starts) - 1
        if prefix.ndim != 2 or prefix.shape[1] > longest or (prefix.size and prefix.dtype.kind not in "iu"):
            raise SpecverifyError(
                f"{self._name}: expected the tokens of this round so far, int [B, at most {longest}], got "
                f"{prefix.dtype} of shape {list(prefix.shape)}; pass [B, 0] for the first"
            )
        if prefix.size and not 0 <= prefix.min() <= prefix.max() < self.vocab_size:
            raise SpecverifyError(
                f"{self._name}: expected tokens in 0..{self.vocab_size - 1}, got {prefix.min()} to {prefix.max()}; "
                f"pass the tokens that were drafted"
            )
        return prefix.astype(np.int64)
