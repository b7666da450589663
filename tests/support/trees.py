"""Trees of problems and candidates as users have them, made of a few lines each."""

from __future__ import annotations

import json
from pathlib import Path

NATIVE = """from typing import Annotated
import torch
from cuassay import problem, tensor

@problem(axes={"n": (1, 64)}, workloads=[{"n": 8}])
def NAME(
    x: Annotated[torch.Tensor, tensor("float32", "n")],
) -> Annotated[torch.Tensor, tensor("float32", "n", name="y")]:
    return x * 2
"""


def write(path: Path, text: str) -> Path:
    """Write a file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def native(folder: Path, name: str = "twice") -> Path:
    """Write a native problem `problem.py` into a folder."""
    return write(folder / "problem.py", NATIVE.replace("NAME", name))


def sol(folder: Path, name: str, **changes: object) -> Path:
    """Write a SOL-ExecBench problem into a folder: y = 2 x."""
    definition: dict[str, object] = {
        "name": name,
        "axes": {"n": {"type": "var"}},
        "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
        "reference": "def run(x):\n    return x * 2\n",
    }
    write(folder / "definition.json", json.dumps(definition | changes))
    workload = {"uuid": "w", "axes": {"n": 8}, "inputs": {"x": {"type": "random"}}}
    return write(folder / "workload.jsonl", json.dumps(workload) + "\n")


def solution(path: Path, definition: str, *, name: str = "s", author: str = "a") -> Path:
    """Write a solution.json."""
    content = {
        "name": name,
        "definition": definition,
        "author": author,
        "spec": {
            "languages": ["pytorch"],
            "target_hardware": ["LOCAL"],
            "entry_point": "k.py::run",
            "destination_passing_style": False,
        },
        "sources": [{"path": "k.py", "content": "def run(x):\n    return x * 2\n"}],
    }
    return write(path, json.dumps(content))
