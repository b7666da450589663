"""Problems and kernels in the formats of other benchmarks, written for these tests."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.trees import write

KERNELBENCH = '''import torch
import torch.nn as nn


class Model(nn.Module):
    """A linear layer, a batch norm and a bias."""

    def __init__(self, features, out):
        super().__init__()
        self.linear = nn.Linear(features, out)
        self.bn = nn.BatchNorm1d(out)
        self.bias = nn.Parameter(torch.randn(out))

    def forward(self, x):
        return self.bn(self.linear(x)) + self.bias


batch_size = 16
features = 32
out = 24


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return [features, out]
'''
MODEL_NEW = KERNELBENCH.partition("batch_size")[0].replace("class Model", "class ModelNew")
# The same function with other names for its state, and weights packed when it is made.
PACKED = """import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features, out):
        super().__init__()
        self.first = nn.Linear(features, out)
        self.second = nn.BatchNorm1d(out)
        self.last = nn.Parameter(torch.randn(out))
        self.packed = self.first.weight.detach().t().contiguous()

    def forward(self, x):
        return self.second(torch.addmm(self.first.bias, x, self.packed)) + self.last
"""

# A call with lists, None, a text and an option, and a result with a tuple inside.
STRUCTURED = '''import torch
import torch.nn as nn


class Model(nn.Module):
    """Scaled sums of ragged inputs."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, xs, carry, mask=None, mode="sum", eps=1e-6):
        if mask is not None or mode != "sum":
            raise ValueError("not supported")
        total = xs[0].sum(0) + xs[1].sum(0) + carry["bias"] * eps
        return total * self.gain, (xs[0] * self.gain, carry["more"][0] + 1)


rows = 6
width = 10


def get_inputs():
    pair = [torch.rand(rows, width), torch.rand(5, width)]
    carry = {"bias": torch.rand(width), "more": (torch.rand(width),)}
    return [pair, carry, None, "sum", 1e-6]


def get_init_inputs():
    return [width]
'''
STRUCTURED_NEW = (
    STRUCTURED.partition("rows = 6")[0]
    .replace("class Model", "class ModelNew")
    .replace("xs[0].sum(0) + xs[1].sum(0)", "torch.cat(list(xs)).sum(0)")
)
BY_NAME = (
    STRUCTURED.replace("(self, xs, carry, mask", "(self, *, xs, state, mask")
    .replace("carry[", "state[")
    .replace('[pair, carry, None, "sum", 1e-6]', '{"state": carry, "xs": pair, "eps": 1e-6}')
)
BY_NAME_NEW = STRUCTURED_NEW.replace("(self, xs, carry, mask", "(self, *, xs, state, mask").replace(
    "carry[", "state["
)

TASK = """files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "utils.py", "source": "../utils.py"}
  - {"name": "reference.py", "source": "reference.py"}
lang: "py"
description: |
  A sum, written into the buffer that comes with the data.
tests:
  - {"size": 24, "seed": 4242}
  - {"size": 48, "seed": 5236}
benchmarks:
  - {"size": 64, "seed": 54352}
"""
TASK_REFERENCE = """from utils import make_match_reference
from task import input_t, output_t
import torch

def ref_kernel(data: input_t) -> output_t:
    config, (a, b), out = data
    out[...] = a + b * config["scale"]
    return out

def generate_input(size: int, seed: int) -> input_t:
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    a = torch.randn(size, size + 8, device="cuda", dtype=torch.float16, generator=gen)
    b = torch.randn(size, size + 8, device='cuda', dtype=torch.float16, generator=gen)
    return {"scale": 0.5, "name": "x"}, (a, b), torch.empty_like(a)

check_implementation = make_match_reference(ref_kernel, rtol=1e-2, atol=2e-3)
"""
SUBMISSION = """#!POPCORN leaderboard buffered
from task import input_t, output_t
import torch
def custom_kernel(data: input_t) -> output_t:
    config, (a, b), out = data
    torch.add(a, b, alpha=config["scale"], out=out)
    return out
"""

CUSTOM_OP = """import torch

@torch.library.custom_op("cuassay_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@torch.library.custom_op("cuassay_test::thrice", mutates_args=())
def thrice(x: torch.Tensor) -> torch.Tensor:
    return x * 3
"""


def kernelbench(root: Path) -> Path:
    """Write a KernelBench problem and return its file."""
    return write(root / "level1" / "3_Linear_BN.py", KERNELBENCH)


def gpumode(root: Path) -> Path:
    """Write a GPU MODE task and return its folder."""
    folder = root / "buffered"
    write(folder / "task.yml", TASK)
    write(folder / "task.py", "import torch\ninput_t = tuple\noutput_t = torch.Tensor\n")
    write(
        root / "utils.py", "def make_match_reference(f, **given):\n    return lambda d, o: True\n"
    )
    write(folder / "reference.py", TASK_REFERENCE)
    return folder


def flashinfer(root: Path) -> Path:
    """Write a flashinfer-trace data set and return its definition's file."""
    definition = {
        "name": "scale_h8",
        "op_type": "elementwise",
        "description": "y = 2 x",
        "tags": ["status:verified"],
        "axes": {"rows": {"type": "var"}, "hidden": {"type": "const", "value": 8}},
        "constraints": ["rows > 0"],
        "inputs": {"x": {"shape": ["rows", "hidden"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["rows", "hidden"], "dtype": "float32"}},
        "reference": "def run(x):\n    return x * 2\n",
    }
    lines = [
        {
            "definition": "scale_h8",
            "workload": {
                "uuid": f"w{rows}",
                "axes": {"rows": rows},
                "inputs": {"x": {"type": "random"}},
            },
            "solution": None,
            "evaluation": None,
        }
        for rows in (3, 64)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    write(root / "workloads" / "elementwise" / "scale_h8.jsonl", text)
    return write(root / "definitions" / "elementwise" / "scale_h8.json", json.dumps(definition))


def flashinfer_solution(path: Path, body: str, **spec: object) -> Path:
    """Write a solution of the data set whose `run` is `body`."""
    given = {
        "language": "python",
        "target_hardware": ["NVIDIA_H200"],
        "entry_point": "main.py::run",
    }
    content = {
        "name": path.stem,
        "definition": "scale_h8",
        "author": "model-z",
        "spec": given | spec,
        "sources": [{"path": "main.py", "content": body}],
    }
    return write(path, json.dumps(content))
