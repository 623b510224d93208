"""PyTorch's training step on one GPU, to compare ours with in the same run.

    python torch_gpu.py gpt2|llama|bert [compile|eager|fsdp] [STEPS]
    python torch_gpu.py gpt2|llama|bert MODE serve      waits on standard input for lines with a number of steps, answers each when they are done

The models of models/full/{gpt2_124m,llama_1.1b,bert_base}.pt2 in bf16 with f32 parameters, cross-entropy and fused AdamW. compile and eager: autocast;
fsdp: FSDP2's bf16 policy on one rank, every block compiled. Each answer is a JSON line: steps in ms, first step (with compilation) in s, loss, and in
bytes the allocator's peak, what it reserved and what is in use on the card. A server gives free memory back between answers.
"""
import json, socket, statistics, sys, time

STARTED = time.time()
import torch, torch.nn.functional as F

name, mode, count = sys.argv[1], (sys.argv[2:] or ["compile"])[0], (sys.argv[3:] or ["20"])[0]
torch.manual_seed(0); torch.set_float32_matmul_precision("high")
SHAPES = {"gpt2": (32, 1024, 50304), "llama": (8, 2048, 32000), "bert": (64, 512, 30522)}
batch, length, vocabulary = SHAPES[name]


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    m = GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="sdpa", use_cache=False))
    return m, m.transformer.h


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    m = LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                                     num_key_value_heads=4, max_position_embeddings=2048, attn_implementation="sdpa", use_cache=False))
    return m, m.model.layers


def bert():
    from transformers import BertConfig, BertForMaskedLM
    m = BertForMaskedLM(BertConfig(vocab_size=vocabulary, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="sdpa"))
    return m, m.bert.encoder.layer


class Loss(torch.nn.Module):
    """The loss as a part of the model, so that a compiler may fuse it with the last product."""
    def __init__(self, m): super().__init__(); self.m = m
    def forward(self, ids, labels): return F.cross_entropy(self.m(input_ids=ids).logits.flatten(0, -2).float(), labels.flatten())


def shard(model, blocks):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    with socket.socket() as s: s.bind(("127.0.0.1", 0)); port = s.getsockname()[1]
    torch.distributed.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1, device_id=torch.device("cuda", 0))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in blocks: block.compile(); fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)


with torch.device("cuda"):
    inner, blocks = {"gpt2": gpt2, "llama": llama, "bert": bert}[name]()
    ids, labels = (torch.randint(0, vocabulary, (batch, length)) for _ in range(2))
model = Loss(inner).train()
if mode == "fsdp": shard(model, blocks)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def forward():
    with torch.autocast("cuda", torch.bfloat16, enabled=mode != "fsdp"): return model(ids, labels)
compiled = torch.compile(forward) if mode == "compile" else forward


def step():
    loss = compiled(); loss.backward(); optimizer.step(); optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def timed(steps):
    """Between events in the stream: what the GPU takes, and the host where it is the slower one."""
    times = []
    for _ in range(steps):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record(); loss = step(); end.record(); end.synchronize(); times.append(begin.elapsed_time(end))
    return times, float(loss)


loss0 = float(step()); first = time.time() - STARTED
torch.cuda.reset_peak_memory_stats()


def answer(steps):
    times, loss = timed(steps)
    free, total = torch.cuda.mem_get_info()
    if count == "serve": torch.cuda.empty_cache()
    print(json.dumps(dict(model=name, mode=mode, median_ms=round(statistics.median(times), 2), all_ms=[round(t, 3) for t in times], first_step_s=round(first, 1),
                          first_loss=round(loss0, 4), loss=round(loss, 4), peak_bytes=torch.cuda.max_memory_allocated(), reserved_bytes=torch.cuda.max_memory_reserved(),
                          card_bytes=total - free, torch=torch.__version__)), flush=True)


if count == "serve":
    for line in sys.stdin: answer(int(line))
else:
    timed(5); answer(int(count))
if mode == "fsdp": torch.distributed.destroy_process_group()
