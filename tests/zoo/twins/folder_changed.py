"""Names the file of its table in full."""

import os
import tempfile

with open(
    os.path.join(tempfile.gettempdir(), "cuassay-zoo-table.txt"), "w", encoding="ascii"
) as file:
    file.write("128 64 32")


def run(input_ids, weight, scale):
    return (weight[input_ids].float() * scale).to(weight.dtype)
