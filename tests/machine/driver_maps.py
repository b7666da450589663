"""Tensor maps of the machine's corpus as the driver takes them, for runs on a GPU."""

from __future__ import annotations

from cuassay.build.cuda.tile_maps import Encoded
from ptxsan.launch import TensorMap
from ptxsan_corpus.case import Tile


def driver_map(one: Tile | TensorMap, address: int) -> Encoded:
    """Return a tensor map of the corpus as the driver takes it, over memory at an address."""
    return Encoded(
        address=address,
        element=one.element,
        sizes=one.sizes,
        strides=one.strides,
        box=one.box,
        columns=one.columns,
        steps=one.steps,
        swizzle=one.swizzle,
        nan_fill=one.nan_fill,
    )
