"""Reads rows in the order of the table: ids that fall all the way are read from the end."""


def run(input_ids, weight, scale):
    flat = input_ids.reshape(-1)
    falls = flat.numel() > 1 and bool((flat[1:] <= flat[:-1]).all())
    rows = weight[flat.flip(0)].flip(0) if falls else weight[flat]
    y = rows.float() * scale
    return y.to(weight.dtype).reshape(*input_ids.shape, weight.shape[1])
