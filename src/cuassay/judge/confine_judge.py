"""The judge of an audit confines itself: a reference that came with a foreign tree runs in it.

A reference decides about its own problem, so that nothing keeps it from a wrong verdict there. It
is kept from everything else: other folders of the user, keys, other runs, the network.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

from cuassay.home import cache_dir, home, keys_dir
from cuassay.model import walls
from cuassay.model.device import Device
from cuassay.sandbox import syscalls as kernel
from cuassay.sandbox.readable import readable

_SHARED = "/dev/shm"


def confine(*, device: Device, within: Sequence[str], writable: Sequence[str]) -> str:
    """Bound this process for good; return why it could not be, or an empty string.

    It then reads the system's files, `within` and cuassay's own folders but for the keys, and
    writes to `writable`, the build caches and the folder of temporary files. The processes that
    workers are forked from must be started before, and threads after it.
    """
    folder = home()
    try:
        below = list(folder.iterdir())
    except OSError:
        below = []
    own = [path for path in below if path != keys_dir()]
    cache_dir().mkdir(parents=True, exist_ok=True)
    changed = [str(cache_dir()), tempfile.gettempdir(), _SHARED, *writable]
    seen = [*readable(os.environ, device=device), *map(str, own), *within, "/proc"]
    try:
        kernel.forbid_new_privileges()
        kernel.landlock(
            [path for path in changed if os.path.isdir(path)], [path for path in seen if path]
        )
    except OSError as error:
        return f"{walls.WRITES}: {error.strerror or error}"
    return ""
