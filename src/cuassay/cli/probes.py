"""What this machine has, found in child processes: torch and CUDA never load in the driver.

Each probe ends as a `Probe`: what was found, or what its absence costs and how to get it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cuassay.model.walls import BY_NAME, NAMESPACES

_TIMEOUT_S = 90
JUDGE = "judge"  # the extra with all that `quick` and `standard` use
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_NVCC = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-cccl")
# Packages of that extra, and what cannot be done without each.
_NEEDS = {
    "torch": "nothing can be judged",
    "numpy": "nothing can be judged",
    "safetensors": "workloads stored as safetensors cannot be read",
    "triton": "Triton kernels cannot be judged",
    "ptxsan": "Triton and CUDA C++ kernels cannot be judged without a GPU",
    "cuassay-loops": "LOOP001 and LOOP002 have no training or inference states to look at",
    "hypothesis": "FUZZ001 does not search for inputs",
    "z3-solver": "nothing is proved for all sizes",
    "pytest": "kernels are not judged in tests: another pytest does not see the plugin",
}

# Runs in a child: prints one JSON object of name -> version or "" where absent.
_PACKAGES = """
import importlib.metadata as m, importlib.util as u, json
found = {}
for name, module in (
    ("torch", ""), ("triton", ""), ("ml_dtypes", ""), ("safetensors", ""), ("numpy", ""),
    ("ptxsan", ""), ("cuassay-loops", "cuassay_loops"),
    ("hypothesis", ""), ("z3-solver", "z3"), ("pytest", ""),
):
    try:
        found[name] = m.version(name) if u.find_spec(module or name) else ""
    except (m.PackageNotFoundError, ImportError, ValueError):
        found[name] = ""
print(json.dumps(found))
"""
_TORCH = """
import json
found = {"error": "", "cuda": "", "device": "", "count": 0}
try:
    import torch
    found["cuda"] = torch.version.cuda or ""
    if torch.cuda.is_available():
        p = torch.cuda.get_device_properties(0)
        found["device"] = f"{p.name} (sm_{p.major}{p.minor}, {p.total_memory >> 30} GiB)"
        found["count"] = torch.cuda.device_count()
except Exception as error:
    found["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""
_INTERPRETER = """
import json
from cuassay.build.interpreter import install
try:
    install.enable()
    why = ""
except Exception as error:
    why = str(error) or type(error).__name__
print(json.dumps({"why": why}))
"""
# Asks the code that builds, which also looks where pip puts NVIDIA's packages.
_COMPILERS = """
import json
from cuassay.build.cuda import nvrtc, toolkit
from cuassay.errors import MissingToolError
try:
    found = str(toolkit.find_nvcc())
except MissingToolError:
    found = ""
library = nvrtc.find_nvrtc()
print(json.dumps({"nvcc": found, "nvrtc": library or ""}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One thing that a trial may need: what its absence costs and how to get it.

    `packages` are what pip installs for it: extras of cuassay by their names alone, such as
    `judge`, and other packages.
    """

    name: str
    ok: bool
    found: str = ""
    costs: str = ""
    fix: str = ""
    packages: tuple[str, ...] = ()


def probes() -> Iterator[Probe]:
    """Yield every probe, cheap ones first."""
    yield Probe(
        name="python",
        ok=sys.version_info >= (3, 11),
        found=platform.python_version(),
        costs="cuassay does not run",
        fix="install Python 3.11 or newer",
    )
    packages = child(_PACKAGES)
    for name, costs in _NEEDS.items():
        version = str(packages.get(name) or "")
        yield Probe(
            name=name,
            ok=bool(version),
            found=version,
            costs=costs,
            fix=f"pip install 'cuassay[{JUDGE}]'",
            packages=(JUDGE,),
        )
    has_torch = bool(packages.get("torch"))
    torch = child(_TORCH) if has_torch else {}
    if error := str(torch.get("error") or ""):
        yield Probe(
            name="torch import",
            ok=False,
            found=error,
            costs="nothing can be judged",
            fix="pip install --force-reinstall torch",
        )
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = _output(query).strip().splitlines()[:1] if shutil.which("nvidia-smi") else []
    yield Probe(
        name="driver",
        ok=bool(driver),
        found=driver[0] if driver else "",
        costs="no GPU can be used; kernels run on the CPU",
        fix="install NVIDIA's driver (nvidia-smi must print the GPU)",
    )
    device, built = str(torch.get("device") or ""), str(torch.get("cuda") or "")
    reason = "" if built or not has_torch else "this torch is a CPU build"
    yield Probe(
        name="gpu",
        ok=bool(device),
        found=device or reason,
        costs="kernels run in the PTX machine; streams, graphs, devices and times are not judged",
        fix="use a machine with an NVIDIA GPU and a CUDA build of torch: "
        "pip install torch --index-url https://download.pytorch.org/whl/cu130",
    )
    yield from _compilers(gpu=bool(torch.get("device")))
    yield _interpreter(packages, gpu=bool(torch.get("device")))
    found = _object([sys.executable, "-P", "-m", "cuassay.sandbox.guest.process.walls"])
    if not found:
        found = {"sandbox": "the probe did not end well"}
    for name, outcome in found.items():
        ok = str(outcome) == "yes"
        wall = BY_NAME.get(name)
        if wall is None:
            cost = "one of two walls for the same purpose is missing"
        elif wall.required:
            cost = f"no kernel is judged without --no-sandbox: nothing shows that {wall.keeps}"
        else:
            cost = f"nothing shows of a candidate that {wall.keeps}"
        yield Probe(
            name=f"sandbox: {name}",
            ok=ok,
            found="" if ok else re.sub(r"\s+", " ", str(outcome)),
            costs=cost,
            fix=BY_NAME[name].fix if name in BY_NAME else NAMESPACES,
        )


def install_command(packages: Collection[str]) -> str:
    """Return one command that installs `packages` (see Probe): empty where there are none.

    Extras come with torch's CPU build where no driver of NVIDIA is, and with the PTX machine and
    the loops from the checkout that this cuassay was installed from.
    """
    if not packages:
        return ""
    wanted = [one for one in packages if one != JUDGE]
    first = ""
    if JUDGE in packages:
        gpu = shutil.which("nvidia-smi") is not None
        wanted.insert(0, f"'cuassay[{'gpu' if gpu else 'cpu'}]'")
        for name in ("cuassay-loops", "ptxsan"):
            place = _checkout() / "packages" / name
            if importlib.util.find_spec(name.replace("-", "_")) is None and place.is_dir():
                wanted.insert(0, shlex.quote(str(place)))
        if not gpu and importlib.util.find_spec("torch") is None:
            first = f"pip install --no-deps 'torch<2.14' --extra-index-url {CPU_INDEX} && "
    return f"{first}pip install {' '.join(wanted)}"


def _checkout() -> Path:
    """Return the folder that pip installed this cuassay from; one that is not there if none."""
    try:
        told = importlib.metadata.distribution("cuassay").read_text("direct_url.json")
        url = urlsplit(str(json.loads(told or "{}").get("url", "")))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return Path("/nonexistent")
    return Path(unquote(url.path)) if url.scheme == "file" else Path("/nonexistent")


def child(program: str) -> Mapping[str, object]:
    """Return the JSON object that `program` prints in a Python of its own; empty on any failure."""
    return _object([sys.executable, "-P", "-c", program])


def _object(command: list[str]) -> Mapping[str, object]:
    text = _output(command).strip()
    try:
        found = json.loads(text.splitlines()[-1] if text else "null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _compilers(*, gpu: bool) -> Iterator[Probe]:
    found = child(_COMPILERS)
    nvcc = str(found.get("nvcc") or "")
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    toolkit = Path(sys.prefix) / "lib" / f"python{minor}" / "site-packages/nvidia/cu13"
    yield Probe(
        name="nvcc",
        ok=bool(nvcc),
        found=nvcc,
        costs="CUDA C++ that uses torch's headers cannot be built",
        fix=f"pip install {' '.join(_NVCC)}, then set CUDA_HOME={toolkit}",
        packages=_NVCC if gpu else (),
    )
    nvrtc = str(found.get("nvrtc") or "")
    yield Probe(
        name="nvrtc",
        ok=bool(nvrtc),
        found=nvrtc,
        costs='raw extern "C" CUDA kernels cannot be built',
        fix=f"pip install 'cuassay[{JUDGE}]', which brings libnvrtc",
        packages=(JUDGE,),
    )
    host = shutil.which("g++") or shutil.which("c++") or ""
    yield Probe(
        name="c++",
        ok=bool(host),
        found=host,
        costs="C++ and CUDA C++ extensions cannot be built",
        fix="apt-get install g++",
    )
    if not gpu:
        return  # compute-sanitizer runs on a GPU alone
    sanitizer = shutil.which("compute-sanitizer") or ""
    yield Probe(
        name="compute-sanitizer",
        ok=bool(sanitizer),
        found=sanitizer,
        costs="no second opinion on memory faults; cuassay's own poisoning still runs",
        fix="pip install nvidia-cuda-sanitizer-api (the version of your driver's CUDA)",
        packages=("nvidia-cuda-sanitizer-api",),
    )


def _interpreter(packages: Mapping[str, object], *, gpu: bool) -> Probe:
    name = "interpreter repair"
    costs = "Triton kernels that the PTX machine does not cover cannot be judged without a GPU"
    if gpu:
        return Probe(name=name, ok=True, found="not needed: Triton runs on the GPU")
    if not packages.get("triton") or not packages.get("ml_dtypes"):
        return Probe(
            name=name,
            ok=False,
            found="needs triton and ml-dtypes",
            costs=costs,
            fix=f"pip install 'cuassay[{JUDGE}]'",
            packages=(JUDGE,),
        )
    answer = child(_INTERPRETER)
    why = re.sub(r"\s+", " ", str(answer.get("why", "the probe did not end well")))
    if why:
        return Probe(
            name=name, ok=False, found=why, costs=costs, fix="pip install 'triton>=3.6,<3.10'"
        )
    return Probe(name=name, ok=True, found="bfloat16 arithmetic proved bit-identical to torch's")
