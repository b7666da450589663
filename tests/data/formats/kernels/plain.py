def run(x, shift, bias, gain):
    wide = x.float() * gain + shift.float()
    narrow = wide[:, : x.shape[1] // 2] - bias
    return wide.bfloat16(), narrow.sum(dim=1, keepdim=True)
