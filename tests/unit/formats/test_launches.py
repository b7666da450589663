"""Launches of raw kernels: read from a comment or a file beside it, refused with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.errors import CandidateError
from cuassay.formats.launches import Declaration, read_declaration
from cuassay.model.candidate import Scratch
from tests.support.fake_trial import scaled_add

_KERNEL = 'extern "C" __global__ void add(float* x) {}\n'
_WHOLE = """\
zero_outputs = true
cuda_cflags = ["-lineinfo"]
[[scratch]]
name = "sums"
dtype = "float32"
size = "rows * 2"
[[launches]]
kernel = "add"
grid = ["-(-cols // 128)", "rows"]
block = [128]
arguments = ["x", "sums", "y", "gain", "rows:int32", "cols", "0.5:float32"]
"""


def _read(text: str, folder: Path = Path("/there")) -> Declaration | None:
    comment = "".join(f"// {line}\n" for line in ["cuassay-launch:", *text.splitlines()])
    return read_declaration(folder / "k.cu", comment + _KERNEL, scaled_add().problem)


def test_a_comment_declares_launches_in_expressions_of_axes() -> None:
    found = _read(_WHOLE)
    assert found is not None
    (launch,) = found.launches
    assert launch.grid == ("-(-cols // 128)", "rows", "1")
    assert launch.block == ("128", "1", "1")
    assert launch.arguments[-1] == "0.5:float32"
    assert found.scratch == (Scratch(name="sums", dtype="float32", size="rows * 2", zeroed=True),)
    assert found.zero_outputs
    assert found.flags.cuda_cflags == ("-lineinfo",)


def test_a_file_beside_the_source_wins_over_the_comment(tmp_path: Path) -> None:
    (tmp_path / "k.launch.toml").write_text(_WHOLE.replace("[128]", "[64]"))
    found = _read(_WHOLE, tmp_path)
    assert found is not None
    assert found.launches[0].block == ("64", "1", "1")
    assert read_declaration(Path("/there/k.cu"), _KERNEL, scaled_add().problem) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"add"', '"adds"', r"launches\[0\].*kernel 'adds'.*add"),
        ('"rows:int32"', '"rows:int16"', "suffix ':int16'"),
        ('"x", "sums"', '"x:int32", "sums"', "'x:int32' is a buffer"),
        ('"cols", "0.5', '"colls", "0.5', "argument 'colls'"),
        ('"-(-cols // 128)"', '"cols // 4096"', "is 0 for the smallest workload"),
        ("[128]", '["tile"]', "tile"),
        ('name = "sums"', 'name = "gain"', "has the name of an input"),
        ('dtype = "float32"', 'dtype = "float31"', "dtype 'float31'"),
        ("block = [128]", "block = [128", "not valid TOML"),
    ],
)
def test_a_wrong_declaration_says_where(old: str, new: str, message: str) -> None:
    assert old in _WHOLE
    with pytest.raises(CandidateError, match=message):
        _read(_WHOLE.replace(old, new))


def test_a_line_of_a_comment_is_named_as_the_file_counts_it() -> None:
    with pytest.raises(CandidateError, match="line 3: not valid TOML"):
        _read("zero_outputs = true\nbroken")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('name = "m"\ntensor = "z"\nbox = [8, 8]', "tensor 'z'"),
        ('name = "x"\ntensor = "x"\nbox = [8, 8]', "has the name of a tensor"),
        ('name = "m"\ntensor = "x"\nbox = []', "neither of 'box' and 'im2col'"),
        ('name = "m"\ntensor = "x"\nbox = [8, 8]\nshape = ["rows"]', "box has 2 dimensions"),
    ],
)
def test_a_tensor_map_is_of_a_tensor_and_of_one_kind(table: str, message: str) -> None:
    with pytest.raises(CandidateError, match=message):
        _read(f"[[tensor_maps]]\n{table}\n{_WHOLE.partition('[[scratch]]')[2]}".replace(
            'name = "sums"\ndtype = "float32"\nsize = "rows * 2"\n', ""
        ).replace('"sums", ', ""))  # fmt: skip
