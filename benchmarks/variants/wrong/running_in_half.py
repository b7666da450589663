def run(x):
    return x.half().cumsum(-1).float()
