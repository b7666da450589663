"""Entry of the judge process. Torch's libraries load while it imports what needs none of them."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from pathlib import Path

# By number, of <malloc.h>: M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD; in bytes.
_MALLOC = {-1: 1 << 28, -2: 1 << 24, -3: 1 << 25}


def open_libraries() -> None:
    """Let the system load torch's libraries, in a thread.

    That is a third of its import, and Python's own way to load them lets no other thread go on.
    What fails here fails there again.
    """
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return
    library = str(Path(found.origin).parent / "lib" / "libtorch.so").encode()
    opened = ctypes.CDLL(None).dlopen
    threading.Thread(target=opened, args=(library, os.RTLD_NOW), daemon=True).start()


def keep_memory() -> None:
    """Let the allocator keep what is freed, for what is made next.

    Without, the system is asked for pages again and again, a tenth of what a truth takes. Another
    libc than GNU's has its own way.
    """
    tuned = getattr(ctypes.CDLL(None), "mallopt", None)
    if tuned is not None:
        for option, size in _MALLOC.items():
            tuned(option, size)


if __name__ == "__main__":
    keep_memory()
    open_libraries()
    from cuassay.judge.entry import main

    # Everything is closed by now; taking torch and CUDA apart would cost the user half a second.
    os._exit(main())
