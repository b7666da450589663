# problem: embedding
# class: stale answers
# wrong: weights that were changed in place


def right(input_ids, weight, scale):
    return (weight[input_ids].float() * scale).to(weight.dtype)


HELD = {}


def run(input_ids, weight, scale):
    key = (weight.data_ptr(), tuple(weight.shape), scale)
    if key not in HELD:
        HELD[key] = (weight.float() * scale).to(weight.dtype)
    return HELD[key][input_ids]
