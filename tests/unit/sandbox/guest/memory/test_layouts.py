"""Layouts: bits, dtype and shape stay, strides and memory are as asked, gaps hold 0xFF."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch

from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import ConstAxis, Problem, Scalar, ScalarSpec
from cuassay.model.reports import Laid
from cuassay.model.scenario import Allocate
from cuassay.model.steps import Arrange, CallInto, Layout
from cuassay.model.trace import StepDone
from cuassay.sandbox.guest.interface import Given
from cuassay.sandbox.guest.interpreter import Interpreter
from cuassay.sandbox.guest.memory.page_end import bytes_at_end
from tests.support.fake_trial import axis, problem, tensor

DTYPES = (
    torch.float64,
    torch.float32,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.int64,
    torch.int8,
    torch.bool,
    torch.complex64,
)
SHAPE = (3, 5, 4, 7)
STRIDES = {
    Layout.CONTIGUOUS: (140, 28, 7, 1),
    Layout.TRANSPOSED: (140, 28, 1, 4),
    Layout.STEPPED: (280, 56, 14, 2),
    Layout.OFFSET: (140, 28, 7, 1),
    Layout.PACKED: (280, 56, 14, 1),
    Layout.CHANNELS_LAST: (140, 1, 35, 5),
    Layout.AT_END: (140, 28, 7, 1),
}
PROBLEM: Problem = problem(
    "anything",
    axes=[axis("rows"), axis("cols"), ConstAxis(name="width", value=8)],
    inputs=[
        tensor("x", "rows", "cols"),
        ScalarSpec(name="gain", dtype=DType.FLOAT32, domain=Real(), default=1.0),
        tensor("w", "cols"),
    ],
    outputs=[tensor("y", "rows", "cols")],
    workloads=[{"rows": 4, "cols": 6}],
)
CASE = Case(label="a case", axes={"rows": 4, "cols": 6, "width": 8})


def raw(tensor: torch.Tensor) -> torch.Tensor:
    size = tensor.element_size()
    flat = tensor.clone(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).reshape(-1, size)


def noise(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return random bytes as a tensor: NaNs of every kind included."""
    size = torch.Size(shape).numel() * dtype.itemsize
    data = torch.randint(0, 2 if dtype is torch.bool else 255, (size,), dtype=torch.uint8)
    return data.view(dtype).reshape(shape)


def host(
    values: dict[str, torch.Tensor | Scalar],
    call: object = None,
    *,
    convention: Convention = Convention.RETURNS,
) -> Interpreter:
    made = Interpreter(
        call if callable(call) else lambda *a: a[0],
        PROBLEM,
        device=CPU,
        convention=convention,
    )
    made.execute(Allocate(slot="s", case=0), 0, cases=[CASE], given=Given(inputs=values))
    return made


def arranged(
    values: dict[str, torch.Tensor | Scalar], **layouts: Layout
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    interpreter = host(values)
    step = Arrange(slot="s", layouts=layouts)
    record = interpreter.execute(step, 1, cases=[CASE], given=Given()).record
    assert isinstance(record, StepDone), record
    return interpreter.slot("s").tensors, impossible(record)


def impossible(record: StepDone) -> dict[str, str]:
    assert isinstance(record.report, Laid)
    return dict(record.report.impossible)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", STRIDES)
def test_bits_stay_and_strides_change(layout: Layout, dtype: torch.dtype) -> None:
    value = noise(SHAPE, dtype)
    tensors, refused = arranged({"x": value}, x=layout)
    found = tensors["x"]
    assert (found.dtype, tuple(found.shape)) == (dtype, SHAPE)
    assert torch.equal(raw(found), raw(value))
    assert found.stride() == STRIDES[layout]
    assert found.data_ptr() != value.data_ptr()
    assert not refused


@pytest.mark.parametrize(
    ("layout", "gaps"), [(Layout.STEPPED, 420), (Layout.OFFSET, 1), (Layout.PACKED, 420)]
)
def test_gaps_hold_nan(layout: Layout, gaps: int) -> None:
    tensors, _ = arranged({"x": torch.zeros(SHAPE)}, x=layout)
    whole = torch.empty(0).set_(tensors["x"].untyped_storage())
    assert int(whole.isnan().sum()) == gaps == whole.numel() - 420
    gap = raw(whole[whole.isnan()])
    assert bool((gap == 0xFF).all())


def test_an_offset_tensor_is_misaligned() -> None:
    tensors, _ = arranged({"x": torch.zeros(SHAPE, dtype=torch.bfloat16)}, x=Layout.OFFSET)
    assert tensors["x"].data_ptr() % 16 == 2
    assert tensors["x"].storage_offset() == 1


def test_packed_inputs_share_one_buffer_along_the_last_axis() -> None:
    q, k, v = torch.rand(4, 6), torch.rand(4, 2), torch.rand(4, 3)
    other = torch.rand(5, 2)
    layouts = dict.fromkeys("qkvo", Layout.PACKED)
    tensors, _ = arranged({"q": q, "k": k, "v": v, "o": other}, **layouts)
    storages = {name: tensors[name].untyped_storage().data_ptr() for name in "qkvo"}
    assert storages["q"] == storages["k"] == storages["v"] != storages["o"]
    assert [tensors[name].storage_offset() for name in "qkvo"] == [0, 6, 8, 2]
    assert tensors["k"].stride() == (11, 1)
    assert torch.equal(tensors["v"], v)


def test_equal_slices_are_expanded_and_others_are_not() -> None:
    row = torch.rand(1, 6)
    row[0, 2] = float("nan")
    equal, differing = row.repeat(4, 1), torch.rand(4, 6)
    tensors, refused = arranged({"e": equal, "d": differing}, e=Layout.EXPANDED, d=Layout.EXPANDED)
    assert tensors["e"].stride() == (0, 1)
    assert tensors["e"].untyped_storage().nbytes() == 24
    assert torch.equal(raw(tensors["e"]), raw(equal))
    assert tensors["d"].is_contiguous()
    assert refused == {"d": "its slices differ along every axis"}


def test_every_axis_of_equal_slices_is_expanded() -> None:
    values: dict[str, torch.Tensor | float | int | bool] = {
        "last": torch.rand(4, 1).expand(4, 6),
        "both": torch.rand(1, 1).expand(4, 6),
        "middle": torch.rand(2, 1, 3).expand(2, 5, 3),
    }
    tensors, refused = arranged(values, **dict.fromkeys(values, Layout.EXPANDED))
    assert refused == {}
    strides = {name: tensor.stride() for name, tensor in tensors.items()}
    assert strides == {"last": (1, 0), "both": (0, 0), "middle": (3, 0, 1)}
    for name, value in values.items():
        assert isinstance(value, torch.Tensor)
        assert torch.equal(tensors[name], value)


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((), Layout.STEPPED),
        ((), Layout.EXPANDED),
        ((), Layout.PACKED),
        ((5,), Layout.TRANSPOSED),
        ((1, 5), Layout.TRANSPOSED),
        ((1, 5), Layout.EXPANDED),
        ((2, 3, 4), Layout.CHANNELS_LAST),
        ((0, 3), Layout.PACKED),
        ((0, 3), Layout.STEPPED),
    ],
)
def test_what_cannot_be_had_is_said_and_stays_contiguous(
    shape: tuple[int, ...], layout: Layout
) -> None:
    value = torch.rand(shape)
    tensors, refused = arranged({"x": value}, x=layout)
    assert list(refused) == ["x"]
    assert torch.equal(tensors["x"], value)
    assert tensors["x"].is_contiguous()


def test_others_stay_as_they_are_and_unknown_names_are_said() -> None:
    value = torch.rand(4, 6)
    interpreter = host({"x": value, "gain": 2.0, "w": torch.rand(6)})
    before = interpreter.slot("s").tensors["w"].data_ptr()
    step = Arrange(slot="s", layouts={"x": Layout.OFFSET, "gain": Layout.OFFSET})
    record = interpreter.execute(step, 1, cases=[CASE], given=Given()).record
    assert isinstance(record, StepDone)
    assert impossible(record) == {"gain": "no input tensor has this name"}
    assert list(interpreter.slot("s").values) == ["x", "gain", "w"]
    assert interpreter.slot("s").tensors["w"].data_ptr() == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn, torch.float4_e2m1fn_x2])
def test_one_tensor_stands_for_two_inputs_of_the_same_values(dtype: torch.dtype) -> None:
    def drawn() -> torch.Tensor:
        return torch.rand(4, 6).view(torch.uint8).view(dtype)

    value = drawn()
    for other in (value.clone(), value.clone().t().contiguous(), drawn()):
        interpreter = host({"x": value, "gain": 2.0, "w": other})
        step = Arrange(slot="s", same={"w": "x"})
        record = interpreter.execute(step, 1, cases=[CASE], given=Given()).record
        assert isinstance(record, StepDone)
        tensors = interpreter.slot("s").tensors
        words = [one.view(torch.uint8) for one in (tensors["w"].contiguous(), other, value)]
        assert torch.equal(words[0], words[1])
        shared = tensors["w"].data_ptr() == tensors["x"].data_ptr()
        alike = other.shape != value.shape or torch.equal(words[1], words[2])
        assert shared is alike
        assert impossible(record) == ({} if alike else {"w": "its values are not those of x"})


def test_a_layout_can_be_taken_back() -> None:
    value = torch.rand(4, 6)
    interpreter = host({"x": value})
    for layout in (Layout.TRANSPOSED, Layout.STEPPED, Layout.CONTIGUOUS):
        step = Arrange(slot="s", layouts={"x": layout})
        interpreter.execute(step, 1, cases=[CASE], given=Given())
    assert interpreter.slot("s").tensors["x"].stride() == (6, 1)
    assert torch.equal(interpreter.slot("s").tensors["x"], value)


@pytest.mark.parametrize("size", [1, 63, 64, 4096, 5000])
def test_memory_at_the_end_is_followed_by_a_page_nobody_may_touch(size: int) -> None:
    found = bytes_at_end(size, torch.device("cpu"))
    assert found.numel() == size
    assert found.data_ptr() % 64 == 0
    end = found.data_ptr() + -(-size // 64) * 64
    assert end % 4096 == 0
    slack = (ctypes.c_ubyte * (end - found.data_ptr())).from_address(found.data_ptr())
    assert set(slack) == {0xFF}
    regions = Path("/proc/self/maps").read_text().splitlines()
    after = [line for line in regions if line.startswith(f"{end:x}-")]
    assert after
    assert after[0].split()[1].startswith("---")
    assert found.untyped_storage().data_ptr() == found.data_ptr()


def into(call: object, convention: Convention, **pairs: str) -> tuple[Interpreter, dict[str, str]]:
    interpreter = host(
        {"x": torch.ones(4, 6), "gain": 3.0, "w": torch.ones(6)}, call, convention=convention
    )
    step = CallInto(slot="s", result="r", into=pairs)
    record = interpreter.execute(step, 1, cases=[CASE], given=Given()).record
    assert isinstance(record, StepDone), record
    return interpreter, impossible(record)


def test_outputs_lie_in_the_memory_of_inputs() -> None:
    def call(x: torch.Tensor, gain: float, w: torch.Tensor, y: torch.Tensor) -> None:
        assert y.data_ptr() == x.data_ptr()
        y.mul_(gain)

    interpreter, refused = into(call, Convention.DESTINATION, y="x")
    ((name, value),) = interpreter.result("r")
    assert name == "y"
    assert refused == {}
    assert value is interpreter.slot("s").values["x"]
    assert torch.equal(interpreter.slot("s").tensors["x"], torch.full((4, 6), 3.0))


def test_an_output_that_does_not_fit_has_memory_of_its_own() -> None:
    def call(x: torch.Tensor, gain: float, w: torch.Tensor, y: torch.Tensor) -> None:
        assert y.data_ptr() != w.data_ptr()
        y.copy_(x)

    _, refused = into(call, Convention.DESTINATION, y="w")
    assert refused == {"y": "another shape or dtype"}


def test_a_candidate_that_returns_is_called_as_ever() -> None:
    interpreter, refused = into(lambda x, gain, w: x * gain, Convention.RETURNS, y="x")
    assert refused == {}
    ((_, value),) = interpreter.result("r")
    assert isinstance(value, torch.Tensor)
    assert torch.equal(value, torch.full((4, 6), 3.0))
