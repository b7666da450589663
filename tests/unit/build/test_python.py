"""Python candidates: import, errors in words, the device facade."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cuassay import build
from cuassay.build import tuned
from cuassay.build.cuda_facade import cuda_facade
from cuassay.build.python import load_python
from cuassay.errors import BuildError, MissingToolError
from cuassay.model.device import CPU, CUDA
from tests.support.builds import candidate, guard_process, problem


def load(tmp_path: Path, *texts: str, **options: object) -> build.Built:
    return build.load(candidate(*texts, **options), problem(), device=CPU, folder=tmp_path)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _restored_import_state(monkeypatch: pytest.MonkeyPatch) -> None:
    guard_process(monkeypatch)


def test_callable_comes_back_and_second_load_is_cached(tmp_path: Path) -> None:
    first = load(tmp_path, "def run(x, factor):\n    return x * factor\n")
    assert first.call(torch.ones(2), 3.0).tolist() == [3.0, 3.0]  # type: ignore[attr-defined]
    assert (first.kind, first.cached) == ("python", False)
    assert first.toolchain["torch"] == torch.__version__
    again = load(tmp_path, "def run(x, factor):\n    return x * factor\n")
    assert again.cached


def test_several_files_import_each_other(tmp_path: Path) -> None:
    text = (
        "from helper_of_test import two\nimport part.inner\n"
        "def run():\n    return two + part.inner.ONE\n"
    )
    paths = ("kernel.py", "helper_of_test.py", "part/__init__.py", "part/inner.py")
    built = load(tmp_path, text, "two = 2\n", "", "ONE = 1\n", paths=paths)
    assert built.call() == 3


def test_relative_imports_inside_a_package(tmp_path: Path) -> None:
    paths = ("package_of_test/kernel.py", "package_of_test/__init__.py", "package_of_test/own.py")
    built = load(tmp_path, "from .own import run\n", "", "def run():\n    return 7\n", paths=paths)
    assert built.call() == 7


def test_import_error_shows_only_the_candidates_frames(tmp_path: Path) -> None:
    with pytest.raises(
        BuildError, match="importing the candidate failed: ZeroDivisionError"
    ) as info:
        load(tmp_path, "def inner():\n    return 1 / 0\ninner()\n")
    assert 'File "kernel.py", line 2, in inner' in info.value.log
    assert "importlib" not in info.value.log
    assert str(tmp_path) not in info.value.log


def test_syntax_error_is_a_build_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="SyntaxError"):
        load(tmp_path, "def run(:\n")


def test_exit_on_import_is_a_build_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="SystemExit"):
        load(tmp_path, "import sys\nsys.exit(0)\n")


def test_absent_entry_function_suggests_the_near_one(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no entry function 'run'; did you mean 'runn'"):
        load(tmp_path, "def runn():\n    pass\n")


def test_entry_that_is_no_function(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="is a int, expected a function"):
        load(tmp_path, "run = 3\n")


@pytest.mark.parametrize("package", ["helion_absent", "torch.absent"])
def test_a_package_that_is_absent_is_a_missing_tool(tmp_path: Path, package: str) -> None:
    absent = f"imports '{package}', which is neither among its files nor installed here"
    with pytest.raises(MissingToolError, match=absent):
        load(tmp_path, f"import {package}\n")
    call = load(tmp_path, f"def run(x):\n    import {package}\n").call
    with pytest.raises(MissingToolError, match=absent):
        call(torch.ones(3))


def test_a_library_by_which_ranks_are_not_judged_is_a_missing_tool(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match=r"the package 'nvshmem', by which ranks are"):
        load(tmp_path, "import nvshmem.core\n")
    absent = "raise RuntimeError('NVSHMEM device library not found. Searched: /usr/lib')\n"
    with pytest.raises(MissingToolError, match="NVSHMEM's device library, by which ranks are not"):
        load(tmp_path, absent)


def test_a_module_that_its_own_package_lacks_is_the_candidates_fault(tmp_path: Path) -> None:
    sources = ("import parts.absent\n", "")
    with pytest.raises(BuildError, match=r"No module named 'parts\.absent'"):
        load(tmp_path, *sources, paths=("kernel.py", "parts/__init__.py"))


def test_path_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="leaves the candidate's folder"):
        load(tmp_path, "", "", paths=("kernel.py", "../outside.py"))


def test_hard_coded_cuda_runs_on_the_cpu(tmp_path: Path) -> None:
    text = """
import torch
def run(x):
    assert x.is_cuda and x.device.type == "cuda" and torch.cuda.is_available()
    device = torch.device("cuda", 0)
    assert device == x.device == torch.device("cuda:0")
    out = torch.zeros(x.shape, device="cuda") + torch.ones(x.shape, device=device)
    out = torch.full_like(out, 1.0, device=x.device).new_zeros(3, device="cuda") + out
    with torch.cuda.device(x.device):
        torch.cuda.synchronize()
    assert torch.cuda.get_device_properties(0).multi_processor_count > 0
    host = x.cpu()
    host += 1
    return out + x.cuda().to("cuda:0", dtype=torch.float32)
"""
    if torch.cuda.is_available():
        pytest.skip("the facade stands in for a GPU only where there is none")
    x = torch.ones(3)
    y = load(tmp_path, text).call(x)
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [2.0, 2.0, 2.0]
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert y.device.type == "cpu"
    assert not torch.cuda.is_available()


def test_facade_nests_and_restores(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.cuda.is_available
    with cuda_facade(), cuda_facade():
        assert torch.cuda.is_available is not before
    assert torch.cuda.is_available is before


def test_code_that_torch_compile_wrote_finds_its_helpers(tmp_path: Path) -> None:
    text = """
import torch
from torch._C import _cuda_getCurrentRawStream as get_raw_stream
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda

def run(x):
    with torch.cuda._DeviceGuard(x.device.index):
        torch.cuda.set_device(0)
        made = empty_strided_cuda((3, 1), (1, 3), torch.float32)
        assert get_raw_stream(0) == 0 and made.is_cuda
        return made.copy_(x[:, None])
"""
    if torch.cuda.is_available():
        pytest.skip("the facade stands in for a GPU only where there is none")
    before = hasattr(torch._C, "_cuda_getCurrentRawStream")
    assert load(tmp_path, text).call(torch.ones(3)).shape == (3, 1)  # type: ignore[attr-defined]
    assert hasattr(torch._C, "_cuda_getCurrentRawStream") == before


def test_recurrent_layers_keep_away_from_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that was built for CUDA would lay out their weights for cuDNN, which are here."""
    monkeypatch.setattr(torch, "_use_cudnn_rnn_flatten_weight", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "is_acceptable", lambda *_: True)
    with cuda_facade():
        layer = torch.nn.LSTM(3, 4, bidirectional=True)
        found, _ = layer(torch.ones(2, 5, 3, device="cuda"))
    assert found.shape == (2, 5, 8)
    assert torch.backends.cudnn.is_acceptable(found)  # type: ignore[no-untyped-call]


def test_autotuners_of_an_imported_library_tune_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []
    monkeypatch.setattr(tuned, "tune_once", folders.append)
    text = "from library_of_test import double\ndef run(x):\n    return double(x)\n"
    library = "def double(x):\n    return 2 * x\n"
    paths = ("kernel.py", "library_of_test.py")
    made = candidate(text, library, paths=paths)
    run = load_python(made, device=CUDA, folder=tmp_path)
    assert (run(2), folders) == (4, [tmp_path])


def test_what_only_a_gpu_can_do_is_a_missing_tool(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    for asked in ("CUDAGraph()", "_sleep(1)"):
        built = load(tmp_path, f"import torch\ndef run():\n    return torch.cuda.{asked}\n")
        with pytest.raises(MissingToolError, match="needs an NVIDIA GPU"):
            built.call()


def test_what_the_runtime_says_of_a_gpu_that_is_hidden_is_a_missing_tool(tmp_path: Path) -> None:
    words = "CUDA error: no CUDA-capable device is detected"
    built = load(tmp_path, f"def run():\n    raise RuntimeError({words!r})\n")
    with pytest.raises(MissingToolError, match="needs an NVIDIA GPU"):
        built.call()


def test_causes_in_a_ring_come_to_an_end(tmp_path: Path) -> None:
    source = (
        "def run(x):\n    error = ValueError('wrong shape')\n"
        "    error.__cause__ = KeyError('k')\n    error.__cause__.__cause__ = error\n"
        "    raise error\n"
    )
    built = load(tmp_path, source)
    with pytest.raises(ValueError, match="wrong shape"):
        built.call(7)


def test_exceptions_of_the_candidate_pass_unchanged(tmp_path: Path) -> None:
    built = load(tmp_path, "def run(cuda):\n    raise KeyError(cuda)\n")
    with pytest.raises(KeyError, match="7"):
        built.call(7)


def test_asking_for_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    with pytest.raises(MissingToolError, match="torch sees no NVIDIA GPU"):
        build.load(candidate("def run(): ..."), problem(), device=CUDA, folder=tmp_path)
