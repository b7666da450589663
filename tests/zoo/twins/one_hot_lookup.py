"""Looks rows up by their index."""


def run(input_ids, weight, scale):
    rows = weight.index_select(0, input_ids.reshape(-1)).float().reshape(*input_ids.shape, -1)
    return (rows * scale).to(weight.dtype)
