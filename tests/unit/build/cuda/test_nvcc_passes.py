"""nvcc's passes, arranged side by side."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cuassay.build.cuda import nvcc_passes

DRY_RUN = """\
#$ PATH=/opt/cuda/bin:/usr/bin
#$ CICC_PATH=/opt/cuda/nvvm/bin
#$ UNUSED=1
#$ gcc -E -x c++ a.cu -o "/t/a.cpp4.ii"
#$ cudafe++ --c++20 --gen_module_id_file --module_id_file_name "/t/a.module_id" "/t/a.cpp4.ii"
#$ gcc -D__CUDA_ARCH__=900 -E -x c++ a.cu -o "/t/a.cpp1.ii"
#$ "$CICC_PATH/cicc" --module_id_file_name "/t/a.module_id" "/t/a.cpp1.ii" -o "/t/a.ptx"
#$ ptxas -arch=sm_90 "/t/a.ptx" -o "/t/a.cubin"
#$ fatbinary -64 "--image3=kind=elf,sm=90,file=/t/a.cubin"
#$ rm /t/a.fatbin
#$ gcc -c -x c++ "/t/a.cudafe1.cpp" -o "a.o"
"""


def test_front_ends_run_side_by_side(tmp_path: Path) -> None:
    script = nvcc_passes.rearranged_script(DRY_RUN, tmp_path)
    assert script is not None
    lines = script.splitlines()
    assert "export PATH=/opt/cuda/bin:/usr/bin" in lines
    assert "UNUSED" not in script
    assert "--gen_module_id_file" not in script
    assert script.index("cudafe++") < script.index("host=$!") < script.index("cicc")
    assert lines.index("wait $host") < next(i for i, line in enumerate(lines) if "gcc -c" in line)


@pytest.mark.parametrize(
    "text",
    ["", DRY_RUN.replace("ptxas", "other"), DRY_RUN + "#$ ptxas -arch=sm_80 x\n",
     DRY_RUN.replace("--gen_module_id_file ", "")],
)  # fmt: skip
def test_passes_that_are_not_known_are_left_to_nvcc(text: str, tmp_path: Path) -> None:
    assert nvcc_passes.rearranged_script(text, tmp_path) is None


@pytest.mark.skipif(
    shutil.which("nvcc") is None or shutil.which("g++") is None, reason="needs nvcc and g++"
)
def test_script_makes_an_object_file(tmp_path: Path) -> None:
    source, output = tmp_path / "k.cu", tmp_path / "k.o"
    source.write_text(
        "__global__ void k(int* p) { *p = 1; }\nvoid run(int* p) { k<<<1, 1>>>(p); }\n"
    )
    command = ["nvcc", "-gencode=arch=compute_90,code=sm_90", "-c", str(source), "-o", str(output)]
    script = nvcc_passes.parallel_script(command, tmp_path / "passes")
    if script is None:
        pytest.skip("the passes of this nvcc are not known")
    subprocess.run(["/bin/sh", str(script)], check=True, capture_output=True)
    assert output.read_bytes()[:4] == b"\x7fELF"


def test_nvcc_that_is_not_there(tmp_path: Path) -> None:
    assert nvcc_passes.parallel_script([str(tmp_path / "nvcc")], tmp_path) is None
