"""The `cuassay` command over a judge that judges nothing, as an executable for other programs."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def install(folder: Path) -> Path:
    """Write an executable `cuassay` into `folder` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "cuassay"
    script.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        f"sys.path[:0] = [{str(_ROOT)!r}, {str(_ROOT / 'src')!r}]\n"
        "from cuassay.engine import judge_process\n"
        "from tests.support import fake_judge\n"
        "judge_process.COMMAND = fake_judge.COMMAND\n"
        "from cuassay.cli.main import main\n"
        "sys.exit(main())\n"
    )
    script.chmod(0o755)
    return script
