"""torch.utils.cpp_extension.load_inline, built by `compile_units`: the same module, sooner.

Most CUDA C++ written by language models stands in a Python string and is built by load_inline
when the file is imported. Built torch's way it takes a minute, most of it in headers, and a
killed build can block the next one. Calls that use an option that is not known here go to
torch. The host's part starts with torch/extension.h, the device's with torch/types.h and the
CUDA runtime, as torch documents.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from cuassay.build.cuda.compile_units import Unit, compile_units, link
from cuassay.build.cuda.extension import import_library
from cuassay.build.cuda.toolkit import architecture, find_host_compiler, find_nvcc, hopper_arch
from cuassay.build.sources import write_text
from cuassay.errors import BuildError
from cuassay.model.candidate import BuildFlags
from cuassay.model.digest import sha256_fields

Functions: TypeAlias = str | Sequence[str] | Mapping[str, str] | None

_HOST_HEADER = "#include <torch/extension.h>\n"
_DEVICE_HEADER = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"
_KNOWN = frozenset(
    {"name", "cpp_sources", "cuda_sources", "functions", "extra_cflags", "extra_cuda_cflags",
     "extra_ldflags", "extra_include_paths", "with_pytorch_error_handling", "verbose",
     "build_directory", "keep_intermediates", "use_pch"}
)  # fmt: skip


def install(folder: Path, *, device: str) -> None:
    """Replace load_inline in this process; builds go below `folder`."""
    from torch.utils import cpp_extension

    original = getattr(cpp_extension.load_inline, "__wrapped__", cpp_extension.load_inline)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def load_inline(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options).arguments
        if not set(given) <= _KNOWN:
            return original(*arguments, **options)
        flags = _flags(
            given.get("extra_cflags"),
            given.get("extra_cuda_cflags"),
            given.get("extra_ldflags"),
            given.get("extra_include_paths"),
        )
        sources = _Sources.of(
            given["cpp_sources"],
            given.get("cuda_sources"),
            given.get("functions"),
            handled=given.get("with_pytorch_error_handling", True),
        )
        return _load(given["name"], sources, flags, folder=folder, device=device)

    cpp_extension.load_inline = load_inline


def _flags(
    host: Sequence[str] | None,
    device: Sequence[str] | None,
    linker: Sequence[str] | None,
    includes: Sequence[str] | None,
) -> BuildFlags:
    folders = tuple(
        f"-I{path}" for path in ([includes] if isinstance(includes, str) else includes or ())
    )
    return BuildFlags(
        cflags=(*(host or ()), *folders),
        cuda_cflags=(*(device or ()), *folders),
        ld_flags=tuple(linker or ()),
    )


class _Sources:
    """The two translation units of a load_inline call."""

    def __init__(self, host: str, device: str) -> None:
        self.host, self.device = host, device

    @staticmethod
    def of(
        cpp: str | Sequence[str],
        cuda: str | Sequence[str] | None,
        functions: Functions,
        *,
        handled: bool,
    ) -> _Sources:
        host = _HOST_HEADER + "\n".join([cpp] if isinstance(cpp, str) else cpp)
        texts = [cuda] if isinstance(cuda, str) else list(cuda or ())
        device = _DEVICE_HEADER + "\n".join(texts) if texts else ""
        if functions is not None:
            host += "\n" + _binding(functions, handled=handled)
        return _Sources(host, device)


def _binding(functions: Functions, *, handled: bool) -> str:
    names = [functions] if isinstance(functions, str) else list(functions or ())
    wrap = "torch::wrap_pybind_function({})" if handled else "{}"
    lines = [f'm.def("{name}", {wrap.format(name)});' for name in names]
    return "\n".join(["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}", ""])


def _load(
    name: str, sources: _Sources, flags: BuildFlags, *, folder: Path, device: str
) -> types.ModuleType:
    if sources.device and not device.startswith("cuda"):
        return _hosted(name, sources, flags, folder=folder)
    arch = hopper_arch(architecture(device), sources.device)
    options = (*flags.cflags, "|", *flags.cuda_cflags, "|", *flags.ld_flags)
    digest = sha256_fields(sources.host, sources.device, arch, *options)[:24]
    home = folder / "inline" / digest
    unique = f"{name}_{digest}"
    library = home / f"{unique}.so"
    if not library.is_file():
        try:
            _build(unique, sources, flags, arch=arch, library=library)
        except BuildError as error:
            raise RuntimeError(f"Error building extension '{name}': {error}\n{error.log}") from None
    return import_library(unique, library)


def _hosted(name: str, sources: _Sources, flags: BuildFlags, *, folder: Path) -> types.ModuleType:
    """Build for a machine without a GPU: as one unit where that compiles, which is quicker."""
    from cuassay.build.cuda.hosted import HostedUnit, build_hosted

    options = (*flags.cflags, "|", *flags.cuda_cflags, "|", *flags.ld_flags)
    digest = sha256_fields(sources.host, sources.device, "hosted", *options)[:24]
    home = folder / "inline" / digest
    device = _located(folder / "src", sources.device)
    both = HostedUnit(name="cuda.cu", text=f'#line 1 "main.cpp"\n{sources.host}\n{device}')
    apart = [
        HostedUnit(name="main.cpp", text=sources.host), HostedUnit(name="cuda.cu", text=device)
    ]  # fmt: skip
    try:
        try:
            return build_hosted(f"{name}_{digest}", [both], flags, folder=home)
        except BuildError:
            return build_hosted(f"{name}_{digest}", apart, flags, folder=home)
    except BuildError as error:
        raise RuntimeError(f"Error building extension '{name}': {error}\n{error.log}") from None


def _located(folder: Path, text: str) -> str:
    """Return a source with a mark of the line that it begins on in one of the candidate's files."""
    own = text.removeprefix(_DEVICE_HEADER)
    header = text[: len(text) - len(own)]
    for file in sorted(folder.rglob("*.py")):
        before, found, _ = file.read_text(encoding="utf-8", errors="replace").partition(own)
        if found:
            return f'{header}#line {before.count(chr(10)) + 1} "{file.name}"\n{own}'
    return f'#line 1 "cuda.cu"\n{text}'


def _build(name: str, sources: _Sources, flags: BuildFlags, *, arch: str, library: Path) -> None:
    find_host_compiler()
    units = [_unit(library.parent / "src" / "main.cpp", sources.host)]
    if sources.device:
        find_nvcc()
        units.append(_unit(library.parent / "src" / "cuda.cu", sources.device))
    texts = (sources.host, sources.device)
    objects = compile_units(
        units, every_text=texts, flags=flags, name=name, arch=arch, folder=library.parent
    )
    draft = library.with_suffix(".draft")
    link(objects, draft, flags=flags, has_cuda=bool(sources.device))
    draft.replace(library)


def _unit(path: Path, text: str) -> Unit:
    write_text(path, text)
    return Unit(path=path, text=text, is_cuda=path.suffix == ".cu")
