"""The help of `train` and `infer` names every site that they take."""

from __future__ import annotations

from cuassay_loops.cli.options import INFER_SITES, TRAIN_SITES
from cuassay_loops.infer.inference import _FORWARD
from cuassay_loops.sites import SITES, Phase


def test_the_help_names_every_site() -> None:
    trains = {n for n, s in SITES.items() if s.phase not in (Phase.DECODE, Phase.ENCODER)}
    infers = {
        name
        for name, site in SITES.items()
        if site.phase not in (Phase.BACKWARD, Phase.OPTIMIZER) and name not in _FORWARD
    }
    assert set(TRAIN_SITES) == trains
    assert set(INFER_SITES) == infers
