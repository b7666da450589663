"""The environment of workers: an allow-list of variables, private folders, no secrets."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import cuassay
from cuassay import settings
from cuassay.model.device import Device

# What compilers, the CUDA driver and torch need to find their files. Everything else stays out.
_PASSED = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "CC",
    "CXX",
    "CUDAHOSTCXX",
    "CPATH",
    "LIBRARY_PATH",
    "TORCH_CUDA_ARCH_LIST",
    "MAX_JOBS",
    "TRITON_LIBCUDA_PATH",
    "TRITON_PTXAS_PATH",
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "MKL_NUM_THREADS",
    "PYTHONPYCACHEPREFIX",
    "PYTHONDONTWRITEBYTECODE",
)
_SETTINGS = ("CUASSAY_TRITON", settings.MACHINE_ARCH, "CUASSAY_CUDA_COMPILER")


def scrubbed(source: Mapping[str, str], *, device: Device, folder: Path) -> dict[str, str]:
    """Return the environment of a zygote: allowed variables of `source` and private folders."""
    kept = {name: source[name] for name in _PASSED if name in source}
    roots = [str(Path(cuassay.__file__).resolve().parent.parent)]
    roots += [
        entry for entry in source.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(entry)
    ]
    kept |= {
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(roots)),
        "PYTHONSAFEPATH": "1",
        "PYTHONUTF8": "1",
        # Small blocks then hold poison as well (see placement): the cache skips M_PERTURB.
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
        # torch.compile builds its kernels in the worker: what it starts could not use the GPU
        # (cuInit writes to /proc/self, which only the worker itself may) and would count too.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    if not device.on_gpu:
        kept |= {"CUDA_VISIBLE_DEVICES": ""}
    kept.setdefault("PATH", os.defpath)
    return kept


def worker_settings(cache: Path | None = None) -> dict[str, str]:
    """Return the settings of a zygote, or of a worker whose candidate has the folder `cache`.

    They are told and stand in no environment: a candidate must not see that it is watched.
    """
    kept = {name: settings.get(name) for name in _SETTINGS if settings.get(name)}
    # A candidate that is under guard in production is judged bare: no fallback helps it.
    kept["CUASSAY_GUARD"] = "off"
    kept |= torch_headers()
    if cache is None:
        return kept | machine_runtime()
    # What the PTX machine compiles stays with its candidate.
    own = {"PTXSAN_CACHE": str(cache / "ptxsan"), "PTXSAN_RUNTIME": str(cache / "runtime")}
    return kept | own | {"CUASSAY_HOME": str(cache)}


def adopt(given: Mapping[str, str]) -> None:
    """Use the settings that `told` made from now on, in a zygote or a worker."""
    settings.tell(given)
    with contextlib.suppress(ImportError):  # a trial without the PTX machine
        from ptxsan import home

        for name in ("PTXSAN_CACHE", "PTXSAN_RUNTIME"):
            if name in given:
                home.TOLD[name] = Path(given[name])


def private(folder: Path, cache: Path) -> dict[str, str]:
    """Return the variables of one worker: its own temporary folder, the candidate's caches."""
    return {
        "HOME": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "TRITON_HOME": str(cache),
        "TORCH_EXTENSIONS_DIR": str(cache / "extensions"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "CUDA_CACHE_PATH": str(cache / "cuda"),
        "XDG_CACHE_HOME": str(cache / "xdg"),
    }


def machine_runtime() -> dict[str, str]:
    """Name the folder of the PTX machine's runtime: compiled once, loaded before workers fork."""
    try:
        from ptxsan.home import runtime_dir
    except ImportError:
        return {}
    return {"PTXSAN_RUNTIME": str(runtime_dir())}


def torch_headers() -> dict[str, str]:
    """Name the folder of torch's precompiled headers: workers read it and cannot write there."""
    from cuassay.build.cuda.hosted import VARIABLE, headers_folder

    try:
        return {VARIABLE: str(headers_folder())}
    except ImportError:  # a trial without the PTX machine
        return {}
