"""The attention kernels of a folder (written by attention-kernels), launched by
its libattention_launch.so, which is attention_launch.cpp. Needs no torch."""
import ctypes
import math
import os

# As AttentionTensor has them.
TENSORS = ("query", "key", "value", "output", "output_gradient", "query_gradient", "key_gradient", "value_gradient", "lse", "key_mask", "mask")


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("sizes", ctypes.c_int64 * 4), ("strides", ctypes.c_int64 * 4)]


class Pass(ctypes.Structure):
    _fields_ = [("tensors", Tensor * len(TENSORS)), ("mask_element", ctypes.c_char_p), ("window", ctypes.c_int64), ("scale", ctypes.c_float),
                ("poison", ctypes.c_int32), ("blocks", ctypes.c_int32)]


class Library:
    def __init__(self, folder):
        self.folder = folder
        self.library = ctypes.CDLL(os.path.abspath(folder + "/libattention_launch.so"))
        for name in ("attention_open", "attention_plan", "attention_upload"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.words = {}
        for line in open(folder + "/manifest"):
            label, *words = line.split()
            self.words[label] = words
        self.opened = {}

    def open(self, label):
        if label not in self.opened:
            self.opened[label] = ctypes.c_void_p(self.library.attention_open(self.folder.encode(), label.encode()))
        return self.opened[label]

    def get_words(self, label):
        """Of a kernel, or of the second one of a pair "q+k"."""
        return self.words[label.split("+")[-1]]

    def is_forward(self, label):
        return self.get_words(label)[0] == "forward"

    def get_head_dim(self, label):
        return int(self.get_words(label)[1])

    def get_mask(self, label):
        words = self.get_words(label)
        return "causal" if "causal" in words else "window" if "window" in words else "full"

    def get_mask_kind(self, label):
        """What the kernel takes besides: "keybias", "boolean", "added", or None."""
        return next((word for word in self.get_words(label) if word in ("keybias", "boolean", "added")), None)

    def get_labels(self):
        """Forwards and backwards alone, and the pairs of query gradient and backward."""
        labels = []
        for label, (kernel, *_, last) in self.words.items():
            if kernel == "querygradient":
                continue
            if "noquery" not in self.words[label]:
                labels.append(label)
                continue
            def same(other):
                return self.words[other][0] == "querygradient" and all(
                    get(other) == get(label) for get in (self.get_head_dim, self.get_mask, self.get_mask_kind))
            labels += [f"{other}+{label}" for other in self.words if same(other)][:1]
        return labels

    def plan(self, label, tensors, window=0, mask_element="boolean", poison=True, blocks=0):
        """`tensors`: (address, sizes, strides in elements) by name."""
        described = Pass(mask_element=mask_element.encode(), window=window, scale=1 / math.sqrt(tensors["query"][1][3]), poison=poison, blocks=blocks)
        for name, (address, sizes, strides) in tensors.items():
            entry = described.tensors[TENSORS.index(name)]
            entry.data = address
            entry.sizes[:len(sizes)] = sizes
            entry.strides[:len(strides)] = strides
        *query, key = label.split("+")
        return Plan(self.library, self.library.attention_plan(
            self.open(key), self.open(query[0]) if query else None, ctypes.byref(described)))


class Plan:
    def __init__(self, library, handle):
        self.library, self.handle = library, ctypes.c_void_p(handle)

    def __del__(self):
        self.library.attention_close(self.handle)

    def run(self, which=-1, stream=0):
        self.library.attention_run(self.handle, which, ctypes.c_void_p(stream))

    def count(self):
        return self.library.attention_count(self.handle)
