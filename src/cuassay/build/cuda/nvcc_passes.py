"""Run nvcc's device and host front ends side by side.

For one translation unit nvcc runs them one after the other, although they need nothing of each
other but a shared module id; with torch's headers each takes seconds. `parallel_script` asks
nvcc which commands it would run (--dryrun) and arranges them. It is used for attempts that may
fail: the build that decides about an error is nvcc's own.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cuassay.model.digest import sha256_fields

_VARIABLE = re.compile(r"^(\w+)= ?(.*)$")
_EXPORTED = (
    "PATH",
    "LD_LIBRARY_PATH",
    "NVVMIR_LIBRARY_DIR",
    "CICC_PATH",
    "TOP",
    "_HERE_",
    "_THERE_",
)
_MODULE_ID = re.compile(r'--module_id_file_name "([^"]+)"')
_GENERATE = "--gen_module_id_file "
_PASSES = (
    (" -E ", "gcc"),
    ("cudafe++ ", "cudafe++"),
    (" -E ", "gcc"),
    ("cicc", "cicc"),
    ("ptxas ", "ptxas"),
    ("fatbinary ", "fatbinary"),
    (" -c ", "gcc"),
)
_DRY_RUN_TIMEOUT_S = 20.0


def parallel_script(command: Sequence[str], folder: Path) -> Path | None:
    """Write a shell script below `folder` that does what the nvcc `command` does, in parallel.

    Returns None where this nvcc's passes are not the seven that are known, for one
    architecture; then the command itself has to be run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        dry = subprocess.run(
            [*command, "--dryrun"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DRY_RUN_TIMEOUT_S,
            check=False,
            env={**os.environ, "TMPDIR": str(folder)},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = rearranged_script(dry.stderr, folder) if dry.returncode == 0 else None
    if text is None:
        return None
    script = folder / "passes.sh"
    script.write_text(text, encoding="utf-8")
    return script


def rearranged_script(dry_run: str, folder: Path) -> str | None:
    """Return the script for what nvcc printed, or None where it is not understood."""
    variables: dict[str, str] = {}
    passes: list[str] = []
    for line in dry_run.splitlines():
        if not line.startswith("#$ "):
            continue
        variable = _VARIABLE.match(line[3:])
        if variable is not None and not passes:
            if variable.group(1) in _EXPORTED:
                variables[variable.group(1)] = variable.group(2).strip()
        elif not line.startswith("#$ rm "):
            passes.append(line[3:])
    if not _known(passes):
        return None
    identity = _MODULE_ID.search(passes[1])
    if identity is None or _GENERATE not in passes[1] or identity.group(1) not in passes[3]:
        return None
    # both front ends read the id, which nvcc would have the host's write; any unique one does
    digest = sha256_fields(str(folder), *passes)
    value = f"_{digest[:8]}_4_k_cu_{digest[8:16]}"
    lines = ["set -e", *(f"export {name}={shlex.quote(text)}" for name, text in variables.items())]
    lines.append(f"printf %s {value} > {shlex.quote(identity.group(1))}")
    host = [passes[0], passes[1].replace(_GENERATE, "")]
    lines += ["(", "set -e", *host, ") &", "host=$!"]
    lines += ["(", "set -e", *passes[2:6], ") &", "device=$!"]
    lines += ["wait $device", "wait $host", passes[6], ""]
    return "\n".join(lines)


def _known(passes: Sequence[str]) -> bool:
    if len(passes) != len(_PASSES):
        return False
    return all(
        mark in text and (tool == "gcc" or tool in text.split(" ", 1)[0])
        for text, (mark, tool) in zip(passes, _PASSES, strict=True)
    )
