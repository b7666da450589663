"""The files that a module of a package needs: what it imports, and what those import."""

from __future__ import annotations

from pathlib import Path

from cuassay.formats.package_files import package_files, sibling_files


def _made(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


_PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/ops/__init__.py": "from . import helpers\n",
    "pkg/ops/norm.py": "import torch\nfrom .helpers import scale\nfrom ..common import base\n",
    "pkg/ops/helpers.py": "def f():\n    from pkg.deep import late\n",
    "pkg/ops/other.py": "x = 1\n",
    "pkg/ops/norm.cu": "// kernel\n",
    "pkg/ops/notes.txt": "no source\n",
    "pkg/common/__init__.py": "",
    "pkg/common/base.py": "import outside\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/late.py": "",
    "outside.py": "",
}


def test_imports_are_followed_inside_the_package_alone(tmp_path: Path) -> None:
    _made(tmp_path, _PACKAGE)
    found = package_files(tmp_path / "pkg" / "ops" / "norm.py")
    assert sorted(found) == [
        "pkg/__init__.py",
        "pkg/common/__init__.py",
        "pkg/common/base.py",
        "pkg/deep/__init__.py",
        "pkg/deep/late.py",
        "pkg/ops/__init__.py",
        "pkg/ops/helpers.py",
        "pkg/ops/norm.cu",
        "pkg/ops/norm.py",
    ]
    assert found["pkg/ops/norm.cu"] == b"// kernel\n"


def test_a_file_that_cannot_be_parsed_is_shipped_for_its_build_to_tell(tmp_path: Path) -> None:
    _made(
        tmp_path, {"pkg/__init__.py": "", "pkg/k.py": "from .bad import x", "pkg/bad.py": "def ("}
    )
    assert "pkg/bad.py" in package_files(tmp_path / "pkg" / "k.py")


def test_a_file_outside_of_a_package_takes_its_neighbours(tmp_path: Path) -> None:
    _made(
        tmp_path,
        {
            "k.py": "import torch, helper\nimport tools.deep\n",
            "helper.py": "import k\nfrom tools import other\n",  # a circle
            "unused.py": "",
            "h.cuh": "int x;",
            "tools/__init__.py": "",
            "tools/deep.py": "",
            "tools/other.py": "",
            "torch/nn.py": "",
        },
    )
    found = sibling_files(tmp_path / "k.py")
    assert next(iter(found)) == "k.py"
    assert set(found) == {
        "k.py", "helper.py", "h.cuh", "tools/__init__.py", "tools/deep.py", "tools/other.py",
    }  # fmt: skip
