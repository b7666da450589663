"""A product with the one-hot matrix."""

import torch


def run(rows, token_of):
    hot = torch.nn.functional.one_hot(token_of, rows.shape[0] // 2).float()
    return (hot.T @ rows.float()).to(rows.dtype)
