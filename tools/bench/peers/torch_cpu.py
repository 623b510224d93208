"""PyTorch's CPU training step, to compare ours with in the same run.

    OMP_NUM_THREADS=2 python torch_cpu.py gpt2_cpu|resnet18_cpu [eager|compile] [STEPS]
    OMP_NUM_THREADS=1 torchrun --nproc_per_node 2 torch_cpu.py gpt2_cpu eager     the global batch divided over Gloo ranks (DDP)

float32, AdamW (gpt2) or SGD with momentum (resnet18); the models of models/full/{gpt2_cpu,resnet18_cpu}.pt2. Prints one JSON line:
median and minimum step in ms, first step (with compilation) in s, peak resident memory in MiB.
"""
import json, os, resource, statistics, sys, time
import torch, torch.nn.functional as F



class Logits(torch.nn.Module):
    """A Hugging Face model that returns only its logits."""
    def __init__(self, m): super().__init__(); self.m = m
    def forward(self, input_ids): return self.m(input_ids=input_ids, use_cache=False).logits


def gpt2(**kw):
    from transformers import GPT2Config, GPT2LMHeadModel
    return Logits(GPT2LMHeadModel(GPT2Config(resid_pdrop=0., embd_pdrop=0., attn_pdrop=0., attn_implementation="sdpa", bos_token_id=0, eos_token_id=0, **kw)))


def timm_model(name, **kw):
    import timm
    return timm.create_model(name, **kw)


name, mode, steps = sys.argv[1], (sys.argv[2:] or ["compile"])[0], int((sys.argv[3:] or [30])[0])
torch.manual_seed(0); torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 2)))
if name == "gpt2_cpu":
    m = gpt2(n_layer=4, vocab_size=8192, n_positions=128, n_embd=256, n_head=4); x = torch.randint(0, 8192, (8, 128)); y = torch.randint(0, 8192, (8, 128))
    opt = torch.optim.AdamW(m.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
else:
    m = timm_model("resnet18", num_classes=100); x = torch.randn(16, 3, 64, 64); y = torch.randint(0, 100, (16,))
    opt = torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9)
ranks = int(os.environ.get("WORLD_SIZE", 1)); rank = int(os.environ.get("RANK", 0)); wrapped = m
if ranks > 1:
    torch.distributed.init_process_group("gloo"); wrapped = torch.nn.parallel.DistributedDataParallel(m); n = len(x) // ranks; x, y = x[rank * n:][:n], y[rank * n:][:n]
m.train()


def loss_of(x, y): return F.cross_entropy(wrapped(x).flatten(0, -2), y.flatten())
if mode == "compile": loss_of = torch.compile(loss_of)


def step():
    loss = loss_of(x, y); opt.zero_grad(set_to_none=True); loss.backward()
    if name == "gpt2_cpu": torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step(); return float(loss.detach())


t = time.time(); step(); first = time.time() - t
for _ in range(5): step()
ts = []
for _ in range(steps): t = time.time(); loss = step(); ts.append(1e3 * (time.time() - t))
if rank == 0: print(json.dumps(dict(model=name, mode=mode, ranks=ranks, threads=torch.get_num_threads(), median_ms=round(statistics.median(ts), 2), min_ms=round(min(ts), 2), all_ms=[round(t, 2) for t in ts],
                      first_step_s=round(first, 2), loss=round(loss, 4), peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, torch=torch.__version__)))
