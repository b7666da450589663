import torch


def embedding_gradient(grad, ids, start):
    table = start.to(torch.float32, copy=True)
    for t in range(grad.shape[0]):
        row = int(ids[t])
        table[row] = table[row] + grad[t].float()
    return table.float()
