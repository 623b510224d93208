"""JAX's training step of GPT-2 124M on one GPU, with cuDNN's attention, to compare ours with in the same run.

    python jax_gpu.py gpt2 [cudnn|xla] [STEPS|serve]        as torch_gpu.py, whose answers this one gives too

One jitted program with donated state: bf16 compute from f32 parameters, f32 norms and loss, AdamW by optax. The weights' shapes are those of
models/full/gpt2_124m.pt2.
"""
import json, os, statistics, sys, time

STARTED = time.time()
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax, jax.numpy as jnp, optax
from functools import partial

name, attention, count = sys.argv[1], (sys.argv[2:] or ["cudnn"])[0], (sys.argv[3:] or ["20"])[0]
if name != "gpt2": sys.exit("error: only gpt2 is written for JAX")
BATCH, LENGTH, VOCABULARY, LAYERS, HEADS, WIDTH = 32, 1024, 50304, 12, 12, 768


def make_parameters(key):
    keys = iter(jax.random.split(key, 4 * LAYERS + 2))
    normal = lambda *shape: 0.02 * jax.random.normal(next(keys), shape, jnp.float32)
    linear = lambda i, o: (normal(i, o), jnp.zeros(o))
    norm = lambda: (jnp.ones(WIDTH), jnp.zeros(WIDTH))
    layer = lambda: dict(norm1=norm(), qkv=linear(WIDTH, 3 * WIDTH), out=linear(WIDTH, WIDTH), norm2=norm(), up=linear(WIDTH, 4 * WIDTH), down=linear(4 * WIDTH, WIDTH))
    return dict(tokens=normal(VOCABULARY, WIDTH), positions=normal(LENGTH, WIDTH), layers=[layer() for _ in range(LAYERS)], norm=norm())


narrow = lambda x: x.astype(jnp.bfloat16)


def apply_linear(x, parameters): return x @ narrow(parameters[0]) + narrow(parameters[1])


def apply_norm(x, parameters):
    x = x.astype(jnp.float32)
    x = x - x.mean(-1, keepdims=True)
    return narrow(x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * parameters[0] + parameters[1])


def apply_layer(x, layer):
    qkv = apply_linear(apply_norm(x, layer["norm1"]), layer["qkv"]).reshape(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
    mixed = jax.nn.dot_product_attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], is_causal=True, implementation=attention)
    x = x + apply_linear(mixed.reshape(BATCH, LENGTH, WIDTH), layer["out"])
    return x + apply_linear(jax.nn.gelu(apply_linear(apply_norm(x, layer["norm2"]), layer["up"])), layer["down"])


def get_loss(parameters, ids, labels):
    x = narrow(parameters["tokens"])[ids] + narrow(parameters["positions"])
    for layer in parameters["layers"]: x = apply_layer(x, layer)
    logits = apply_norm(x, parameters["norm"]) @ narrow(parameters["tokens"]).T
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), labels).mean()


optimizer = optax.adamw(1e-4, weight_decay=0.01)


@partial(jax.jit, donate_argnums=0)
def step(state, ids, labels):
    parameters, moments = state
    loss, gradients = jax.value_and_grad(get_loss)(parameters, ids, labels)
    updates, moments = optimizer.update(gradients, moments, parameters)
    return (optax.apply_updates(parameters, updates), moments), loss


parameters = jax.jit(make_parameters)(jax.random.PRNGKey(0)); state = (parameters, optimizer.init(parameters)); del parameters
ids, labels = (jax.random.randint(jax.random.PRNGKey(i), (BATCH, LENGTH), 0, VOCABULARY) for i in (1, 2))
state, loss = step(state, ids, labels); loss0 = float(loss); first = time.time() - STARTED


def timed(steps):
    global state
    times = []
    for _ in range(steps):
        begin = time.perf_counter(); state, loss = step(state, ids, labels); loss.block_until_ready(); times.append(1e3 * (time.perf_counter() - begin))
    return times, float(loss)


def answer(steps):
    times, loss = timed(steps); memory = jax.devices()[0].memory_stats()
    print(json.dumps(dict(model=name, mode="jax-" + attention, median_ms=round(statistics.median(times), 2), all_ms=[round(t, 3) for t in times], first_step_s=round(first, 1),
                          first_loss=round(loss0, 4), loss=round(loss, 4), peak_bytes=memory["peak_bytes_in_use"], reserved_bytes=memory.get("pool_bytes", 0), jax=jax.__version__)), flush=True)


if count == "serve":
    for line in sys.stdin: answer(int(line))
else:
    timed(5); answer(int(count))
