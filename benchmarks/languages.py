"""Kernels of others in the newer kernel languages, each against a plain reference, on a CPU.

    python benchmarks/languages.py --foreign FOLDER   # judge them, and a fault of each language
    python benchmarks/languages.py --report           # the table from the rows of a run

FOLDER has a copy of each repository as OWNER/NAME, and the file COMMIT in it that says of which
state. The packages of the languages are installed, or on `--packages`, a folder for each language.
What is judged is a folder: the published file, or definitions of it, as `theirs.py`, and beside it
`kernel.py`, which calls it as its own example does. A fault is one edit of `theirs.py`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import ROOT, save

_ROWS = ROOT / "build" / "languages.ndjson"
_ANSWERS = (
    "from typing import Annotated\n\nimport torch\n\nfrom cuassay import problem, tensor\n\n\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A published kernel: `path` in `repository`, called by `kernel`, judged against `problem`.

    With `take`, only these definitions of the file are taken, below `head`. `fault` is an edit that
    makes the kernel wrong, of the languages' first kernels alone.
    """

    language: str
    name: str
    repository: str
    path: str
    kernel: str
    problem: str
    take: tuple[str, ...] = ()
    head: str = ""
    beside: tuple[str, ...] = ()  # other files of its folder that it reads
    fault: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a check said of a kernel or of its fault."""

    language: str
    name: str
    source: str
    faulty: bool
    verdict: str
    reason: str
    codes: tuple[str, ...]
    conditions: tuple[str, ...]
    made: int
    judged: int
    checks: int
    seconds: float
    seed: int | None

    @property
    def key(self) -> tuple[str, bool]:
        """What identifies the row."""
        return f"{self.language}/{self.name}", self.faulty


def _pointwise(expression: str, *, inputs: Sequence[str], dtype: str, shape: Sequence[str]) -> str:
    """Return a problem whose output has the shape of each of its inputs."""
    axes = ", ".join(f'"{axis}": (1, {1 << 24 if len(shape) == 1 else 8192})' for axis in shape)
    sizes = ", ".join(f'"{axis}": {one}' for axis, one in zip(shape, (1000, 700), strict=False))
    spec = f'tensor("{dtype}", {", ".join(map(repr, shape))}'
    given = "".join(f"    {one}: Annotated[torch.Tensor, {spec})],\n" for one in inputs)
    return (
        f"{_ANSWERS}@problem(axes={{{axes}}}, workloads=[{{{sizes}}}])\ndef run(\n{given}"
        f') -> Annotated[torch.Tensor, {spec}, name="out")]:\n    return {expression}\n'
    )


_PRODUCT = (
    _ANSWERS
    + """@problem(axes={"m": (1, 4096), "n": (1, 4096), "k": (1, 4096)},
         workloads=[{"m": 96, "n": 160, "k": 128}])
def run(
    a: Annotated[torch.Tensor, tensor("DTYPE", "m", "k")],
    b: Annotated[torch.Tensor, tensor("DTYPE", "k", "n")],
) -> Annotated[torch.Tensor, tensor("DTYPE", "m", "n", name="out")]:
    return a @ b
"""
)
_ROWS_OF = (
    _ANSWERS
    + """@problem(axes={"rows": (1, 8192), "cols": (1, 8192)},
         workloads=[{"rows": 48, "cols": 640}])
def run(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "cols")],
) -> Annotated[torch.Tensor, tensor("float32", SHAPE, name="out")]:
    return EXPRESSION
"""
)


def _rows(expression: str, *, reduces: bool = False) -> str:
    shape = '"rows"' if reduces else '"rows", "cols"'
    return _ROWS_OF.replace("SHAPE", shape).replace("EXPRESSION", expression)


_ADD = _pointwise("x + y", inputs="xy", dtype="float32", shape=("n",))
_ADD_ROWS = _pointwise("x + y", inputs="xy", dtype="float32", shape=("m", "n"))
_COPY = _pointwise("x.clone()", inputs="x", dtype="float32", shape=("n",))
_SAXPY = """
from typing import Annotated

import torch

from cuassay import problem, tensor


@problem(axes={"n": (1, 1 << 24)}, workloads=[{"n": 1000}])
def run(
    a: Annotated[torch.Tensor, tensor("float32", 1)],
    x: Annotated[torch.Tensor, tensor("float32", "n")],
    y: Annotated[torch.Tensor, tensor("float32", "n")],
) -> Annotated[torch.Tensor, tensor("float32", "n", name="out")]:
    return a * x + y
"""
_ARANGE = """
from typing import Annotated

import torch

from cuassay import domains, problem, tensor


@problem(axes={"n": (1, 1 << 24)}, workloads=[{"n": 1024}])
def run(
    x: Annotated[
        torch.Tensor,
        tensor("int32", "n", domain=domains.IntegerRange(low=-1000, high=1000), updated=True),
    ],
) -> None:
    x += torch.arange(x.shape[0], dtype=x.dtype, device=x.device)
"""
_RMS = """
from typing import Annotated

import torch

from cuassay import problem, tensor


@problem(axes={"rows": (1, 8192), "cols": (1, 8192)}, workloads=[{"rows": 48, "cols": 640}])
def run(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "cols")],
    weight: Annotated[torch.Tensor, tensor("bfloat16", "cols")],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "cols", name="out")]:
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
    return (wide * scale * weight.float()).to(x.dtype)
"""
_MATRIX_VECTOR = """
from typing import Annotated

import torch

from cuassay import problem, tensor


@problem(axes={"n": (128, 4096, 128), "k": (128, 4096, 128)}, workloads=[{"n": 256, "k": 512}])
def run(
    a: Annotated[torch.Tensor, tensor("float16", "k")],
    b: Annotated[torch.Tensor, tensor("float16", "n", "k")],
) -> Annotated[torch.Tensor, tensor("float16", "n", name="out")]:
    return b @ a
"""
_CORRELATION = """
from typing import Annotated

import torch

from cuassay import problem, tensor


@problem(
    axes={"batch": (1, 8), "channels": (1, 256), "height": (1, 128), "width": (1, 128)},
    workloads=[{"batch": 2, "channels": 40, "height": 12, "width": 17}],
)
def run(
    one: Annotated[torch.Tensor, tensor("float32", "batch", "channels", "height", "width")],
    two: Annotated[torch.Tensor, tensor("float32", "batch", "channels", "height", "width")],
) -> Annotated[torch.Tensor, tensor("float32", "batch", 81, "height", "width", name="out")]:
    padded = torch.nn.functional.pad(two, (4, 4, 4, 4))
    height, width = one.shape[2:]
    parts = [
        (one * padded[:, :, y : y + height, x : x + width]).mean(1)
        for y in range(9)
        for x in range(9)
    ]
    return torch.stack(parts, 1)
"""
_SPLAT = """
from typing import Annotated

import torch

from cuassay import domains, problem, tensor


@problem(
    axes={"batch": (1, 8), "channels": (1, 64), "height": (1, 256), "width": (1, 256)},
    workloads=[{"batch": 2, "channels": 3, "height": 12, "width": 17}],
)
def run(
    x: Annotated[torch.Tensor, tensor("float32", "batch", "channels", "height", "width")],
    flow: Annotated[
        torch.Tensor,
        tensor("float32", "batch", 2, "height", "width", domain=domains.Real(low=-9.0, high=9.0)),
    ],
) -> Annotated[
    torch.Tensor, tensor("float32", "batch", "channels", "height", "width", name="out")
]:
    batch, channels, height, width = x.shape
    rows = torch.arange(height, device=x.device).view(1, height, 1)
    columns = torch.arange(width, device=x.device).view(1, 1, width)
    at_x, at_y = flow[:, 0] + columns, flow[:, 1] + rows
    left, top = at_x.floor(), at_y.floor()
    out = torch.zeros(batch, channels, height * width, dtype=x.dtype, device=x.device)
    for right in (0, 1):
        for below in (0, 1):
            to_x, to_y = left + right, top + below
            weight = (1 - (at_x - to_x).abs()) * (1 - (at_y - to_y).abs())
            inside = (to_x >= 0) & (to_x < width) & (to_y >= 0) & (to_y < height)
            place = torch.where(inside, to_y * width + to_x, 0.0).long()
            value = x * torch.where(inside, weight, 0.0)[:, None]
            index = place.view(batch, 1, -1).expand(batch, channels, -1)
            out = out.scatter_add(2, index, value.reshape(batch, channels, -1))
    return out.view(x.shape)
"""
_CORE = """
import functools

import torch
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, Stream, launch

from theirs import code


@functools.cache
def compiled(name):
    device = Device()
    device.set_current()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    program = Program(code, code_type="c++", options=options)
    return program.compile("cubin", name_expressions=(name,)).get_kernel(name)


def start(name, count, *arguments):
    stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
    launch(stream, LaunchConfig(grid=-(-count // 256), block=256), compiled(name), *arguments)
"""
_CUTE = """
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


def view(tensor):
    return from_dlpack(tensor).mark_layout_dynamic(leading_dim=1)


made = {}


def compiled(function, *given, **named):
    if function not in made:
        made[function] = cute.compile(function, *given, **named)
    return made[function]
"""
_CALL = "from theirs import {0}\n\n\ndef run({1}):\n    return {0}({1}){2}\n"
_DOC = "numba_cuda/numba/cuda/tests/doc_examples"
_NUMBA = "from numba import cuda, float32\n"
_GLUON = "python/tutorials/gluon"
_AMPERE = "examples/python/CuTeDSL/cute/ampere/kernel"
STRANGERS = (
    Stranger(
        language="cuda.core", name="vector_add", repository="NVIDIA/cuda-python",
        path="cuda_core/examples/vector_add.py", take=("code",), problem=_ADD,
        kernel=_CORE + """

def run(x, y):
    out, count = torch.empty_like(x), x.numel()
    start("vector_add<float>", count, x.data_ptr(), y.data_ptr(), out.data_ptr(), count)
    return out
""",
    ),
    Stranger(
        language="cuda.core", name="saxpy", repository="NVIDIA/cuda-python",
        path="cuda_core/examples/pytorch_example.py", take=("code",), problem=_SAXPY,
        fault=("tid < N", "tid < N - 1"),
        kernel=_CORE + """

def run(a, x, y):
    out, count = torch.empty_like(x), x.numel()
    pointers = [one.data_ptr() for one in (a, x, y, out)]
    start("saxpy_kernel<float>", count, *pointers, count)
    return out
""",
    ),
    Stranger(
        language="cuda.core", name="plus_arange", repository="NVIDIA/cuda-python",
        path="cuda_core/examples/strided_memory_view_gpu.py", problem=_ARANGE,
        take=("func_name", "func_sig", "my_func", "gpu_code"),
        head="""
import string

import numpy as np
from cuda.core import LaunchConfig, launch
from cuda.core.utils import StridedMemoryView, args_viewable_as_strided_memory
""",
        kernel="""
import functools

import torch
from cuda.core import Device, Program, ProgramOptions, Stream

from theirs import func_name, gpu_code, my_func


@functools.cache
def compiled():
    device = Device(0)
    device.set_current()
    options = ProgramOptions(arch=f"sm_{device.arch}", std="c++17")
    program = Program(gpu_code, code_type="c++", options=options)
    return program.compile("cubin").get_kernel(func_name)


def run(x):
    kernel = compiled()
    my_func(x, Stream.from_handle(torch.cuda.current_stream().cuda_stream), kernel)
""",
    ),
    Stranger(
        language="numba-cuda", name="vecadd", repository="NVIDIA/numba-cuda",
        path=f"{_DOC}/test_vecadd.py", take=("f",), head=_NUMBA, problem=_ADD,
        kernel="""
import torch
from numba import cuda

from theirs import f


def run(x, y):
    out = torch.empty_like(x)
    f[len(x) // 256 + 1, 256](*map(cuda.as_cuda_array, (x, y, out)))
    return out
""",
    ),
    Stranger(
        language="numba-cuda", name="matmul", repository="NVIDIA/numba-cuda",
        path=f"{_DOC}/test_matmul.py", take=("matmul",), head=_NUMBA,
        problem=_PRODUCT.replace("DTYPE", "float32"),
        kernel="""
import torch
from numba import cuda

from theirs import matmul


def run(a, b):
    out = a.new_empty(a.shape[0], b.shape[1])
    grid = -(-out.shape[0] // 16), -(-out.shape[1] // 16)
    matmul[grid, (16, 16)](*map(cuda.as_cuda_array, (a, b, out)))
    return out
""",
    ),
    Stranger(
        language="numba-cuda", name="fast_matmul", repository="NVIDIA/numba-cuda",
        path=f"{_DOC}/test_matmul.py", take=("TPB", "fast_matmul"), head=_NUMBA,
        problem=_PRODUCT.replace("DTYPE", "float32"),
        fault=("for j in range(TPB)", "for j in range(1, TPB)"),
        kernel="""
import torch
from numba import cuda

from theirs import TPB, fast_matmul


def run(a, b):
    out = a.new_empty(a.shape[0], b.shape[1])
    grid_y, grid_x = max(a.shape[0], b.shape[0]), max(a.shape[1], b.shape[1])
    grid = -(-grid_x // TPB), -(-grid_y // TPB)
    fast_matmul[grid, (TPB, TPB)](*map(cuda.as_cuda_array, (a, b, out)))
    return out
""",
    ),
    Stranger(
        language="CuPy", name="correlation", repository="sniklaus/pytorch-pwc",
        path="correlation/correlation.py", problem=_CORRELATION,
        fault=("s2o = top_channel % 9 - 4", "s2o = top_channel % 9 - 3"),
        kernel="""
from theirs import FunctionCorrelation


def run(one, two):
    return FunctionCorrelation(one, two)
""",
    ),
    Stranger(
        language="CuPy", name="softsplat", repository="sniklaus/softmax-splatting",
        path="softsplat.py", problem=_SPLAT,
        kernel="""
from theirs import softsplat


def run(x, flow):
    return softsplat(x, flow, None, "sum")
""",
    ),
    Stranger(
        language="CuPy", name="sgemm", repository="cupy/cupy", path="examples/gemm/sgemm.py",
        beside=("sgemm.cu", "utils.py"), problem=_PRODUCT.replace("DTYPE", "float32"),
        kernel="""
import cupy
import torch

from theirs import sgemm


def run(a, b):
    return torch.from_dlpack(sgemm(cupy.asarray(a), cupy.asarray(b)))
""",
    ),
    Stranger(
        language="TileLang", name="elementwise_add", repository="tile-ai/tilelang",
        path="examples/elementwise/example_elementwise_add.py", problem=_ADD_ROWS,
        kernel="""
import tilelang.language as T

from theirs import elementwise_add


def run(x, y):
    return elementwise_add(
        x, y, block_M=32, block_N=32, threads=128, in_dtype=T.float32, out_dtype=T.float32
    )
""",
    ),
    Stranger(
        language="TileLang", name="rms_norm", repository="tile-ai/tilelang",
        path="examples/norm/rms_norm.py",
        problem=_rows("x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-12)").replace(
            '"cols": (1, 8192)', '"cols": (128, 8192, 128)'  # others its compiler refuses
        ),
        fault=("A_powsum[i] / N + 1e-12", "A_powsum[i] / N + 1e-2"),
        kernel="""
from theirs import rms_norm


def run(x):
    return rms_norm(x, blk_m=1)
""",
    ),
    Stranger(
        language="TileLang", name="matmul", repository="tile-ai/tilelang",
        path="examples/gemm/example_gemm.py", problem=_PRODUCT.replace("DTYPE", "float16"),
        kernel="""
from theirs import matmul


def run(a, b):
    return matmul(a, b, block_M=128, block_N=128, block_K=32)
""",
    ),
    Stranger(
        language="TileLang", name="splitk_gemv", repository="tile-ai/tilelang",
        path="examples/gemv/example_gemv.py", problem=_MATRIX_VECTOR,
        kernel="""
from theirs import splitk_gemv


def run(a, b):
    return splitk_gemv(a, b, BLOCK_N=128, BLOCK_K=128, reduce_threads=32)
""",
    ),
    Stranger(
        language="Gluon", name="memcpy", repository="triton-lang/triton",
        path=f"{_GLUON}/01-intro.py", problem=_COPY,
        kernel="""
import torch

from theirs import memcpy


def run(x):
    out = torch.empty_like(x)
    memcpy(x, out, XBLOCK=64)
    return out
""",
    ),
    Stranger(
        language="Gluon", name="memcpy_1d", repository="triton-lang/triton",
        path=f"{_GLUON}/02-layouts.py", problem=_COPY,
        kernel="""
import torch
from triton.experimental.gluon import language as gl

from theirs import memcpy_1d_impl


def run(x):
    out = torch.empty_like(x)
    memcpy_1d_impl(x, out, 256, gl.BlockedLayout([1], [32], [4], [0]), num_warps=4)
    return out
""",
    ),
    Stranger(
        language="Gluon", name="elementwise_add", repository="triton-lang/triton",
        path=f"{_GLUON}/03-async-copy.py", problem=_ADD_ROWS,
        fault=("(yoffs < ynumel)[None, :]", "(yoffs < ynumel - 1)[None, :]"),
        kernel="""
import torch

from theirs import elementwise_add


def run(x, y):
    out = torch.empty_like(x)
    elementwise_add(x, y, out)
    return out
""",
    ),
    Stranger(
        language="Helion", name="softmax_two_pass", repository="pytorch/helion",
        path="examples/softmax.py", problem=_rows("torch.softmax(x, -1)"),
        kernel=_CALL.format("softmax_two_pass", "x", ""),
    ),
    Stranger(
        language="Helion", name="sum", repository="pytorch/helion", path="examples/sum.py",
        problem=_rows("x.sum(-1)", reduces=True),
        kernel=_CALL.format("sum_kernel", "x", ""),
    ),
    Stranger(
        language="Helion", name="rms_norm", repository="pytorch/helion",
        path="examples/rms_norm.py", problem=_RMS,
        fault=("mean_x_squared + eps", "mean_x_squared - eps"),
        kernel=_CALL.format("rms_norm_fwd", "x, weight", "[0]"),
    ),
    Stranger(
        language="Helion", name="swiglu", repository="pytorch/helion", path="examples/swiglu.py",
        problem=_pointwise(
            "(torch.nn.functional.silu(a.float()) * b.float()).to(a.dtype)", inputs="ab",
            dtype="bfloat16", shape=("m", "n"),
        ),
        kernel=_CALL.format("swiglu_fwd", "a, b", ""),
    ),
    Stranger(
        language="CuTe DSL", name="elementwise_add", repository="NVIDIA/cutlass",
        path=f"{_AMPERE}/elementwise/elementwise_add.py", problem=_ADD_ROWS,
        fault=("result = frgA.load() + frgB.load()", "result = frgA.load() + frgA.load()"),
        kernel=_CUTE + """

from theirs import elementwise_add


def run(x, y):
    out = torch.empty_like(x)
    views = [view(one) for one in (x, y, out)]
    compiled(elementwise_add, *views, 32)(*views)
    return out
""",
    ),
    Stranger(
        language="CuTe DSL", name="elementwise_apply", repository="NVIDIA/cutlass",
        path=f"{_AMPERE}/elementwise/elementwise_apply.py",
        problem=_pointwise("x * y", inputs="xy", dtype="float32", shape=("m", "n")).replace(
            "(1, 8192)", "(256, 8192, 256)"
        ).replace("1000", "256").replace("700", "512"),
        kernel=_CUTE + """
import operator

import cuda.bindings.driver as driver

from theirs import elementwise_apply


def run(x, y):
    out = torch.empty_like(x)
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    given = [view(x), view(y)], view(out), stream
    compiled(elementwise_apply, operator.mul, *given)(*given)
    return out
""",
    ),
    Stranger(
        language="CuTe DSL", name="sgemm", repository="NVIDIA/cutlass",
        path=f"{_AMPERE}/dense_gemm/sgemm.py",
        problem=_PRODUCT.replace("DTYPE", "float32").replace("(1, 4096)", "(4, 4096, 4)"),
        kernel=_CUTE + """
import cuda.bindings.driver as driver

from theirs import SGemm

gemm = SGemm()


def run(a, b):
    out = a.new_empty(a.shape[0], b.shape[1])
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    given = [
        from_dlpack(one, assumed_align=16)
        .mark_layout_dynamic(leading_dim=leading)
        .mark_compact_shape_dynamic(mode=leading, divisibility=4)
        for one, leading in ((a, 1), (b.t(), 0), (out, 1))
    ]
    compiled(gemm, *given, stream=stream)(*given)
    return out
""",
    ),
)  # fmt: skip


def definitions(text: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the text of each named function or assignment of a file, wherever it stands."""
    lines = text.splitlines(keepends=True)
    for name in names:
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.FunctionDef(name=found) if found == name:
                    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                case ast.Assign(targets=[ast.Name(id=found)]) if found == name:
                    first = node.lineno
                case _:
                    continue
            taken = "".join(lines[first - 1 : node.end_lineno])
            yield taken if not taken[0].isspace() else textwrap.dedent(taken)
            break
        else:
            raise LookupError(f"the file does not define '{name}'")


def write(one: Stranger, foreign: Path, folder: Path, *, faulty: bool) -> None:
    """Write the kernel's folder and its problem. Raises LookupError where the file has changed."""
    published = foreign / one.repository / one.path
    text = published.read_text(encoding="utf-8")
    if one.take:
        text = "\n\n".join([one.head, *definitions(text, one.take)])
    if faulty and one.fault is not None:
        old, new = one.fault
        if old not in text:
            raise LookupError(f"{one.path} does not say '{old}'")
        text = text.replace(old, new)
    kernel = folder / "kernel"
    kernel.mkdir(parents=True)
    (kernel / "theirs.py").write_text(text, encoding="utf-8")
    (kernel / "kernel.py").write_text(one.kernel.lstrip(), encoding="utf-8")
    for name in one.beside:
        (kernel / name).write_bytes(published.with_name(name).read_bytes())
    (folder / "problem.py").write_text(one.problem.lstrip(), encoding="utf-8")


def judge(one: Stranger, given: argparse.Namespace, *, faulty: bool) -> Row:
    """Return how `cuassay check` judges the kernel on a CPU."""
    packages = given.packages / one.language if given.packages else None
    paths = [ROOT / "src", ROOT / "packages/ptxsan/src", *_folders(packages)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(one, given.foreign, folder, faulty=faulty)
        command = [sys.executable, "-m", "cuassay", "check", str(folder / "kernel")]
        command += ["--problem", str(folder / "problem.py"), "--profile", given.profile]
        command += ["--device", "cpu", "--budget", given.budget, "--json"]
        began = time.monotonic()
        ended = subprocess.run(command, capture_output=True, text=True, env=environment)
        seconds = time.monotonic() - began
    try:
        document: dict[str, Any] = json.loads(ended.stdout)
    except json.JSONDecodeError:
        document = {"verdict": f"exit {ended.returncode}", "reason": ended.stderr[-600:]}
    commit = given.foreign / one.repository / "COMMIT"
    state = commit.read_text(encoding="utf-8").strip()[:12] if commit.is_file() else "unknown"
    wrong = [x for x in document.get("findings", ()) if x["finding_class"] == "wrong"]
    launches = document.get("launches", {})
    return Row(
        language=one.language,
        name=one.name,
        source=f"{one.repository}@{state}:{one.path}",
        faulty=faulty,
        verdict=document["verdict"],
        reason=str(document.get("reason"))[:600],
        codes=tuple(sorted({x["code"] for x in wrong})),
        conditions=tuple(str(x).split(":", 1)[0] for x in document.get("conditions", ())),
        made=int(launches.get("made", 0)),
        judged=int(launches.get("judged", 0)),
        checks=sum(x["outcome"] == "passed" for x in document.get("checks", ())),
        seconds=round(seconds, 1),
        seed=document.get("seed"),
    )


def _folders(packages: Path | None) -> list[Path]:
    """Return a language's folder of packages, and those that its `.pth` files add."""
    if packages is None or not packages.is_dir():
        return []
    lines = [x for file in packages.glob("*.pth") for x in file.read_text().splitlines()]
    named = [packages / x for x in lines if (packages / x).is_dir()]
    return [packages, *named]


def show(rows: Sequence[Row]) -> dict[str, Any]:
    """Print a line a language and return the counts."""
    found: dict[str, Any] = {}
    for language in dict.fromkeys(one.language for one in STRANGERS):
        of = [row for row in rows if row.language == language]
        honest, wrong = [x for x in of if not x.faulty], [x for x in of if x.faulty]
        found[language] = {
            "honest": len(honest),
            "accepted": sum(x.verdict == "ACCEPTED" for x in honest),
            "rejected": [x.name for x in honest if x.verdict == "REJECTED"],
            "faults": len(wrong),
            "caught": sum(x.verdict == "REJECTED" for x in wrong),
            "launches judged": [sum(x.judged for x in of), sum(x.made for x in of)],
        }
        print(f"{language:12s}{found[language]}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge and save; 1 where a kernel is rejected or a fault is not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--foreign", type=Path)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--only", nargs="*", help="kernels with one of these in LANGUAGE/NAME")
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--rows", type=Path, default=_ROWS)
    parser.add_argument("--report", action="store_true", help="print the table, save it, and stop")
    given = parser.parse_args(arguments)
    given.rows.parent.mkdir(parents=True, exist_ok=True)
    if not given.report:
        asked = [(one, False) for one in STRANGERS]
        asked += [(one, True) for one in STRANGERS if one.fault is not None]
        for one, faulty in asked:
            name = f"{one.language}/{one.name}{'!' if faulty else ''}"
            if given.only and not any(word in name for word in given.only):
                continue
            row = judge(one, given, faulty=faulty)
            with open(given.rows, "a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(row)) + "\n")
            print(
                f"{name:36s}{row.verdict:14s}{row.seconds:6.1f} s {row.judged}/{row.made} "
                f"{row.checks} checks {' '.join(row.codes)} {row.reason[:200]}",
                flush=True,
            )
    lines = map(json.loads, given.rows.read_text(encoding="utf-8").splitlines())
    known = {f"{one.language}/{one.name}" for one in STRANGERS}
    last = {row.key: row for row in (Row(**line) for line in lines) if row.key[0] in known}
    rows = list(last.values())
    found = show(rows)
    if given.report:
        print(save("languages", {"languages": found, "rows": [asdict(row) for row in rows]}))
    honest = all(row.faulty == (row.verdict == "REJECTED") for row in rows)
    return 0 if honest else 1


if __name__ == "__main__":
    sys.exit(main())
