import torch


def _tree(values):
    while values.shape[1] > 1:
        if values.shape[1] % 2:
            values = torch.nn.functional.pad(values, (0, 1))
        half = values.shape[1] // 2
        values = values[:, :half] + values[:, half:]
    return values[:, 0]


def row_mean(x):
    n = x.shape[1]
    return _tree(x.to(torch.float32)) / n
