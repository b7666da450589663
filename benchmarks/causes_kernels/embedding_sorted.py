import torch


def embedding_gradient(grad, ids, start):
    order = torch.argsort(ids, stable=True)
    keys = ids[order]
    values = grad[order].float()
    out = start.clone()
    ends = torch.cat((keys[1:] != keys[:-1], torch.ones(1, dtype=torch.bool)))
    prefix = torch.cumsum(values.double(), 0)
    stops = torch.nonzero(ends).flatten()
    previous = torch.zeros(grad.shape[1], dtype=torch.float64)
    for stop in stops.tolist():
        out[keys[stop]] += (prefix[stop] - previous).float()
        previous = prefix[stop]
    return out
