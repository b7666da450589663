"""Whatever a file holds, a reader either reads it or gives a usage error: never a traceback."""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cuassay.errors import UsageError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.cuda_text import exported, kernels, launch_comment, parameter_names

DATA = Path(__file__).parents[2] / "data" / "formats"
LIMITS = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["rows", "x", "const", "expr", "random", "safetensors", "-1", "run", "2**99"])
)
GARBAGE = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("garbage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUASSAY_HOME", str(root / "home"))
        yield Path(shutil.copytree(DATA / "affine_rows", root / "problem"))


def places(data: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of every value inside `data`."""
    items: list[tuple[str | int, Any]] = []
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list):
        items = list(enumerate(data))
    return [found for key, value in items for found in places(value, (*path, key))] + [path]


def changed(data: Any, path: tuple[str | int, ...], value: Any, *, remove: bool) -> Any:
    if not path:
        return value
    result = copy.deepcopy(data)
    owner = result
    for key in path[:-1]:
        owner = owner[key]
    if remove:
        del owner[path[-1]]
    else:
        owner[path[-1]] = value
    return result


DEFINITION = json.loads((DATA / "affine_rows" / "definition.json").read_text())
WORKLOAD = json.loads((DATA / "affine_rows" / "workload.jsonl").read_text().splitlines()[0])
SOLUTION = json.loads((DATA / "kernels" / "bundle" / "solution.json").read_text())
DEFINITION_TEXT = json.dumps(DEFINITION)
WORKLOAD_TEXT = json.dumps(WORKLOAD)


def load(folder: Path, definition: str | bytes, workload: str | bytes, *, strict: bool) -> None:
    for name, content in (("definition.json", definition), ("workload.jsonl", workload)):
        data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
        (folder / name).write_bytes(data)
    with contextlib.suppress(UsageError):
        assert load_problem(str(folder), strict=strict).workloads


@LIMITS
@given(st.sampled_from(places(DEFINITION)), GARBAGE, st.booleans(), st.booleans())
def test_garbage_anywhere_in_a_definition(
    folder: Path, path: tuple[str | int, ...], value: Any, remove: bool, strict: bool
) -> None:
    text = json.dumps(changed(DEFINITION, path, value, remove=remove))
    load(folder, text, WORKLOAD_TEXT, strict=strict)


@LIMITS
@given(st.sampled_from(places(WORKLOAD)), GARBAGE, st.booleans(), st.booleans())
def test_garbage_anywhere_in_a_workload(
    folder: Path, path: tuple[str | int, ...], value: Any, remove: bool, strict: bool
) -> None:
    text = json.dumps(changed(WORKLOAD, path, value, remove=remove))
    load(folder, DEFINITION_TEXT, text, strict=strict)


@LIMITS
@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:0aé\n', max_size=30), st.booleans())
def test_garbage_for_a_file(folder: Path, content: str | bytes, strict: bool) -> None:
    load(folder, content, WORKLOAD_TEXT, strict=strict)
    load(folder, DEFINITION_TEXT, content, strict=strict)


@LIMITS
@given(st.sampled_from(places(SOLUTION)), GARBAGE, st.booleans(), st.booleans())
def test_garbage_anywhere_in_a_solution(
    folder: Path, path: tuple[str | int, ...], value: Any, remove: bool, strict: bool
) -> None:
    problem = load_problem(str(DATA / "affine_rows"))
    target = folder / "solution.json"
    target.write_text(json.dumps(changed(SOLUTION, path, value, remove=remove)))
    (folder / "main.py").write_text((DATA / "kernels" / "bundle" / "main.py").read_text())
    with contextlib.suppress(UsageError):
        assert load_candidate(str(target), problem, strict=strict).sources


@LIMITS
@given(st.text(alphabet='ab (){}<>,;=*"\\/_\n#[]', max_size=60) | st.text(max_size=40))
def test_any_text_as_a_kernel(folder: Path, text: str) -> None:
    problem = load_problem(str(DATA / "affine_rows"))
    for suffix, content in (
        ("py", text),
        ("py", f"def run({text}): pass"),
        ("cu", f"// cuassay-launch: {text}"),
        ("cu", f'extern "C" __global__ void {text}\nPYBIND11_MODULE(a, m) {{ m.def("{text}") }}'),
    ):
        file = folder / f"anything.{suffix}"
        file.write_bytes(content.encode("utf-8", "replace"))
        with contextlib.suppress(UsageError):
            assert load_candidate(str(file), problem).sources
        assert isinstance(exported(content), tuple)
        assert isinstance(kernels(content), tuple)
        parameter_names(content, "a")
        launch_comment(content)
