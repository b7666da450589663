"""A problem as a document: plain JSON, with the parameters and the file to start from."""

from __future__ import annotations

import ast
import dataclasses
import json
from pathlib import Path

import pytest

from cuassay.formats.describe import problem_document
from cuassay.formats.gpumode import task as gpumode
from cuassay.formats.kernelbench import pair as kernelbench
from cuassay.model.problem import ConstAxis, ExprAxis, Problem, Reference, VarAxis
from tests.support.fake_trial import scaled_add

_TEXT = "import torch\n\nclass Model:\n    pass\n\ndef run(x, bias, gain):\n    return x\n"


def _problem(**changes: object) -> Problem:
    reference = Reference(path=Path("/gone/reference.py"), source=_TEXT)
    made = dataclasses.replace(scaled_add().problem, reference=reference)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_the_document_is_json_with_the_authors_text() -> None:
    document = problem_document(_problem(), "float64", "lifted", reduced=("cols",))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["reference"]["text"].startswith("def run(x, bias, gain):")
    assert document["signature"] == "x, bias, gain"
    assert document["reduction_axes_seen"] == ["cols"]
    assert document["domains"]["gain"]["words"]


@pytest.mark.parametrize("origin", ["native", kernelbench.ORIGIN, gpumode.ORIGIN])
def test_the_template_is_python_that_defines_what_the_format_calls(origin: str) -> None:
    template = "\n".join(problem_document(_problem(origin=origin), "", "")["template"])
    names = {one.name for one in ast.walk(ast.parse(template)) if hasattr(one, "name")}
    wanted = {kernelbench.ORIGIN: "ModelNew", gpumode.ORIGIN: "custom_kernel"}.get(origin, "run")
    assert wanted in names
    assert "return y" in template


def test_an_axis_says_of_which_kind_it_is_and_who_bounded_it() -> None:
    axes = (
        ConstAxis(name="c", value=4),
        ExprAxis(name="e", expression="n // 2"),
        VarAxis(name="n", maximum=8, declared=True),
        VarAxis(name="m", bounds_source="sidecar cuassay.toml"),
        VarAxis(name="k"),
    )
    found = problem_document(_problem(axes=axes, workloads=()), "", "")["axes"]
    assert [one["kind"] for one in found] == ["const", "expr", "var", "var", "var"]
    assert [one.get("source") for one in found[2:]] == [
        "declared", "sidecar cuassay.toml", "default",
    ]  # fmt: skip


def test_what_is_not_found_is_shown_whole() -> None:
    reference = Reference(path=Path("/gone/reference.py"), source=_TEXT, function="elsewhere")
    document = problem_document(_problem(reference=reference), "", "")
    assert document["reference"]["text"] == _TEXT
