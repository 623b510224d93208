"""Runs generated GPU kernels and compares with the evaluations of their regions.

gpu_kernels.py FOLDER... where each FOLDER was written by build/bin/gpu-kernels --cases; needs a GPU of that target, CuPy and NumPy.
Every kernel runs on poisoned results, twice (the bits must agree), and again with each result in the place of each argument
that it may overwrite. --time instead measures: median microseconds and the bandwidth of reading and writing every operand once."""
import argparse, ctypes, glob, json, os, sys

import cupy, numpy

TYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": "u2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1", "ui8": "u1", "i1": "u1"}
TOLERANCE = {"f32": 3e-5, "f64": 1e-9, "f16": 2e-3, "bf16": 1e-2}


def to_numbers(data, type):
    if type == "bf16":
        return (numpy.frombuffer(data, "u2").astype("u4") << 16).view("f4").astype("f8")
    values = numpy.frombuffer(data, TYPES[type])
    return values.astype("f8") if type in TOLERANCE else values


def compare(got, want, type, tolerance):
    """Nothing, or what differs; relative to the largest finite magnitude."""
    a, b = to_numbers(got, type), to_numbers(want, type)
    if type not in TOLERANCE:
        wrong = a != b
    else:
        finite = b[numpy.isfinite(b)]
        scale = max(1e-6, abs(finite).max() if finite.size else 0)
        with numpy.errstate(invalid="ignore"):
            wrong = ~((a == b) | (numpy.isnan(a) & numpy.isnan(b)) | (abs(a - b) <= tolerance * scale))
    if not wrong.any(): return None
    at = int(numpy.argmax(wrong))
    return f"{int(wrong.sum())} of {a.size} elements differ, first {at}: {a[at]}, expected {b[at]}"


class Parameters:
    """What a kernel with a parameter list of its own is launched with (artifact.fbs, KernelParameter)."""

    def __init__(self, entry, function, scratch):
        self.entry, self.launch, self.function = entry, entry["launch"], ctypes.c_void_p(function.kernel.ptr)
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuFuncSetAttribute", self.function, 8, ctypes.c_int(entry["shared_bytes"]))
        constants = numpy.frombuffer(bytes.fromhex(self.launch["constants"]), "u1")
        self.constants = cupy.asarray(constants if constants.size else numpy.zeros(1, "u1"))
        self.scratch = scratch

    def call(self, name, *arguments):
        code = getattr(self.driver, name)(*arguments)
        if code: raise RuntimeError(f"{self.entry['symbol']}: {name} gives {code}")

    def tensor_map(self, p, address):
        rank, memory = len(p["dims"]), ctypes.create_string_buffer(192)
        map = ctypes.addressof(memory) + 63 & ~63
        numbers = lambda type, values: (type * max(1, len(values)))(*values)
        self.call("cuTensorMapEncodeTiled", ctypes.c_void_p(map), {"F32": 7, "BF16": 9}[p["dtype"]], rank, ctypes.c_void_p(address),
                  numbers(ctypes.c_uint64, p["dims"]), numbers(ctypes.c_uint64, p["strides"]), numbers(ctypes.c_uint32, p["box"]),
                  numbers(ctypes.c_uint32, [1] * rank), 0, {0: 0, 32: 1, 64: 2, 128: 3}[p["swizzle"]], 3, 0)
        return ctypes.create_string_buffer(ctypes.string_at(map, 128), 128)

    def value(self, p, operands):
        kind = p["kind"]
        address = operands[p["operand"]].data.ptr + p["byte_offset"]
        if kind == "TensorMap": return self.tensor_map(p, address)
        if kind == "Int32": return ctypes.c_int32(p["value"])
        if kind == "Int64": return ctypes.c_int64(p["value"])
        if kind == "Float32": return ctypes.c_float(p["real"])
        start = {"Pointer": address, "Constant": self.constants.data.ptr + p["offset"], "Scratch": self.scratch.data.ptr + p["offset"], "Null": 0}[kind]
        return ctypes.c_uint64(start)

    def run(self, operands):
        values = [self.value(p, operands) for p in self.launch["parameters"]]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        self.call("cuLaunchKernel", self.function, self.launch["grid"], 1, 1, self.entry["threads"], 1, 1, self.entry["shared_bytes"],
                  ctypes.c_void_p(cupy.cuda.get_current_stream().ptr), pointers, None)


def find(modules, symbol):
    """The function, from whichever module has it."""
    for module in modules:
        try:
            return module.get_function(symbol)
        except cupy.cuda.driver.CUDADriverError:
            pass
    raise KeyError(symbol)


class Kernel:
    """One launch, or several, which share their scratch."""

    def __init__(self, entry, modules):
        parts = entry.get("parts") or ([entry] if "launch" in entry else [])
        scratch = max((p["offset"] + p["bytes"] for part in parts for p in part["launch"]["parameters"] if p["kind"] == "Scratch"), default=0)
        memory = cupy.zeros(scratch + 1, "u1")
        self.entry, self.parts = entry, [Parameters(part, find(modules, part["symbol"]), memory) for part in parts]
        self.function = None if parts else find(modules, entry["symbol"])
        if self.function and entry["shared_bytes"]: self.function.max_dynamic_shared_size_bytes = entry["shared_bytes"]

    def launch(self, segments):
        """segments: device buffers per segment, arguments and results."""
        e = self.entry
        if self.parts: return [part.run(segments[0]) for part in self.parts]
        if not e["segmented"]:
            blocks = -(-e["work_items"] // e["items_per_block"])
            self.function((blocks,), (e["threads"],), tuple(segments[0]), shared_mem=e["shared_bytes"])
            return
        table = cupy.asarray(numpy.array([[b.data.ptr for b in s] for s in segments], "u8"))
        chunks, size = [], e["items_per_block"]
        for i, s in enumerate(segments):
            count = self.elements(i)
            chunks += [(i, 0, begin, min(begin + size, count)) for begin in range(0, count, size)]
        record = numpy.dtype([("segment", "u4"), ("zero", "u4"), ("begin", "i8"), ("end", "i8")])
        data = cupy.asarray(numpy.array(chunks, record).view("u1"))
        self.function((len(chunks),), (e["threads"],), (table, data), shared_mem=e["shared_bytes"])

    def elements(self, segment):
        first = self.entry["segments"][segment][self.entry["arguments"]]
        return first["bytes"] // numpy.dtype(TYPES[first["type"]]).itemsize


def buffers(entry, read, over=None):
    """Arguments with their values, results poisoned, or in an argument's place."""
    segments = []
    for operands in entry["segments"]:
        row = []
        for i, o in enumerate(operands):
            if i < entry["arguments"]: row.append(cupy.asarray(numpy.frombuffer(read(o), "u1")) if o["bytes"] else cupy.zeros(0, "u1"))
            elif over and i == entry["arguments"] + over[1]: row.append(row[over[0]])
            elif place := [a for a, k in entry["added"] if i == entry["arguments"] + k]: row.append(row[place[0]].copy())
            else: row.append(cupy.full(o["bytes"], 0xFF, "u1"))
        segments.append(row)
    return segments


def check(kernel, read):
    entry, problems = kernel.entry, []
    runs = [None, None, *entry["over"]]
    first = None
    for number, over in enumerate(runs):
        segments = buffers(entry, read, over)
        kernel.launch(segments)
        cupy.cuda.Device().synchronize()
        got = [[b.get().tobytes() for b in s[entry["arguments"]:]] for s in segments]
        if number == 1 and got != first and not entry["varies"]: problems.append("two runs differ")
        if number == 0: first = got
        where = f" with result {over[1]} over argument {over[0]}" if over else ""
        for s, operands in enumerate(entry["segments"]):
            for i, o in enumerate(operands[entry["arguments"]:]):
                difference = compare(got[s][i], read(o), o["type"], TOLERANCE.get(o["type"], 0))
                if difference: problems.append(f"result {i}{where}: {difference}")
    return problems


def time_kernel(kernel):
    entry = kernel.entry
    segments = [[cupy.zeros(o["bytes"], "u1") for o in operands] for operands in entry["segments"]]
    bytes = sum(o["bytes"] for s in entry["segments"] for o in s)
    times = []
    for _ in range(12):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(); kernel.launch(segments); end.record(); end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) * 1e3)
    us = sorted(times[2:])[5]
    return us, bytes / us / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    checked, wrong = 0, 0
    for folder in options.folders:
        entries = json.load(open(os.path.join(folder, "index.json")))
        modules = [cupy.RawModule(path=path) for path in glob.glob(os.path.join(glob.escape(folder), "code*"))]
        data = open(os.path.join(folder, "data"), "rb").read()
        read = lambda o: data[o["offset"]:o["offset"] + o["bytes"]]
        for entry in entries:
            kernel = Kernel(entry, modules)
            name = f"{os.path.basename(folder)} {entry['name']}"
            if options.time:
                us, rate = time_kernel(kernel)
                print(f"{us:10.1f} us {rate:8.1f} GB/s  {entry['kind']:12} {name}")
                continue
            problems = check(kernel, read)
            checked += 1
            wrong += bool(problems)
            for problem in problems: print(f"{name}: {problem}", flush=True)
    if not options.time: print(f"{checked} kernels, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
