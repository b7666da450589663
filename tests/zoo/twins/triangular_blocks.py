"""Leaves out the blocks of 16 that lie below the diagonal."""

import torch

BLOCK = 16


def run(a, b):
    n = a.shape[0]
    y = torch.zeros_like(a)
    for row in range(0, n, BLOCK):
        rows = slice(row, min(row + BLOCK, n))
        for column in range(row, n, BLOCK):
            columns = slice(column, min(column + BLOCK, n))
            y[rows, columns] = a[rows, row : columns.stop] @ b[row : columns.stop, columns]
    return y
