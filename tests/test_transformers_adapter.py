"""Torch verifiers get tensors and return tensors, and transformers' own verification step is called as it expects."""
# ruff: noqa: ARG005 - a stub sampler is declared by its parameter names, whether it reads them or not

from typing import Any

import numpy as np
import pytest

from specverify import registry
from specverify.calling import SamplerRaised, call
from specverify.cases import Case
from specverify.contract import verifier
from specverify.errors import ContractError
from specverify.handing import Handed
from specverify.randomness import global_randomness
from specverify.reading import OutputFault
from specverify.sampling import CaseSampler

torch = pytest.importorskip("torch", reason="torch is not installed")

DRAFT = np.array([[0, 1], [2, 0]])
FULL = np.array([2, 2])


@pytest.fixture
def flat() -> Case:
    """Make a case of three tokens, one of them impossible under the target."""
    return Case.from_rows("flat", ["1/2", "1/2", "0"], ["1/4", "1/4", "1/2"], num_draft_tokens=2)


def handed_to(case: Case, **options: Any) -> dict[str, Any]:
    """Give what a torch sampler gets."""
    seen: dict[str, Any] = {}

    def stub(draft_tokens: Any, draft_probs: Any, target_logits: Any, uniforms: Any, generator: Any) -> Any:
        seen.update(locals())
        return draft_tokens

    declared = verifier(framework="torch", **options)(stub)
    call(declared, Handed(case, declared), DRAFT, FULL, 5)
    return seen


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("readonly", [False, True])
def test_tensors_have_the_declared_dtype(flat: Case, dtype: str, readonly: bool) -> None:
    """Token ids are int64 tensors, floats have the declared dtype, uniforms at least float32; all private."""
    seen = handed_to(flat, dtype=dtype, readonly=readonly)
    assert seen["draft_tokens"].dtype == torch.int64
    for name in ("draft_probs", "target_logits"):
        assert seen[name].dtype == getattr(torch, dtype)
        assert seen[name].is_contiguous()
        assert seen[name].shape[0] == 2
    uniforms = seen["uniforms"]
    fine = torch.float64 if dtype == "float64" else torch.float32
    assert uniforms.accept.dtype == uniforms.final.dtype == fine
    assert torch.equal(seen["draft_probs"][1, 0].double(), torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64))
    assert seen["target_logits"][0, 2, 2] == -torch.inf
    assert torch.rand(1, generator=seen["generator"]) == torch.rand(1, generator=torch.Generator().manual_seed(5))


def test_bfloat16_law_is_what_torch_holds() -> None:
    """The null law is the renormalised value of the bfloat16 tensors themselves."""
    case = Case.from_rows("c", [0.1, 0.2, 0.7], [0.3, 0.3, 0.4], num_draft_tokens=1)
    declared = verifier(framework="torch", dtype="bfloat16")(lambda draft_tokens, target_probs, draft_probs: None)
    handed = Handed(case, declared)
    tensor = handed.batch(np.array([[0]]), np.array([1]), 0).arguments["target_probs"][0, 0]
    assert torch.equal(tensor, torch.tensor([0.1, 0.2, 0.7], dtype=torch.bfloat16))
    law = tensor.double() / tensor.double().sum()
    assert handed.case.target[0][0].tolist() == law.tolist()


def test_tensors_are_read_in_either_form(flat: Case) -> None:
    """Tensors, also inside the pair or in a list of rows, are read; floats are a fault, bfloat16 too."""
    accepted, following = torch.tensor([0, 1]), torch.tensor([1, 0], dtype=torch.int32)
    rows = torch.tensor([[1, -1, -1], [2, 0, -1]])
    for result in ((accepted, following), rows, [rows[0], rows[1]]):
        stub = verifier(lambda draft_tokens, result=result: result)
        reply = call(stub, Handed(flat, stub), DRAFT, FULL, 0)
        assert (reply.num_accepted.tolist(), reply.next_token.tolist()) == ([0, 1], [1, 0])
    for dtype in (torch.float32, torch.bfloat16):
        stub = verifier(lambda draft_tokens, dtype=dtype: rows.to(dtype))
        with pytest.raises(OutputFault, match=r"got floats such as 1\.0"):
            call(stub, Handed(flat, stub), DRAFT, FULL, 0)


@pytest.mark.parametrize("name", ["draft_tokens", "target_probs"])
def test_an_undeclared_change_of_a_tensor_is_a_warning(flat: Case, name: str) -> None:
    """Writing in place is a warning that names the tensor, and the next call gets the original."""

    def stub(draft_tokens: Any, target_probs: Any) -> Any:
        seen.append(locals()[name].clone())
        locals()[name].zero_()
        return (torch.zeros(2, dtype=torch.int64),) * 2

    seen: list[Any] = []
    declared = verifier(framework="torch")(stub)
    handed = Handed(flat, declared)
    for _ in range(2):
        warnings = call(declared, handed, DRAFT, FULL, 0).warnings
        assert warnings == (f"stub changed its argument {name} without mutates=(...)",)
    assert torch.equal(seen[0], seen[1])


def test_changed_threads_are_a_warning(flat: Case) -> None:
    """Changing torch's number of threads is told once it happens."""
    before = torch.get_num_threads()
    stub = verifier(lambda draft_tokens: torch.set_num_threads(before + 1) or draft_tokens)
    try:
        (warning,) = call(stub, Handed(flat, stub), DRAFT, FULL, 0).warnings
    finally:
        torch.set_num_threads(before)
    assert f"number of threads from {before} to {before + 1}" in warning


def test_the_global_torch_generator_is_seeded_and_put_back(flat: Case) -> None:
    """A sampler on the global generator replays with the seed, and the user's stream goes on undisturbed."""
    stub = verifier(framework="torch")(lambda draft_tokens: (torch.randint(0, 3, (2,)), torch.randint(0, 3, (2,))))
    handed = Handed(flat, stub)
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    replies = [call(stub, handed, DRAFT, FULL, seed) for seed in (1, 1, *range(2, 40))]
    assert torch.equal(torch.rand(3), expected)
    keys = [(*reply.num_accepted.tolist(), *reply.next_token.tolist()) for reply in replies]
    assert keys[0] == keys[1]
    assert len(set(keys)) > 1


def test_numpy_and_torch_do_not_share_numbers(flat: Case) -> None:
    """Both generators run the Mersenne Twister; seeded alike, they would hold the same state."""
    shared = set()

    def stub(draft_tokens: Any) -> Any:
        words = np.random.randint(0, 2**31, size=8).tolist()  # noqa: NPY002
        shared.update(set(words) & set(torch.randint(0, 2**31, (8,)).tolist()))
        return draft_tokens

    declared = verifier(stub)
    handed = Handed(flat, declared)
    for seed in range(20):
        call(declared, handed, DRAFT, FULL, seed)
    assert not shared


def test_a_device_that_torch_lacks_is_one_line(flat: Case) -> None:
    """A device that cannot be used here is refused before anything runs."""
    declared = verifier(framework="torch", device="no_such_device")(lambda draft_tokens: None)
    with pytest.raises(ContractError, match="expected a device that torch can use here, got 'no_such_device'") as told:
        Handed(flat, declared)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("asked", ["generator", "seed"])
def test_a_device_that_gives_nothing_back_is_one_line(flat: Case, asked: str) -> None:
    """The device "meta" holds shapes without numbers: it is refused like one that is not there."""
    scope: dict[str, Any] = {}
    exec(f"def stub(draft_tokens, {asked}): return None", scope)
    declared = verifier(framework="torch", device="meta")(scope["stub"])
    with pytest.raises(ContractError, match=r"expected a device that torch can use here, got 'meta' \(") as told:
        Handed(flat, declared)
    assert "\n" not in str(told.value)


UNREADABLE: dict[str, Any] = {
    "sparse": lambda tokens: tokens.to_sparse(),
    "meta": lambda tokens: tokens.to("meta"),
    "float8": lambda tokens: tokens.to(torch.float8_e4m3fn),
    "conjugate": lambda tokens: tokens.to(torch.complex64).conj(),
    "pair": lambda tokens: (tokens[:, 0].to_sparse(), tokens[:, 0]),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_tensor_that_numpy_cannot_hold_is_a_wrong_output(flat: Case, name: str) -> None:
    """Sparse, meta, 8-bit and conjugated tensors are told by kind, and are no exception of the sampler."""
    stub = verifier(framework="torch")(lambda draft_tokens: UNREADABLE[name](draft_tokens))
    with pytest.raises(
        OutputFault, match=r"^got a tensor \(\w+ of \w+ on \w+\) that NumPy cannot hold, expected"
    ) as told:
        call(stub, Handed(flat, stub), DRAFT, FULL, 0)
    assert "\n" not in str(told.value)


def test_an_error_while_copying_is_the_samplers_own(flat: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel still at work did wrong surfaces in the copy to the host, and is told as an exception."""

    def copy(_tensor: Any) -> Any:
        raise RuntimeError("device-side assert")

    stub = verifier(framework="torch")(lambda draft_tokens: draft_tokens)
    handed = Handed(flat, stub)
    monkeypatch.setattr(torch.Tensor, "cpu", copy)
    with pytest.raises(SamplerRaised, match="device-side assert"):
        call(stub, handed, DRAFT, FULL, 0)


# --- transformers ----------------------------------------------------------------------------------------------------


@pytest.fixture
def adapter() -> Any:
    """Load the adapter, where transformers is installed."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    return registry.load("transformers")


def test_the_adapter_declares_what_it_is(adapter: Any) -> None:
    """It claims the token rule, takes one sequence in float32, and records the versions."""
    assert (adapter.name, adapter.rule, adapter.framework, adapter.dtype) == (
        "transformers",
        "token",
        "torch",
        "float32",
    )
    assert (adapter.max_batch, adapter.asks) == (1, {"draft_tokens", "draft_logits", "target_logits"})
    assert adapter.version.startswith("transformers ")


@pytest.mark.parametrize("num_draft_tokens", [0, 1, 3])
def test_certain_drafts_are_decided_with_certainty(adapter: Any, num_draft_tokens: int) -> None:
    """A draft that the target is sure of is kept whole with its bonus; one that it excludes is replaced at once."""
    lengths = np.array([num_draft_tokens])
    kept = np.ones((1, num_draft_tokens), dtype=np.int64)
    case = Case.from_rows("c", [0, 1, 0], ["1/4", "1/4", "1/2"], num_draft_tokens=num_draft_tokens)
    handed = Handed(case, adapter)
    for seed in range(5):
        reply = call(adapter, handed, kept, lengths, seed)
        assert (reply.num_accepted.tolist(), reply.next_token.tolist()) == ([num_draft_tokens], [1])
        if num_draft_tokens:
            reply = call(adapter, handed, 2 * kept, lengths, seed)
            assert (reply.num_accepted.tolist(), reply.next_token.tolist()) == ([0], [1])


def test_the_law_is_the_token_rules(adapter: Any) -> None:
    """On the two-token example it accepts about 0.8 of the drafts and replaces the rest with token B only."""
    case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
    handed = Handed(case, adapter)
    draft, _ = CaseSampler(handed.case).draft(400, np.random.default_rng(3))
    with global_randomness():
        replies = [call(adapter, handed, row[None], np.array([1]), seed) for seed, row in enumerate(draft)]
    accepted = sum(int(reply.num_accepted[0]) for reply in replies)
    assert abs(accepted - 320) < 64  # eight standard deviations
    assert {int(reply.next_token[0]) for reply in replies if reply.num_accepted[0] == 0} == {1}
    assert all(reply.warnings == () for reply in replies)


def test_an_error_inside_transformers_is_shown_without_the_kits_frames(adapter: Any, flat: Case) -> None:
    """More than one sequence is the engine's own error, told with its frames."""
    with pytest.raises(SamplerRaised) as told:
        call(adapter, Handed(flat, adapter), DRAFT, FULL, 0)
    assert "_speculative_sampling" in told.value.message or "cat" in told.value.message
    assert "specverify/calling.py" not in told.value.message
