"""Fewer of torch's headers: most of an extension's build time goes into parsing them.

`#include <torch/extension.h>` reaches nearly all of torch. A kernel's host function needs
tensors, a few operators by name and the Python binding. `write_light_headers` makes a folder
that stands first on the include path; in it `torch/extension.h` and its like include just
that, with the operators found in the source. Where a source needs more, it fails to compile
against them and the build with torch's own headers, started beside it, counts instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from cuassay.build.sources import write_text

PYBIND_MACRO = "CUASSAY_WITH_PYBIND"  # defined for the units that hold the binding
_STANDS_IN = ("torch/extension.h", "torch/all.h", "torch/torch.h", "torch/types.h", "ATen/ATen.h")
_CALL = re.compile(r"\b(?:torch|at)::([a-z_][a-z0-9_]*)")
_NEEDS_ALL = re.compile(
    r"torch::(?:nn|jit|autograd|optim|data|serialize|fft|linalg|special|nested|sparse|python)\b"
    r"|TORCH_LIBRARY|requires_grad|NoGradGuard|AutoGradMode"
)
# What torch/types.h adds to the names of `at`.
_WIDTHS = {
    "Byte": "UInt8 U8", "Char": "Int8 I8", "Short": "Int16 I16", "Int": "Int32 I32",
    "Long": "Int64 I64", "UInt16": "UInt16 U16", "UInt32": "UInt32 U32", "UInt64": "UInt64 U64",
    "Half": "Float16 F16", "Float": "Float32 F32", "Double": "Float64 F64",
}  # fmt: skip
_NAMES = (
    "namespace torch {",
    "using namespace at;",
    "using std::nullopt;",
    "using std::optional;",
    "using Dtype = at::ScalarType;",
    *(
        f"constexpr auto k{name} = at::k{kind};"
        for kind, names in _WIDTHS.items()
        for name in names.split()
    ),
    "}",
)
# Headers that operators' own headers include and seldom use, a quarter of what is parsed: what
# stands for them, and the names in a source that need torch's own.
_SHORTER = {
    "ATen/Context.h": (
        "#include <ATen/core/ATenGeneral.h>\n#include <c10/util/Exception.h>\n"
        "#include <c10/util/irange.h>\n#include <memory>\n#include <mutex>\n",
        re.compile(r"[cC]ontext\(\)|Generator|Philox|_DRIVER_CHECK|_NVRTC_CHECK|ATen/Context\.h"),
    ),
    "ATen/DeviceGuard.h": (
        "#include <c10/core/DeviceGuard.h>\n",
        re.compile(r"device_of|ATen/DeviceGuard\.h"),
    ),
}
_ALWAYS = ("empty", "empty_like", "zeros", "zeros_like", "ones", "full", "from_blob")


def light_headers_suffice(texts: Sequence[str]) -> bool:
    """Return whether the sources look as if tensors, operators and a binding are all they use.

    Autograd-aware factories differ from plain ones in what they do, so a source that speaks
    of gradients gets all headers.
    """
    return not any(_NEEDS_ALL.search(text) for text in texts)


def mentions_binding(text: str) -> bool:
    """Return whether a source needs pybind11."""
    return "PYBIND11" in text or "pybind11" in text or "py::" in text


def write_light_headers(folder: Path, texts: Sequence[str], torch_include: Path) -> Path:
    """Write the headers for these sources below `folder` and return the include folder."""
    names = dict.fromkeys(_ALWAYS)
    for text in texts:
        names |= dict.fromkeys(_CALL.findall(text))
    existing = [name for name in names if (torch_include / "ATen" / "ops" / f"{name}.h").is_file()]
    lines = [
        "#pragma once",
        "#ifndef AT_PER_OPERATOR_HEADERS",
        "#define AT_PER_OPERATOR_HEADERS  // ATen's own headers then name the operators they use",
        "#endif",
        "#include <algorithm>",
        "#include <cmath>",
        "#include <cstdint>",
        "#include <optional>",
        "#include <string>",
        "#include <tuple>",
        "#include <vector>",
        "#include <ATen/core/Tensor.h>",
        "#include <ATen/Dispatch.h>",
        "#include <ATen/DeviceGuard.h>",
        "#include <ATen/TensorOperators.h>",
        *(["#include <ATen/TensorIndexing.h>"] if any("index" in text for text in texts) else []),
        *(f"#include <ATen/ops/{name}.h>" for name in existing),
        f"#ifdef {PYBIND_MACRO}",
        "#include <torch/csrc/utils/pybind.h>",
        "#include <torch/csrc/Exceptions.h>",
        "#endif",
        *_NAMES,
    ]
    include = folder / "light"
    write_text(include / "cuassay_light_torch.h", "\n".join([*lines, ""]))
    for name in _STANDS_IN:
        write_text(include / name, "#pragma once\n#include <cuassay_light_torch.h>\n")
    for name, (text, needs_own) in _SHORTER.items():
        if not any(needs_own.search(source) for source in texts):
            write_text(include / name, f"#pragma once\n{text}")
    return include
