"""The Triton kernel gives the tokens of NumPy, bit for bit, in Triton's interpreter on the CPU."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from test_reference_philox import PUBLISHED

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton (dependency group kernels)")

COMPARE = """
import sys
import numpy as np
from specverify.gpu_tests import KINDS, batch, tensors
from specverify.reference import verify_token_seeded, verify_token_triton

kinds, dtypes, sizes = sys.argv[1].split(), sys.argv[2].split(), [tuple(map(int, s.split("x"))) for s in sys.argv[3:]]
rows = 0
for kind in kinds or KINDS:
    for dtype in dtypes:
        for size, gamma, vocab in sizes:
            given = batch(kind, size, gamma, vocab, dtype=dtype, seed=1, ragged=True)
            placed = tensors(given, "cpu", dtype)
            trial = 2**32 - 5
            expected = verify_token_seeded(*given[:3], 2**63 + 3, trial, given.num_draft_tokens)
            found = verify_token_triton(*placed[:3], 2**63 + 3, trial, placed.num_draft_tokens)
            for array, tensor in zip(expected, found, strict=True):
                assert np.array_equal(array, tensor.numpy()), (kind, dtype, size, gamma, vocab)
            rows += size
print(rows)
"""

REFUSE = """
import torch
from specverify.reference import verify_token_triton
p, q, x = torch.full((3, 2, 4), 0.25), torch.full((3, 1, 4), 0.25), torch.tensor([[0], [3], [1]])
spoilt = p.clone(); spoilt[1] = float("nan")
negative = p.clone(); negative[2, 1, 0] = -0.2
wrong = {
    "length": lambda: verify_token_triton(x, q, p, 0, 0, torch.tensor([0, 1, 2])),
    "token": lambda: verify_token_triton(x + torch.tensor([[0], [1], [0]]), q, p, 0),
    "nan": lambda: verify_token_triton(x, q, spoilt, 0),
    "negative": lambda: verify_token_triton(x, q, negative, 0),
    "sum": lambda: verify_token_triton(x, q, p * 9, 0),
    "zeros": lambda: verify_token_triton(x, q, p * 0, 0),
    "seed": lambda: verify_token_triton(x, q, p, -1),
    "shape": lambda: verify_token_triton(x, q, p[:, :1], 0),
}
for name, attempt in wrong.items():
    try:
        attempt()
    except ValueError as error:
        print(name, "|", error)
views = q[:1].expand(3, 1, 4), p[:1].expand(3, 2, 4)
same = [t.tolist() for t in verify_token_triton(x, *views, 5)] == [t.tolist() for t in verify_token_triton(x, q, p, 5)]
print("views", same)
print("empty", [t.tolist() for t in verify_token_triton(x[:0], q[:0], p[:0], 5)])
"""


WORDS = """
import sys
import torch, triton, triton.language as tl
import specverify.reference.triton_kernel as module

philox = module._philox

@triton.jit
def store(given, found):
    c0, c1, c2, c3 = (tl.load(given).to(tl.uint32), tl.load(given + 1).to(tl.uint32),
                      tl.load(given + 2).to(tl.uint32), tl.load(given + 3).to(tl.uint32))
    words = philox(c0, c1, c2, c3, tl.load(given + 4).to(tl.uint32), tl.load(given + 5).to(tl.uint32))
    for i in tl.static_range(4):
        tl.store(found + i, words[i].to(tl.int64))

for line in sys.argv[1:]:
    found = torch.zeros(4, dtype=torch.int64)
    store[1,](torch.tensor([int(word, 16) for word in line.split()]), found)
    print(*(f"{word:08x}" for word in found.tolist()))
"""

SAMPLER = """
import numpy as np
from specverify.gpu_tests import batch, tensors
from specverify.reference import verify_token_seeded
from specverify.registry import load

sampler, given = load("reference-triton"), batch("random", 40, 3, 9, dtype="float64", seed=1, ragged=True)
placed = tensors(given, "cpu", "float64")
names = "draft_tokens", "draft_probs", "target_probs"
arguments = dict(zip(names, placed[:3])) | {"num_draft_tokens": placed.num_draft_tokens}
found = np.stack([kind.numpy() for kind in sampler.function(**arguments, seed=7)])
expected = np.stack(verify_token_seeded(*given[:3], 7, 0, given.num_draft_tokens))
print(sampler.name, sampler.rule, sampler.device, sampler.version.endswith("interpreted"), (found == expected).all())
"""


def interpreted(code: str, *arguments: str) -> str:
    """Run code in a process of its own, where Triton's kernels are interpreted: that is settled when they are made."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_every_kind_of_batch_agrees(dtype: str) -> None:
    """Zeros, single tokens, disjoint, equal and subnormal rows, ragged drafts, vocabularies of one token and more."""
    assert int(interpreted(COMPARE, "", dtype, "4x3x1", "6x1x2", "6x4x5", "2x0x33", "3x3x257")) == 6 * 21


def test_wide_rows_agree() -> None:
    """Rows of several chunks, full and not, up to the vocabularies of models."""
    sizes = "4x2x4096", "4x2x9001", "3x4x32768", "2x2x131072"
    assert int(interpreted(COMPARE, "random disjoint", "float32 bfloat16", *sizes)) == 4 * 13


def test_what_cannot_be_verified_is_refused() -> None:
    """In the words of the other kernels; views of one row are taken, and no rows at all."""
    lines = interpreted(REFUSE).splitlines()
    told = dict(line.split(" | ") for line in lines if " | " in line)
    assert set(told) == {"length", "token", "nan", "negative", "sum", "zeros", "seed", "shape"}
    assert "num_draft_tokens in 0 .. 1, got a value outside it in row 2" in told["length"]
    assert "draft_tokens in [0, 4), got a value outside it in row 1" in told["token"]
    assert "sum below 2 in row 1" in told["nan"]
    assert "sum below 2 in row 2" in told["negative"]
    assert "sum below 2 in row 0" in told["sum"]
    assert "mass to draw from in row 0" in told["zeros"]
    assert "views True" in lines
    assert "empty [[], []]" in lines


def test_the_published_words(tmp_path: Path) -> None:
    """The function that makes the kernel's words gives the known answers of Random123."""
    program = tmp_path / "words.py"  # what Triton compiles or interprets is read from a file
    program.write_text(WORDS)
    code = f"import runpy; runpy.run_path({str(program)!r})"
    found = interpreted(code, *(f"{counter} {key}" for counter, key, _ in PUBLISHED))
    assert found.splitlines() == [output for *_, output in PUBLISHED]


def test_it_is_a_registered_sampler() -> None:
    """With the interpreter it is found by its name, says so in its version, and gives the tokens of NumPy."""
    assert interpreted(SAMPLER) == "reference-triton token cpu True True\n"


COMPILE = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from specverify.reference import verify_token_triton
import specverify.reference.triton_kernel as module

names = module._verify.arg_names
numbers = dict.fromkeys(names, "i32") | dict(tokens="*i64", lengths="*i64", found="*i64")
for probs in ("*fp64", "*fp32", "*i16", "*fp16"):
    for one in ((), ("gamma", "vocab", "size")):
        constants = {"CHUNK": 64, "CHUNKS": 1} | dict.fromkeys(one, 1)
        types = numbers | dict(draft=probs, target=probs) | dict.fromkeys(constants, "constexpr")
        source = ASTSource(module._verify, types, {(names.index(n),): value for n, value in constants.items()})
        assert "ptx" in compile(source, target=GPUTarget("cuda", 90, 32)).asm
print("compiled")
"""


def test_it_compiles_for_a_gpu() -> None:
    """Triton's compiler takes it for every type of array, also where a number is 1, which it then makes a constant."""
    done = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout == "compiled\n", done.stderr[-2000:]
