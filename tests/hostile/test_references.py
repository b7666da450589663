"""A reference that came with a foreign tree runs inside walls of the judge's own."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from cuassay.engine import run
from cuassay.model.device import CPU
from cuassay.model.jobs import ShowJob

_PROBLEM = """
import json, os, socket
from typing import Annotated
import torch
from cuassay.formats.native.declaration import problem, tensor

def tried(attempt):
    try:
        attempt()
    except OSError as error:
        return os.strerror(error.errno)
    return "done"

with open({told!r}, "w") as file:
    json.dump(dict(
        key=tried(lambda: open({key!r})),
        other=tried(lambda: open({other!r})),
        written=tried(lambda: open({other!r}, "a")),
        here=tried(lambda: open(__file__)),
        changed=tried(lambda: open(__file__, "a")),
        network=tried(lambda: socket.create_connection(("127.0.0.1", 9), timeout=1)),
    ), file)

@problem(axes={{"rows": (1, 64)}}, workloads=({{"rows": 8}},))
def doubled(
    x: Annotated[torch.Tensor, tensor("float32", "rows")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", name="y")]:
    return x * 2
"""


def _shown(folder: Path, *, within: bool, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Have a judge load a reference that tries walls; return what came of each attempt."""
    home, tree = folder / "home", folder / "tree"
    monkeypatch.setenv("CUASSAY_HOME", str(home))
    for place in (home / "keys", tree, folder / "other"):
        place.mkdir(parents=True, exist_ok=True)
    (home / "keys" / "attest.pem").write_text("a key")
    (folder / "other" / "notes").write_text("private")
    with tempfile.TemporaryDirectory() as told:
        text = _PROBLEM.format(
            told=str(Path(told) / "outcomes"),
            key=str(home / "keys" / "attest.pem"),
            other=str(folder / "other" / "notes"),
        )
        (tree / "problem.py").write_text(text)
        inner = (str(tree),) if within else ()
        job = ShowJob(problem=str(tree / "problem.py"), device=CPU, within=inner)
        run.document(job, lambda text: None, environment={})
        outcomes: dict[str, str] = json.loads((Path(told) / "outcomes").read_text())
        return outcomes


def test_a_reference_of_an_audit_reads_its_tree_and_no_more(
    monkeypatch: pytest.MonkeyPatch, walls: dict[str, str]
) -> None:
    if walls["reads confined"] != "yes":
        pytest.skip(f"reads confined: {walls['reads confined']}")
    # Not below the folder of temporary files, which judges use themselves.
    here = Path(__file__).resolve().parent
    if here.is_relative_to(Path(tempfile.gettempdir()).resolve()):
        pytest.skip("this tree lies in the folder of temporary files, which judges may use")
    with tempfile.TemporaryDirectory(dir=here) as folder:
        found = _shown(Path(folder), within=True, monkeypatch=monkeypatch)
        refused = {name for name, outcome in found.items() if outcome == "Permission denied"}
        assert refused == {"key", "other", "written", "changed", "network"}
        assert found["here"] == "done"
        free = _shown(Path(folder), within=False, monkeypatch=monkeypatch)
        assert free["key"] == free["other"] == free["written"] == free["changed"] == "done"
