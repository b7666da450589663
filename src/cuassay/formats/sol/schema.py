"""The shape of SOL-ExecBench's definition.json, workload.jsonl and config.json.

A tensor's dimensions are axis names or decimal literals; a `shape` of null is a Python scalar.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, FiniteFloat, field_validator

from cuassay.errors import suggestion
from cuassay.formats.strict import StrictModel
from cuassay.model.dtype import DType

DTYPES = {**{dtype.value: dtype for dtype in DType}, "float4_e2m1": DType.FLOAT4_E2M1FN_X2}
_SIZE_LIMIT = 2**48
Size = Annotated[int, Field(ge=0, le=_SIZE_LIMIT)]
Name = Annotated[str, Field(min_length=1)]


class ConstAxisModel(StrictModel):
    """An axis with one size."""

    type: Literal["const"]
    value: Size
    description: str | None = None


class VarAxisModel(StrictModel):
    """An axis that each workload binds."""

    type: Literal["var"]
    description: str | None = None


class ExprAxisModel(StrictModel):
    """An axis computed from those before it."""

    type: Literal["expr"]
    expression: Name
    description: str | None = None


AxisModel = Annotated[ConstAxisModel | VarAxisModel | ExprAxisModel, Field(discriminator="type")]


class TensorModel(StrictModel):
    """An input or output: `shape` [] is a 0-d tensor, null a Python scalar."""

    shape: list[str] | None
    dtype: str
    description: str | None = None

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, value: str) -> str:
        if value not in DTYPES:
            near = suggestion(value, DTYPES)
            raise ValueError(
                f"unknown dtype{': ' + near if near else ''} (known: {', '.join(DTYPES)})"
            )
        return value


class DefinitionModel(StrictModel):
    """definition.json: what the operator computes. `tags` and `constraints` are free text."""

    hints: ClassVar = {
        "workload": "workloads stand in workload.jsonl beside definition.json",
        "spec": "this looks like a solution; give it as the kernel",
        "sources": "this looks like a solution; give it as the kernel",
        "tolerance": "a tolerance stands in each line of workload.jsonl",
    }

    name: Name
    axes: dict[str, AxisModel]
    inputs: dict[str, TensorModel]
    outputs: dict[str, TensorModel]
    reference: str = ""
    op_type: str | None = None
    description: str | None = None
    hf_id: str | None = None
    custom_inputs_entrypoint: Name | None = None
    constraints: list[str] | None = None
    tags: list[str] | None = None
    workloads: list[dict[str, Any]] | None = None
    held_at_the_example: list[str] | None = None  # arguments that cuassay does not vary


class RandomModel(StrictModel):
    """Drawn by the benchmark's rule."""

    type: Literal["random"]


class ScalarModel(StrictModel):
    """A value given in the workload."""

    type: Literal["scalar"]
    value: bool | int | float


class SafetensorsModel(StrictModel):
    """A tensor in a safetensors file."""

    type: Literal["safetensors"]
    path: Name
    tensor_key: Name


class CustomModel(StrictModel):
    """Made by the definition's own generator."""

    type: Literal["custom"]


SourceModel = Annotated[
    RandomModel | ScalarModel | SafetensorsModel | CustomModel, Field(discriminator="type")
]
Bound = Annotated[FiniteFloat, Field(ge=0)]


class ToleranceModel(StrictModel):
    """The benchmark's own rule for one workload, with its defaults."""

    aliases: ClassVar = {"required_match_ratio": "required_matched_ratio"}

    max_atol: Bound = 1e-2
    max_rtol: Bound = 1e-2
    required_matched_ratio: Annotated[FiniteFloat, Field(gt=0, le=1)] = 0.99
    max_error_cap: Annotated[FiniteFloat, Field(gt=0)] | None = None
    allow_negative_inf: bool = False


class WorkloadModel(StrictModel):
    """One line of workload.jsonl."""

    hints: ClassVar = {
        name: f"it belongs inside 'tolerance' ('tolerance.{name}')"
        for name in ToleranceModel.model_fields
    }

    uuid: Name | None = None
    axes: dict[str, Size]
    inputs: dict[str, SourceModel] = Field(default_factory=dict)
    tolerance: ToleranceModel | None = None


class ConfigModel(StrictModel):
    """config.json: how the benchmark times; read only to catch mistakes in it."""

    warmup_runs: Size = 10
    iterations: Size = 50
    lock_clocks: bool = False
    benchmark_reference: bool = True
    seed: int = 200
