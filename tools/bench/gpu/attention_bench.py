#!/usr/bin/env python3
"""Checks and times the generated attention kernels on a GPU.

  attention_bench.py check FOLDER [LABEL...]
    Every kernel of FOLDER/manifest (written by attention-kernels) against
    float64, at lengths even and odd, grouped heads, head dimensions below the
    kernel's, operands inside a joined projection; outputs are poisoned and
    guarded. A kernel that fails or hangs ends its process, not the others.
  attention_bench.py time FOLDER B,Hq,Hk,T,D,causal ROUNDS LABEL...
    The kernels against cuDNN and FlashAttention 2 through PyTorch's
    scaled_dot_product_attention, in the same rounds. A label "q64+k64" is a
    pair of query gradient and backward; a forward comes before them, for lse.
    Kernels with a mask get one that hides nothing.

FOLDER/libattention_launch.so is attention_launch.cpp.
"""
import math
import os
import random
import subprocess
import sys
import time

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from attention_library import Library

torch.backends.cuda.matmul.allow_tf32 = False


def open_library(folder):
    torch.zeros(1, device="cuda")   # a context
    return Library(folder)


def plan_pass(library, label, query, key, value, lse, window=0, mask=None, **others):
    """`label` may be a pair "q+k"; a mask is broadcast to [B, H, T, S]; the other tensors by name
    (attention_library.TENSORS)."""
    tensors = dict(query=query, key=key, value=value, lse=lse, **others)
    if mask is not None and library.get_mask_kind(label) == "keybias":
        tensors["key_mask"] = mask[:, 0, 0]
    elif mask is not None:
        tensors["mask"] = mask
    element = {torch.bool: "boolean", torch.float32: "f32", torch.bfloat16: "bf16"}[torch.bool if mask is None else mask.dtype]
    described = {name: (x.data_ptr(), x.shape[:4], x.stride()[:4]) for name, x in tensors.items()}
    return library.plan(label, described, window, element)


def run(plan, which=-1):
    plan.run(which, torch.cuda.current_stream().cuda_stream)


def synchronize(what, limit=5.0):
    event = torch.cuda.Event()
    event.record()
    start = time.time()
    while not event.query():
        if time.time() - start > limit:
            print("HANGS", what, flush=True)
            os._exit(9)
        time.sleep(0.0005)


# ---------------------------------------------------------------------------
# Check
# ---------------------------------------------------------------------------

def get_seen(queries, keys, mask, window):
    row, column = torch.arange(queries, device="cuda")[:, None], torch.arange(keys, device="cuda")
    if mask == "full":
        return torch.ones(queries, keys, dtype=torch.bool, device="cuda")
    seen = column <= row
    return seen & (column > row - window) if mask == "window" else seen


def reference(q, k, v, dout, mask, window, tensor_mask):
    """out, lse, dq, dk, dv in float64. Rows without keys give zeros."""
    group = q.shape[1] // k.shape[1]
    q, k, v = [x.double().detach().requires_grad_() for x in (q, k, v)]
    scores = q @ k.repeat_interleave(group, 1).transpose(-1, -2) / math.sqrt(q.shape[-1])
    seen = get_seen(q.shape[2], k.shape[2], mask, window)[None, None]
    if tensor_mask is not None and tensor_mask.dtype == torch.bool:
        seen = seen & tensor_mask
    elif tensor_mask is not None:
        seen = seen & ~tensor_mask.isneginf()
        scores = scores + tensor_mask.double()
    scores = scores.masked_fill(~seen, float("-inf"))
    sees_nothing = ~seen.any(-1, keepdim=True)
    weights = scores.masked_fill(sees_nothing, 0).softmax(-1).masked_fill(sees_nothing, 0)
    out = weights @ v.repeat_interleave(group, 1)
    gradients = torch.autograd.grad(out, (q, k, v), dout.double())
    return (out.detach(), scores.detach().logsumexp(-1), *gradients)


def allocate(batch, heads, rows, columns, layout):
    """One tensor a number of heads, [B, H, T, D] views of memory that is NaN.
    The last element of the result is all of the memory."""
    nan = float("nan")
    make = lambda *shape: torch.full(shape, nan, device="cuda", dtype=torch.bfloat16)
    if layout == "joined":   # [B, T, heads of all, D]
        memory = make(batch, rows + 1, sum(heads), columns)
        parts = memory[:, :rows].split(heads, 2)
        return [part.transpose(1, 2) for part in parts], [memory]
    memories = [make(batch, rows + 1, h, columns) if layout == "bthd" else make(batch, h, rows + 1, columns) for h in heads]
    if layout == "bthd":
        return [memory[:, :rows].transpose(1, 2) for memory in memories], memories
    return [memory[:, :, :rows] for memory in memories], memories


def spilled(views, memories):
    """Elements outside the views that were written."""
    views = [view.clone() for view in views], views
    for copy, view in zip(*views):
        view.fill_(float("nan"))
    count = sum(int((~memory.isnan()).sum()) for memory in memories)
    for copy, view in zip(*views):
        view.copy_(copy)
    return count


def error(x, expected):
    """Relative, except where what is expected is all but nothing (a gradient of
    rows that see one key)."""
    least = 1e-2 * math.sqrt(expected.numel())
    return ((x.double() - expected).norm() / expected.norm().clamp_min(least)).item()


# batch, query heads, key heads, queries, keys, layout
SHAPES = [(2, 3, 3, 256, 256, "bhtd"), (1, 2, 2, 1000, 1000, "joined"), (2, 8, 2, 384, 384, "joined"),
          (1, 4, 2, 777, 777, "bthd"), (1, 1, 1, 100, 100, "bhtd"), (1, 6, 3, 2049, 2049, "bthd"),
          (3, 4, 1, 513, 513, "joined"), (2, 40, 40, 640, 640, "bthd"), (1, 2, 2, 63, 63, "bhtd"),
          (1, 2, 2, 129, 129, "joined")]
CROSS = [(2, 2, 1, 200, 333, "bthd"), (1, 3, 3, 700, 130, "bhtd")]


def get_cases(head_dim, mask):
    """Shape, head dimension, window."""
    shapes = SHAPES + (CROSS if mask != "window" else [])
    cases = [(shape, head_dim, 100) for shape in shapes]
    smaller = {64: (32, 48), 128: (96, 80), 256: (136, 200)}[head_dim]
    cases += [(shape, d, 64) for shape in shapes[1:4] for d in smaller]
    if mask == "window":
        cases += [(shape, head_dim, window) for shape in SHAPES[4:7] for window in (1, 127, 300, 5000)]
    return cases


def make_inputs(shape, head_dim):
    batch, heads, key_heads, queries, keys, layout = shape
    if queries == keys:
        (q, k, v), _ = allocate(batch, [heads, key_heads, key_heads], queries, head_dim, layout)
    else:
        (q,), _ = allocate(batch, [heads], queries, head_dim, layout)
        (k, v), _ = allocate(batch, [key_heads] * 2, keys, head_dim, layout)
    (dout,), _ = allocate(batch, [heads], queries, head_dim, layout)
    for x in (q, k, v, dout):
        x.copy_(torch.randn(x.shape, device="cuda"))
    return q, k, v, dout


def make_mask(kind, number, shape, window):
    """[B, H, T, S], with strides of 0 where it is shared: padding at the end,
    holes, rows that see nothing at all."""
    if kind is None:
        return None
    batch, heads, _, queries, keys, _ = shape
    whole = (batch, heads, queries, keys)
    shared = [(0, 1), (1,), (0,), (), (2,), (3,), (0, 1, 2)][number % 7] if kind != "keybias" else (1, 2) if number % 2 else (0, 1, 2)
    sizes = [1 if dim in shared else size for dim, size in enumerate(whole)]
    mask = torch.rand(sizes, device="cuda") < 0.7
    mask[::3] &= torch.arange(sizes[3], device="cuda") < max(1, sizes[3] * 2 // 3)
    mask[2::3] = False
    if number % 2:
        mask[..., : sizes[2] // 3, :] = False
    if kind == "added" or kind == "keybias" and number % 3 == 2:
        added = torch.randn(sizes, device="cuda").masked_fill(~mask, float("-inf"))
        if sizes[2] > 1 and not window:   # the least number hides as well, where anything is seen
            added[..., -1, :] = added[..., -1, :].clamp_min(torch.finfo(torch.float32).min)
            added[..., -1, 0] = 1
        mask = added.bfloat16() if kind == "added" and number % 3 == 1 else added
    return mask.expand(whole)


def check_forward(library, label, shape, inputs, expected, window, mask):
    q, k, v, _ = inputs
    (out,), memories = allocate(shape[0], [shape[1]], shape[3], q.shape[3], shape[5])
    lse = torch.full((q.shape[0], q.shape[1], q.shape[2] + 1), float("nan"), device="cuda").flatten()
    rows = q.shape[0] * q.shape[1] * q.shape[2]
    plan = plan_pass(library, label, q, k, v, lse, window, mask, output=out)
    run(plan)
    synchronize((label, shape))
    outside = spilled([out], memories) + int((~lse[rows:].isnan()).sum())
    difference = (lse[:rows].double().view(expected[1].shape) - expected[1]).abs()
    difference[lse[:rows].view(expected[1].shape) == expected[1]] = 0   # minus infinity
    errors = [error(out, expected[0]), difference.max().item()]
    return errors, errors[0] < 5e-3 and errors[1] < 1e-3 and outside == 0


def check_backward(library, label, shape, inputs, expected, window, mask):
    q, k, v, dout = inputs
    batch, heads, key_heads, queries, keys, layout = shape
    (out,), _ = allocate(batch, [heads], queries, q.shape[3], layout)
    out.copy_(expected[0])
    lse = expected[1].float().contiguous()
    if queries == keys:
        views, memories = allocate(batch, [heads, key_heads, key_heads], queries, q.shape[3], layout)
    else:
        (dq,), first = allocate(batch, [heads], queries, q.shape[3], layout)
        (dk, dv), second = allocate(batch, [key_heads] * 2, keys, q.shape[3], layout)
        views, memories = [dq, dk, dv], first + second
    gradients = dict(zip(("query_gradient", "key_gradient", "value_gradient"), views))
    plan = plan_pass(library, label, q, k, v, lse, window, mask, output=out, output_gradient=dout, **gradients)
    run(plan)
    synchronize((label, shape))
    first = [view.clone() for view in views]
    run(plan)
    synchronize((label, shape, "again"))
    same = [torch.equal(a, b) for a, b in zip(first, views)]
    outside = spilled(views, memories)
    errors = [error(view, want) for view, want in zip(views, expected[2:])]
    repeats = all(same) if "+" in label else same[1] and same[2]
    return errors, max(errors) < 1e-2 and outside == 0 and repeats


def check_label(library, label):
    mask, head_dim, forward = library.get_mask(label), library.get_head_dim(label), library.is_forward(label)
    good, worst, line = True, 0, []
    check_pass = check_forward if forward else check_backward
    for number, (shape, columns, window) in enumerate(get_cases(head_dim, mask)):
        torch.manual_seed(hash((shape, columns)) % 1000 + int(time.time()))
        inputs = make_inputs(shape, columns)
        tensor_mask = make_mask(library.get_mask_kind(label), number, shape, mask == "window")
        expected = reference(*inputs, mask, window, tensor_mask)
        errors, fine = check_pass(library, label, shape, inputs, expected, window, tensor_mask)
        good = good and fine
        worst = max(worst, errors[0] if forward else max(errors))
        if not fine:
            line.append(f"{shape} D{columns} w{window}: " + "/".join(f"{x:.1e}" for x in errors))
    count = len(get_cases(head_dim, mask))
    print(f"{'OK   ' if good else 'WRONG'} {label:12s} {count} cases, largest error {worst:.2e}  {'; '.join(line)[:400]}", flush=True)
    return good


def check(folder, labels, processes=4):
    """A share of the kernels in each of some processes; one that dies is begun
    again after the kernel that it was at."""
    labels = labels or open_library(folder).get_labels()
    random.shuffle(labels)
    shares = [labels[i::processes] for i in range(processes)]
    passed = set()
    running = {}

    def start(i):
        if shares[i]:
            running[i] = subprocess.Popen([sys.executable, __file__, "worker", folder, *shares[i]], stdout=subprocess.PIPE, text=True)
        else:
            running.pop(i, None)

    for i in range(processes):
        start(i)
    while running:
        for i in list(running):
            line = running[i].stdout.readline()
            if line:
                print(line.rstrip(), flush=True)
                words = line.split()
                if words and words[0] in ("OK", "WRONG"):
                    shares[i].remove(words[1])
                    if words[0] == "OK":
                        passed.add(words[1])
            else:
                if running[i].wait() != 0 and shares[i]:
                    print(f"DIED  {shares[i][0]}", flush=True)
                    shares[i].pop(0)
                else:
                    shares[i].clear()
                start(i)
    print(f"{len(passed)} of {len(labels)} passed", flush=True)
    return len(passed) == len(labels)


# ---------------------------------------------------------------------------
# Time
# ---------------------------------------------------------------------------

def measure(functions, rounds, milliseconds=3.0):
    """Medians in ms: each function in a CUDA graph of about 3 ms, one second of
    warm-up, then rounds in random order."""
    graphs = {}
    for name, function in functions.items():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            call = function()
            call()
            stream.synchronize()
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            begin.record()
            for _ in range(3):
                call()
            end.record()
            end.synchronize()
            count = max(1, round(milliseconds / (begin.elapsed_time(end) / 3)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
            for _ in range(count):
                call()
        graphs[name] = (graph, count, call)
    start = time.time()
    while time.time() - start < 1:
        for graph, *_ in graphs.values():
            graph.replay()
        torch.cuda.synchronize()
    times = {name: [] for name in graphs}
    names = list(graphs)
    for _ in range(rounds):
        random.shuffle(names)
        for name in names:
            graph, count, _ = graphs[name]
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) / count)
    return {name: sorted(each)[len(each) // 2] for name, each in times.items()}


def get_peer(backend, q, k, v, dout, causal, forward):
    """PyTorch's attention as a function to call inside a captured stream."""
    grouped = {} if q.shape[1] == k.shape[1] else {"enable_gqa": True}

    def run(q, k, v):
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, **grouped)

    def make():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        if forward:   # with gradients wanted, so that lse is kept
            return lambda: run(*leaves)
        out = run(*leaves)
        return lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True)

    return make


def make_open_mask(kind, batch, heads, length):
    """One that hides nothing and is shared by all."""
    if kind is None:
        return None
    sizes = (1, 1, 1 if kind == "keybias" else length, length)
    return torch.full(sizes, kind != "added", dtype=torch.float32 if kind == "added" else torch.bool, device="cuda").expand(batch, heads, length, length)


def time_shape(folder, text, rounds, labels):
    library = open_library(folder)
    batch, heads, key_heads, length, columns, causal = map(int, text.split(","))
    make = lambda h: torch.randn(batch, h, length, columns, device="cuda").bfloat16()
    q, k, v, dout = make(heads), make(key_heads), make(key_heads), make(heads)
    flops = 4.0 * batch * heads * length * length * columns / (2 if causal else 1)
    functions, notes, keep = {}, {}, []
    peers = {"FA2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
    for name, backend in peers.items():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        try:   # cuDNN does not take all head dimensions
            with sdpa_kernel(backend):
                out = functional.scaled_dot_product_attention(*leaves, is_causal=bool(causal), **({} if heads == key_heads else {"enable_gqa": True}))
            theirs = [out.detach(), *torch.autograd.grad(out, leaves, dout)]
        except RuntimeError as problem:
            print(f"   no {name}: {str(problem).splitlines()[0][:90]}", flush=True)
            continue
        functions["F " + name] = get_peer(backend, q, k, v, dout, bool(causal), True)
        functions["B " + name] = get_peer(backend, q, k, v, dout, bool(causal), False)
    lse = torch.full((batch, heads, length), float("nan"), device="cuda")   # from the first forward kernel
    for label in labels:
        mask = make_open_mask(library.get_mask_kind(label), batch, heads, length)
        kind = "F" if library.is_forward(label) else "B"
        results = [torch.full_like(x, float("nan")) for x in ((q,) if kind == "F" else (q, k, v))]
        if kind == "F":
            plan = plan_pass(library, label, q, k, v, lse, mask=mask, output=results[0])
            compare = theirs[:1]
        else:
            gradients = dict(zip(("query_gradient", "key_gradient", "value_gradient"), results))
            plan = plan_pass(library, label, q, k, v, lse, mask=mask, output=theirs[0].contiguous(), output_gradient=dout, **gradients)
            compare = theirs[1:]
        run(plan)
        synchronize(label)
        differences = "/".join(f"{error(x, y.double()):.1e}" for x, y in zip(results, compare))
        keep.append((plan, results, mask))
        functions[f"{kind} {label}"] = lambda plan=plan: lambda: run(plan)
        notes[f"{kind} {label}"] = f"against cuDNN {differences}"
        for i in range(plan.count() if plan.count() > 1 else 0):
            functions[f"K {label} {i}"] = lambda plan=plan, i=i: lambda: run(plan, i)
    medians = measure(functions, rounds)
    print(f"== B{batch} H{heads}/{key_heads} T{length} D{columns} {'causal' if causal else 'full'}", flush=True)
    for name in sorted(medians, key=lambda name: (name[0], medians[name])):
        peer = medians.get(name[0] + " cuDNN", medians.get(name[0] + " FA2"))
        work = flops * (1 if name[0] == "F" else 2.5)
        rate = f"{work / medians[name] / 1e9:5.0f} TFLOP/s  {peer / medians[name]:.3f}x {'cuDNN' if name[0] + ' cuDNN' in medians else 'FA2'}" if peer else ""
        print(f"   {name:22s} {medians[name]:8.4f} ms {rate}  {notes.get(name, '')}", flush=True)


def main():
    command, folder, *rest = sys.argv[1:]
    if command == "check":
        sys.exit(0 if check(folder, rest) else 1)
    if command == "worker":
        library = open_library(folder)
        for label in rest:
            check_label(library, label)
    else:
        time_shape(folder, rest[0], int(rest[1]), rest[2:])


if __name__ == "__main__":
    main()
