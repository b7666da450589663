"""Triton on a machine without a GPU: its interpreter, with the arithmetic repaired.

As shipped the interpreter adds bfloat16 as 16-bit integers, truncates on conversion to it,
rounds fma twice, lets NaN win against numbers in `tl.maximum`, and saturates no 8-bit float.
`enable` replaces the operations at fault and then proves the repair on a few bits; a version of
Triton that it does not know is refused, never run unrepaired. What stays different from a GPU:
programs run one after another (no races), reads outside tensors are not noticed, division and
transcendental functions are IEEE-accurate where the device approximates them, a block sum is
always the halving tree, and `fma` contraction of a * b + c does not happen.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from cuassay.errors import MissingToolError, missing_extra

OLDEST, NEWEST = (3, 6), (3, 9)
_REPAIRED = "__cuassay_repaired__"
_NEEDED = {
    "": ("InterpreterBuilder", "InterpretedFunction", "TensorHandle", "ReduceOps", "ScanOps",
         "_get_np_dtype", "_convert_float", "_interpreter", "_ir", "_patch_lang",
         "_validate_np_data_size", "interpreter_builder", "interpreter_semantic", "tl"),
    "InterpreterBuilder": ("binary_op", "unary_op", "cast_impl", "create_fp_to_fp", "create_dot",
                           "create_fma", "create_clampf", "create_minnumf", "create_maxnumf",
                           "create_rsqrt", "get_all_ones_value", "create_extern_elementwise"),
    "ReduceOps": ("sum", "min_max", "to_tensor"),
    "ScanOps": ("cumsum", "cumprod", "to_tensor"),
}  # fmt: skip


def enable() -> None:
    """Switch Triton to its interpreter in this process and repair its arithmetic.

    Must run before the candidate's `@triton.jit` functions are defined. Raises
    MissingToolError where Triton or ml_dtypes is absent, where this version of Triton is
    outside 3.6 to 3.9 or lacks a part that the repair replaces, or where the repaired
    arithmetic does not give the bits that it should.
    """
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        importlib.import_module("ml_dtypes")
    except ImportError:
        raise missing_extra("ml_dtypes", "triton") from None
    try:
        module: Any = importlib.import_module("triton.runtime.interpreter")
    except ImportError as error:
        if importlib.util.find_spec("triton") is None:
            raise missing_extra("triton", "triton") from None
        raise MissingToolError(
            f"Triton's interpreter cannot be imported ({error}); it comes with "
            "triton 3.6 to 3.9: pip install 'cuassay[triton]'"
        ) from error
    if getattr(module, _REPAIRED, False):
        return
    version = importlib.import_module("triton").__version__
    number = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    if not OLDEST <= number <= NEWEST:
        raise MissingToolError(
            f"triton {version} runs kernels without a GPU only through an interpreter whose "
            "arithmetic cuassay has to repair, and it knows versions 3.6 to 3.9; install one of "
            "them, or run on an NVIDIA GPU"
        )
    for holder, names in _NEEDED.items():
        owner = getattr(module, holder, module) if holder else module
        absent = [name for name in names if not hasattr(owner, name)]
        if absent:
            raise MissingToolError(
                f"the interpreter of triton {version} has no {holder or 'member'} "
                f"{', '.join(absent)}, which cuassay has to repair before it can judge with it; "
                "install triton 3.6, or run on an NVIDIA GPU"
            )
    from cuassay.build.interpreter import builder as interpreter_builder
    from cuassay.build.interpreter import launch as interpreter_launch
    from cuassay.build.interpreter import reduce as interpreter_reduce
    from cuassay.build.interpreter.memory import InterpreterModule

    original = module._get_np_dtype
    module._get_np_dtype = interpreter_builder.numpy_type_function(module.tl, original)
    module._interpreter = InterpreterModule(module._interpreter)
    module._convert_float = interpreter_builder.convert_float(module)
    if hasattr(module, "_mxfp_value_handle_to_float32"):
        module._mxfp_value_handle_to_float32 = interpreter_builder.mxfp_to_float32(module)
    for name, method in interpreter_builder.methods(module).items():
        setattr(module.InterpreterBuilder, name, method)
    for holder, name, method in interpreter_reduce.methods(module):
        setattr(holder, name, method)
    interpreter_launch.install(module)
    setattr(module, _REPAIRED, True)
    _prove(module)


def _prove(module: Any) -> None:
    """Compare a few results with bits known by hand."""
    import numpy as np

    builder, language, handle = module.interpreter_builder, module.tl, module.TensorHandle

    def bits(value: Any) -> list[int]:
        return [int(item) for item in value.data.view(np.uint16)]

    one = builder.get_bf16(1.0)
    ties = handle(np.array([0x3F808000, 0x3F818000, 0x00018000], np.uint32).view(np.float32),
                  language.float32)  # fmt: skip
    checks = {
        "1 + 1 in bfloat16": (bits(builder.create_fadd(one, one)), [0x4000]),
        "float32 ties to bfloat16": (
            bits(builder.create_fp_trunc(ties, language.bfloat16)),
            [0x3F80, 0x3F82, 0x0002],
        ),
    }
    for what, (got, expected) in checks.items():
        if got != expected:
            raise MissingToolError(
                f"repairing Triton's interpreter failed: {what} gave {got}, expected {expected}; "
                "install triton 3.6, or run on an NVIDIA GPU"
            )
