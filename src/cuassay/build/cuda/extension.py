"""C++ and CUDA C++ candidates with a pybind module, compiled against torch's headers.

The compiler is called directly: one process a translation unit, all units at once, code for
the local architecture only, no ninja and no lock files that outlive a killed builder. Each
unit is compiled against light headers (see `torch_headers`) and, where there are processors
to spare, against torch's own beside it; the first that counts wins.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from cuassay.build.cuda.compile_units import Unit, build_library
from cuassay.build.cuda.library import import_library
from cuassay.build.cuda.toolkit import architecture, hopper_arch
from cuassay.build.sources import build_lock, candidate_traceback, write_sources
from cuassay.errors import BuildError, suggestion
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.digest import sha256_fields

_HOST = (".cpp", ".cc", ".cxx", ".c")
_MODULE = re.compile(r"PYBIND11_MODULE\s*\(\s*(\w+)")
_OWN_NAME = "TORCH_EXTENSION_NAME"


def load_extension(candidate: Candidate, *, device: Device, folder: Path) -> Callable[..., object]:
    """Build the candidate's sources into one module and return its entry function.

    The sources at the level of the entry file are compiled, as SOL-ExecBench does; a module
    built earlier in `folder` is loaded as it is. Raises BuildError with the compiler's log or
    where the module lacks the entry function, and MissingToolError where nvcc, a C++ compiler
    or (for CUDA sources) a GPU is missing.
    """
    root = write_sources(candidate, folder)
    level = PurePosixPath(candidate.entry_file).parent
    units = tuple(
        Unit(path=root / source.path, text=source.text, is_cuda=source.path.endswith(".cu"))
        for source in candidate.sources
        if PurePosixPath(source.path).parent == level and source.path.endswith((".cu", *_HOST))
    )
    if not units:
        raise BuildError(
            f"no C++ or CUDA source stands beside the entry file '{candidate.entry_file}'; "
            f"expected files that end in .cu, {', '.join(_HOST)}"
        )
    import torch

    fields = [part for source in candidate.sources for part in (source.path, source.text)]
    flags = candidate.flags
    options = (*flags.cflags, "|", *flags.cuda_cflags, "|", *flags.ld_flags)
    built = (torch.__version__, architecture(device), "ptx and lines", str(device.on_gpu))
    digest = sha256_fields(*fields, *options, *built)[:24]
    declared = [name for source in candidate.sources for name in _MODULE.findall(source.text)]
    if not declared:
        raise BuildError(
            "no source declares a PYBIND11_MODULE; bind the entry function with "
            f'PYBIND11_MODULE({_OWN_NAME}, m) {{ m.def("{candidate.entry_function}", ...); }}'
        )
    fixed = declared[0]
    name = f"cuassay_extension_{digest}" if fixed == _OWN_NAME else fixed
    library = folder / f"{name}-{digest}.so"
    if any(unit.is_cuda for unit in units) and not device.on_gpu:
        from cuassay.build.cuda.hosted import HostedUnit, build_hosted

        hosted = [HostedUnit(name=unit.path.name, text=unit.text, folder=root) for unit in units]
        home = folder / "hosted"
        module = build_hosted(name, hosted, candidate.flags, folder=home)
        return _function(candidate, module)
    if not library.is_file():
        with build_lock(folder):
            if not library.is_file():  # another process may have built it meanwhile
                build_library(
                    units,
                    library,
                    every_text=tuple(source.text for source in candidate.sources),
                    flags=flags,
                    name=name,
                    arch=hopper_arch(architecture(device), "\n".join(unit.text for unit in units)),
                    counted=not device.on_gpu,
                )
    try:
        module = import_library(name, library)
    except ImportError as error:
        raise BuildError(
            f"the built module does not load: {error}", candidate_traceback(error, root)
        ) from error
    return _function(candidate, module)


def _function(candidate: Candidate, module: types.ModuleType) -> Callable[..., object]:
    function = getattr(module, candidate.entry_function, None)
    if function is None:
        defined = [item for item in dir(module) if not item.startswith("__")]
        hint = suggestion(candidate.entry_function, defined)
        raise BuildError(
            f"the built module has no function '{candidate.entry_function}'"
            + (f"; {hint}" if hint else "")
            + f" (it binds: {', '.join(defined) or 'nothing'})"
        )
    found: Callable[..., object] = function
    return found
