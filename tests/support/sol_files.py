"""Edits of the files of a problem of SOL-ExecBench, for tests of what reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "formats"
Json = dict[str, Any]
Edit = Callable[[Json], None]


def edit_definition(folder: Path, edit: Edit) -> None:
    """Change the definition."""
    file = folder / "definition.json"
    data = json.loads(file.read_text())
    edit(data)
    file.write_text(json.dumps(data))


def edit_workload(folder: Path, edit: Edit) -> None:
    """Change the first line; the others stay."""
    file = folder / "workload.jsonl"
    first, *rest = file.read_text().splitlines()
    data = json.loads(first)
    edit(data)
    file.write_text("\n".join([json.dumps(data), *rest]))
