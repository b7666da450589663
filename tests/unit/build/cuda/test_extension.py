"""C++ extensions, built for the cpu with g++."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import shutil
import sysconfig
from pathlib import Path

import pytest
import torch
from torch.utils import cpp_extension

from cuassay import build
from cuassay.build.cuda import compile_units, inline_extension, torch_headers
from cuassay.errors import BuildError, MissingToolError
from cuassay.model.candidate import BuildFlags, Candidate, Language
from cuassay.model.device import CPU, Device
from tests.support.builds import candidate, guard_process, problem

BODY = """
#include <torch/extension.h>
#include "twice.h"
torch::Tensor run(torch::Tensor x) { return torch::add(torch::zeros_like(x), TWICE(x)); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
HEADER = "#pragma once\n#define TWICE(v) ((v) * FACTOR)\n"


def extension(text: str = BODY, *, entry: str = "run") -> Candidate:
    made = candidate(
        text,
        HEADER,
        paths=("main.cpp", "twice.h"),
        entry=entry,
        language=Language.CUDA_EXTENSION,
    )
    return dataclasses.replace(made, flags=BuildFlags(cflags=("-DFACTOR=2",)))


@pytest.fixture(autouse=True)
def _restored_process(monkeypatch: pytest.MonkeyPatch) -> None:
    guard_process(monkeypatch)


has_compiler = shutil.which("g++") is not None
has_python = (Path(sysconfig.get_path("include")) / "Python.h").is_file()
needs_compiler = pytest.mark.skipif(
    not (has_compiler and has_python), reason="needs g++ and Python's headers"
)


@needs_compiler
@pytest.mark.slow
def test_builds_loads_and_is_cached(tmp_path: Path) -> None:
    first = build.load(extension(), problem(), device=CPU, folder=tmp_path)
    assert first.call(torch.ones(2)).tolist() == [2.0, 2.0]  # type: ignore[attr-defined]
    assert not first.cached
    library = next(tmp_path.glob("*.so"))
    stamp = library.stat().st_mtime_ns
    again = build.load(extension(), problem(), device=CPU, folder=tmp_path)
    assert again.cached
    assert library.stat().st_mtime_ns == stamp
    with pytest.raises(BuildError, match=r"no function 'ran'; did you mean 'run'\?"):
        build.load(extension(entry="ran"), problem(), device=CPU, folder=tmp_path)


@needs_compiler
@pytest.mark.slow
def test_compiler_error_comes_back_from_torchs_own_headers(tmp_path: Path) -> None:
    # a source that needs no torch at all, so that both attempts are quick
    text = "int run() { return undefined_name; } // PYBIND11_MODULE(x, m)\n"
    with pytest.raises(BuildError, match=r"main\.cpp does not compile") as info:
        build.load(extension(text), problem(), device=CPU, folder=tmp_path)
    assert "undefined_name" in info.value.log
    assert str(tmp_path) not in info.value.log


def test_no_binding_is_a_build_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no source declares a PYBIND11_MODULE"):
        build.load(extension("int x;"), problem(), device=CPU, folder=tmp_path)


def test_no_host_compiler_is_a_missing_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(MissingToolError, match="'no-such-compiler' was not found"):
        build.load(extension(), problem(), device=CPU, folder=tmp_path)


def test_light_headers_hold_the_operators_that_the_source_names(tmp_path: Path) -> None:
    include = compile_units.torch_include()
    folder = torch_headers.write_light_headers(
        tmp_path, ["at::softmax(x, 1); torch::Tensor y;"], include
    )
    text = (folder / "cuassay_light_torch.h").read_text()
    assert "#include <ATen/ops/softmax.h>" in text
    assert "ops/Tensor.h" not in text
    assert "cuassay_light_torch.h" in (folder / "torch" / "extension.h").read_text()


@pytest.mark.parametrize(
    "text", ["torch::nn::Linear l;", "TORCH_LIBRARY(a, m)", "x.requires_grad()"]
)
def test_sources_that_need_all_of_torch_get_it(text: str) -> None:
    assert not torch_headers.light_headers_suffice(["plain", text])
    assert torch_headers.light_headers_suffice(["torch::empty_like(x)"])


def test_cuda_command_builds_for_the_local_architecture_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_units, "find_nvcc", lambda: Path("/opt/nvcc"))
    unit = compile_units.Unit(path=tmp_path / "k.cu", text="", is_cuda=True)

    def command(*flags: str) -> list[str]:
        job = compile_units.CompileJob(
            unit,
            BuildFlags(cuda_cflags=flags),
            name="m",
            arch="sm_90a",
            folder=tmp_path,
            light=None,
        )
        return job.command(tmp_path / "k.o", None)

    assert "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]" in command("-O3")
    assert "-O3" in command("-O3")
    assert not any("90a" in part for part in command("-gencode=arch=compute_80,code=sm_80"))
    assert sum(part.startswith("-std") for part in command("-std=c++17")) == 1


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["-O3"], ["-O3", "-gencode=arch=compute_90,code=[sm_90,compute_90]"]),
        (
            ["-gencode=arch=compute_90a,code=sm_90a"],
            ["-gencode=arch=compute_90a,code=[sm_90a,compute_90a]"],
        ),
        (
            ["-gencode", "arch=compute_80,code=sm_86"],
            ["-gencode", "arch=compute_80,code=[sm_86,compute_80]"],
        ),
        (
            ["--generate-code=arch=compute_90,code=compute_90"],
            ["--generate-code=arch=compute_90,code=compute_90"],
        ),
        (["-arch=sm_90a"], ["-arch=sm_90a"]),  # nvcc embeds PTX by itself
    ],
)
def test_a_library_carries_ptx_whatever_architecture_its_flags_name(
    flags: list[str], expected: list[str]
) -> None:
    assert compile_units.with_ptx(flags, "sm_90") == expected


def test_what_torch_builds_by_itself_carries_ptx_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[list[str], str]] = []

    def load(
        name: str,
        sources: list[str],
        extra_cuda_cflags: list[str] | None = None,
        *,
        is_python_module: bool = True,
    ) -> tuple[str, list[str]]:
        built.append((extra_cuda_cflags or [], os.environ.get("TORCH_CUDA_ARCH_LIST", "")))
        return name, sources

    monkeypatch.setattr(cpp_extension, "load", load)
    monkeypatch.setattr(cpp_extension, "load_inline", cpp_extension.load_inline)
    monkeypatch.setattr(inline_extension, "architecture", lambda device: "sm_90")
    inline_extension.install(tmp_path, device=Device("cuda:0"))
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    by_torch = functools.partial(cpp_extension.load, "ops", ["a.cu"], is_python_module=False)
    assert by_torch() == ("ops", ["a.cu"])
    by_torch(extra_cuda_cflags=["-gencode=arch=compute_80,code=sm_80"])
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0 9.0a+PTX")
    by_torch()
    assert built == [
        (["-gencode=arch=compute_90,code=[sm_90,compute_90]"], ""),
        (["-gencode=arch=compute_80,code=[sm_80,compute_80]"], ""),
        ([], "8.0+PTX;9.0a+PTX"),
    ]
    assert os.environ["TORCH_CUDA_ARCH_LIST"] == "8.0 9.0a+PTX"


@needs_compiler
@pytest.mark.slow
def test_files_that_load_is_given_are_compiled_once_wherever_a_process_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpp_extension, "load", cpp_extension.load)
    monkeypatch.setattr(cpp_extension, "load_inline", cpp_extension.load_inline)
    monkeypatch.setattr(inline_extension, "architecture", lambda device: "sm_90")
    inline_extension.install(tmp_path / "cache", device=Device("cuda:0"))
    stamps = []
    for home in ("first process", "second process"):
        (tmp_path / home).mkdir()
        (tmp_path / home / "main.cpp").write_text(BODY.replace("TORCH_EXTENSION_NAME", "ops"))
        (tmp_path / home / "twice.h").write_text(HEADER)
        module = cpp_extension.load(
            "ops",
            sources=[str(tmp_path / home / "main.cpp")],
            extra_cflags=["-DFACTOR=2"],
            build_directory=str(tmp_path / home),
        )
        assert module.run(torch.ones(2)).tolist() == [2.0, 2.0]
        stamps.append([one.stat().st_mtime_ns for one in tmp_path.rglob("*.so")])
    assert len(stamps[0]) == 1
    assert stamps[0] == stamps[1]


INLINE = """
import torch
from torch.utils import cpp_extension
from torch.utils.cpp_extension import load_inline
module = load_inline("twice", "torch::Tensor twice(torch::Tensor x) { return x * FACTOR; }",
                     functions=["twice"], verbose=False,
                     extra_cflags=["", "-O1 -DFACTOR=2"], extra_ldflags=[""])
def run(x):
    return module.twice(x)
"""


@needs_compiler
@pytest.mark.slow
def test_load_inline_is_built_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils import cpp_extension

    monkeypatch.setattr(cpp_extension, "load_inline", cpp_extension.load_inline)  # restored
    built = build.load(candidate(INLINE), problem(), device=CPU, folder=tmp_path)
    assert built.call(torch.ones(2)).tolist() == [2.0, 2.0]  # type: ignore[attr-defined]
    assert len(list(tmp_path.glob("inline/*/*.so"))) == 1


def test_long_headers_are_shortened_where_the_sources_do_not_use_them(tmp_path: Path) -> None:
    include = tmp_path / "include"
    plain = torch_headers.write_light_headers(tmp_path / "a", ["torch::empty_like(x)"], include)
    assert (plain / "ATen" / "Context.h").is_file()
    assert (plain / "ATen" / "DeviceGuard.h").is_file()
    texts = [
        "at::globalContext().alertNotDeterministic(x)",
        "OptionalCUDAGuard guard(device_of(x));",
    ]
    used = torch_headers.write_light_headers(tmp_path / "b", texts, include)
    assert not (used / "ATen").joinpath("Context.h").exists()
    assert not (used / "ATen").joinpath("DeviceGuard.h").exists()


def test_light_headers_have_the_names_that_torchs_own_add(tmp_path: Path) -> None:
    """A source that says torch::kFloat32 took torch's own headers: 40 s and more of nvcc."""
    include = compile_units.torch_include()
    added = (include / "torch" / "csrc" / "api" / "include" / "torch" / "types.h").read_text()
    names = re.findall(r"^(?:constexpr auto|using) (\w+) =", added, re.MULTILINE)
    assert {"kFloat32", "kI64", "Dtype"} <= set(names)
    light = (
        torch_headers.write_light_headers(tmp_path, ["torch::kFloat32"], include)
        / "cuassay_light_torch.h"
    )
    text = light.read_text()
    assert [name for name in names if not re.search(rf"\b{name} =", text)] == []
