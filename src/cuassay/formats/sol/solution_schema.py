"""The shape of SOL-ExecBench's solution.json and of our own launch declarations."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from cuassay.errors import suggestion
from cuassay.formats.strict import StrictModel

PYTHON_LANGUAGES = ("pytorch", "triton", "cute_dsl", "cutile", "cudnn_frontend")
CUDA_LANGUAGES = ("cuda_cpp", "cutlass", "cudnn", "cublas")
HARDWARE = ("B200", "LOCAL")
Name = Annotated[str, Field(min_length=1)]


def _one_of(value: str, legal: tuple[str, ...], kind: str) -> str:
    if value not in legal:
        near = suggestion(value, legal) or suggestion(value.upper(), legal)
        raise ValueError(f"unknown {kind}{': ' + near if near else ''} (known: {', '.join(legal)})")
    return value


class CompileOptionsModel(StrictModel):
    """Extra compiler flags; the defaults hold where the object is present."""

    cflags: list[str] = Field(default_factory=list)
    cuda_cflags: list[str] = Field(default_factory=lambda: ["-O3", "--use_fast_math"])
    ld_flags: list[str] = Field(default_factory=lambda: ["-lcuda"])


class SpecModel(StrictModel):
    """How the solution is built and called."""

    hints: ClassVar = {"language": "did you mean 'languages', a list?"}

    languages: Annotated[list[str], Field(min_length=1)]
    target_hardware: Annotated[list[str], Field(min_length=1)]
    entry_point: Name
    dependencies: list[str] = Field(default_factory=list)
    destination_passing_style: bool = True
    binding: Literal["torch"] | None = None
    compile_options: CompileOptionsModel | None = None

    @field_validator("languages")
    @classmethod
    def _known_languages(cls, value: list[str]) -> list[str]:
        return [_one_of(item, (*PYTHON_LANGUAGES, *CUDA_LANGUAGES), "language") for item in value]

    @field_validator("target_hardware")
    @classmethod
    def _known_hardware(cls, value: list[str]) -> list[str]:
        return [_one_of(item, HARDWARE, "hardware") for item in value]


class SourceFileModel(StrictModel):
    """One source; an empty or absent `content` is read from the file beside solution.json."""

    path: Name
    content: str | None = None


class SolutionModel(StrictModel):
    """solution.json: a candidate with its sources."""

    hints: ClassVar = dict.fromkeys(
        ("axes", "inputs", "outputs", "reference", "workloads"),
        "this looks like a problem's definition; give it with --problem",
    )

    name: Name
    definition: Name
    author: Name
    spec: SpecModel
    sources: Annotated[list[SourceFileModel], Field(min_length=1)]
    description: str | None = None


Extent = str | int
Extents = Extent | Annotated[list[Extent], Field(min_length=1, max_length=3)]


class LaunchModel(StrictModel):
    """One kernel launch; extents are sizes or expressions of the axes, one to three of them."""

    kernel: Name
    grid: Extents
    block: Extents
    arguments: list[str]
    shared_bytes: Extent = 0
    cluster: Extents = 1


class ScratchModel(StrictModel):
    """A buffer that the launches share, beside inputs and outputs."""

    name: Name
    dtype: Name
    size: Extent
    zeroed: bool = True


Corner = Annotated[list[Extent], Field(min_length=1, max_length=3)]


class PixelColumnsModel(StrictModel):
    """What a copy in im2col mode takes, in the order of the axes between the first and the last."""

    lower: Corner
    upper: Corner
    channels: Extent
    pixels: Extent
    strides: Annotated[list[Extent], Field(max_length=3)] = Field(default_factory=list)


class TileMapModel(StrictModel):
    """A tensor map (CUtensorMap) over a tensor; box and shape in the order of its axes."""

    name: Name
    tensor: Name
    box: Annotated[list[Extent], Field(max_length=5)] = Field(default_factory=list)
    im2col: PixelColumnsModel | None = None
    shape: Annotated[list[Extent], Field(max_length=5)] = Field(default_factory=list)
    swizzle: Literal[0, 32, 64, 128] = 0
    fill: Literal["zero", "nan"] = "zero"


class LaunchFileModel(StrictModel):
    """The launch declaration of a .cu file with raw kernels."""

    hints: ClassVar = {
        "launch": "did you mean 'launches' ([[launches]])?",
        "kernel": "it belongs inside a [[launches]] table",
        "grid": "it belongs inside a [[launches]] table",
        "block": "it belongs inside a [[launches]] table",
        "arguments": "it belongs inside a [[launches]] table",
        "cluster": "it belongs inside a [[launches]] table",
    }

    launches: Annotated[list[LaunchModel], Field(min_length=1)]
    scratch: list[ScratchModel] = Field(default_factory=list)
    tensor_maps: list[TileMapModel] = Field(default_factory=list)
    zero_outputs: bool = False
    cuda_cflags: list[str] = Field(default_factory=list)
