"""Puts the prebuilt runtime into a wheel, for the processor and Python that build it.

`pip install ./packages/ptxsan` builds such a wheel too: compiling takes half a minute of two
cores, once. A wheel holds files for one Python and one numba; where others are installed, the
first use compiles instead. `PTXSAN_PURE=1` builds a wheel without the runtime, for any machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PrebuiltRuntime(BuildHookInterface):  # type: ignore[misc]
    """Compiles the runtime for the processor and Python of this build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file to a standard wheel; an editable one compiles when it is used."""
        if version != "standard" or os.environ.get("PTXSAN_PURE") == "1":
            return
        folder = Path(self.directory) / "prebuilt"
        with tempfile.TemporaryDirectory() as other:
            # By another name: pip takes off the path what an editable install of it put there.
            source = Path(other) / "src"
            source.symlink_to(Path(self.root) / "src")
            # pip names its build environment, numba among it, in the same variable.
            path = os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])])
            environment = {**os.environ, "PYTHONPATH": path}
            command = [sys.executable, "-P", "-c", _NAME]
            named = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
            name = named.stdout.decode().strip()
            build = [sys.executable, "-P", "-m", "ptxsan.runtime.prebuilt", str(folder / name)]
            subprocess.run(build, check=True, env=environment)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        place = f"ptxsan/runtime/prebuilt/{name}"
        build_data["force_include"][str(folder / name)] = place


_NAME = "from ptxsan.runtime import prebuilt; print(prebuilt.tag() + '.zip')"
