"""The zoo's raw CUDA kernels read and compile; only a GPU can run them (tests/gpu)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cuassay.formats import load_candidate
from cuassay.model.candidate import Language
from tests.zoo.manifest import HERE, PAIRS, Pair, load

CUDA = [pair for pair in PAIRS if pair.cuda]


def test_manifest_and_files_agree() -> None:
    names = {pair.name for pair in CUDA}
    assert len(names) >= 10
    for pattern in ("bugs/*.diff", "twins/*.cu"):
        assert names == {path.stem for path in (HERE / "cuda").glob(pattern)}


@pytest.mark.parametrize("pair", CUDA, ids=lambda pair: pair.name)
def test_launches_fit_the_problem(pair: Pair) -> None:
    for path in (pair.bug, pair.twin):
        candidate = load_candidate(str(path), load(pair.problem))
        assert candidate.language is Language.CUDA_KERNEL
        assert candidate.launches


def test_kernels_compile(tmp_path: Path) -> None:
    """All in one translation unit, each file in a namespace of its own: headers count once."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not on PATH")
    parts = ["#include <cuda_bf16.h>", "#include <cuda_fp16.h>"]
    paths = [path for pair in CUDA for path in (pair.bug, pair.twin)]
    for number, path in enumerate(paths):
        text = path.read_text(encoding="utf-8").replace('extern "C" ', "")
        parts.append(f'namespace n{number} {{\n#line 1 "{path.as_posix()}"\n{text}\n}}')
    source = tmp_path / "zoo.cu"
    source.write_text("\n".join(parts), encoding="utf-8")
    command = [nvcc, "-ptx", "-arch=sm_90", "-Werror", "all-warnings", str(source)]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "zoo.ptx")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
