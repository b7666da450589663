"""torch.utils.cpp_extension's load_inline and load, built by `compile_units`: sooner, and once.

Most CUDA C++ written by language models stands in a Python string and is built when the file is
imported or first called. Built torch's way it takes a minute, most of it in headers, a killed build
can block the next one, and a folder of the candidate's own, below its home, is empty in each of its
processes. On a GPU, calls that use an option that is not known here go to torch; without one they
never do: torch would not find a GPU or nvcc, and what a candidate does then says nothing. The
host's part of load_inline starts with torch/extension.h, the device's with torch/types.h and the
CUDA runtime, as torch documents.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from cuassay.build.cuda.compile_units import Unit, build_library, names_architecture, with_ptx
from cuassay.build.cuda.library import import_library
from cuassay.build.cuda.toolkit import architecture, hopper_arch
from cuassay.build.sources import build_lock, write_text
from cuassay.build.unavailable import noted
from cuassay.errors import BuildError, MissingToolError
from cuassay.model.candidate import BuildFlags
from cuassay.model.device import Device
from cuassay.model.digest import sha256_fields

Functions: TypeAlias = str | Sequence[str] | Mapping[str, str] | None

_HOST_HEADER = "#include <torch/extension.h>\n"
_BINDING = "\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"
_DEVICE_HEADER = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"
_KNOWN = frozenset(
    {"name", "cpp_sources", "cuda_sources", "functions", "extra_cflags", "extra_cuda_cflags",
     "extra_ldflags", "extra_include_paths", "with_pytorch_error_handling", "verbose",
     "build_directory", "keep_intermediates", "use_pch", "with_cuda"}
)  # fmt: skip
_KNOWN_OF_FILES = frozenset(
    {"name", "sources", "extra_cflags", "extra_cuda_cflags", "extra_ldflags",
     "extra_include_paths", "build_directory", "verbose", "with_cuda", "keep_intermediates"}
)  # fmt: skip
_LIST = "TORCH_CUDA_ARCH_LIST"
_OWN_BINDING = re.compile(r"^\s*PYBIND11_MODULE\s*\(\s*TORCH_EXTENSION_NAME", re.MULTILINE)
# What a build without a GPU cannot do; every other option is without effect on what is computed.
_NOT_HOSTED = {"sycl_sources": None, "with_sycl": None, "is_python_module": True,
               "is_standalone": False, "no_implicit_headers": False}  # fmt: skip


def install(folder: Path, *, device: Device) -> None:
    """Replace load_inline, and without a GPU load, in this process; builds go below `folder`."""
    from torch.utils import cpp_extension

    original = getattr(cpp_extension.load_inline, "__wrapped__", cpp_extension.load_inline)
    signature = inspect.signature(original)
    on_cpu = not device.on_gpu

    @functools.wraps(original)
    def load_inline(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options).arguments
        has_device_code = bool(given.get("cuda_sources"))
        hosted = on_cpu and (has_device_code or _speaks_of_cuda(given["cpp_sources"]))
        if hosted:
            with noted():
                _refuse_options(given)
        elif not set(given) <= _KNOWN:
            return _built_by_torch(original, given, device=device)
        flags = _flags(given)
        if hosted:
            # Raise RuntimeError where what goes to the host's compiler compiles nowhere. The
            # binding that torch writes names `functions`, which cpp_sources must declare, and is
            # the only one of the module; a launch in cpp_sources is no C++. A candidate that goes
            # on without its kernels does so everywhere, and is judged by that.
            functions = given.get("functions")
            text, kernels = (
                one if isinstance(one, str) else "\n".join(one)
                for one in (given["cpp_sources"], given.get("cuda_sources") or "")
            )
            if _has_launch(text):
                raise RuntimeError(
                    "Error building extension: cpp_sources launches a kernel (<<<...>>>), which "
                    "the host's compiler does not compile; kernels and their launches belong in "
                    "cuda_sources"
                )
            if functions is not None:
                if _OWN_BINDING.search(text) or _OWN_BINDING.search(kernels):
                    raise RuntimeError(
                        "Error building extension: the sources have a PYBIND11_MODULE, and "
                        "`functions` asks for another one"
                    )
                for name in [functions] if isinstance(functions, str) else functions:
                    if '#include "' not in text and not re.search(rf"\b{re.escape(name)}\b", text):
                        raise RuntimeError(
                            f"Error building extension: '{name}' is one of `functions`, and "
                            "cpp_sources does not declare it"
                        )
        sources = _Sources.of(
            given["cpp_sources"],
            given.get("cuda_sources"),
            given.get("functions"),
            handled=given.get("with_pytorch_error_handling", True),
        )
        return _load(given["name"], sources, flags, folder=folder, device=device, hosted=hosted)

    cpp_extension.load_inline = load_inline
    cpp_extension.load = _load_of(cpp_extension.load, folder, device=device)


def _load_of(current: Any, folder: Path, *, device: Device) -> Any:
    """Return `load`: on a GPU as load_inline is, without one sources with kernels."""
    original = getattr(current, "__wrapped__", current)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def load(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options).arguments
        named = given["sources"]
        paths = [Path(one) for one in ([named] if isinstance(named, str) else named)]
        if device.on_gpu:
            if not set(given) <= _KNOWN_OF_FILES or given.get("with_cuda") is False:
                return _built_by_torch(original, given, device=device)
            return _files(given["name"], paths, _flags(given), folder=folder, device=device)
        if not any(path.suffix == ".cu" for path in paths):
            return original(*arguments, **options)
        with noted():
            _refuse_options(given)
            return _files(given["name"], paths, _flags(given), folder=folder, device=device)

    return load


def _built_by_torch(build: Any, given: Mapping[str, Any], *, device: Device) -> Any:
    """Return what torch builds on a GPU, with PTX beside the machine code; see `with_ptx`."""
    from cuassay.build.recording.ledger import LEDGER

    flags, listed = list(given.get("extra_cuda_cflags") or ()), os.environ.get(_LIST, "")
    if listed and not names_architecture(flags):
        each = listed.replace(";", " ").split()
        whole = [one if one.endswith("+PTX") else f"{one}+PTX" for one in each]
        os.environ[_LIST] = ";".join(whole)
    else:
        flags = with_ptx(flags, architecture(device))
    try:
        built = build(**{**given, "extra_cuda_cflags": flags})
    finally:
        if listed:
            os.environ[_LIST] = listed
    if file := getattr(built, "__file__", None):
        LEDGER.follow(Path(file))
    return built


def _speaks_of_cuda(sources: str | Sequence[str]) -> bool:
    """Whether C++ without kernels asks for a GPU: its headers, streams, or where a tensor lies."""
    text = sources if isinstance(sources, str) else "\n".join(sources)
    return re.search(r"cuda|kCUDA", text, re.IGNORECASE) is not None


def _has_launch(text: str) -> bool:
    """Whether C++ has `<<<` outside of comments and literals."""
    from ptxsan.host.tokens import tokenize

    if "<<<" not in text:
        return False
    places = [token.start for token in tokenize(text) if token.text == "<"]
    return any(last - first == 2 for first, last in zip(places, places[2:], strict=False))


def _refuse_options(given: Mapping[str, Any]) -> None:
    """Raise MissingToolError for an option that changes what is built in a way not known here."""
    for name, usual in _NOT_HOSTED.items():
        if given.get(name, usual) != usual:
            raise MissingToolError(
                f"a CUDA extension is built with {name}={given[name]!r}, which cuassay's CUDA "
                "runtime for the CPU does not cover; judge it on an NVIDIA GPU"
            )


def _flags(given: Mapping[str, Any]) -> BuildFlags:
    """Return the flags of a call of load or load_inline."""
    includes = given.get("extra_include_paths")
    folders = tuple(
        f"-I{path}" for path in ([includes] if isinstance(includes, str) else includes or ())
    )
    flags = BuildFlags.as_written(
        cflags=given.get("extra_cflags") or (),
        cuda_cflags=given.get("extra_cuda_cflags") or (),
        ld_flags=given.get("extra_ldflags") or (),
    )
    return replace(
        flags, cflags=(*flags.cflags, *folders), cuda_cflags=(*flags.cuda_cflags, *folders)
    )


def _files(
    name: str, paths: Sequence[Path], flags: BuildFlags, *, folder: Path, device: Device
) -> types.ModuleType:
    """Build files where they are; relative paths may begin in the sources."""
    from cuassay.build.cuda.hosted import HostedUnit, build_hosted, headers_digest

    found = [path if path.is_file() else folder / "src" / path for path in paths]
    texts = [path.read_text(encoding="utf-8") for path in found]
    headers = [
        header.read_text(encoding="utf-8", errors="replace")
        for place in dict.fromkeys(path.parent for path in found)
        for header in sorted(place.glob("*.[hc]*"))
    ]
    options = (*flags.cflags, "|", *flags.cuda_cflags, "|", *flags.ld_flags)
    if device.on_gpu:
        arch = hopper_arch(architecture(device), "\n".join(texts))
        digest = sha256_fields(*texts, "|", *headers, arch, *options)[:24]
        units = [
            Unit(path=path.absolute(), text=text, is_cuda=path.suffix == ".cu")
            for path, text in zip(found, texts, strict=True)
        ]
        home = folder / "inline" / digest
        return _compiled(name, units, [*texts, *headers], flags, home=home, arch=arch)
    hosted = [
        HostedUnit(name=path.name, text=text, folder=path.parent)
        for path, text in zip(found, texts, strict=True)
    ]
    digest = sha256_fields(*texts, "|", *headers, *options, headers_digest(), "counted")[:24]
    try:
        return build_hosted(f"{name}_{digest}", hosted, flags, folder=folder / "inline" / digest)
    except BuildError as error:
        raise _failed(name, error) from None


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
        cuda = cuda or ()  # as torch has it: an empty text is no source
        texts = [cuda] if isinstance(cuda, str) else list(cuda)
        device = _DEVICE_HEADER + "\n".join(texts) if texts else ""
        if functions is not None:
            names = [functions] if isinstance(functions, str) else list(functions)
            wrap = "torch::wrap_pybind_function({})" if handled else "{}"
            lines = [f'm.def("{name}", {wrap.format(name)});' for name in names]
            host += "\n".join([_BINDING, *lines, "}", ""])
        return _Sources(host, device)


def _load(
    name: str, sources: _Sources, flags: BuildFlags, *, folder: Path, device: Device, hosted: bool
) -> types.ModuleType:
    if hosted:
        with noted():
            return _hosted(name, sources, flags, folder=folder)
    arch = hopper_arch(architecture(device), sources.device)
    device_text = _with_lines(sources.device, folder) if sources.device else ""
    host_text = _with_lines(sources.host, folder)
    options = (*flags.cflags, "|", *flags.cuda_cflags, "|", *flags.ld_flags)
    counted = not device.on_gpu
    built = "ptx and lines" if device.on_gpu else "counted lines"
    digest = sha256_fields(host_text, device_text, arch, built, *options)[:24]
    home = folder / "inline" / digest
    units = [_unit(home / "src" / "main.cpp", host_text)]
    if sources.device:
        units.append(_unit(home / "src" / "cuda.cu", device_text))
    texts = (sources.host, device_text)
    return _compiled(name, units, texts, flags, home=home, arch=arch, counted=counted)


def _compiled(
    name: str,
    units: Sequence[Unit],
    texts: Sequence[str],
    flags: BuildFlags,
    *,
    home: Path,
    arch: str,
    counted: bool = False,
) -> types.ModuleType:
    """Import what `units` are compiled to in `home`, whose name is their digest.

    One process compiles and others take what it made: two compilers at once are slower than one.
    """
    by_name = re.compile(rf"^\s*PYBIND11_MODULE\s*\(\s*{re.escape(name)}\s*,", re.MULTILINE)
    unique = name if any(map(by_name.search, texts)) else f"{name}_{home.name}"
    library = home / f"{unique}.so"
    with build_lock(home):
        if not library.is_file():
            try:
                build_library(
                    units,
                    library,
                    every_text=texts,
                    flags=flags,
                    name=unique,
                    arch=arch,
                    counted=counted,
                )
            except BuildError as error:
                raise _failed(name, error) from None
    return import_library(unique, library)


def _with_lines(text: str, folder: Path) -> str:
    """Return code whose lines are those of the candidate's Python file that holds it.

    What is bound behind it is of no file.
    """
    header = _DEVICE_HEADER if text.startswith(_DEVICE_HEADER) else _HOST_HEADER
    own, binding, rest = text.removeprefix(header).partition(_BINDING)
    if binding:
        rest = f'\n#line 1 "binding.cpp"{binding}{rest}'
    for file in sorted((folder / "src").rglob("*.py")):
        text_of = file.read_text(encoding="utf-8", errors="replace")
        before, found, _ = text_of.partition(own) if own else (text_of, "", "")
        if found:
            return f'{header}#line {before.count(chr(10)) + 1} "{file.name}"\n{own}{rest}'
    return f'#line 1 "{"cuda.cu" if header == _DEVICE_HEADER else "main.cpp"}"\n{text}'


def _hosted(name: str, sources: _Sources, flags: BuildFlags, *, folder: Path) -> types.ModuleType:
    """Build for a machine without a GPU: as one unit where that compiles, which is quicker."""
    from cuassay.build.cuda.hosted import HostedUnit, build_hosted, headers_digest

    options = (*flags.cflags, "|", *flags.cuda_cflags, "|", *flags.ld_flags, headers_digest())
    digest = sha256_fields(sources.host, sources.device, "hosted, counted", *options)[:24]
    home = folder / "inline" / digest
    if not sources.device:
        host = HostedUnit(name="main.cpp", text=_with_lines(sources.host, folder))
        try:
            return build_hosted(f"{name}_{digest}", [host], flags, folder=home)
        except BuildError as error:
            raise _failed(name, error) from None
    host_text, device = _with_lines(sources.host, folder), _with_lines(sources.device, folder)
    both = HostedUnit(name="cuda.cu", text=f"{host_text}\n{device}")
    apart = [
        HostedUnit(name="main.cpp", text=host_text), HostedUnit(name="cuda.cu", text=device)
    ]  # fmt: skip
    try:
        try:
            return build_hosted(f"{name}_{digest}", [both], flags, folder=home)
        except (BuildError, MissingToolError):
            return build_hosted(f"{name}_{digest}", apart, flags, folder=home)
    except BuildError as error:
        raise _failed(name, error) from None


def _failed(name: str, error: BuildError) -> RuntimeError:
    """Return what torch raises where a build fails."""
    return RuntimeError(f"Error building extension '{name}': {error}\n{error.log}")


def _unit(path: Path, text: str) -> Unit:
    write_text(path, text)
    return Unit(path=path, text=text, is_cuda=path.suffix == ".cu")
