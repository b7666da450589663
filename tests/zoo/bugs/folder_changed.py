"""Changes the working folder of the process to keep a table there."""

import os
import tempfile

os.chdir(tempfile.gettempdir())
with open("cuassay-zoo-table.txt", "w", encoding="ascii") as file:
    file.write("128 64 32")


def run(input_ids, weight, scale):
    return (weight[input_ids].float() * scale).to(weight.dtype)
