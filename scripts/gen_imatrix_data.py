#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Importance matrices, right and wrong, for tests/data/imatrix and fuzz/corpus/imatrix:
gen_imatrix_data.py [SOURCE_ROOT]

Those in tests/data/imatrix are of tests/data/models/rand-qwen3moe.gguf; those of the corpus of
the model that fuzz/fuzz_imatrix.c makes. The numbers are made up, always the same."""
import os
import struct
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
F32, F16 = 0, 1


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def image(tensors, kind="imatrix", chunks=4):
    """tensors: (name, type, dims fastest first, values)"""
    keys = [text("general.architecture") + struct.pack("<I", 8) + text("imatrix")]
    if kind:
        keys.append(text("general.type") + struct.pack("<I", 8) + text(kind))
    keys.append(text("imatrix.datasets") + struct.pack("<IIQ", 9, 8, 1) + text("book.txt"))
    if chunks:
        keys.append(text("imatrix.chunk_count") + struct.pack("<II", 4, chunks))
        keys.append(text("imatrix.chunk_size") + struct.pack("<II", 4, 512))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    data = b""
    for name, kind_of, dims, values in tensors:
        head += text(name) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims)
        head += struct.pack("<IQ", kind_of, len(data))
        data += struct.pack("<%d%s" % (len(values), "e" if kind_of == F16 else "f"), *values)
        data += bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + data


class Numbers:
    def __init__(self):
        self.x = 1

    def __call__(self):
        self.x = self.x * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        return (self.x >> 40) / (1 << 24) * 8 + 0.125


def entry(number, weight, n_in, n_mat, counts=None):
    sums = [number() * number() for _ in range(n_in * n_mat)]
    counts = counts or [float(64 + m) for m in range(n_mat)]
    return [(weight + ".in_sum2", F32, [n_in, n_mat], sums),
            (weight + ".counts", F32, [1, n_mat], counts)]


def write(folder, name, data):
    os.makedirs(os.path.join(ROOT, folder), exist_ok=True)
    with open(os.path.join(ROOT, folder, name), "wb") as f:
        f.write(data)


def qwen3moe(skip=()):
    number, out = Numbers(), []
    for b in range(3):
        for part, n_in, n_mat in (("attn_q", 64, 1), ("attn_k", 64, 1), ("attn_v", 64, 1),
                                  ("attn_output", 128, 1), ("ffn_gate_inp", 64, 1),
                                  ("ffn_gate_exps", 64, 16), ("ffn_up_exps", 64, 16),
                                  ("ffn_down_exps", 32, 16)):
            w = "blk.%d.%s.weight" % (b, part)
            counts = [0.0 if m == 3 else 5.0 + m for m in range(16)] if n_mat > 1 else None
            e = entry(number, w, n_in, n_mat, counts)
            out += [] if w in skip else e
    return out


def main():
    n, a, e = Numbers(), "blk.0.attn_q.weight", "blk.0.ffn_up_exps.weight"
    good = qwen3moe()
    write("tests/data/imatrix", "good.gguf", image(good))
    write("tests/data/imatrix", "part.gguf",
          image(qwen3moe(skip=("blk.1.attn_q.weight", "blk.0.ffn_down_exps.weight")) +
                entry(n, "blk.7.attn_q.weight", 64, 1), chunks=0))
    write("tests/data/imatrix", "other.gguf", image(entry(n, "blk.7.attn_q.weight", 64, 1)))
    write("tests/data/imatrix", "shape.gguf", image(entry(n, "blk.1.attn_q.weight", 40, 1)))
    write("tests/data/imatrix", "model.gguf", image(good[:2], kind="model"))
    bad = entry(n, "blk.0.attn_q.weight", 64, 1) + entry(n, "blk.1.attn_q.weight", 64, 1)
    bad[2][3][40] = -1.0
    write("tests/data/imatrix", "negative.gguf", image(bad))

    c = "fuzz/corpus/imatrix"
    small = entry(n, a, 4, 1) + entry(n, e, 4, 2)
    write(c, "good", image(small))
    write(c, "zero-count", image(entry(n, e, 4, 2, [0.0, 3.0])))
    write(c, "no-chunks", image(small, chunks=0))
    write(c, "unknown-tensors", image(small + [(a + ".in_sum", F32, [4], [1, 2, 3, 4])]))
    write(c, "other-model", image(entry(n, "blk.9.attn_q.weight", 4, 1)))
    write(c, "other-shape", image(entry(n, a, 5, 1)))
    write(c, "other-experts", image(entry(n, e, 4, 3)))
    write(c, "one-for-all-experts", image(entry(n, e, 4, 1)))
    write(c, "no-counts", image(small[:1]))
    write(c, "no-sums", image(small[1:2]))
    write(c, "empty", image([]))
    write(c, "no-type", image(small, kind=None))
    write(c, "a-model", image(small, kind="model"))
    write(c, "half-sums", image([(a + ".in_sum2", F16, [4, 1], [1, 2, 3, 4]), small[1]]))
    write(c, "half-counts", image([small[0], (a + ".counts", F16, [1, 1], [1])]))
    write(c, "counts-shape", image([small[2], (e + ".counts", F32, [2], [1, 2])]))
    write(c, "counts-few", image([small[2], (e + ".counts", F32, [1, 1], [1])]))
    write(c, "sums-3d", image([(e + ".in_sum2", F32, [4, 1, 2], [1] * 8), small[3]]))
    for name, v in (("negative", -1.0), ("nan", float("nan")), ("infinite", float("inf"))):
        write(c, "sum-" + name, image([(a + ".in_sum2", F32, [4, 1], [1, v, 1, 1]), small[1]]))
        write(c, "count-" + name, image([small[0], (a + ".counts", F32, [1, 1], [v])]))
    write(c, "overflow", image([(a + ".in_sum2", F32, [4, 1], [3e38] * 4),
                                (a + ".counts", F32, [1, 1], [1e-3])]))
    write(c, "cut", image(small)[:-40])


main()
