"""A build variant of a Hugging Face kernel: judged, certified beside its folder, checked again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cuassay.cli.main import main

_PROBLEM = """from typing import Annotated

import torch
from cuassay import problem, tensor


@problem(axes={"rows": (1, 64), "columns": (1, 64)}, workloads=[{"rows": 8, "columns": 16}])
def doubled(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "columns")],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    return x + x
"""


@pytest.mark.slow
def test_a_variant_with_its_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rust: Any = pytest.importorskip("kernels._rust", reason="kernels is not installed")
    variant = tmp_path / "repo" / "build" / "torch-universal"
    variant.mkdir(parents=True)
    (variant / "__init__.py").write_text("from .ops import doubled\n")
    (variant / "ops.py").write_text("def doubled(x):\n    return 2 * x\n")
    metadata = {"id": "doubled_1", "name": "doubled", "version": 1, "license": "Apache-2.0"}
    metadata |= {"python-depends": [], "backend": {"type": "cpu"}}
    (variant / "metadata.json").write_text(json.dumps(metadata))
    assert rust.Metadata.read_from_file(variant / "metadata.json").name.python_name == "doubled"
    digest = rust.Digest.hash_variant(rust.DigestAlgorithm.SHA256, variant)
    (tmp_path / "problem.py").write_text(_PROBLEM)
    kernel, certificate = f"{tmp_path}/repo::doubled", variant.with_suffix(".cert.json")
    call = ["check", kernel, "--problem", f"{tmp_path}/problem.py", "--profile", "quick"]
    assert main([*call, "--device", "cpu"]) == 0
    assert main(["certificate", "sign", "last", "--out", str(certificate)]) == 0
    assert main(["certificate", "covers", str(certificate), kernel]) == 0
    actual = rust.Digest.hash_variant(rust.DigestAlgorithm.SHA256, variant)
    digest.validate(actual)  # what a signature of the hub covers is as it was
    (variant / certificate.name).write_text("{}")  # inside the folder it would not be
    with pytest.raises(rust.DigestValidationError):
        digest.validate(rust.Digest.hash_variant(rust.DigestAlgorithm.SHA256, variant))
    (variant / certificate.name).unlink()
    (variant / "ops.py").write_text("def doubled(x):\n    return 2.001 * x\n")
    capsys.readouterr()
    assert main(["certificate", "covers", str(certificate), kernel]) == 1
    assert "was changed" in capsys.readouterr().out
