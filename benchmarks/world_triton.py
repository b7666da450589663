"""Kernels of libraries in Triton and Helion: `world_triton.json` lists them.

A row names the package, the kernel, the problem, what is imported (`imports`: a module and a name)
or taken from the package's files (`takes`), and the call over the problem's inputs. Inputs that a
kernel overwrites are copied in the call. `overflow` says where its offsets overflow,
`rejected_in_16_bits` why a 16-bit type is refused, `limits` at which sizes it raises, `dtypes` are
the working dtypes, all three unless given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from world_kernels import ALL, Adapter

# Helion searches for a configuration for minutes unless it is told not to.
_UNTUNED = 'import os\n\nos.environ["HELION_AUTOTUNE_EFFORT"] = "none"\n\n'
_TEXT = """
import torch
{imports}


def run({given}):
    with torch.no_grad():
        return {call}
"""


def _given(problem: str) -> str:
    from gate_trials import load_problem

    return ", ".join(one.name for one in load_problem(problem, "").inputs)


def _adapters() -> Iterator[Adapter]:
    for row in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")):
        module, _, name = row.get("imports", "").partition(" ")
        imports = f"from {module} import {name}" if name else f"import {module}" if module else ""
        text = _TEXT.format(imports=imports, given=_given(row["problem"]), call=row["call"])
        yield Adapter(
            name=row["name"],
            problem=row["problem"],
            package=row["package"],
            needs=tuple(row.get("takes", "").split()),
            before=_UNTUNED if row["package"] == "helion_examples" else "",
            text=text,
            overflow=row.get("overflow", ""),
            rejected_in_16_bits=row.get("rejected_in_16_bits", ""),
            limits=tuple(row.get("limits", {}).items()),
            dtypes=tuple(row.get("dtypes", " ".join(ALL)).split()),
        )


ADAPTERS = tuple(_adapters())
