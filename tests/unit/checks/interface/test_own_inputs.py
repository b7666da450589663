"""API004: a kernel that relies on what the problem's generator happens to keep is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.checks.interface.own_inputs import Api004
from cuassay.contract.facts import Sorted, fact_words
from cuassay.formats import load_problem
from cuassay.model.domain import Offsets
from cuassay.model.outcome import FindingClass
from cuassay.model.problem import Problem
from tests.support import trees
from tests.unit.contract.problems import ROTARY, findings_of, foreign, rotary, trial_of

_BUGS = {
    "row 0 of position_ids": ("position_ids[..., None]", "position_ids[:1][..., None]"),
    "positions counted, not read": (
        "position_ids[..., None]",
        "torch.arange(x.shape[1], device=x.device)[None, :, None]",
    ),
    "a scale that is always 2": ("* scale +", "* 2.0 +"),
}


@pytest.mark.parametrize("name", _BUGS)
def test_a_kernel_that_relies_on_a_fact_is_wrong_with_the_fact(tmp_path: Path, name: str) -> None:
    old, new = _BUGS[name]
    found = findings_of(Api004(), trial_of(rotary(tmp_path)), ROTARY.replace(old, new))
    assert found[0].finding_class is FindingClass.WRONG
    assert "in the problem's own inputs" in found[0].message
    assert ("position_ids" in found[0].message) == ("position" in name)


def test_the_reference_passes(tmp_path: Path) -> None:
    trial = trial_of(rotary(tmp_path))
    assert Api004().skip(trial) == ""
    assert findings_of(Api004(), trial, ROTARY) == []


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("row 0 of position_ids", "[facts.position_ids]\nequal_along = ['batch']"),
        ("positions counted, not read", "[facts.position_ids]\narange = true"),
        ("positions counted, not read", "[domains.position_ids]\nkind = 'opaque'"),
        ("a scale that is always 2", "[facts.scale]\nconstant = true"),
        ("a scale that is always 2", "[domains.scale]\nkind = 'choice'\nvalues = [2.0]"),
    ],
)
def test_what_the_author_states_is_not_broken(tmp_path: Path, name: str, stated: str) -> None:
    (tmp_path / "cuassay.toml").write_text(stated)
    trial = trial_of(rotary(tmp_path))
    old, new = _BUGS[name]
    assert findings_of(Api004(), trial, ROTARY.replace(old, new)) == []
    assert any("stat" in known.broken or "legal" in known.broken for known in trial.facts)


def test_other_facts_of_a_stated_input_are_broken(tmp_path: Path) -> None:
    (tmp_path / "cuassay.toml").write_text("[facts.position_ids]\nequal_along = ['batch']\n")
    trial = trial_of(rotary(tmp_path))
    old, new = _BUGS["positions counted, not read"]
    found = findings_of(Api004(), trial, ROTARY.replace(old, new))
    assert [finding.finding_class for finding in found] == [FindingClass.WRONG]
    declared = [fact_words(known.fact) for known in trial.facts if known.evidence.text]
    assert declared == ["all slices of position_ids along batch are equal"]


_GROUPS = """import torch

EXPERTS = 4
TOKENS = 32


class Model(torch.nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(experts, 8))

    def forward(self, x, offsets):
        out = torch.empty_like(x)
        for expert in range(len(self.weight)):
            first, last = int(offsets[expert].item()), int(offsets[expert + 1].item())
            if last != first:
                out[first:last] = x[first:last] * self.weight[expert]
        return out


def get_inputs():
    offsets = torch.arange(EXPERTS + 1, dtype=torch.int32) * TOKENS // EXPERTS
    return [torch.randn(TOKENS, 8), offsets]


def get_init_inputs():
    return [EXPERTS]
"""


def test_offsets_that_a_run_of_the_reference_showed_stay_sorted(tmp_path: Path) -> None:
    """In another order rows are written twice or never: nothing that a kernel can be asked for."""
    problem = load_problem(str(trees.write(tmp_path / "groups.py", _GROUPS)))
    trial = trial_of(problem)
    trial.planned.learning.values(trial.cases("small")[0], again_seed=1)
    assert isinstance(trial.problem.input("offsets").domain, Offsets)
    labels = [case.label for case in trial.cases("facts")]
    assert Sorted(input="offsets") in [known.fact for known in trial.facts]
    assert not any("offsets with another order" in label for label in labels)


PADDED = """import torch

def get_inputs(axes_and_scalars, device):
    r, c = (axes_and_scalars[n] for n in ("rows", "columns"))
    table = torch.randn(c, device=device)
    table[-1] = 0.0
    half = torch.linspace(0.5, 1.0, (c + 1) // 2, device=device)
    return {
        "x": torch.randn(r, c, device=device),
        "table": table,
        "twice": torch.cat((half, half))[:c].contiguous(),
    }

def run(x, table, twice):
    return x * twice + table
"""
_PADDED_BUGS = {
    "the last element is never read": ("+ table", "+ torch.cat((table[:-1], table[-1:] * 0))"),
    "half a table is read": (
        "* twice",
        "* torch.cat((twice[: (len(twice) + 1) // 2],) * 2)[: len(twice)]",
    ),
}


def padded(folder: Path) -> Problem:
    """A sum with a table whose last element the generator always sets to 0."""
    vector = (("columns",), "float32")
    return foreign(
        folder,
        PADDED,
        axes=("rows", "columns"),
        inputs={"x": (("rows", "columns"), "float32"), "table": vector, "twice": vector},
        output=("rows", "columns"),
        sizes=({"rows": 3, "columns": 16}, {"rows": 16, "columns": 64}),
        generator="get_inputs",
    )


def test_a_slice_that_never_changes_and_is_not_read_is_wrong(tmp_path: Path) -> None:
    old, new = _PADDED_BUGS["the last element is never read"]
    found = findings_of(Api004(), trial_of(padded(tmp_path)), PADDED.replace(old, new))
    assert found[0].finding_class is FindingClass.WRONG
    assert "of table along columns never changes by itself" in found[0].message


TRANSPOSED = """import torch

def get_inputs(axes_and_scalars, device):
    r, c = (axes_and_scalars[n] for n in ("rows", "columns"))
    weight = torch.ones(1, c, device=device)
    weight[0, 1::2] = 2.0
    return {"x": torch.randn(r, c, device=device), "weight": weight.t()}

def run(x, weight):
    return x * weight[:, 0]
"""


def test_slices_of_a_transposed_column_are_changed(tmp_path: Path) -> None:
    problem = foreign(
        tmp_path,
        TRANSPOSED,
        axes=("rows", "columns"),
        inputs={"x": (("rows", "columns"), "float32"), "weight": (("columns", "1"), "float32")},
        output=("rows", "columns"),
        sizes=({"rows": 3, "columns": 16},),
        generator="get_inputs",
    )
    bug = TRANSPOSED.replace("weight[:, 0]", "(1 + torch.arange(x.shape[1]) % 2)")
    trial = trial_of(problem)
    assert findings_of(Api004(), trial, bug)
    assert findings_of(Api004(), trial, TRANSPOSED) == []


def test_a_slice_that_repeats_another_one_is_a_condition(tmp_path: Path) -> None:
    old, new = _PADDED_BUGS["half a table is read"]
    found = findings_of(Api004(), trial_of(padded(tmp_path)), PADDED.replace(old, new))
    assert [finding.finding_class for finding in found] == [FindingClass.UNSAFE]
    assert found[0].condition.startswith("consistent: slices of twice repeat one another")


def test_a_kernel_that_reads_every_slice_passes(tmp_path: Path) -> None:
    trial = trial_of(padded(tmp_path))
    assert len(trial.cases("slices")) > 2
    assert findings_of(Api004(), trial, PADDED) == []
