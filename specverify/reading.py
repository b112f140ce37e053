"""What a verifier returned is read strictly: anything the contract does not name is a fault, with its first row shown.

Two forms are read. ``tokens`` int [B, at most G + 1]: the accepted prefix, one replacement or bonus token, then -1. The
pair ``(num_accepted, next_token)``, int [B] each (a trailing axis of length 1 is dropped): next_token is -1 where none
was emitted.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from specverify.arrays import BoolArray, IntArray
from specverify.errors import SpecverifyError
from specverify.tree import Tree
from specverify.wording import brief, told

__all__ = ["OutputFault", "on_host", "padded_tokens", "read", "read_drafted", "read_tree", "refuse", "vector"]

_KINDS = {"f": "floats", "b": "booleans", "c": "complex numbers", "U": "strings", "S": "strings"}
_FORMS = "tokens [B, at most G+1] or the pair (num_accepted [B], next_token [B])"
_DRAFTED = "(draft_tokens [B, at most G], num_accepted [B], next_token [B])"
SHOWN = 8
_MAX_INT64 = 2**63 - 1


class OutputFault(SpecverifyError):
    """What a verifier returned breaks the contract: the structure check fails with this message.

    Attributes:
        message: One line: which row, what came back, what was expected.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def on_host(result: object) -> object:
    """Bring torch tensors, also inside a tuple or list, to the host as NumPy arrays; torch is never imported for it.

    Raises:
        OutputFault: A tensor is of a kind that NumPy lacks; what else fails on the way is the sampler's own error.

    Example:
        >>> on_host(([1], [2]))
        ([1], [2])
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return result
    if isinstance(result, tuple):
        return tuple(map(on_host, result))
    if isinstance(result, list) and result and isinstance(result[0], torch.Tensor):
        return [on_host(row) for row in result]
    return _host_array(result, torch) if isinstance(result, torch.Tensor) else result


def _host_array(tensor: Any, torch: Any) -> Any:
    # Errors of kernels still at work surface in the copy, as other kinds of error than one that has no copy.
    copied = False
    try:
        host = tensor.detach().cpu()
        copied = True
        return (host.float() if host.dtype is torch.bfloat16 else host).numpy()  # NumPy has no bfloat16
    except Exception as error:
        if not copied and not isinstance(error, NotImplementedError):
            raise
        kind = f"{tensor.layout} of {tensor.dtype} on {tensor.device}".replace("torch.", "")
        refuse(f"got a tensor ({kind}) that NumPy cannot hold, expected a dense one of integers: {_FORMS}")


def read(
    result: object, draft_tokens: IntArray, num_draft_tokens: IntArray, vocab_size: int
) -> tuple[IntArray, IntArray]:
    """Read either return form of a verifier.

    In the tokens form the last token of a row is always its replacement or bonus, and the ones before it are the
    accepted prefix: a replacement may equal the rejected draft. Who emits no bonus returns the pair.

    Args:
        result: What the verifier returned, with tensors on the host.
        draft_tokens: int64 [B, G], -1 beyond a row's own length.
        num_draft_tokens: int64 [B].
        vocab_size: Number of tokens V.

    Returns:
        num_accepted int64 [B] and next_token int64 [B] (-1: none), both private.

    Raises:
        OutputFault: It is neither form, or a row holds what the contract excludes.

    Example:
        >>> draft, lengths = np.array([[0, 1], [2, 0]]), np.array([2, 2])
        >>> read([[0, 2, -1], [2, 0, 1]], draft, lengths, 3)
        (array([1, 2]), array([2, 1]))
    """
    if isinstance(result, tuple):
        return _read_pair(result, draft_tokens, num_draft_tokens, vocab_size)
    return _read_tokens(result, draft_tokens, num_draft_tokens, vocab_size)


def read_drafted(
    result: object, shape: tuple[int, ...], vocab_size: int, *, triple: bool
) -> tuple[IntArray, IntArray, IntArray]:
    """Read what a verifier that drafts by itself returned.

    Args:
        result: The triple (draft_tokens, num_accepted, next_token), or the tokens alone: then what was drafted and
            refused stays unknown, and every token but the last is taken as an accepted draft.
        shape: (B, G).
        vocab_size: Number of tokens V.
        triple: Whether only the triple will do, as for a verifier that declares a rule.

    Returns:
        draft_tokens int64 [B, G], -1 beyond a row's own length, num_accepted int64 [B] and next_token int64 [B].

    Raises:
        OutputFault: It is neither form, or a row holds what the contract excludes.

    Example:
        >>> read_drafted(([[0, 2]], [1], [1]), (1, 2), 3, triple=True)
        (array([[0, 2]]), array([1]), array([1]))
    """
    rows, length = shape
    unknown = np.empty((rows, 0), dtype=np.int64)  # what was drafted is not shown before it is read
    if isinstance(result, tuple):
        if len(result) != 3:
            refuse(f"got a tuple of {len(result)}, expected {_DRAFTED}")
        drafts, lengths = padded_tokens(result[0], "draft_tokens", unknown, length, vocab_size)
        return drafts, *_read_pair(result[1:], drafts, lengths, vocab_size)
    if triple:
        refuse(f"got tokens alone from a verifier that drafts and declares a rule, expected {_DRAFTED}")
    tokens, count = padded_tokens(result, "tokens", unknown, length + 1, vocab_size)
    last = np.where(count == 0, -1, tokens[np.arange(rows), np.maximum(count - 1, 0)])
    accepted = np.maximum(count - 1, 0)
    return np.where(np.arange(length) < accepted[:, None], tokens[:, :length], -1), accepted, last


def read_tree(
    result: object, tree: Tree, draft_tokens: IntArray, vocab_size: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Read what a tree verifier returned: in each row the tokens of a path from the root, and one more token.

    Args:
        result: What the verifier returned, with tensors on the host.
        tree: The tree of the case.
        draft_tokens: int64 [B, N], -1 where a node does not exist.
        vocab_size: Number of tokens V.

    Returns:
        The path int64 [B, depth], padded with -1, num_accepted int64 [B] and next_token int64 [B].

    Raises:
        OutputFault: It is no such array.

    Example:
        >>> read_tree([[2, 0, -1]], Tree((-1, -1, 1), "top"), np.array([[1, 2, 1]]), 3)
        (array([[ 2, -1]]), array([1]), array([0]))
    """
    rows, depth = len(draft_tokens), tree.depth
    if isinstance(result, tuple):
        refuse(f"got a tuple from a tree verifier, expected tokens [{rows}, {depth + 1}], padded with -1")
    tokens, count = padded_tokens(result, "tokens", draft_tokens, depth + 1, vocab_size)
    accepted = count - 1
    text = "expected a path of drafted tokens from the root, and one more token"
    _check_rows((count == 0) | (tree.matched(draft_tokens, tokens) < accepted), tokens, draft_tokens, text)
    path = np.where(np.arange(depth) < accepted[:, None], tokens[:, :depth], -1)
    return path, accepted, tokens[np.arange(rows), accepted]


def padded_tokens(
    value: object, name: str, draft: IntArray, width: int, vocab_size: int, forms: str = _FORMS
) -> tuple[IntArray, IntArray]:
    """Read rows of tokens padded with -1, fewer columns too; gives them at full width and how many each row has."""
    rows = len(draft)
    given = _integers(value, name, forms)
    if given.ndim != 2 or len(given) != rows or given.shape[1] > width:
        shape = f"got {name} of shape {list(given.shape)}, expected [{rows}, at most {width}], padded with -1"
        refuse(shape + _one_sequence(len(given) if given.ndim else 0, rows))
    _check_range(given, name, draft, vocab_size)
    tokens = np.full((rows, width), -1, dtype=np.int64)
    tokens[:, : given.shape[1]] = given
    real = tokens >= 0
    padding = np.logical_or.reduce(real[:, 1:] > real[:, :-1], axis=1)
    _check_rows(padding, tokens, draft, "expected -1 only after the last token", name)
    return tokens, np.add.reduce(real, axis=1, dtype=np.int64)


def _read_pair(
    result: tuple[object, ...], draft: IntArray, lengths: IntArray, vocab_size: int
) -> tuple[IntArray, IntArray]:
    if len(result) != 2:
        refuse(f"got a tuple of {len(result)}, expected {_FORMS}")
    accepted, following = (
        vector(value, name, len(draft)) for name, value in zip(("num_accepted", "next_token"), result, strict=True)
    )
    if accepted.min(initial=0) < 0 or (accepted > lengths).any():
        row = int(((accepted < 0) | (accepted > lengths)).argmax())
        refuse(f"{_row(row, draft)}: got num_accepted {accepted[row]}, expected 0 to {lengths[row]}, its draft length")
    _check_range(following[:, None], "next_token", draft, vocab_size)
    return accepted.astype(np.int64), following.astype(np.int64)


def _read_tokens(result: object, draft: IntArray, lengths: IntArray, vocab_size: int) -> tuple[IntArray, IntArray]:
    rows, length = draft.shape
    tokens, count = padded_tokens(result, "tokens", draft, length + 1, vocab_size)
    same = np.add.reduce(np.logical_and.accumulate(tokens[:, :-1] == draft, axis=1), axis=1, dtype=np.int64)
    accepted = np.maximum(count - 1, 0)
    _check_rows(count > lengths + 1, tokens, draft, "expected at most one token more than its draft has")
    _check_rows(same < accepted, tokens, draft, "expected every token but the last to be the drafted one")
    return accepted, np.where(count == 0, -1, tokens[np.arange(rows), accepted])


def vector(value: object, name: str, rows: int, forms: str = _FORMS) -> npt.NDArray[Any]:
    """Read one integer per row, with a trailing axis of length 1 dropped: int [B]."""
    array = _integers(value, name, forms)
    if array.shape not in ((rows,), (rows, 1)):
        shape = f"got {name} of shape {list(array.shape)}, expected [{rows}]"
        hint = _one_sequence(len(array) if array.ndim else 1, rows)
        refuse(f"{shape}; a tuple is read as (num_accepted, next_token){hint}" if forms == _FORMS else shape)
    return array.reshape(rows)


def _one_sequence(given: int, rows: int) -> str:
    return "; a sampler that takes one sequence declares max_batch=1" if given == 1 < rows else ""


def _integers(value: object, name: str, forms: str) -> npt.NDArray[Any]:
    if value is None:
        refuse(f"got None for {name}, expected {forms}; the return statement may be missing")
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(value, np.ma.MaskedArray) or isinstance(first, np.ma.MaskedArray):
        refuse(f"got a masked array for {name}, expected plain integers; fill what is masked with -1")
    try:
        array = np.asarray(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a foreign array type raises
        if "inhomogeneous" in str(error):
            refuse(f"got rows of different lengths for {name}, expected {forms}; pad shorter rows with -1")
        refuse(f"got {type(value).__name__} for {name} that is no array ({told(error)}), expected {forms}")
    if array.size == 0 and array.ndim > 0:
        return array.astype(np.int64)  # an empty list has no integers to show
    if array.dtype.kind not in "iu":
        refuse(f"got {_describe(value, array)} for {name}, expected integers: {forms}")
    return array


def _describe(value: object, array: npt.NDArray[Any]) -> str:
    if array.dtype.kind == "f" and np.isnan(array).any():
        return "NaN"
    # Python integers too large for any integer type become objects, or floats where some are negative.
    items = array if isinstance(value, np.ndarray) else np.asarray(value, dtype=object)
    if items.dtype.kind == "O":
        foreign = [item for item in items.flat if not isinstance(item, int | np.integer) or isinstance(item, bool)]
        if not foreign and any(abs(int(item)) > _MAX_INT64 for item in items.flat):
            return "integers beyond int64"
        if array.dtype.kind == "O":
            inner = foreign[0] if foreign else items.flat[0]
            whole = type(value).__name__
            return whole if inner is value else f"{whole} of dtype object holding {type(inner).__name__}"
    return f"{_KINDS.get(array.dtype.kind, str(array.dtype))} such as {brief(array.flat[0].item())}"


def _check_range(tokens: npt.NDArray[Any], name: str, draft: IntArray, vocab_size: int) -> None:
    if tokens.min(initial=0) < -1 or tokens.max(initial=0) >= vocab_size:
        bad = np.logical_or.reduce((tokens < -1) | (tokens >= vocab_size), axis=1)
        _check_rows(bad, tokens, draft, f"expected -1 to {vocab_size - 1}", name)


def _check_rows(bad: BoolArray, tokens: npt.NDArray[Any], draft: IntArray, expected: str, name: str = "tokens") -> None:
    if bad.any():
        row = int(bad.argmax())
        refuse(f"{_row(row, draft)}: got {name} {_shown(tokens[row])}, {expected}")


def _row(row: int, draft: IntArray) -> str:
    return f"row {row}" + (f" (draft_tokens {_shown(draft[row])})" if draft.shape[1] else "")


def _shown(tokens: npt.NDArray[Any]) -> str:
    items = [str(token) for token in tokens[:SHOWN].tolist()]
    return f"[{', '.join(items + ['...'] * (len(tokens) > SHOWN))}]"


def refuse(message: str) -> NoReturn:
    """Raise an OutputFault."""
    raise OutputFault(message)
