#!/usr/bin/env python3
"""Runs the generated attention kernels at small sizes, for compute-sanitizer.

  compute-sanitizer --tool memcheck|racecheck|initcheck|synccheck attention_small.py FOLDER [LABEL...]

Every kernel of FOLDER/manifest once a size against float64 in numpy (no torch:
its kernels would be watched as well). Few blocks do all the work, so that rings
of buffers go round. Nothing is written to memory between kernels beforehand, so
that initcheck sees what is read too early (outputs are NaN: initcheck does not
see what tensor copies write there).
"""
import ctypes
import sys

import numpy

from attention_library import Library

# batch, query heads, key heads, queries, keys, head dimension's distance below the kernel's, window, blocks,
# shape of a mask
SIZES = [(2, 4, 2, 200, 200, 0, 70, 3, (2, 1, 200, 200)), (1, 2, 2, 129, 129, 16, 5, 1, (1, 2, 1, 129))]


def round_to_bf16(x):
    """(bits, the numbers that they are)."""
    bits = x.astype(numpy.float32).view(numpy.uint32)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return bits.astype(numpy.uint16), (bits << 16).view(numpy.float32).astype(numpy.float64)


def get_strides(shape):
    return [int(numpy.prod(shape[i + 1:])) for i in range(len(shape))]


class Device:
    def __init__(self, library):
        self.library = library

    def upload(self, array):
        address = self.library.attention_upload(array.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(array.nbytes))
        return address, array.shape, get_strides(array.shape)

    def allocate(self, shape, bytes_each):
        return self.upload(numpy.full(shape, -1, {2: numpy.int16, 4: numpy.int32}[bytes_each]))   # NaN

    def download(self, tensor, dtype):
        address, shape, _ = tensor
        array = numpy.empty(shape, dtype)
        self.library.attention_download(array.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(address), ctypes.c_int64(array.nbytes))
        return array

    def download_bf16(self, tensor):
        bits = self.download(tensor, numpy.uint16).astype(numpy.uint32) << 16
        return bits.view(numpy.float32).astype(numpy.float64)


def get_seen(queries, keys, mask, window):
    row, column = numpy.arange(queries)[:, None], numpy.arange(keys)[None]
    seen = numpy.ones((1, 1, queries, keys), bool)
    if mask != "full":
        seen &= column <= row
    if mask == "window":
        seen &= column > row - window
    return seen


def make_mask(kind, shape, random):
    """(as the kernel gets it, whether a key is seen, what is added)."""
    seen = random.random(shape) < 0.7
    seen[-1, ..., : shape[-2] // 2, :] = False   # the first rows see nothing
    if kind != "added":
        return seen.astype(numpy.uint8), seen, 0
    added = random.standard_normal(shape).astype(numpy.float32)
    return numpy.where(seen, added, numpy.float32("-inf")), seen, added


def reference(q, k, v, dout, seen, added=0):
    """out, lse, dq, dk, dv; rows without keys give zeros."""
    group, scale = q.shape[1] // k.shape[1], q.shape[3] ** -0.5
    wide_k, wide_v = k.repeat(group, 1), v.repeat(group, 1)
    scores = numpy.where(seen, q @ wide_k.swapaxes(2, 3) * scale + added, -numpy.inf)
    maximum = scores.max(-1, keepdims=True)
    weights = numpy.exp(scores - numpy.where(numpy.isinf(maximum), 0, maximum))
    total = weights.sum(-1, keepdims=True)
    with numpy.errstate(divide="ignore"):
        lse = (maximum + numpy.log(total))[..., 0]
    weights /= numpy.where(total == 0, 1, total)
    out = weights @ wide_v
    dp = dout @ wide_v.swapaxes(2, 3)
    ds = weights * (dp - (dout * out).sum(-1, keepdims=True)) * scale
    fold = lambda x: x.reshape(k.shape[0], k.shape[1], group, *k.shape[2:]).sum(2)
    return out, lse, ds @ wide_k, fold(ds.swapaxes(2, 3) @ q), fold(weights.swapaxes(2, 3) @ dout)


def error(x, expected):
    least = 1e-2 * numpy.sqrt(expected.size)
    return numpy.linalg.norm(x - expected) / max(numpy.linalg.norm(expected), least)


def run(library, device, label, size, random):
    batch, heads, key_heads, queries, keys, below, window, blocks, mask_shape = size
    head_dim, mask = library.get_head_dim(label) - below, library.get_mask(label)
    make = lambda h, rows: round_to_bf16(random.standard_normal((batch, h, rows, head_dim)))
    inputs = [make(heads, queries), make(key_heads, keys), make(key_heads, keys), make(heads, queries)]
    tensors = dict(zip(("query", "key", "value", "output_gradient"), (device.upload(bits) for bits, _ in inputs)))
    seen, added, kind = get_seen(queries, keys, mask, window), 0, library.get_mask_kind(label)
    if kind:
        shape = (batch, 1, 1, keys) if kind == "keybias" else mask_shape
        given, more, added = make_mask(kind, shape, random)
        seen = seen & more
        address, shape, strides = device.upload(given)
        strides = [0 if size == 1 else stride for size, stride in zip(shape, strides)]
        tensors["key_mask" if kind == "keybias" else "mask"] = (address, shape, strides)
    out, lse, *gradients = reference(*(values for _, values in inputs), seen, added)
    if library.is_forward(label):
        del tensors["output_gradient"]
        tensors["output"] = device.allocate(out.shape, 2)
        tensors["lse"] = device.allocate(lse.shape, 4)
    else:
        tensors["output"] = device.upload(round_to_bf16(out)[0])
        tensors["lse"] = device.upload(lse.astype(numpy.float32))
        for name, gradient in zip(("query_gradient", "key_gradient", "value_gradient"), gradients):
            tensors[name] = device.allocate(gradient.shape, 2)
    plan = library.plan(label, tensors, window, "f32" if kind == "added" else "boolean", poison=False, blocks=blocks)
    plan.run()
    if not library.is_forward(label):
        return max(error(device.download_bf16(tensors[name]), gradient)
                   for name, gradient in zip(("query_gradient", "key_gradient", "value_gradient"), gradients))
    found = device.download(tensors["lse"], numpy.float32)
    hidden = numpy.isinf(lse)
    if not (numpy.isneginf(found) == hidden).all() or abs(found[~hidden] - lse[~hidden]).max(initial=0) > 1e-3:
        return numpy.inf
    return error(device.download_bf16(tensors["output"]), out)


def main():
    folder, *labels = sys.argv[1:]
    library = Library(folder)
    library.library.attention_start()
    device = Device(library.library)
    good = True
    for label in labels or library.get_labels():
        for size in SIZES:
            print(f"      {label} {size}", flush=True)
            worst = run(library, device, label, size, numpy.random.default_rng(1))
            fine = worst < 1e-2
            good = good and fine
            print(f"{'OK   ' if fine else 'WRONG'} {label} {size}: error {worst:.1e}", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
