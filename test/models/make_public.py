"""Exports public models of many families at a size of kilobytes, and records what PyTorch gets when it trains them for three steps.

    python make_public.py [OUT_DIR]        (torch, transformers, timm, safetensors; a minute on two cores)

public/NAME.pt2, public/NAME.batches.safetensors (step{i}.{input}, labels y) and public/expected.json: per model the flags of lockstep-compile
beside the common recipe (AdamW, learning rate 1e-3, decay 0.1), losses and gradient norms. Random weights; nothing is downloaded.
"""
import json, os, sys, warnings
import torch, torch.nn as nn, torch.nn.functional as F
from safetensors.torch import save_file

warnings.filterwarnings("ignore")
VOCABULARY, LENGTH, BATCH, STEPS = 96, 12, 4, 3
DECODER = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=32)
SEQ2SEQ = dict(vocab_size=VOCABULARY, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48)


class Logits(nn.Module):
    """A Hugging Face model that takes tokens, and returns only its logits."""
    def __init__(self, model, **more): super().__init__(); self.m, self.more = model, more
    def forward(self, input_ids): return self.m(input_ids=input_ids, **self.more).logits


class Seq2Seq(nn.Module):
    def __init__(self, model): super().__init__(); self.m = model
    def forward(self, input_ids, decoder_input_ids): return self.m(input_ids=input_ids, decoder_input_ids=decoder_input_ids, use_cache=False).logits


class Speech(nn.Module):
    def __init__(self, model): super().__init__(); self.m = model
    def forward(self, x): return self.m(input_values=x).logits


class Listener(nn.Module):
    def __init__(self, model): super().__init__(); self.m = model
    def forward(self, x, decoder_input_ids): return self.m(input_features=x, decoder_input_ids=decoder_input_ids, use_cache=False).logits


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__(); self.table, self.lstm, self.gru, self.head = nn.Embedding(VOCABULARY, 8), nn.LSTM(8, 8, 2, batch_first=True, bidirectional=True), nn.GRU(16, 8, batch_first=True), nn.Linear(8, VOCABULARY)
    def forward(self, input_ids): return self.head(self.gru(self.lstm(self.table(input_ids))[0])[0])


class UNet(nn.Module):
    """Group and instance norm, transposed convolution, bilinear upsampling, skips."""
    def __init__(self):
        super().__init__()
        def block(i, o): return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1), nn.InstanceNorm2d(o, affine=True), nn.LeakyReLU(0.1))
        self.a, self.b, self.c, self.d1, self.d2 = block(3, 4), block(4, 8), block(8, 16), block(16, 8), block(12, 4)
        self.up1, self.up2, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(4, 5, 1)
    def forward(self, x):
        a = self.a(x); b = self.b(F.max_pool2d(a, 2)); c = self.c(F.avg_pool2d(b, 2))
        d = self.d1(torch.cat([self.up1(c), b], 1)); return self.out(self.d2(torch.cat([self.up2(d), a], 1)))


class Recommender(nn.Module):
    """Embedding bags and pairwise products, as DLRM."""
    def __init__(self):
        super().__init__(); self.bags = nn.ModuleList([nn.EmbeddingBag(50, 8, mode=m) for m in ("sum", "mean")])
        self.bottom, self.top = nn.Sequential(nn.Linear(5, 8), nn.ReLU()), nn.Sequential(nn.Linear(11, 16), nn.ReLU(), nn.Linear(16, 2))
    def forward(self, x, ids):
        z = torch.stack([self.bottom(x)] + [bag(ids) for bag in self.bags], 1); i, j = torch.tril_indices(3, 3, -1)
        return self.top(torch.cat([z[:, 0], torch.bmm(z, z.transpose(1, 2))[:, i, j]], 1))


class Causal(nn.Module):
    """Dilated convolutions with weight norm."""
    def __init__(self):
        super().__init__(); self.table, self.head = nn.Embedding(VOCABULARY, 16), nn.Linear(16, VOCABULARY)
        self.layers = nn.ModuleList([nn.utils.parametrizations.weight_norm(nn.Conv1d(16, 16, 3, dilation=2 ** i)) for i in range(3)])
    def forward(self, input_ids):
        x = self.table(input_ids).transpose(1, 2)
        for i, layer in enumerate(self.layers): x = x + F.relu(layer(F.pad(x, (2 * 2 ** i, 0))))
        return self.head(x.transpose(1, 2))


class SpatialTransformer(nn.Module):
    """Images read at learned places, a running maximum, and a norm and a layer that are added up: their biases have one gradient."""
    def __init__(self):
        super().__init__(); self.place, self.conv, self.norm, self.b, self.head = nn.Linear(3 * 64, 6), nn.Conv2d(3, 4, 3), nn.LayerNorm(4), nn.Linear(4, 4), nn.Linear(4, 10)
    def forward(self, x):
        theta = self.place(x.flatten(1)).view(-1, 2, 3) * 0.3 + torch.tensor([[1.0, 0, 0], [0, 1, 0]])
        y = self.conv(F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), padding_mode="border", align_corners=False)).flatten(2)
        return self.head(self.norm(y.mean(2)) + self.b(y.cummax(2)[0].mean(2)))


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__(); self.e = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ELU(), nn.Conv2d(8, 16, 3, 2, 1), nn.Hardswish())
        self.d = nn.Sequential(nn.ConvTranspose2d(16, 8, 3, 2, 1, 1), nn.PReLU(8), nn.ConvTranspose2d(8, 3, 3, 2, 1, 1), nn.Sigmoid())
    def forward(self, x): return self.d(self.e(x))


def hugging_face(name, wrap=Logits, attention="sdpa", kwargs={}, **config):
    """NAME is that of the class; its configuration is found beside it."""
    import transformers
    cls = getattr(transformers, name); c = cls.config_class(**config); c._attn_implementation = attention
    return wrap(cls(c), **kwargs)


def timm_model(name, **kw):
    import timm
    return timm.create_model(name, num_classes=10, **kw)


def words(g): x = torch.randint(3, VOCABULARY, (BATCH, LENGTH + 1), generator=g); return {"input_ids": x[:, :-1].contiguous(), "y": x[:, 1:].contiguous()}
def sentences(g): return {"input_ids": torch.randint(3, VOCABULARY, (BATCH, LENGTH), generator=g), "y": torch.randint(0, 4, (BATCH,), generator=g)}
def pairs(g): return {"input_ids": torch.randint(3, VOCABULARY, (BATCH, LENGTH), generator=g), "decoder_input_ids": torch.randint(3, VOCABULARY, (BATCH, 7), generator=g), "y": torch.randint(3, VOCABULARY, (BATCH, 7), generator=g)}
def images(size): return lambda g: {"x": torch.randint(-4, 5, (BATCH, 3, size, size), generator=g) / 2, "y": torch.randint(0, 10, (BATCH,), generator=g)}


NO_CACHE = dict(use_cache=False)
MODELS = {
    "gemma3": (lambda: hugging_face("Gemma3ForCausalLM", kwargs=NO_CACHE, **DECODER, num_key_value_heads=2, head_dim=8, sliding_window=8), words),
    "gpt_neo": (lambda: hugging_face("GPTNeoForCausalLM", attention="eager", kwargs=NO_CACHE, vocab_size=VOCABULARY, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
                                     max_position_embeddings=32, window_size=8, resid_dropout=0., embed_dropout=0., attention_dropout=0.), words),
    "mpt": (lambda: hugging_face("MptForCausalLM", attention="eager", kwargs=NO_CACHE, vocab_size=VOCABULARY, d_model=32, n_layers=2, n_heads=4, max_seq_len=32, resid_pdrop=0., emb_pdrop=0.), words),
    "mamba": (lambda: hugging_face("MambaForCausalLM", attention="eager", kwargs=NO_CACHE, vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, state_size=4), words),
    "mamba2": (lambda: hugging_face("Mamba2ForCausalLM", attention="eager", kwargs=NO_CACHE, vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, state_size=8, num_heads=4, head_dim=8, n_groups=1,
                                    expand=2, chunk_size=4), words),
    "mixtral": (lambda: hugging_face("MixtralForCausalLM", kwargs=NO_CACHE, **DECODER, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2), words),
    "deepseek_v2": (lambda: hugging_face("DeepseekV2ForCausalLM", kwargs=NO_CACHE, **DECODER, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8,
                                         n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1, moe_intermediate_size=16, topk_method="greedy"), words),
    "deberta": (lambda: hugging_face("DebertaV2ForSequenceClassification", attention="eager", **DECODER, hidden_dropout_prob=0., attention_probs_dropout_prob=0., num_labels=4, relative_attention=True,
                                     pos_att_type=["p2c", "c2p"], position_buckets=8, pooler_dropout=0., pooler_hidden_size=32), sentences),
    "xlnet": (lambda: hugging_face("XLNetForSequenceClassification", attention="eager", kwargs=dict(use_mems=False), vocab_size=VOCABULARY, d_model=32, n_layer=1, n_head=4, d_inner=48, dropout=0.,
                                   summary_last_dropout=0., num_labels=4), sentences),
    "t5": (lambda: hugging_face("T5ForConditionalGeneration", wrap=Seq2Seq, attention="eager", vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, dropout_rate=0.,
                                relative_attention_num_buckets=8), pairs),
    "bart": (lambda: hugging_face("BartForConditionalGeneration", wrap=Seq2Seq, **SEQ2SEQ, max_position_embeddings=32, dropout=0.), pairs),
    "whisper": (lambda: hugging_face("WhisperForConditionalGeneration", wrap=Listener, **SEQ2SEQ, num_mel_bins=8, max_source_positions=10, max_target_positions=16, dropout=0., pad_token_id=0, bos_token_id=1,
                                     eos_token_id=2, decoder_start_token_id=1, begin_suppress_tokens=[1, 2]),
                lambda g: {"x": torch.randn(BATCH, 8, 20, generator=g), "decoder_input_ids": torch.randint(0, VOCABULARY, (BATCH, 8), generator=g), "y": torch.randint(0, VOCABULARY, (BATCH, 8), generator=g)}),
    "wav2vec2": (lambda: hugging_face("Wav2Vec2ForSequenceClassification", wrap=Speech, vocab_size=20, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16, 16),
                                      conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, hidden_dropout=0., attention_dropout=0.,
                                      activation_dropout=0., feat_proj_dropout=0., final_dropout=0., layerdrop=0., apply_spec_augment=False, num_labels=4, classifier_proj_size=16),
                 lambda g: {"x": torch.randn(BATCH, 600, generator=g), "y": torch.randint(0, 4, (BATCH,), generator=g)}),
    "swin": (lambda: timm_model("swin_tiny_patch4_window7_224", img_size=56, embed_dim=12, depths=(2, 1), num_heads=(1, 2), drop_path_rate=0.), images(56)),
    "convnext": (lambda: timm_model("convnext_atto", dims=(8, 12, 16, 20), depths=(1, 1, 1, 1), drop_path_rate=0.), images(32)),
    "unet": (UNet, lambda g: {"x": torch.randn(BATCH, 3, 16, 16, generator=g), "y": torch.randint(0, 5, (BATCH, 16, 16), generator=g)}, "--class-dim", "1"),
    "recurrent": (Recurrent, words),
    "recommender": (Recommender, lambda g: {"x": torch.randn(BATCH, 5, generator=g), "ids": torch.randint(0, 50, (BATCH, 6), generator=g), "y": torch.randint(0, 2, (BATCH,), generator=g)}),
    "causal_convolutions": (Causal, words),
    "spatial_transformer": (SpatialTransformer, images(8)),
    "autoencoder": (AutoEncoder, lambda g: {"x": torch.randn(BATCH, 3, 16, 16, generator=g), "y": torch.rand(BATCH, 3, 16, 16, generator=g)}, "--loss", "mse"),
}


def loss_of(output, y, flags):
    if "mse" in flags: return F.mse_loss(output, y)
    return F.cross_entropy(output, y) if "--class-dim" in flags else F.cross_entropy(output.flatten(0, -2), y.flatten())


def main():
    out = os.path.join(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)), "public")
    os.makedirs(out, exist_ok=True)
    expected = {}
    for name, (build, batch, *flags) in MODELS.items():
        torch.manual_seed(0); model = build().float().train(); g = torch.Generator().manual_seed(1)
        batches = [batch(g) for _ in range(STEPS)]
        inputs = [k for k in batches[0] if k != "y"]
        torch.export.save(torch.export.export(model, (), {k: batches[0][k] for k in inputs}), f"{out}/{name}.pt2")
        save_file({f"step{i}.{k}": v for i, b in enumerate(batches) for k, v in b.items()}, f"{out}/{name}.batches.safetensors")
        record = expected[name] = dict(flags=flags, losses=[], grad_norms=[])
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
        for b in batches:
            optimizer.zero_grad(); loss = loss_of(model(**{k: b[k] for k in inputs}), b["y"], flags); loss.backward()
            record["losses"].append(loss.item()); record["grad_norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item()); optimizer.step()
        print(name, record["losses"], flush=True)
    with open(f"{out}/expected.json", "w") as f: f.write(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
