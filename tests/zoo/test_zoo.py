"""The zoo is what it says: each bug shows somewhere, each twin and honest rewrite nowhere.

`make power` asks probes that share nothing with the checks; `make test` asks the gate alone.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from pathlib import Path

import pytest
import torch

from cuassay.build.interpreter import install as triton_interpreter
from cuassay.catalog import registry
from cuassay.model.dtype import DType
from tests.zoo.manifest import ALARMS, HERE, HONEST, PAIRS, Honest, Pair, load
from tests.zoo.manifest_catalog import HONEST_CATALOG
from tests.zoo.probes import Answers, answers, faults

CODES = {
    "NUM001",
    "NUM002",
    "NUM003",
    "NUM004",
    "NUM005",
    "SHP001",
    "MEM001",
    "API001",
    "API002",
    "API003",
    "STATE001",
    "DET001",
    "BUILD001",
} | {code for pair in PAIRS if not pair.plain for code in pair.codes}
# Faults too small, or too rarely met, for plain probes: only the gate sees them.
_SUBTLE = (
    "ordered_rows",
    "plain_step",
    "pruned_halves",
    "branch_above_local_limits",
    "branch_for_two_sizes",
    "rounded_once_a_block",
    "triton_launch_threshold",
    "triton_rows_threshold",
    "buffer_for_many_rows",
    "limited_outputs",
    "graphs_after_warm_up",
    "packed_in_half",
    "nan_hidden",
    "weight_of_ones_skipped",
    "branch_for_widths",
    "half_atomics",
    "narrow_accumulator",
    "one_pass_variance",
    "triton_one_pass_variance",
    "gelu_other_form",
    "pruned_weights",
    "finite_sentinel",
    "running_maximum",
    "closed_rows",
    "lone_column",
    "one_beyond_tiles",
    "zero_row_divides",
    "residue_64_of_128",
    "first_8192_validated",
    "tie_lost",
    "triton_equal_numbers",
    "empty_group_shifts",
    "fp8_overflow",
    "all_ignored",
    "memo_by_places",
    "scale_in_steps",
    "staged_operand",
    "memo_by_16_bits",
    "factor_by_text",
    "pool_of_results",
    "zero_residual",
    "sheds_rows",
    "scale_near_power",
    "sure_rows",
)
# Those of a problem one after another: they share its answers.
ON_CPU = sorted((pair for pair in PAIRS if not pair.needs_gpu), key=lambda pair: pair.problem)
# How a fault may show beside its own check: an illegal address, or another answer apart.
_BESIDE = {"RUN001", "APART001"}
# References that draw at random or round after every step, and policies that accept stored
# intermediates and TF32: equal answers differ by more.
_LOOSE = {
    "zoo:racy_reference": 30.0,
    "zoo:rounded_softcap": 30.0,
    "zoo:tiny_rows": 4.0,
    "zoo:mlp_backward": 4.0,
    "zoo:product_in_tf32": 60.0,
    "paged_attention_ragged": 2.0,
    "zoo:keys_backward": float("inf"),  # one output is rounding alone, which no two orders share
}


# NumPy, which interprets Triton, warns where an exponential overflows as it should.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpret Triton as the worker does, repaired, whatever imported Triton before."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    if importlib.util.find_spec("triton") and not torch.cuda.is_available():
        triton_interpreter.enable()


@pytest.mark.thorough
@pytest.mark.parametrize("pair", ON_CPU, ids=lambda pair: pair.name)
@pytest.mark.usefixtures("interpreted")
def test_bug_shows_and_twin_does_not(pair: Pair) -> None:
    _need_triton(pair)
    known = _answers(pair.problem, None, pair.triton)
    if pair.plain and pair.name not in _SUBTLE:
        assert next(faults(pair.bug, known), ""), "the planted bug shows nowhere"
    tolerance = _LOOSE.get(pair.problem, 1.0)
    assert list(faults(pair.twin, known, tolerance=tolerance)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", registry.DTYPES)
@pytest.mark.parametrize("honest", HONEST, ids=lambda honest: honest.name)
@pytest.mark.usefixtures("interpreted")
def test_honest_rewrites_are_right_in_every_dtype(honest: Honest, dtype: DType) -> None:
    _need_triton(honest)
    assert list(faults(honest.path, _answers(honest.problem, dtype, honest.triton))) == []


@pytest.mark.thorough
@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
@pytest.mark.usefixtures("interpreted")
def test_causes_of_false_alarms_are_right_answers(alarm: Honest) -> None:
    _need_triton(alarm)
    tolerance = _LOOSE.get(alarm.problem, 1.0)
    known = _answers(alarm.problem, None, alarm.triton)
    assert list(faults(alarm.path, known, tolerance=tolerance)) == []


@functools.lru_cache(maxsize=4)
def _answers(problem: str, dtype: DType | None, cheap: bool) -> Answers:
    return answers(load(problem, dtype=dtype), cheap=cheap)


def _need_triton(of: Pair | Honest) -> None:
    """Skip where Triton's kernels cannot be interpreted."""
    if of.triton:
        pytest.importorskip("triton")
        if torch.cuda.is_available():
            pytest.skip("on a GPU tests/gpu/test_zoo_gpu.py runs Triton's kernels natively")


def test_manifest_and_files_agree() -> None:
    assert {pair.name for pair in PAIRS if not pair.cuda} == _stems("twins")
    assert _stems("twins") == _stems("bugs", ".diff")
    later = {
        f"{problem}_{style}" for problem, each in HONEST_CATALOG.items() for style in each.split()
    }
    assert {honest.name for honest in (*HONEST, *ALARMS)} | later == _stems("honest")
    assert len(ON_CPU) >= 70
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)


def test_every_code_has_a_pair_and_no_other_is_named() -> None:
    assert {code for pair in PAIRS for code in pair.codes} == CODES
    firsts = {pair.codes[0] for pair in PAIRS}
    assert firsts | _BESIDE == CODES


def test_every_file_says_in_one_line_what_it_is() -> None:
    bugs = [pair.bug for pair in PAIRS if not pair.cuda]
    for path in (*sorted(HERE.glob("*/*.py")), *bugs):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert docstring, path
        assert "\n" not in docstring, path


def _stems(folder: str, suffix: str = ".py") -> set[str]:
    return {path.stem for path in Path(HERE / folder).glob(f"*{suffix}")}
