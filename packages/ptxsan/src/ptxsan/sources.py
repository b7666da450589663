"""Where PTX comes from: .ptx and CUDA C++ files, CuPy's RawKernel sources, Triton functions.

Of a .cu file with host code the device's part is compiled; host headers and `main` do not stop it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ptxsan.errors import CompileError, UsageError
from ptxsan.isa import arch_number, architecture_of
from ptxsan.names import plain_name
from ptxsan.nvrtc import compile_named
from ptxsan.syntax import Function, Module

CUDA_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ptx:
    """PTX of one file. `text` is the source for reports; `names` what expressions are called.

    `debug` is the PTX of a build without optimisation, where one was made. `block` and
    `shared_bytes` are what the compiler demands of a launch, where it does.
    """

    text: str
    ptx: str
    debug: str = ""
    names: Mapping[str, str]
    block: tuple[int, int, int] | None = None
    shared_bytes: int = 0
    more_arguments: int = 0  # pointers to scratch memory behind the kernel's own arguments
    constants: frozenset[str] = frozenset()  # arguments that are no parameters of the PTX
    shapes: bool = False  # arrays are passed with their shape and strides, as Numba does


def of_source(
    source: str | Path,
    *,
    kernel: str = "",
    arch: str = "",
    flags: Sequence[str] = (),
    debug: bool = False,
    arguments: Sequence[tuple[str, Any]] = (),
) -> Ptx:
    """Return the PTX of a file (see `of_file`), of CUDA C++ (see `of_cuda`) or of PTX text."""
    if isinstance(source, Path) or "\n" not in source:
        return of_file(
            Path(source), kernel=kernel, arch=arch, flags=flags, debug=debug, arguments=arguments
        )
    if ".address_size" in source and ".entry" in source:
        return Ptx(text="", ptx=source, names={})
    return of_cuda(source, kernel=kernel, arch=arch, flags=flags, debug=debug)


def of_cuda(
    text: str,
    *,
    name: str = "kernel.cu",
    kernel: str = "",
    arch: str = "",
    flags: Sequence[str] = (),
    debug: bool = False,
) -> Ptx:
    """Compile CUDA C++; a `kernel` with template arguments (`scale<float>`) is instantiated.

    `arch` is such as sm_80 (sm_90a for sources that need it); with `debug` it is also compiled
    by -G. Raises CompileError with the compiler's log, UsageError where there is no compiler.
    """
    given, arch = arch, arch or architecture_of(text, "sm_80")
    wanted = (kernel,) if "<" in kernel else ()

    def compiled(*more: str) -> tuple[str, Mapping[str, str]]:
        try:
            return compile_named(text, wanted, arch=arch, flags=[*flags, *more], name=name)
        except CompileError:
            found = _device_part(text, wanted, name=name, arch=given, flags=[*flags, *more])
            if found is None:
                raise
            return found

    ptx, names = compiled()
    try:
        unoptimised = compiled("-G")[0] if debug else ""
    except CompileError:
        unoptimised = ""
    return Ptx(text=text, ptx=ptx, debug=unoptimised, names=names)


def _device_part(
    text: str, wanted: Sequence[str], *, name: str, arch: str, flags: Sequence[str]
) -> tuple[str, Mapping[str, str]] | None:
    """Compile what of a source is the device's; None where the source cannot be split."""
    if importlib.util.find_spec("ptxsan.host") is None:
        return None
    split: Any = importlib.import_module("ptxsan.host.split")
    device: Any = importlib.import_module("ptxsan.host.device")
    part = split.split(text)
    found = device.compile_device(
        part.device, tuple(wanted), doubtful=part.doubtful, name=name, arch=arch, flags=flags
    )
    return found.ptx, found.names


def of_file(
    path: Path,
    *,
    kernel: str = "",
    arch: str = "",
    flags: Sequence[str] = (),
    debug: bool = False,
    arguments: Sequence[tuple[str, Any]] = (),
) -> Ptx:
    """Return the PTX of a file; `arguments` (name, value) type a Triton function.

    Raises UsageError for a file that cannot be read or a name that it lacks, CompileError with
    the compiler's log.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    if path.suffix == ".ptx":
        return Ptx(text="", ptx=text, names={})
    if path.suffix in CUDA_SUFFIXES:
        more = [f"-I{path.resolve().parent}", *flags]
        return of_cuda(text, name=str(path), kernel=kernel, arch=arch, flags=more, debug=debug)
    if path.suffix != ".py":
        raise UsageError(f"{path}: expected .cu, .ptx or .py (CuPy or Triton kernels)")
    raw = raw_kernels(text)
    chosen = [one for one in raw if not kernel or kernel in (one[1], one[1].partition("<")[0])]
    if chosen:
        source, name = chosen[0]
        return of_cuda(source, name=path.name, kernel=kernel or name, arch=arch, flags=flags,
                       debug=debug)  # fmt: skip
    name = f"_ptxsan_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    every = {
        name: one
        for name, one in vars(module).items()
        if hasattr(one, "arg_names") or _is_numba(one)
    }
    found = {name: one for name, one in every.items() if kernel in (name, "")}
    if len(found) != 1:
        raise UsageError(
            f"{path}: no single Triton function or Numba kernel '{kernel}'; name one with "
            f"--kernel (found: {', '.join(sorted(every)) or 'none'})"
        )
    function = next(iter(found.values()))
    compiled = of_numba if _is_numba(function) else of_triton
    return compiled(function, arguments, arch=arch)


def raw_kernels(text: str) -> list[tuple[str, str]]:
    """Return (CUDA source, kernel) of each `RawKernel(code, name)` and `RawModule(code=...)`.

    The file is read, not run: sources are string constants, or names of those of the module.
    """
    tree = ast.parse(text)
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }

    def text_of(node: ast.expr | None) -> str:
        if isinstance(node, ast.Name):
            return constants.get(node.id, "")
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""

    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).rpartition(".")[2]
        named = {one.arg: one.value for one in node.keywords}
        given = [*node.args, None, None]
        code = text_of(named.get("code", given[0]))
        if called == "RawKernel" and code:
            found.append((code, text_of(named.get("name", given[1]))))
        elif called == "RawModule" and code:
            found += [(code, name) for name in re.findall(r"__global__\s+void\s+(\w+)", code)]
    return found


def _is_numba(one: Any) -> bool:
    """Whether an object is what `numba.cuda.jit` makes of a kernel."""
    options = getattr(one, "targetoptions", None)
    return isinstance(options, dict) and hasattr(one, "py_func") and not options.get("device")


def of_numba(function: Any, arguments: Sequence[tuple[str, Any]], *, arch: str = "") -> Ptx:
    """Compile a kernel of `numba.cuda.jit` for arguments (name, value), typed as Numba does.

    Raises UsageError where Numba finds no compiler for it, CompileError with Numba's message.
    """
    numba: Any = importlib.import_module("numba")
    cuda: Any = importlib.import_module("numba.cuda")
    number = arch_number(arch or "sm_80")
    types = tuple(numba.typeof(getattr(value, "array", value)) for _, value in arguments)
    capability = divmod(number, 10)
    dispatcher: Any = sys.modules[type(function).__module__]
    asked = dispatcher.get_current_device
    # for a function that the kernel calls, Numba asks the driver for which device it compiles
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        ptx, _ = cuda.compile_ptx(
            function.py_func, types, cc=capability, lineinfo=True, device=False
        )
    except numba.core.errors.NumbaError as error:
        raise CompileError(
            f"Numba does not compile '{function.py_func.__name__}'", str(error)
        ) from None
    except Exception as error:  # of several packages, all of which say that NVVM is missing
        raise UsageError(
            "a Numba kernel needs NVIDIA's compiler library: pip install 'ptxsan[numba]' "
            f"({str(error).strip().splitlines()[0] if str(error).strip() else error!r})"
        ) from None
    finally:
        dispatcher.get_current_device = asked
    entries = re.findall(r"\.visible \.entry (\S+?)\(", ptx)
    names = {function.py_func.__name__: entries[0], "": entries[0]}
    return Ptx(text=inspect.getsource(function.py_func), ptx=ptx, names=names, shapes=True)


_TRITON_TYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64",
                 "bool": "i1"}  # fmt: skip


def of_triton(function: Any, arguments: Sequence[tuple[str, Any]], *, arch: str = "") -> Ptx:
    """Compile a Triton function for arguments (name, value) in the order of its parameters.

    Arrays become pointers to their type; numbers for a parameter `tl.constexpr` are constants of
    the kernel, and no parameters of the PTX. Raises UsageError where Triton is not installed.
    """
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        raise UsageError(f"a Triton function needs Triton: pip install triton ({error})") from None
    number = arch_number(arch or "sm_80")
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    named: set[str] = set()
    if len(function.params) != len(arguments):
        names = ", ".join(one.name for one in function.params)
        raise UsageError(f"the Triton function takes {names}; {len(arguments)} arguments are given")
    for parameter, (name, value) in zip(function.params, arguments, strict=True):
        if parameter.is_constexpr:
            signature[parameter.name] = "constexpr"
            constants[parameter.name] = value
            named.add(name)
        else:
            value = getattr(value, "array", value)
            if isinstance(value, int):
                signature[parameter.name] = "i32" if -(1 << 31) <= value < 1 << 31 else "i64"
            elif isinstance(value, float):
                signature[parameter.name] = "fp32"
            else:
                kind = str(value.dtype).rpartition(".")[2]
                signature[parameter.name] = "*" + _TRITON_TYPES.get(
                    kind, kind.replace("uint", "u").replace("int", "i")
                )
    source = ASTSource(fn=function, signature=signature, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", number, 32))
    own = sum(one != "constexpr" for one in signature.values())
    ptx = str(made.asm["ptx"])
    parameters = len(re.findall(r"\.param", ptx.partition(".entry")[2].partition("{")[0]))
    return Ptx(
        text=str(function.src), ptx=ptx, names={}, block=(32 * made.metadata.num_warps, 1, 1),
        shared_bytes=int(made.metadata.shared), more_arguments=parameters - own,
        constants=frozenset(named),
    )  # fmt: skip


def entry(module: Module, kernel: str, names: Mapping[str, str]) -> Function:
    """Return the kernel of a module that a user means by a plain, mangled or template name.

    Raises UsageError with the kernels that there are.
    """
    wanted = names.get(kernel, kernel)
    found = [name for name in module.entries if wanted in (name, "")]
    plain = kernel.partition("<")[0].rpartition("::")[2]
    found = found or [name for name in module.entries if plain_name(name) == plain]
    if len(found) != 1:
        known = ", ".join(plain_name(name) for name in module.entries) or "none"
        what = f"no single kernel '{kernel}'" if kernel else "several kernels; name one (kernel)"
        raise UsageError(f"{what} in the module: {known}")
    return module.functions[found[0]]
