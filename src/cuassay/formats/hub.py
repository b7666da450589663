"""Kernels of the Hugging Face hub: a local build tree, or `hub:OWNER/REPO[@REVISION]`.

A kernel's tree holds `build/<variant>/`, a package each. A variant without binaries is shipped
as source; one with binaries is named by the SHA-256 of every file in it, which is checked again
before it is imported.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from pathlib import Path

from cuassay.beneath import is_beneath
from cuassay.errors import CandidateError, missing_extra
from cuassay.formats import signature
from cuassay.formats.entry import ENTRY, find_entry
from cuassay.formats.textfile import read_beneath
from cuassay.model.candidate import Candidate, Convention, Language, SourceFile
from cuassay.model.problem import Problem

PREFIX = "hub:"
_ENTRY = "cuassay_entry.py"
_UNIVERSAL = ("torch-universal", "torch-noarch", "torch-cuda", "torch-cpu")
_PYTHON = '''"""Calls {function} of the kernel {name}."""

from {package} import {function} as _function


def run(*arguments):
    return _function(*arguments)
'''
_BINARY = '''"""Calls {function} of the kernel {name}, from its built files."""

import hashlib
import pathlib
import sys

_FOLDER = pathlib.Path({folder!r})
_FILES = {files!r}  # relative path -> SHA-256: a file that changed is another candidate
for _name, _digest in _FILES.items():
    if hashlib.sha256((_FOLDER / _name).read_bytes()).hexdigest() != _digest:
        raise ImportError(f"{{_name}} changed after the candidate's digest was taken")
sys.path.insert(0, {path!r})

from {package} import {function} as _function


def run(*arguments):
    return _function(*arguments)
'''


def is_kernel_folder(path: Path) -> bool:
    """Whether a folder is a kernel's tree: `build/` with folders of variants."""
    try:
        return any(p.is_dir() and p.name.startswith("torch") for p in (path / "build").iterdir())
    except (OSError, ValueError):
        return False


def load_hub_kernel(where: str, function: str | None, problem: Problem) -> Candidate:
    """Return the candidate of a kernel's tree or hub id; its code is not run here.

    The entry is `function`, else one called `run` or as the problem. Raises CandidateError, and
    MissingToolError where a hub id is given and huggingface_hub is not installed.
    """
    if where.startswith(PREFIX):
        repository, _, revision = where.removeprefix(PREFIX).partition("@")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
            raise CandidateError(f"'{where}' is no kernel of the hub; expected hub:OWNER/REPO")
        try:
            client = importlib.import_module("huggingface_hub")
        except ImportError:
            raise missing_extra("huggingface_hub", "hub") from None
        try:
            folder = client.snapshot_download(
                repository, revision=revision or None, allow_patterns=["build/**"]
            )
        except Exception as failure:
            raise CandidateError(
                f"'{where}' cannot be downloaded: {type(failure).__name__}: {failure}; check the "
                "id and the network, or give a local copy's folder"
            ) from None
        tree = Path(folder)
    else:
        tree = Path(where).expanduser()
    variant = _variant(tree)
    if (variant / "__init__.py").is_file():
        package = variant
    else:
        found = [p for p in sorted(variant.iterdir()) if (p / "__init__.py").is_file()]
        if len(found) != 1:
            raise CandidateError(
                f"{variant} holds {len(found)} packages, expected one folder with __init__.py, as "
                f"kernel-builder makes it; build {tree.name} again"
            )
        package = found[0]
    name = where.removeprefix(PREFIX).partition("@")[0] if where.startswith(PREFIX) else tree.name
    root = _root(tree)
    files = sorted(p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    entry = _function(files, root, function, problem, where=where)
    binary = any(p.suffix in (".so", ".abi3", ".pyd") for p in files)
    module = package.name if package.name.isidentifier() else re.sub(r"\W", "_", name)
    if binary and module != package.name:
        raise CandidateError(f"{package} is no importable package: rename it to an identifier")
    text = (
        _BINARY.format(
            function=entry, name=name, folder=str(package), path=str(package.parent),
            package=module,
            files={p.relative_to(package).as_posix(): _sha256(p, root) for p in files},
        )
        if binary
        else _PYTHON.format(function=entry, name=name, package=module)
    )  # fmt: skip
    shipped = (
        []
        if binary
        else [
            SourceFile(
                path=f"{module}/{path.relative_to(package).as_posix()}",
                text=_text(path, root),
            )
            for path in files
            if path.suffix == ".py"
        ]
    )
    return Candidate(
        name=name,
        sources=(SourceFile(path=_ENTRY, text=text), *shipped),
        entry_file=_ENTRY,
        adapter=_ENTRY,
        entry_function="run",
        language=Language.PYTHON,
        convention=_convention(files, root, entry, problem, where=where),
        origin=tree.absolute(),
    )


def _variant(tree: Path) -> Path:
    """Return the variant for this machine: one that suits every torch, else torch's and CUDA's."""
    import torch

    found = {p.name: p for p in sorted((tree / "build").iterdir()) if p.is_dir()}
    for name in _UNIVERSAL:
        if name in found:
            return found[name]
    major, minor = torch.__version__.split(".")[:2]
    cuda = (torch.version.cuda or "").replace(".", "")
    for name, path in found.items():
        fits = name.startswith(f"torch{major}{minor}-") and "x86_64-linux" in name
        if fits and (f"-cu{cuda}-" in name if cuda else "-cpu-" in name):
            return path
    raise CandidateError(
        f"{tree} is not built for torch {torch.__version__} with CUDA {torch.version.cuda} "
        f"(it has: {', '.join(found)}); build that variant, or use another torch"
    )


def _function(
    files: list[Path], root: Path, wanted: str | None, problem: Problem, *, where: str
) -> str:
    bound: set[str] = set()
    for path in files:
        if path.name == "__init__.py":
            try:
                bound |= set(signature.bound_names(signature.syntax_tree(_text(path, root), "")))
            except SyntaxError:
                bound |= set()
    for name in [wanted] if wanted else [ENTRY, problem.name]:
        if name in bound:
            return name
    what = f"binds no '{wanted}'" if wanted else f"binds neither '{ENTRY}' nor '{problem.name}'"
    listed = ", ".join(sorted(n for n in bound if not n.startswith("_"))[:20]) or "nothing"
    raise CandidateError(f"{where} {what} (it binds: {listed}); name it as PATH::FUNCTION")


def _convention(
    files: list[Path], root: Path, entry: str, problem: Problem, *, where: str
) -> Convention:
    """Return DESTINATION where a function of that name in the package also takes the outputs."""
    for path in files:
        if path.suffix != ".py":
            continue
        text = _text(path, root)
        try:
            defined = entry in signature.functions(signature.syntax_tree(text, str(path)))
        except SyntaxError:
            continue
        if defined:
            return find_entry(text, entry, problem, where=f"{where}: {path.name}")[1]
    return Convention.RETURNS


def _root(tree: Path) -> Path:
    """Return the folder out of which no link of a kernel's tree may lead.

    The hub's cache keeps files in `blobs/`, to which a snapshot of a repository links.
    """
    above = tree.absolute().parent
    is_snapshot = above.name == "snapshots" and (above.parent / "blobs").is_dir()
    return above.parent if is_snapshot else tree


def _text(path: Path, root: Path) -> str:
    below = path.absolute().relative_to(root.absolute())
    return read_beneath(root, below.as_posix(), CandidateError)


def _sha256(path: Path, root: Path) -> str:
    if not is_beneath(root.absolute(), path.absolute()):
        raise CandidateError(f"{path} is a link that leads out of {root}; put a copy there")
    return hashlib.sha256(path.read_bytes()).hexdigest()
