"""Exports the two small graphs of test/system/recipes.py and records what PyTorch gets when it trains them by many recipes, and the graph with
dropout of test/system/dropout.py.

    python make_recipes.py [OUT_DIR]        (torch, safetensors; seconds)

recipes/NAME.pt2, recipes/NAME.batches.safetensors (step{i}.{input}, training), recipes/NAME.val.safetensors (samples first) and
recipes/expected.json: per recipe the graph, the flags of lockstep-compile, the layouts [ranks, accumulation steps] that must agree, and
losses, gradient norms before clipping, rates per step, and the evaluation's loss after every second step.
"""
import copy, json, os, sys
import torch, torch.nn as nn, torch.nn.functional as F
from safetensors.torch import save_file

STEPS = 6


class Tokens(nn.Module):
    def __init__(self):
        super().__init__(); self.table, self.norm, self.hidden, self.head = nn.Embedding(20, 8), nn.LayerNorm(8), nn.Linear(8, 12), nn.Linear(12, 5)
    def forward(self, ids): return self.head(F.gelu(self.hidden(self.norm(self.table(ids)))))


class Image(nn.Module):
    """Classes in dimension 1, batch norm."""
    def __init__(self):
        super().__init__(); self.first, self.norm, self.last = nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.Conv2d(6, 5, 1)
    def forward(self, x): return self.last(F.relu(self.norm(self.first(x))))


class Dropout(nn.Module):
    """On embeddings, on attention's probabilities and behind a layer."""
    def __init__(self, p=0.3, d=16):
        super().__init__(); self.p, self.drop = p, nn.Dropout(p)
        self.table, self.qkv, self.out, self.head = nn.Embedding(32, d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 32)
    def forward(self, ids):
        x = self.drop(self.table(ids)); b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, 2, d // 2).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0., is_causal=True)
        return self.head(x + self.drop(self.out(y.transpose(1, 2).reshape(b, t, d))))


def generator(seed): return torch.Generator().manual_seed(seed)


def tokens_batch(g):
    y = torch.randint(0, 5, (8, 6), generator=g)
    # What is ignored lies unevenly over samples: over ranks and accumulation steps.
    hide = torch.rand(8, 6, generator=g) < torch.tensor([0., .1, .9, .8, .2, .0, .5, .95])[:, None]
    return {"ids": torch.randint(0, 20, (8, 6), generator=g), "y": torch.where(hide, -100, y)}


def hidden_class_batch(g):
    b = tokens_batch(g); return {**b, "y": torch.where(b["y"] < 0, 3, b["y"])}


def image_batch(g):
    y = torch.randint(0, 5, (8, 4, 4), generator=g)
    return {"x": torch.randn(8, 3, 4, 4, generator=g) * torch.arange(1, 9).reshape(8, 1, 1, 1) / 4, "y": torch.where(torch.rand(8, 4, 4, generator=g) < 0.3, 255, y)}


def dropout_batch(g):
    x = torch.randint(0, 32, (8, 9), generator=g); return {"ids": x[:, :-1].contiguous(), "y": x[:, 1:].contiguous()}


GRAPHS = {"tokens": (Tokens, "ids", tokens_batch), "hidden_class": (Tokens, "ids", hidden_class_batch), "image": (Image, "x", image_batch), "dropout": (Dropout, "ids", dropout_batch)}
ALL = [[1, 1], [2, 1], [1, 2], [2, 2]]
# name: graph, optimizer, keywords of the recipe
RECIPES = {
    "plain": ("tokens", "sgd", dict(lr=0.5)),
    "smoothed": ("tokens", "sgd", dict(lr=0.5, label_smoothing=0.2)),
    "ignored": ("hidden_class", "sgd", dict(lr=0.5, ignore_index=3)),
    "momentum": ("tokens", "sgd", dict(lr=0.2, momentum=0.9, weight_decay=0.05)),
    "nesterov": ("tokens", "sgd", dict(lr=0.2, momentum=0.8, nesterov=True)),
    "adam": ("tokens", "adam", dict(lr=0.02, weight_decay=0.1)),
    "adamw": ("tokens", "adamw", dict(lr=0.02, weight_decay=0.3, betas=(0.8, 0.95), eps=1e-6)),
    "no_decay_patterns": ("tokens", "adamw", dict(lr=0.05, weight_decay=0.5, exclude=["*.bias", "norm.*", "table.weight"])),
    "no_decay_rank": ("tokens", "adamw", dict(lr=0.05, weight_decay=0.5, exclude=["ndim<2"])),
    "clipped": ("tokens", "adamw", dict(lr=0.02, grad_clip=0.05)),
    "linear": ("tokens", "sgd", dict(lr=0.5, schedule=("linear", 2, 5, 0.01))),
    "cosine_past_the_end": ("tokens", "sgd", dict(lr=0.5, schedule=("cosine", 1, 4, 0.05))),
    "class_dim": ("image", "sgd", dict(lr=0.1, momentum=0.9, ignore_index=255, label_smoothing=0.1, class_dim=1)),
    "local_statistics": ("image", "sgd", dict(lr=0.1, ignore_index=255, class_dim=1, parts=2)),
    "evaluated_without_dropout": ("dropout", "sgd", dict(lr=0., eval_only=True)),
}


def loss_of(logits, y, r):
    if r.get("class_dim", -1) == -1: logits, y = logits.flatten(0, -2), y.flatten()
    return F.cross_entropy(logits, y, ignore_index=r.get("ignore_index", -100), label_smoothing=r.get("label_smoothing", 0.))


def excluded(name, parameter, patterns):
    import fnmatch
    return any(parameter.dim() < int(p[5:]) if p.startswith("ndim<") else fnmatch.fnmatch(name, p) for p in patterns)


def optimizer_of(model, kind, r):
    decay = r.get("weight_decay", 0.01 if kind == "adamw" else 0.)
    groups = [dict(params=[p for n, p in model.named_parameters() if excluded(n, p, r.get("exclude", [])) == out], weight_decay=0. if out else decay) for out in (False, True)]
    groups = [g for g in groups if g["params"]]
    if kind == "sgd": return torch.optim.SGD(groups, lr=r["lr"], momentum=r.get("momentum", 0.), nesterov=r.get("nesterov", False))
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](groups, lr=r["lr"], betas=r.get("betas", (0.9, 0.999)), eps=r.get("eps", 1e-8))


def rate(step, r):
    if "schedule" not in r: return r["lr"]
    import math
    kind, warmup, total, low = r["schedule"]
    if step < warmup: return r["lr"] * (step + 1) / warmup
    x = min(1., (step - warmup) / (total - warmup))
    return low + (r["lr"] - low) * ((1 + math.cos(math.pi * x)) / 2 if kind == "cosine" else 1 - x)


def forward(model, x, parts):
    """With parts, each has batch statistics of its own, and the running ones are their means."""
    if parts == 1: return model(x)
    copies = [copy.deepcopy(model) for _ in range(parts)]
    out = torch.cat([torch.func.functional_call(c, {**dict(model.named_parameters()), **dict(c.named_buffers())}, (piece,)) for c, piece in zip(copies, x.chunk(parts))])
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            pieces = torch.stack([dict(c.named_buffers())[name] for c in copies])
            buffer.copy_(pieces.float().mean(0) if buffer.is_floating_point() else pieces[0])
    return out


def flags_of(kind, r):
    f = ["--labels", "y", "--optimizer", kind, "--lr", str(r["lr"])]
    for key, flag in (("weight_decay", "--weight-decay"), ("momentum", "--momentum"), ("eps", "--eps"), ("grad_clip", "--grad-clip"), ("ignore_index", "--ignore-index"),
                      ("label_smoothing", "--label-smoothing"), ("class_dim", "--class-dim")):
        if key in r: f += [flag, str(r[key])]
    if r.get("nesterov"): f += ["--nesterov"]
    if "betas" in r: f += ["--betas", ",".join(map(str, r["betas"]))]
    for pattern in r.get("exclude", []): f += ["--weight-decay-exclude", pattern]
    if "schedule" in r: f += ["--lr-schedule", r["schedule"][0], "--warmup-steps", str(r["schedule"][1]), "--total-steps", str(r["schedule"][2]), "--min-lr", str(r["schedule"][3])]
    if r.get("parts", 1) > 1: f += ["--batch-norm", "local"]
    return f


def main():
    out = os.path.join(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)), "recipes")
    os.makedirs(out, exist_ok=True)
    graphs, expected = {}, {}
    for name, (build, given, batch) in GRAPHS.items():
        torch.manual_seed(3); model = build().train(); g = generator(4)
        batches, val = [batch(g) for _ in range(STEPS)], [batch(g) for _ in range(2)]
        graphs[name] = (model, given, batches, val)
        torch.export.save(torch.export.export(model, (batches[0][given],)), f"{out}/{name}.pt2")
        save_file({f"step{i}.{k}": v for i, b in enumerate(batches) for k, v in b.items()}, f"{out}/{name}.batches.safetensors")
        save_file({k: torch.cat([b[k] for b in val]) for k in val[0]}, f"{out}/{name}.val.safetensors")
    for name, (graph, kind, r) in RECIPES.items():
        model, given, batches, val = graphs[graph]
        model = copy.deepcopy(model); optimizer = optimizer_of(model, kind, r); parts = r.get("parts", 1)
        layouts = [[2, 1]] if parts > 1 else [[1, 1], [2, 1]] if graph == "image" else ALL
        record = dict(graph=graph, flags=flags_of(kind, r), layouts=layouts, losses=[], grad_norms=[], rates=[], evaluations={})
        for step, b in enumerate(batches):
            for group in optimizer.param_groups: group["lr"] = rate(step, r)
            optimizer.zero_grad(); loss = loss_of(forward(model, b[given], parts), b["y"], r); loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), r.get("grad_clip", float("inf"))); optimizer.step()
            if not r.get("eval_only"): record["losses"].append(loss.item()); record["grad_norms"].append(norm.item()); record["rates"].append(rate(step, r))
            if step % 2:
                model.eval()
                with torch.no_grad(): record["evaluations"][step] = sum(loss_of(model(v[given]), v["y"], r).item() for v in val) / len(val)
                model.train()
        expected[name] = record
    with open(f"{out}/expected.json", "w") as f: f.write(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
