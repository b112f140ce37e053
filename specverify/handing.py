"""What a verifier gets: rows rounded to its dtype, gathered for each batch, and private unless it is read-only.

The rows of a case are laid out once as one table per argument, position after position, with a last row for the places
beyond a row's own draft. A batch is then one index array, and one gather (one copy) per argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.declaring import RANDOMNESS
from specverify.models import TableModel
from specverify.placing import Placed, require_device
from specverify.randomness import BONUS, UNIFORMS_DTYPE, Uniforms, draw_uniforms, make_generator, row_seeds, stream
from specverify.rounding import Form, law_of, rounded
from specverify.sampling import CaseSampler
from specverify.tree import Tree, sibling_rows

__all__ = ["Batch", "Handed"]

_FORMS: tuple[Form, Form] = ("probs", "logits")
_MODELS = ("target", "draft")
LARGE = 2**12  # elements of an argument


@dataclass(frozen=True)
class Batch:
    """What one call passes, and what the kit keeps to see whether it was changed.

    Attributes:
        arguments: What is passed, by parameter name.
        integers: The kit's own copy of the integer arguments.
        target_index: int64 [B, G + 1], row of the target's table for every place; None for the plain block of rows.
        draft_index: int64 [B, G] likewise.
    """

    arguments: dict[str, Any]
    integers: dict[str, IntArray]
    target_index: IntArray | None
    draft_index: IntArray | None


class Handed:
    """A case as one verifier gets it.

    Args:
        case: The case to hand over.
        verifier: Its framework, device and dtype decide the form, its parameters what is built.

    Attributes:
        given: The case as it was given.
        case: The case of the law that is then the null: the given one in float64, else that of the rounded rows (of
            the probabilities where both forms are asked for). Drafts are to be drawn from it.

    Raises:
        SamplerLoadError: It is a torch verifier, and torch is not installed.
        ContractError: Torch cannot use its device.

    Example:
        >>> from specverify.contract import verifier
        >>> case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
        >>> half = verifier(dtype="float16")(lambda draft_tokens, draft_probs, target_probs: None)
        >>> Handed(case, half).case.target[0].round(5).tolist()
        [[0.6001, 0.3999]]
    """

    def __init__(self, case: Case, verifier: Verifier) -> None:
        self.verifier = verifier
        self.given = case
        require_device(verifier)
        self._placed = Placed(verifier)
        self._tables: dict[str, Any] = {}
        self._clean: dict[str, Any] = {}
        self._lay_out("target", case.target, np.full((1, case.vocab_size), 1 / case.vocab_size))
        self._lay_out("draft", case.draft, np.zeros((1, case.vocab_size)))
        forms = (self._law_form("target"), self._law_form("draft"))
        self.case = case if verifier.dtype == "float64" else _null_case(case, verifier.dtype, *forms)
        self._bonus = CaseSampler(self.case) if "bonus_tokens" in verifier.asks else None
        self._models = {f"{name}_model": self._model(name) for name in _MODELS if f"{name}_model" in verifier.asks}
        # A prefix's number is a sum of tokens times place values; those are read off the prefixes with a single 1.
        unit = np.eye(case.num_draft_tokens, dtype=np.int64)
        lengths = range(case.num_draft_tokens + 1)
        self._places = np.stack([case.row_index(unit[:, :length]) for length in lengths], axis=1)
        self._starts = np.cumsum([0, *(len(rows) for rows in case.target)])

    def batch(
        self, draft_tokens: IntArray, num_draft_tokens: IntArray, seed: int, seeds: IntArray | None = None
    ) -> Batch:
        """Build the arguments of one call.

        Args:
            draft_tokens: int64 [B, G], -1 beyond a row's own length; of a tree of N nodes [B, N].
            num_draft_tokens: int64 [B], each row's own length.
            seed: The call's seed, in [0, 2**31).
            seeds: int64 [B], the rows' own seeds; left out, they follow from the seed.
        """
        verifier, asks = self.verifier, self.verifier.asks
        integers = {"draft_tokens": draft_tokens, "num_draft_tokens": num_draft_tokens}
        if self.case.tree is not None:
            integers["parents"] = np.array(self.case.tree.parents, dtype=np.int64)
        if "seeds" in asks:
            integers["seeds"] = row_seeds(seed, len(draft_tokens)) if seeds is None else seeds
        if "bonus_tokens" in asks:
            integers["bonus_tokens"] = self._bonus_tokens(draft_tokens, num_draft_tokens, seed, integers.get("seeds"))
        batch = Batch({}, integers, *self._index(draft_tokens, num_draft_tokens))
        for name in asks & integers.keys():
            batch.arguments[name] = self._private(integers[name])
        for name in self._tables:
            batch.arguments[name] = self._rows(name, batch)
        batch.arguments.update(self._models)
        if "seed" in asks:
            batch.arguments["seed"] = seed
        if "generator" in asks:
            batch.arguments["generator"] = make_generator(seed, verifier.framework, verifier.device)
        if "uniforms" in asks:
            drawn = draw_uniforms(seed, len(draft_tokens), draft_tokens.shape[1], verifier.dtype)
            dtype = UNIFORMS_DTYPE[verifier.dtype]
            batch.arguments["uniforms"] = Uniforms(self._placed(drawn.accept, dtype), self._placed(drawn.final, dtype))
        return batch

    def parts(self, batch: Batch, bounds: Sequence[tuple[int, int]], seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Give the arguments of several calls from the rows of one batch: each call has rows, and a seed, of its own.

        Args:
            batch: What was built for all their rows.
            bounds: Where the rows of each call begin and end.
            seeds: The seed of each call.
        """
        columns = {name: _split(array, bounds) for name, array in batch.arguments.items() if name not in RANDOMNESS}
        for number, seed in enumerate(seeds):
            arguments = {name: column[number] for name, column in columns.items()}
            if "seed" in self.verifier.asks:
                arguments["seed"] = seed
            if "generator" in self.verifier.asks:
                arguments["generator"] = make_generator(seed, self.verifier.framework, self.verifier.device)
            yield arguments

    def changed(self, batch: Batch) -> list[str]:
        """Name the arguments that the verifier changed without having declared it."""
        if self.verifier.readonly:
            if batch.target_index is None:
                self._clean.update((name, batch.arguments[name]) for name in self._tables)
            return []
        expected = {name: array for name, array in batch.integers.items() if name in batch.arguments}
        names = (expected.keys() | self._tables.keys()) - self.verifier.mutates
        changed = []
        for name in names:
            due = expected[name] if name in expected else self._view(name, batch)
            if not self._same(batch.arguments[name], due):
                changed.append(name)
            elif name in self._tables and batch.target_index is None:
                self._clean[name] = batch.arguments[name]
        return sorted(changed)

    def _lay_out(self, model: str, levels: tuple[FloatArray, ...], padding: FloatArray) -> None:
        """Make the tables of one model, one for each form that is asked for."""
        for form in _FORMS:
            if f"{model}_{form}" in self.verifier.asks:
                handed = [rounded(rows, self.verifier.dtype, form) for rows in (*levels, padding)]
                self._tables[f"{model}_{form}"] = self._placed(np.concatenate(handed))

    def _law_form(self, model: str) -> Form | None:
        """Give the form whose law is the null: that of the probabilities where both are asked for."""
        asked = [form for form in _FORMS if f"{model}_{form}" in self.verifier.asks]
        return asked[0] if asked else "logits" if f"{model}_model" in self.verifier.asks else None

    def _model(self, name: str) -> TableModel:
        """Make the model of one side: log-probabilities by prefix."""
        levels: tuple[FloatArray, ...] = getattr(self.given, name)
        rows = np.concatenate([np.empty((0, self.given.vocab_size)), *levels])  # without drafts it has none
        table = self._placed(rounded(rows, self.verifier.dtype, "logits"))
        starts = np.cumsum([0, *(len(level) for level in levels)])[:-1]
        return TableModel(f"{name}_model", table, starts, self.given.row_index, self._placed)

    def _index(
        self, draft_tokens: IntArray, num_draft_tokens: IntArray
    ) -> tuple[IntArray, IntArray] | tuple[None, None]:
        if self.case.tree is not None:
            return self._tree_index(self.case.tree, draft_tokens)
        length = draft_tokens.shape[1]
        ragged = bool(num_draft_tokens.min(initial=length) < length)
        if not (ragged or self.case.contextual):
            return None, None
        target = np.maximum(draft_tokens, 0) @ self._places + self._starts[:-1]
        draft = target[:, :-1]
        if ragged:
            place = np.arange(length + 1)
            draft = np.where(place[:-1] >= num_draft_tokens[:, None], self._starts[-2], draft)
            target = np.where(place > num_draft_tokens[:, None], self._starts[-1], target)
        return target, draft

    def _tree_index(self, tree: Tree, draft_tokens: IntArray) -> tuple[IntArray, IntArray]:
        numbers = tree.numbers(draft_tokens, self.case.vocab_size if self.case.contextual else 0)
        target = np.where(numbers < 0, self._starts[-1], numbers + self._starts[tree.depths])
        above = target[:, np.array(tree.parents) + 1]
        return target, np.where(draft_tokens < 0, self._starts[-2], above)

    def _sibling_laws(self, tree: Tree, batch: Batch) -> FloatArray:
        """Give the law of each node given its earlier siblings: float64 [B, N, V], zeros where it does not exist."""
        tokens, size = batch.integers["draft_tokens"], self.case.vocab_size
        if tree.mode == "top":
            return np.asarray((tokens[..., None] == np.arange(size)).astype(np.float64))
        laws = np.concatenate([*self.case.draft, np.zeros((1, size))])[batch.draft_index]
        for node in range(tree.nodes):
            earlier = [tokens[:, sibling] for sibling in tree.earlier(node)]
            if earlier:
                laws[:, node] = sibling_rows(laws[:, node], earlier)
        return np.asarray(laws)

    def _view(self, name: str, batch: Batch) -> Any:
        """Give the rows of an argument without copying where that is possible."""
        tree = self.case.tree
        if tree is not None and tree.mode != "with_replacement" and name.startswith("draft"):
            form = next(form for form in _FORMS if name.endswith(form))
            return self._placed(rounded(self._sibling_laws(tree, batch), self.verifier.dtype, form))
        table = self._tables[name]
        index = batch.target_index if name.startswith("target") else batch.draft_index
        if index is not None:
            return table.take(index, axis=0) if isinstance(table, np.ndarray) else table[self._placed(index)]
        block = table[:-1]
        shape = (len(batch.integers["draft_tokens"]), *block.shape)
        return np.broadcast_to(block, shape) if isinstance(block, np.ndarray) else block.expand(shape)

    def _rows(self, name: str, batch: Batch) -> Any:
        """Give the rows of an argument: a view where it is read-only, or else a private copy."""
        if batch.target_index is not None:
            return self._protected(self._view(name, batch))
        # The plain block is the same in every call: one that a call was seen to leave as it was serves the next.
        kept = self._clean.pop(name, None)
        if kept is not None and len(kept) == len(batch.integers["draft_tokens"]):
            return kept
        view = self._view(name, batch)
        if isinstance(view, np.ndarray):
            return self._protected(view if self.verifier.readonly else np.array(view, order="C"))
        return view.clone()

    def _protected(self, array: Any) -> Any:
        if isinstance(array, np.ndarray) and self.verifier.readonly:
            array.flags.writeable = False
        return array

    def _private(self, array: IntArray) -> Any:
        if self.verifier.readonly and self.verifier.framework == "numpy":
            return self._protected(array.view())
        copy = np.empty(array.shape, dtype=array.dtype)
        if array.ndim == 1 or array.flags.c_contiguous:
            copy[...] = array
        else:
            for column, given in zip(copy.T, array.T, strict=True):
                column[:] = given  # drafts are laid out by position: one plain copy of them takes twice as long
        return self._placed(copy)

    def _bonus_tokens(
        self, draft_tokens: IntArray, num_draft_tokens: IntArray, seed: int, seeds: IntArray | None
    ) -> IntArray:
        assert self._bonus is not None
        if seeds is not None:  # then a row's bonus, too, must follow from its own seed wherever the row stands
            rows = zip(draft_tokens[:, None], num_draft_tokens[:, None], seeds.tolist(), strict=True)
            return np.concatenate([self._bonus_tokens(draft, length, own, None) for draft, length, own in rows])
        nothing = np.full_like(num_draft_tokens, -1)
        rng = stream(seed, BONUS)
        trace = self._bonus.complete(draft_tokens, num_draft_tokens, num_draft_tokens, nothing, rng)
        tokens: IntArray = trace.completed[np.arange(len(draft_tokens)), num_draft_tokens]
        return tokens

    def _same(self, argument: Any, expected: Any) -> bool:
        if self.verifier.framework == "numpy":
            return _same_bits(argument, expected)
        import torch

        expected = expected if torch.is_tensor(expected) else self._placed(expected)
        if argument.shape != expected.shape or argument.dtype != expected.dtype:
            return False
        if argument.numel() < LARGE or argument.device.type != "cpu":
            return bool(torch.equal(argument, expected))
        # NumPy compares large arrays several times as fast; it has no bfloat16, but all bits may be read as integers.
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[argument.element_size()]
        return _same_bits(*(tensor.detach().view(bits).numpy() for tensor in (argument, expected)))


def _same_bits(given: npt.NDArray[Any], due: npt.NDArray[Any]) -> bool:
    if given.dtype != due.dtype:
        return False
    if _fills_words(given) and _fills_words(due):
        given, due = given.view(np.int64), due.view(np.int64)  # fewer numbers are compared faster
    return np.array_equal(given, due)


def _fills_words(array: npt.NDArray[Any]) -> bool:
    width = array.itemsize
    return array.ndim > 0 and array.strides[-1] == width and array.shape[-1] * width % 8 == 0


def _split(array: Any, bounds: Sequence[tuple[int, int]]) -> Sequence[Any]:
    if isinstance(array, np.ndarray):
        return [array[start:stop] for start, stop in bounds]
    return array.split([stop - start for start, stop in bounds])  # type: ignore[no-any-return]  # a tuple of tensors


@lru_cache(maxsize=256)
def _null_case(case: Case, dtype: str, target_form: Form | None, draft_form: Form | None) -> Case:
    """Make the case of the law of the rounded rows, once: the laws enumerated for it are kept with it."""
    pairs = ((case.target, target_form), (case.draft, draft_form))
    return case.replace_rows(
        *(
            [rows if form is None else law_of(rounded(rows, dtype, form), form) for rows in levels]
            for levels, form in pairs
        )
    )
