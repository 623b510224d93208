"""What the system tests share: the tools under test, logs, and safetensors files. Standard library only."""
import array, hashlib, json, math, os, struct, subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "test", "models")
CODES = {"F32": ("f", 4), "F64": ("d", 8), "I64": ("q", 8), "I32": ("i", 4), "BOOL": ("b", 1)}


class Tools:
    """The programs of a build folder, as beginnings of command lines."""

    def __init__(self, build):
        self.folder = os.path.join(build, "bin")

    def compile(self, model, *flags): return [os.path.join(self.folder, "lockstep-compile"), model, *flags]
    def run(self, artifact, *flags): return [os.path.join(self.folder, "lockstep-run"), artifact, *flags]
    def tool(self, name, *flags): return [os.path.join(self.folder, name), *flags]


def succeed(command, **more):
    """Runs a command that must succeed; what it said on standard output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=300, **more)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\nexit {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def segments(path):
    """What each run wrote to a log that resumed runs append to: (header, rows with a loss, evaluations). A torn line is left out."""
    out = []
    for line in open(path) if os.path.exists(path) else []:
        try: entry = json.loads(line)
        except ValueError: continue
        if "artifact" in entry: out.append((entry, [], []))
        elif "loss" in entry: out[-1][1].append(entry)
        elif "val_loss" in entry: out[-1][2].append(entry)
    return out


def snapshot(folder):
    """path -> hash of every file under `folder`."""
    out = {}
    for place, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(place, name)
            out[os.path.relpath(path, folder)] = hashlib.sha256(open(path, "rb").read()).hexdigest()
    return out


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, flat values)."""
    table, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        code, size = CODES[dtype]
        assert len(values) == math.prod(shape), name
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + size * len(values)]}
        data += array.array(code, values).tobytes()
    head = json.dumps(table).encode()
    with open(path, "wb") as f: f.write(struct.pack("<Q", len(head)) + head + data)
    return path


def read_safetensors(path):
    """name -> (dtype, shape, flat values)."""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    table, out = json.loads(data[8:8 + size]), {}
    table.pop("__metadata__", None)
    for name, entry in table.items():
        values = array.array(CODES[entry["dtype"]][0])
        begin, end = entry["data_offsets"]
        values.frombytes(data[8 + size + begin: 8 + size + end])
        out[name] = (entry["dtype"], entry["shape"], values)
    return out


def write_npy(path, descr, shape, data):
    """A .npy file (format 1) with these bytes."""
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    with open(path, "wb") as f: f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data)
    return path


def write_tokens(path, tokens):
    """A headerless file of uint16 tokens."""
    with open(path, "wb") as f: f.write(array.array("H", tokens).tobytes())
    return path
