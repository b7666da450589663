"""CUDA sources as candidates: exported functions, and launches of raw kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cuassay.errors import CandidateError
from cuassay.formats import load_candidate, load_problem
from cuassay.model.candidate import Convention, Language, Launch, PixelColumns, Scratch, TileMap
from cuassay.model.problem import Problem

DATA = Path(__file__).parents[2] / "data" / "formats"
KERNELS = DATA / "kernels"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load_problem(str(DATA / "affine_rows"))


def test_extension_source(problem: Problem) -> None:
    candidate = load_candidate(str(KERNELS / "bound.cu"), problem)
    assert candidate.language is Language.CUDA_EXTENSION
    assert candidate.entry_function == "affine"
    assert candidate.convention is Convention.DESTINATION


def test_extension_with_several_exports(problem: Problem, tmp_path: Path) -> None:
    file = tmp_path / "k.cpp"
    file.write_text('PYBIND11_MODULE(X, m) { m.def("a", &a); m.def("b", &b); }')
    with pytest.raises(CandidateError, match=r"unknown exported function 'run'.*known: a, b"):
        load_candidate(str(file), problem)
    assert load_candidate(f"{file}::b", problem).entry_function == "b"


def test_raw_kernels_with_launches_in_a_comment(problem: Problem) -> None:
    candidate = load_candidate(str(KERNELS / "raw.cu"), problem)
    assert candidate.language is Language.CUDA_KERNEL
    assert candidate.convention is Convention.DESTINATION
    assert candidate.zero_outputs
    assert candidate.scratch == (Scratch(name="sums", dtype="float32", size="rows * width"),)
    assert candidate.launches[0] == Launch(
        kernel="affine",
        grid=("rows", "1", "1"),
        block=("width", "2", "1"),
        shared_bytes="4 * width",
        arguments=("x", "shift", "bias", "gain", "y", "sums", "rows:int32", "width"),
    )
    assert candidate.launches[1].grid == ("-(-rows // 64)", "1", "1")


def test_tensor_maps_and_clusters_are_declared(problem: Problem, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(RAW)
    text = SIDECAR.replace('"x", ', '"tiles", ').replace("block = 32", "block = 32\ncluster = [2]")
    maps = '[[tensor_maps]]\nname = "tiles"\ntensor = "x"\nbox = [8, "width"]\nfill = "nan"\n'
    (tmp_path / "k.launch.toml").write_text(maps + text)
    candidate = load_candidate(str(tmp_path / "k.cu"), problem)
    assert candidate.tile_maps == (
        TileMap(name="tiles", tensor="x", box=("8", "width"), nan_fill=True),
    )
    assert candidate.launches[0].cluster == ("2", "1", "1")
    assert candidate.launches[0].arguments[0] == "tiles"


def test_columns_are_declared_instead_of_a_box(problem: Problem, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(RAW)
    maps = (
        '[[tensor_maps]]\nname = "pixels"\ntensor = "x"\nshape = [1, "rows", "width"]\n'
        'im2col = { lower = [-1], upper = ["1 - width"], channels = 8, pixels = 16, '
        "strides = [2] }\n"
    )
    (tmp_path / "k.launch.toml").write_text(maps + SIDECAR.replace('"x", ', '"pixels", '))
    columns = PixelColumns(
        lower=("-1",), upper=("1 - width",), channels="8", pixels="16", strides=("2",)
    )
    assert load_candidate(str(tmp_path / "k.cu"), problem).tile_maps == (
        TileMap(name="pixels", tensor="x", columns=columns, shape=("1", "rows", "width")),
    )


SIDECAR = """
[[launches]]
kernel = "k"
grid = ["rows", 2]
block = 32
arguments = ["x", "rows * 2:int32"]
"""
RAW = 'extern "C" {\n__global__ void k(const void* x, int n) {}\n}\n'


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_launches_in_a_sidecar_file(problem: Problem, tmp_path: Path, suffix: str) -> None:
    (tmp_path / "k.cu").write_text(RAW)
    launch = {"kernel": "k", "grid": ["rows", 2], "block": 32, "arguments": ["x", "rows * 2:int32"]}
    text = SIDECAR if suffix == "toml" else json.dumps({"launches": [launch]})
    (tmp_path / f"k.launch.{suffix}").write_text(text)
    candidate = load_candidate(str(tmp_path / "k.cu"), problem)
    assert candidate.launches[0].grid == ("rows", "2", "1")
    assert candidate.launches[0].arguments == ("x", "rows * 2:int32")


def test_launches_with_the_marker_on_every_line(problem: Problem, tmp_path: Path) -> None:
    lines = [f"// cuassay-launch: {line}" for line in SIDECAR.strip().splitlines()]
    (tmp_path / "k.cu").write_text("\n".join(lines) + "\n" + RAW)
    assert load_candidate(str(tmp_path / "k.cu"), problem).launches[0].kernel == "k"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'kernel = "k"',
            'kernel = "kk"',
            r"launches\[0\]: unknown kernel 'kk': did you mean 'k'\?",
        ),
        ("[[launches]]", "[[launch]]", r"unknown key 'launch': did you mean 'launches' "),
        ("block = 32", "blocks = 32", r"'launches\[0\]\.blocks': did you mean 'block'\?"),
        ("block = 32", "block = []", r"launches\[0\]\.block"),
        ("block = 32", "block = 0", r"launches\[0\]\.block: '0' is 0 .*expected 1 or more"),
        ('"rows", 2', '"row", 2', r"grid: axis expression 'row' cannot be evaluated: unknown axis"),
        ('"rows", 2', '"rows // 64"', r"'rows // 64' is 0 for the smallest workload.*round up"),
        ('"x", ', '"xx", ', r"arguments: unknown argument 'xx': did you mean 'x'\?"),
        (":int32", ":int8", r"has the suffix ':int8', expected ':int32'"),
        ('"x", ', '"x:int32", ', r"'x:int32' is a buffer; drop the suffix"),
        ("rows * 2", "rows ** ", r"arguments: axis expression 'rows \*\* ' cannot be evaluated"),
        ("[[launches]]", "[[launches", r"k\.launch\.toml: line 2: not valid TOML"),
        (
            "[[launches]]",
            '[[scratch]]\nname="x"\ndtype="float32"\nsize=1\n[[launches]]',
            r"scratch buffer 'x' has the name of an input",
        ),
        (
            "[[launches]]",
            '[[scratch]]\nname="s"\ndtype="floot32"\nsize=1\n[[launches]]',
            r"scratch\.s: unknown dtype 'floot32': did you mean 'float32'\?",
        ),
        (
            "[[launches]]",
            '[[tensor_maps]]\nname="m"\ntensor="xx"\nbox=[8]\n[[launches]]',
            r"tensor_maps\.m: unknown tensor 'xx': did you mean 'x'\?",
        ),
        (
            "[[launches]]",
            '[[tensor_maps]]\nname="m"\ntensor="x"\nbox=[8]\nshape=[8, 8]\n[[launches]]',
            r"tensor_maps\.m: box has 1 dimensions, shape 2; give as many",
        ),
        (
            "[[launches]]",
            '[[tensor_maps]]\nname="m"\ntensor="x"\n[[launches]]',
            r"tensor_maps\.m has neither of 'box' and 'im2col'; give one",
        ),
        (
            "[[launches]]",
            '[[tensor_maps]]\nname="m"\ntensor="x"\n'
            "im2col={lower=[0], upper=[0, 0], channels=8, pixels=8}\n[[launches]]",
            r"tensor_maps\.m\.im2col: lower has 1 dimensions, upper 2, strides 0; give as many",
        ),
        (
            "[[launches]]",
            '[[tensor_maps]]\nname="m"\ntensor="x"\nbox=[8]\nswizzle=48\n[[launches]]',
            r"swizzle",
        ),
    ],
)
def test_bad_launches(problem: Problem, tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "k.cu").write_text(RAW)
    (tmp_path / "k.launch.toml").write_text(SIDECAR.replace(old, new))
    with pytest.raises(CandidateError, match=message):
        load_candidate(str(tmp_path / "k.cu"), problem)


def test_bad_toml_in_a_comment_names_the_line_of_the_source(
    problem: Problem, tmp_path: Path
) -> None:
    (tmp_path / "k.cu").write_text("// my kernel\n\n// cuassay-launch:\n// grid = \n" + RAW)
    with pytest.raises(CandidateError, match=r"k\.cu: line 4: not valid TOML"):
        load_candidate(str(tmp_path / "k.cu"), problem)


def test_cuda_source_without_binding_or_launch(problem: Problem, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(RAW + "// PYBIND11_MODULE(X, m) {}")
    with pytest.raises(CandidateError) as caught:
        load_candidate(str(tmp_path / "k.cu"), problem)
    assert "neither a PYBIND11_MODULE nor a declared launch (its kernels: k)" in str(caught.value)
    assert "// cuassay-launch:" in str(caught.value)


def test_raw_kernel_without_c_linkage(problem: Problem, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(const void* x, int n) {}")
    (tmp_path / "k.launch.toml").write_text(SIDECAR)
    with pytest.raises(CandidateError, match=r'no kernel is extern "C"'):
        load_candidate(str(tmp_path / "k.cu"), problem)
