#!/usr/bin/env python3
# A kernel for `parity run 'l2norm/*/f32/*' --exec 'python3 ci/examples/l2norm.py {in} {out}'`, in plain Python so
# that it runs anywhere: reads a .safetensors file, writes one. With NumPy or PyTorch this is load_file and save_file.
# A third argument leaves something out, to see what parity says: `eps_outside`, `no_grads`.
import json
import struct
import sys


def load(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, t in header.items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in t["data_offsets"])
            tensors[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return tensors, header["__metadata__"]


def save(path, tensors):  # name -> (shape, values)
    header, body = {}, b""
    for name, (shape, values) in tensors.items():
        piece = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(piece)]}
        body += piece
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)


tensors, about = load(sys.argv[1])
wrong = sys.argv[3] if len(sys.argv) > 3 else ""
N, D = (json.loads(about["sizes"])[k] for k in "ND")
eps = float(json.loads(about["options"]).get("eps", 1e-6))
x, dy, y, dx = tensors["x"], tensors["cotangents/y"], [], []
for n in range(N):
    row, drow = x[n * D : (n + 1) * D], dy[n * D : (n + 1) * D]
    square = sum(v * v for v in row)
    r = 1 / (square**0.5 + eps) if wrong == "eps_outside" else 1 / (square + eps) ** 0.5
    yrow = [v * r for v in row]
    dot = sum(a * b for a, b in zip(yrow, drow))
    y += yrow
    dx += [r * (b - a * dot) for a, b in zip(yrow, drow)]
out = {"y": ([N, D], y), "grads/x": ([N, D], dx)}
if wrong == "no_grads":
    del out["grads/x"]
save(sys.argv[2], out)
