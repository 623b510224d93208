"""Exports one small graph per operator and records what PyTorch computes: values, and gradients of <cotangents, outputs>.

    python make_op_cases.py OUT_DIR [NAME ...]

Writes NAME.pt2 and NAME.safetensors (in.xI, out.I, cot.I, grad.xI) per case; operators.tar.xz is OUT_DIR, packed with
    tar -C OUT_DIR --sort=name --mtime=@0 -cJf operators.tar.xz .
"""
import os, sys, warnings
import torch, torch.nn as nn, torch.nn.functional as F
from safetensors.torch import save_file

warnings.filterwarnings("ignore")
CASES, DECOMPOSED = {}, set()
torch.manual_seed(0)
R = lambda *s: torch.randn(*s)
U = lambda *s: torch.rand(*s) * 0.8 + 0.1
I = lambda n, *s: torch.randint(0, n, s)


def case(name, fn, *inputs, decompose=False):
    assert name not in CASES, name
    CASES[name] = (fn, inputs)
    if decompose: DECOMPOSED.add(name)


def module_case(name, module, *inputs):
    """Parameters become inputs, so that their gradients are compared too."""
    names = [n for n, _ in module.named_parameters()]
    params = [p.detach() for _, p in module.named_parameters()]
    case(name, lambda *a: torch.func.functional_call(module, dict(zip(names, a[len(inputs):])), a[:len(inputs)]), *inputs, *params)


def pointwise():
    unary = dict(abs=R, neg=R, sign=R, square=R, exp=R, exp2=R, expm1=R, log=U, log2=U, log10=U, log1p=U, sqrt=U, rsqrt=U, sin=R, cos=R, tan=U, asin=U, acos=U,
                 atan=R, sinh=R, cosh=R, tanh=R, asinh=R, atanh=U, erf=R, erfc=R, reciprocal=U, sigmoid=R, floor=R, ceil=R, round=R, trunc=R, frac=R, logit=U, sinc=U,
                 deg2rad=R, rad2deg=R, isnan=R, isinf=R, isfinite=R, nan_to_num=R, logical_not=R)
    for name, make in unary.items():
        case("unary_" + name, lambda x, name=name: getattr(torch, name)(x), make(3, 5))
    case("acosh", lambda x: torch.acosh(x + 2), U(3, 5))
    for name in ["add", "sub", "mul", "div", "maximum", "minimum", "atan2", "hypot", "fmax", "fmin", "logaddexp", "remainder", "fmod", "copysign"]:
        case("binary_" + name, lambda x, y, name=name: getattr(torch, name)(x, y), R(3, 5), R(5) + 3)
    for name in ["eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "isclose"]:
        case("compare_" + name, lambda x, y, name=name: getattr(torch, name)(x, y), I(3, 4, 5).float(), I(3, 5).float())
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "remainder", "fmod", "floor_divide"]:
        case("int_" + name, lambda x, y, name=name: getattr(torch, name)(x, y), I(30, 4, 5) - 10, I(3, 5) + 1)
    case("bitwise_not", lambda x, m: (~x, ~m), I(9, 4), I(2, 4).bool())
    case("promote", lambda a, b, c, d: (a + b, b * 2, b / 2, c + 1.5, d + a, d * 2.0, b ** 2, c & True, b > 0.5, torch.true_divide(b, b + 1)), R(3), I(5, 3), I(2, 3).bool(), R(3).double())
    case("scalars", lambda x: (x + 1, 1 - x, 2 / x, x - 3, torch.rsub(x, 2, alpha=3), torch.add(x, x, alpha=2), torch.sub(x, x, alpha=0.5)), U(4))
    case("div_modes", lambda x, y: (torch.div(x, y, rounding_mode="trunc"), torch.div(x, y, rounding_mode="floor"), torch.div(I7, 2, rounding_mode="trunc")), R(6) * 5, U(6))
    case("pow", lambda x: (x ** 2, x ** 3, x ** 0.5, x ** -1, x ** 1.7, 2 ** x, x ** x, x ** 4, x ** 0, x ** -0.5), U(4))
    case("addc", lambda x, y, z: (torch.addcmul(x, y, z, value=2), torch.addcdiv(x, y, z, value=-1), torch.lerp(x, y, 0.3), torch.lerp(x, y, z)), R(4), R(4), U(4))
    case("clamp", lambda x, y: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.2), torch.clamp(x, min=y), torch.clip(x, -1, 1), x.clamp_min(0.1)), R(20), R(20))
    case("where", lambda c, x, y: (torch.where(c, x, y), torch.where(c, x, 1.0), torch.where(c, 0.0, y), x.masked_fill(c, -2.0), x.masked_fill(~c, torch.tensor(3.0))), I(2, 3, 4).bool(), R(3, 4), R(4))
    case("gamma", lambda x: (torch.lgamma(x), torch.digamma(x)), torch.tensor([0.01, 0.3, 0.7, 1.0, 1.5, 2.0, 3.3, 12.0, 90.0, -0.3, -1.7, -5.2]))
    case("xlogy", lambda x, y: torch.xlogy(x, y), U(4), U(4))
    case("special", lambda x: (torch.special.expit(x), torch.special.erf(x), torch.special.log1p(x.abs())), R(4))
    case("heaviside", lambda x, y: torch.heaviside(x.detach(), y.detach()), R(5), R(5))


I7 = torch.arange(-3, 4)


def activations():
    for name in ["relu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "silu", "mish", "gelu", "softplus", "logsigmoid", "elu", "selu", "celu", "leaky_relu",
                 "softshrink", "hardshrink", "tanhshrink", "softsign"]:
        case("act_" + name, lambda x, name=name: getattr(F, name)(x), R(4, 7) * 4)
    case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), R(4, 7))
    case("softplus_args", lambda x: F.softplus(x, beta=2, threshold=5), R(20) * 30)
    case("elu_args", lambda x: (F.elu(x, 0.7), F.celu(x, 1.3), F.leaky_relu(x, 0.3), F.hardtanh(x, -0.3, 0.8), F.threshold(x, 0.1, -5.0)), R(20))
    case("prelu", lambda x, w: F.prelu(x, w), R(2, 3, 4), U(3))
    case("glu", lambda x: (F.glu(x), F.glu(x, 0)), R(4, 6))
    case("softmax", lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(1), F.softmin(x, 1)), R(3, 5))
    case("dropout_off", lambda x: (F.dropout(x, 0.0), F.dropout(x, 0.3, training=False), F.dropout2d(x, 0.0)), R(2, 3, 4, 4))


def views():
    case("view", lambda x: (x.view(6, 4), x.view(-1), x.reshape(2, 3, 4), x.flatten(1), x.unflatten(2, (2, 2)), x.view(1, 2, 12)), R(2, 3, 4))
    case("permute", lambda x: (x.permute(2, 0, 1), x.transpose(0, -1), x.movedim(0, 2), x.mT, x.swapaxes(1, 2), torch.movedim(x, (0, 1), (2, 0))), R(2, 3, 4))
    case("t", lambda x: (x.t(), x.T), R(2, 3))
    case("squeeze", lambda x: (x.squeeze(), x.squeeze(0), x.squeeze((0, 2)), x.unsqueeze(1), x.unsqueeze(-1)), R(1, 3, 1, 2))
    case("expand", lambda x: (x.expand(2, 3, 4), x.expand(-1, 4), x.expand_as(torch.zeros(5, 3, 4)), torch.broadcast_to(x, (2, 3, 2))[..., :1]), R(3, 1))
    case("slice", lambda x: (x[1:], x[:, ::2], x[..., -2:], x[:, 1], x[-1], x.narrow(1, 1, 2), x.select(2, 3), x[:, 1:3, None]), R(3, 4, 5))
    case("split", lambda x: (*x.split(2, 1), *x.split([1, 3, 1], 1), *x.chunk(3, 1), *x.unbind(0), *torch.tensor_split(x, 2, 1)), R(2, 5))
    case("diagonal", lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1), x.diagonal(0, 1, 2), torch.diagonal(x, 1, 2, 0)), R(3, 4, 5))
    case("unfold", lambda x: (x.unfold(1, 3, 1), x.unfold(0, 2, 2)), R(4, 7))
    case("cat", lambda x, y: (torch.cat([x, y]), torch.cat([x, y], -1), torch.stack([x, y], 1), torch.hstack([x, y]), torch.vstack([x, y]), torch.dstack([x, y])), R(2, 3), R(2, 3))
    case("repeat", lambda x: (x.repeat(2, 3), x.repeat(2, 1, 2), x.tile(2), x.repeat_interleave(2), x.repeat_interleave(3, 1)), R(2, 3))
    case("roll", lambda x: (x.roll(1), x.roll(-2, 1), x.roll((1, 2), (0, 1)), x.flip(0), x.flip((0, 1)), x.rot90(), x.rot90(2), x.rot90(3), x.fliplr(), x.flipud()), R(3, 4))
    case("pad", lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=3.0), F.pad(x, (-1, 1))), R(2, 3, 4))
    case("pad_modes", lambda x: (F.pad(x, (1, 2, 2, 1), mode="reflect"), F.pad(x, (1, 2, 2, 1), mode="replicate"), F.pad(x, (1, 2, 2, 1), mode="circular")), R(1, 2, 4, 5))
    case("pad1d", lambda x: (F.pad(x, (1, 2), mode="reflect"), F.pad(x, (3, 2), mode="replicate")), R(1, 2, 5))
    case("tril", lambda x: (x.tril(), x.tril(1), x.tril(-1), x.triu(), x.triu(1)), R(2, 4, 5))
    case("pixel_shuffle", lambda x, y: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(y, 2), F.channel_shuffle(x, 4)), R(1, 8, 3, 2), R(1, 2, 4, 6))
    case("im2col", lambda x: F.unfold(x, 3, padding=1, stride=2), R(2, 3, 6, 7))
    case("col2im", lambda x: F.fold(x, (6, 7), 3, padding=1, stride=2), R(2, 27, 12))
    case("diag", lambda x, y: (torch.diag(x), torch.diag(x, 2), torch.diag(x, -1), torch.diag(y), torch.diag(y, 1), torch.diag(y, -2), torch.diag_embed(y), torch.diag_embed(y, 1, 0, 2), torch.diag_embed(y, -2, 1, 0), torch.diagflat(x)), R(4), R(3, 5))
    case("meshgrid", lambda x, y: (*torch.meshgrid(x, y, indexing="ij"), *torch.meshgrid(x, y, indexing="xy"), *torch.broadcast_tensors(x[:, None], y)), R(3), R(4))
    case("diff", lambda x: (x.diff(), x.diff(dim=0), torch.diff(x, n=2), torch.diff(x, prepend=x[:, :1])), R(3, 5))
    case("detach", lambda x: x * x.detach(), R(3))
    case("casts", lambda x, i: (x.double(), i.float() * x, x.to(torch.int64), x.bool(), i.to(torch.uint8), x.type_as(i), i.int()), R(4), I(5, 4))
    case("half", lambda x: (x.bfloat16() * 2, (x.half() + 1).float(), F.gelu(x.bfloat16()).float(), x.bfloat16().softmax(0)), R(8))


def creation():
    case("creation", lambda x: (torch.zeros(2, 3) + x, torch.ones(3) * x, torch.full((3,), 2.5) + x, torch.eye(3) + x, torch.arange(3) + x, torch.arange(1, 4) + x, torch.arange(0, 1.5, 0.5) + x,
                                torch.linspace(0, 1, 3) + x, torch.zeros_like(x), torch.full_like(x, 3), x.new_zeros(2), x.new_full((2,), 3), torch.arange(5, 2, -1), torch.empty(3).fill_(2.0) + x,
                                torch.tril_indices(3, 3), torch.scalar_tensor(2.0) * x), R(3))


def reductions():
    case("sum", lambda x: (x.sum(), x.sum(0), x.sum((0, 2), keepdim=True), x.mean(), x.mean(-1), x.nansum(), x.mean((1, 2))), R(2, 3, 4))
    case("sum_types", lambda b, i: (b.sum(), i.sum(0), i.float().mean(), b.sum(1), i.prod(1), i.cumsum(0)), I(2, 3, 4).bool(), I(5, 3, 4))
    case("amax", lambda x: (x.amax(), x.amax(1), x.amin((0, 1), keepdim=True), x.max(), x.min(), *x.max(1), *x.min(0, keepdim=True), *torch.aminmax(x, dim=0)), R(3, 4))
    case("arg", lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True), x.argsort(1), x.argsort(0, descending=True)), R(3, 4))
    case("var", lambda x: (x.var(), x.var(1), x.std(0), x.var(1, correction=0), *torch.var_mean(x, 1), *torch.std_mean(x, 0, correction=0), x.std((0, 1), keepdim=True)), R(3, 4))
    case("prod", lambda x: (x.prod(), x.prod(1), x.cumprod(1)), U(3, 4))
    case("is_all_true", lambda b: (torch.ops.aten._is_all_true(b), torch.ops.aten._is_any_true(b), torch.ops.aten._is_all_true(b | ~b)), I(2, 3, 4).bool())
    case("any_all", lambda b: (b.any(), b.any(1), b.all(0), b.all(), b.float().any(1), b.count_nonzero(), b.count_nonzero(1)), I(2, 3, 4).bool())
    case("norm", lambda x: (x.norm(), x.norm(dim=1), x.norm(1, dim=0), torch.linalg.vector_norm(x, 3, dim=1), x.norm(float("inf"), dim=1), F.normalize(x, dim=1), torch.linalg.norm(x)), R(3, 4))
    case("logsumexp", lambda x: (x.logsumexp(1), x.logsumexp((0, 1)), x.logsumexp(0, keepdim=True), x.logcumsumexp(1)), R(3, 4))
    case("cumsum", lambda x: (x.cumsum(0), x.cumsum(-1)), R(3, 4))
    case("topk", lambda x: (*x.topk(2), *x.topk(2, 0, largest=False), *x.sort(), *x.sort(0, descending=True), *x.kthvalue(2, 1), *x.median(1), x.median()), R(3, 5))
    case("running_extremes", lambda x, i: (*x.cummax(1), *x.cummin(0), *i.cummax(1), *i.cummin(-1), *torch.cat([x[:, :2], torch.full((3, 1), float("nan")), x[:, 2:]], 1).detach().cummax(1)), R(3, 4), I(3, 3, 5))
    case("search_sorted", lambda x, b, s, y: (torch.bucketize(x, b), torch.bucketize(x, b, right=True), torch.searchsorted(b, x, side="right"), torch.searchsorted(s, y), torch.searchsorted(s, y, right=True, out_int32=True), torch.bucketize(I7, torch.tensor([-1, 0, 2]))),
         torch.tensor([[0.5, -2.0, 1.0], [3.0, float("nan"), 2.0]]), torch.tensor([-1.0, 0.5, 1.0, 2.0]), torch.sort(R(2, 5), 1)[0], R(2, 3))
    case("trace", lambda x: x.trace(), R(3, 4))


def linear():
    case("matmul", lambda a, b, v, c, d: (a @ b, a @ v, v @ b, c @ b, c @ d, a @ d, v @ v), R(3, 4), R(4, 5)[:, :4].clone(), R(4), R(2, 3, 4), R(2, 4, 5))
    case("matmul_broadcast", lambda a, b: a @ b, R(2, 1, 3, 4), R(5, 4, 2))
    case("integer_products", lambda a, b, c: (a @ b, b.t() @ a[0], torch.einsum("bij,jk->bki", c, b), torch.bmm(c, c.transpose(1, 2)), a[0] @ a[0]), I(9, 3, 4), I(9, 4, 5), I(9, 2, 3, 4))
    case("mm", lambda a, b, c: (a.mm(b), torch.addmm(c, a, b, beta=0.5, alpha=2), torch.mv(a, b[:, 0]), torch.addmv(c[:, 0], a, b[:, 1]), torch.outer(c[0], c[1]), torch.inner(a, a)), R(3, 4), R(4, 5), R(3, 5))
    case("bmm", lambda a, b, c: (a.bmm(b), torch.baddbmm(c, a, b, beta=0.5, alpha=2), torch.baddbmm(c, a, b, beta=0)), R(2, 3, 4), R(2, 4, 5), R(2, 3, 5))
    case("linear", lambda x, w, b: (F.linear(x, w), F.linear(x, w, b), F.linear(x[0, 0], w, b)), R(2, 3, 4), R(5, 4), R(5))
    case("bilinear", lambda x, y, w, b: F.bilinear(x, y, w, b), R(6, 3), R(6, 4), R(5, 3, 4), R(5))
    case("einsum", lambda a, b, c: (torch.einsum("ij,jk->ik", a, b), torch.einsum("ij,jk", a, b), torch.einsum("bij,jk->bik", c, b), torch.einsum("ij->ji", a), torch.einsum("ii->i", c[0, :, :3]),
                                    torch.einsum("ij->", a), torch.einsum("i,j->ij", a[0], b[0]), torch.einsum("...ij,jk->...ik", c, b), torch.einsum("bij,bij->b", c, c), torch.einsum("ij,jk,kl->il", a, b, b.t())), R(3, 4), R(4, 5), R(2, 3, 4))
    case("tensordot", lambda a, b: (torch.tensordot(a, b, 2), torch.tensordot(a, b, ([1], [0])), torch.kron(a[:, :, 0], b[:, :, 0])), R(2, 3, 4), R(3, 4, 5))
    case("bilinear_decomposed", lambda x, y, w, b: F.bilinear(x, y, w, b), R(6, 3), R(6, 4), R(5, 3, 4), R(5), decompose=True)
    case("cdist", lambda a, b: (torch.cdist(a, b), torch.cross(a, a + b[:3], dim=1)), R(3, 3), R(5, 3))
    case("histc", lambda x, i: (torch.histc(x.detach(), 5, -1, 1), torch.histc(x.detach(), 4), torch.histc(i.float(), bins=3, min=0, max=2), torch.histc(torch.ones(3), 2)), R(20), I(4, 15))
    case("grouped_mm", lambda x, w: torch.nn.functional.grouped_mm(x, w, offs=torch.tensor([3, 3, 8], dtype=torch.int32)), R(8, 16), R(3, 16, 8))


def convolutions():
    case("conv1d", lambda x, w, b: (F.conv1d(x, w, b), F.conv1d(x, w, padding="same"), F.conv1d(x, w, stride=2, padding=1, dilation=2)), R(2, 3, 9), R(4, 3, 3), R(4))
    case("conv2d", lambda x, w, b: (F.conv2d(x, w, b), F.conv2d(x, w, stride=(2, 1), padding=(1, 2)), F.conv2d(x[0], w, b)), R(2, 4, 7, 6), R(6, 4, 3, 3), R(6))
    case("conv2d_groups", lambda x, w: F.conv2d(x, w, groups=2, padding=1), R(2, 4, 5, 5), R(6, 2, 3, 3))
    case("conv2d_depthwise", lambda x, w: F.conv2d(x, w, groups=4, padding=1, stride=2), R(2, 4, 6, 6), R(4, 1, 3, 3))
    case("conv3d", lambda x, w: F.conv3d(x, w, padding=1), R(1, 2, 4, 4, 4), R(3, 2, 3, 3, 3))
    case("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1), R(2, 3, 5), R(3, 4, 3), R(4))
    case("conv_transpose2d", lambda x, w, b: (F.conv_transpose2d(x, w, b, stride=2), F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)), R(2, 4, 3, 4), R(4, 3, 3, 3), R(3))
    case("conv_transpose2d_groups", lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2, dilation=2), R(2, 4, 3, 4), R(4, 3, 2, 2))
    case("max_pool", lambda x, y: (F.max_pool1d(y, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2, ceil_mode=True), F.max_pool2d(x, (2, 3), stride=(1, 2), dilation=2)), R(2, 3, 7, 8), R(2, 3, 7))
    case("avg_pool", lambda x, y: (F.avg_pool1d(y, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool2d(x, 2, ceil_mode=True), F.avg_pool2d(x, 2, divisor_override=3),
                                   F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)), R(2, 3, 7, 8), R(2, 3, 7))
    case("avg_pool3d", lambda x: (F.avg_pool3d(x, 2), F.max_pool3d(x, 2), F.adaptive_avg_pool3d(x, 2)), R(1, 2, 4, 4, 5))
    case("adaptive_pool", lambda x, y: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (7, 4)), F.adaptive_avg_pool2d(x, 3), F.adaptive_max_pool2d(x, 1), F.adaptive_max_pool2d(x, (3, 2)),
                                        F.adaptive_avg_pool1d(y, 3), F.adaptive_max_pool1d(y, 7)), R(2, 3, 7, 8), R(2, 3, 7))
    case("upsample", lambda x, y: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 7)), F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, size=(7, 5), mode="bilinear", align_corners=True),
                                   F.interpolate(x, size=(6, 9), mode="bicubic"), F.interpolate(y, scale_factor=2, mode="linear"), F.interpolate(y, scale_factor=3), F.interpolate(x, size=(5, 7), mode="nearest-exact"),
                                   F.interpolate(x, size=(2, 2), mode="area")), R(1, 2, 3, 4), R(1, 2, 5))
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            case(f"grid_sample_{mode}_{padding}", lambda x, g, m=mode, p=padding: tuple(F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=a) for a in (False, True)), R(2, 3, 4, 5), R(2, 3, 2, 2) * 1.2)
    case("grid_sample_3d", lambda x, g: tuple(F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=a) for m, p, a in (("bilinear", "zeros", False), ("bilinear", "reflection", True), ("nearest", "border", False))), R(2, 3, 3, 4, 5), R(2, 2, 3, 2, 3))
    case("grid_sample_decomposed", lambda x, g: F.grid_sample(x, g, align_corners=True), R(2, 3, 4, 5), R(2, 3, 2, 2), decompose=True)
    case("affine_grid", lambda m, n: (F.affine_grid(m, [2, 3, 4, 5], align_corners=False), F.affine_grid(m, [2, 3, 4, 1], align_corners=True), F.affine_grid(n, [2, 3, 2, 4, 5], align_corners=False)), R(2, 2, 3), R(2, 3, 4))


def norms():
    case("layer_norm", lambda x, w, b: (F.layer_norm(x, (4,), w, b), F.layer_norm(x, (3, 4)), F.layer_norm(x, (4,), w)), R(2, 3, 4), R(4), R(4))
    case("rms_norm", lambda x, w: (F.rms_norm(x, (4,), w), F.rms_norm(x, (4,), eps=1e-3)), R(2, 3, 4), R(4))
    case("rms_norm_spelled", lambda x, w: w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)), R(2, 3, 4), R(4))
    case("rms_norm_sqrt", lambda x, w: x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + w), R(2, 3, 4), R(4))

    def layer_norm(x, w, b):
        u = x.mean(-1, keepdim=True); d = x - u; return d / torch.sqrt(d.pow(2).mean(-1, keepdim=True) + 1e-5) * w + b
    case("layer_norm_spelled", layer_norm, R(2, 3, 4), R(4), R(4))

    def channels(x, w, b):
        u = x.mean(1, keepdim=True); s = (x - u).pow(2).mean(1, keepdim=True); return w[:, None, None] * ((x - u) / torch.sqrt(s + 1e-6)) + b[:, None, None]
    case("layer_norm_channels", channels, R(2, 5, 3, 3), R(5), R(5))
    case("group_norm", lambda x, w, b: (F.group_norm(x, 2, w, b), F.group_norm(x, 4), F.group_norm(x[:, :, 0, 0], 2, w, b)), R(2, 4, 3, 3), R(4), R(4))
    case("instance_norm", lambda x, w, b: (F.instance_norm(x, weight=w, bias=b), F.instance_norm(x)), R(2, 4, 3, 3), R(4), R(4))
    def tracked(x, m, v):
        m, v = m.detach().clone(), v.detach().clone(); return F.instance_norm(x, m, v, use_input_stats=True, momentum=0.3), m, v
    case("instance_norm_tracked", tracked, R(2, 4, 3, 3), R(4), U(4))
    case("batch_norm", lambda x, w, b, m, v: (F.batch_norm(x, None, None, w, b, training=True), F.batch_norm(x, m.detach(), v.detach(), w, b, training=False)), R(3, 4, 2, 2), R(4), R(4), R(4), U(4))
    case("local_response_norm", lambda x: F.local_response_norm(x, 3), R(2, 5, 3, 3))
    case("weight_norm", lambda v, g: torch._weight_norm(v, g, 0), R(4, 3, 2), R(4, 1, 1))


def indexing():
    case("index", lambda x, i, j: (x[i], x[:, i], x[i, j], x[:, i, j[:, None]], x[i[:, None], :, j], x[..., j], x[None, i]), R(4, 4, 4), I(4, 3), I(4, 3) - 2)
    case("index_mask", lambda x: (x[torch.tensor([True, False, True, False])], x[:, torch.arange(4) > 1]), R(4, 4))
    case("gather", lambda x, i: (x.gather(1, i), x.gather(0, i[:, :2] % 3), torch.take_along_dim(x, i[:, :1], 1), x.take(i), x.index_select(1, i[0])), R(3, 5), I(5, 3, 4))
    case("index_put", lambda x, i, v: (x.index_put((i,), v), x.index_put((i,), v, accumulate=True), x.index_put((i, i), torch.tensor(2.0)), torch.masked_fill(x, x > 0, 1.0)), R(5, 4), torch.tensor([2, 0, 3]), R(3, 4))
    case("index_add", lambda x, i, v: (x.index_add(0, i, v), x.index_add(0, i, v, alpha=2), x.index_copy(0, torch.tensor([0, 2, 4]), v), x.index_fill(0, i, 3.0)), R(5, 4), torch.tensor([2, 0, 2]), R(3, 4))
    case("scatter", lambda x, i, v: (x.scatter(0, i, v), x.scatter(0, i, 2.0), x.scatter_add(0, i, v), x.scatter_add(1, i % 3, v)), R(5, 4), torch.tensor([[0, 1, 2, 3], [4, 3, 0, 1]]), R(2, 4))
    case("scatter_reduce", lambda x, i, v: tuple(x.scatter_reduce(0, i, v, r, include_self=s) for r in ("sum", "mean", "amax", "amin") for s in (True, False)), R(5, 4), I(5, 6, 4), R(6, 4))
    case("slice_scatter", lambda x, v: (torch.slice_scatter(x, v, 1, 1, 3), torch.select_scatter(x, v[:, 0], 1, 2), torch.slice_scatter(x, v, 1, 0, 4, 2)), R(3, 4), R(3, 2))
    case("embedding", lambda w, i: (F.embedding(i, w), F.embedding(i, w, padding_idx=1), F.one_hot(i, 6)), R(6, 3), I(6, 2, 4))
    case("embedding_by_frequency", lambda w, i: F.embedding(i, w, scale_grad_by_freq=True), R(6, 3), I(6, 2, 4))
    for mode in ["sum", "mean", "max"]:
        case("embedding_bag_" + mode, lambda w, i, o, mode=mode: F.embedding_bag(i, w, o, mode=mode), R(6, 3), I(6, 9), torch.tensor([0, 2, 5]))
    case("embedding_bag_2d", lambda w, i: F.embedding_bag(i, w), R(6, 3), I(6, 4, 3))
    case("masked_put", lambda x, m: torch.ops.aten.index_put(x, [m], torch.tensor(2.0)), R(4, 3), I(2, 4).bool())
    case("positions", lambda w: F.embedding(torch.arange(4)[None], w), R(6, 3))
    case("last_token", lambda x, i: x[torch.arange(3), i], R(3, 5, 2), I(5, 3))
    def rotary(x, angle):
        f = torch.polar(torch.ones_like(angle), angle); z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)); return torch.view_as_real(z * f[None, :, None]).flatten(3)
    case("complex_rotary", rotary, R(2, 5, 3, 4), R(5, 2))
    case("complex_rotary_decomposed", rotary, R(2, 5, 3, 4), R(5, 2), decompose=True)

    def arithmetic(a, b, c):
        x, y = torch.complex(a, b), torch.view_as_complex(c); z = (x + y) * x.conj() - 2.0 * y / (x + 1.5) + a * y
        return z.real, z.imag, z.abs(), z.angle(), torch.exp(z).real, torch.view_as_real(torch.cat([z, -x], 0)[1:].t()), torch.view_as_real(z.sum(0)), (x / a).imag, z.abs()[:0]
    case("complex_arithmetic", arithmetic, R(3, 4), R(3, 4), R(3, 4, 2))
    case("complex_products", lambda a, b, c: (torch.view_as_real(torch.einsum("ij,jk->ik", torch.view_as_complex(a), torch.view_as_complex(b))), torch.view_as_real(torch.view_as_complex(a) @ torch.complex(c, c))), R(2, 3, 2), R(3, 4, 2), R(3, 5))


def attention():
    q, k, v = R(2, 4, 5, 8), R(2, 4, 6, 8), R(2, 4, 6, 8)
    case("sdpa", lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, scale=0.3)), q, k, v)
    case("sdpa_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), R(2, 4, 6, 8), k, v)
    case("sdpa_mask", lambda q, k, v, m, b: (F.scaled_dot_product_attention(q, k, v, attn_mask=m), F.scaled_dot_product_attention(q, k, v, attn_mask=b.detach())), q, k, v, (I(4, 2, 1, 1, 6) > 0) | (torch.arange(6) == 0), R(4, 5, 6))
    case("sdpa_bias_gradient", lambda q, k, v, b: F.scaled_dot_product_attention(q, k, v, attn_mask=b), q, k, v, R(1, 4, 5, 6))
    case("sdpa_gqa", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, is_causal=True), R(2, 4, 6, 8), R(2, 2, 6, 8), R(2, 2, 6, 8))
    case("sdpa_rank3", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), R(3, 5, 8), R(3, 5, 8), R(3, 5, 8))
    case("attention_spelled", lambda q, k, v: (q @ k.transpose(-1, -2) / 8 ** 0.5).softmax(-1) @ v, q, k, v)
    case("attention_causal", lambda q, k, v: (q @ k.transpose(-1, -2) * 0.3).masked_fill(torch.ones(9, 9).triu(1).bool(), float("-inf")).softmax(-1) @ v, R(2, 4, 9, 8), R(2, 4, 9, 8), R(2, 4, 9, 8))
    case("attention_window", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=(torch.arange(9)[:, None] >= torch.arange(9)) & (torch.arange(9)[:, None] - torch.arange(9) < 3)), R(2, 4, 9, 8), R(2, 4, 9, 8), R(2, 4, 9, 8))
    case("attention_finite_mask", lambda q, k, v, m: (q @ k.transpose(-1, -2) + (1.0 - m[:, None, None, :].float()) * torch.finfo(torch.float32).min).softmax(-1) @ v, q, k, v, torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]))
    case("attention_bmm", lambda q, k, v: torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v), R(6, 5, 8), R(6, 5, 8), R(6, 5, 8))
    module_case("multihead", nn.MultiheadAttention(8, 2, batch_first=True).train(), R(2, 5, 8), R(2, 5, 8), R(2, 5, 8))


def losses():
    x, y = R(6, 5), I(5, 6)
    ign = y.clone(); ign[2] = -100
    case("cross_entropy", lambda x, y: tuple(F.cross_entropy(x, y, reduction=r) for r in ("mean", "sum", "none")), x, ign)
    case("cross_entropy_args", lambda x, y, w: (F.cross_entropy(x, y, weight=w), F.cross_entropy(x, y, label_smoothing=0.1), F.cross_entropy(x, x.softmax(1).detach()), F.cross_entropy(x, y, ignore_index=1)), x, y, U(5))
    case("cross_entropy_2d", lambda x, y: F.cross_entropy(x, y), R(2, 5, 3, 4), I(5, 2, 3, 4))
    case("nll", lambda x, y: (F.nll_loss(x.log_softmax(1), y), F.nll_loss(x, y, reduction="sum"), F.nll_loss(x, y, reduction="none")), x, ign)
    for name in ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]:
        case(name, lambda x, y, name=name: tuple(getattr(F, name)(x, y, reduction=r) for r in ("mean", "sum", "none")), R(4, 3) * 2, R(4, 3))
    case("bce", lambda x, y: (F.binary_cross_entropy(x, y), F.binary_cross_entropy(x, y, weight=y + 1)), U(4, 3), U(4, 3))
    case("bce_logits", lambda x, y, p: (F.binary_cross_entropy_with_logits(x, y), F.binary_cross_entropy_with_logits(x, y, pos_weight=p.detach()), F.binary_cross_entropy_with_logits(x, y, reduction="none")), R(4, 3), U(4, 3), U(3))
    case("kl_div", lambda x, y: (F.kl_div(x.log_softmax(1), y, reduction="batchmean"), F.kl_div(x, y.log(), log_target=True)), R(4, 3), U(4, 3))
    s = torch.tensor([1.0, -1.0, -1.0, 1.0])
    case("hinge_embedding", lambda x: tuple(F.hinge_embedding_loss(x, s[:, None].expand(4, 3), margin=m, reduction=r) for m, r in ((1.0, "mean"), (0.5, "sum"), (2.0, "none"))), R(4, 3))
    case("multi_margin", lambda x, y, w: (F.multi_margin_loss(x, y), F.multi_margin_loss(x, y, p=2, margin=0.7, weight=w.detach()), F.multi_margin_loss(x, y, reduction="none"), F.multi_margin_loss(x[0], y[0])), x, y, U(5))
    case("multilabel_margin", lambda x, y: (F.multilabel_margin_loss(x, y), F.multilabel_margin_loss(x, y, reduction="none"), F.multilabel_margin_loss(x[0], y[0], reduction="sum")), R(3, 4), torch.tensor([[2, 0, -1, 1], [-1, 1, 2, 3], [3, 1, 0, 2]]))
    case("multilabel_margin_decomposed", lambda x, y: F.multilabel_margin_loss(x, y), R(2, 4), torch.tensor([[2, 0, -1, 1], [1, -1, 2, 3]]), decompose=True)
    case("margins", lambda a, b, c: (F.triplet_margin_loss(a, b, c), F.cosine_similarity(a, b), F.pairwise_distance(a, b), F.soft_margin_loss(a, torch.sign(b.detach())), F.margin_ranking_loss(a, b, torch.sign(c.detach()), margin=0.1),
                                     F.cosine_embedding_loss(a, b, torch.tensor([1, -1, 1, -1])), F.poisson_nll_loss(a, b.detach().abs())), R(4, 3), R(4, 3), R(4, 3))


def recurrent():
    h = torch.zeros(1, 2, 4)
    module_case("lstm", nn.LSTM(3, 4, batch_first=True), R(2, 5, 3))
    module_case("lstm_deep", nn.LSTM(3, 4, num_layers=2, bidirectional=True), R(4, 2, 3))
    module_case("gru", nn.GRU(3, 4, batch_first=True), R(2, 5, 3))
    module_case("gru_bidirectional", nn.GRU(3, 4, bidirectional=True), R(4, 2, 3))
    module_case("rnn", nn.RNN(3, 4), R(4, 2, 3))
    module_case("rnn_relu", nn.RNN(3, 4, nonlinearity="relu"), R(4, 2, 3))
    case("cells", lambda x, h, c, w, u, b, d: (*torch.lstm_cell(x, (h, c), w, u, b, d), torch.gru_cell(x, h, w[:12], u[:12], b[:12], d[:12]), torch.rnn_tanh_cell(x, h, w[:4], u[:4]), torch.rnn_relu_cell(x, h, w[:4], u[:4], b[:4], d[:4])),
         R(2, 3), R(2, 4), R(2, 4), R(16, 3), R(16, 4), R(16), R(16))
    module_case("lstm_cell_proj", nn.LSTM(3, 5, proj_size=2), R(4, 2, 3))


def mutation():
    def in_place(x):
        y = x.clone(); y.add_(1); y.mul_(x); y[0] = 2.0; y[:, 1:3].mul_(3); y.view(-1)[4:6].zero_(); y.t()[2].add_(x[0, 0]); return y
    case("in_place", in_place, R(4, 4))

    def strided(x):
        y = torch.zeros(4, 6); y[::2, 1::2] = x; y[1, :] += x.sum(); y[:, -1].copy_(x[0, 0].expand(4)); z = y.view(2, 2, 6); z[:, 0] += 1; return y, z, y.sum()
    case("in_place_views", strided, R(2, 3))

    def masked(x, m):
        y = x * 1; y.masked_fill_(m, 0.5); z = y.relu_(); w = torch.empty_like(x); torch.add(x, 1, out=w) if False else w.copy_(x + 1); w.clamp_(max=1.5); w.index_put_((torch.tensor([1]),), x[0]); return z, w
    case("in_place_masked", masked, R(3, 4), I(2, 3, 4).bool())

    def scatter(x, i):
        y = torch.zeros(5, 4); y.scatter_(0, i, x); y.index_add_(0, torch.tensor([1, 1]), x); y.fill_diagonal_ if False else None; return y, y.scatter_add_(0, i, x)
    case("in_place_scatter", scatter, R(2, 4), torch.tensor([[0, 1, 2, 3], [4, 3, 0, 1]]))

    def set_slices(x):
        out = x.new_zeros(3, 2, 4); out[:, 0] = x; out[:, 1, :2] = x[:, 2:]; out.narrow(1, 1, 1).mul_(2); return out
    case("in_place_split", set_slices, R(3, 4))

    def no_grad(x):
        with torch.no_grad():
            y = x * 2
        return x * y
    case("no_grad", no_grad, R(4))
    case("no_grad_decomposed", no_grad, R(4), decompose=True)
    case("detach_decomposed", lambda x: (x * x.detach(), x * x.softmax(0).detach()[1:3].sum()), R(4), decompose=True)


class Wrap(nn.Module):
    def __init__(self, fn): super().__init__(); self.fn = fn
    def forward(self, *xs): return self.fn(*xs)


def main():
    out = sys.argv[1]; only = sys.argv[2:]; os.makedirs(out, exist_ok=True)
    for make in [pointwise, activations, views, creation, reductions, linear, convolutions, norms, indexing, attention, losses, recurrent, mutation]: make()
    for name, (fn, inputs) in CASES.items():
        if only and name not in only: continue
        try:
            xs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
            outputs = fn(*xs)
            outputs = [o for o in (outputs if isinstance(outputs, (tuple, list)) else [outputs])]
            flat = torch.utils._pytree.tree_leaves(outputs)
            cots = [torch.randn_like(o) if o.is_floating_point() else None for o in flat]
            pairs = [(o, c) for o, c in zip(flat, cots) if c is not None and o.requires_grad]
            wanted = [x for x in xs if x.requires_grad]
            grads = torch.autograd.grad([o for o, _ in pairs], wanted, [c for _, c in pairs], allow_unused=True) if pairs else [None] * len(wanted)
            record = {f"in.x{i}": x.detach().clone() for i, x in enumerate(inputs)}
            record |= {f"out.{i}": o.detach().clone().contiguous() for i, o in enumerate(flat)}
            record |= {f"cot.{i}": c.contiguous() for i, (o, c) in enumerate(zip(flat, cots)) if c is not None and o.requires_grad}
            it = iter(grads)
            for i, x in enumerate(xs):
                g = next(it) if x.requires_grad else None
                if g is not None: record[f"grad.x{i}"] = g.clone().contiguous()
            program = torch.export.export(Wrap(fn), tuple(x.clone() for x in inputs), strict=False)
            if name in DECOMPOSED: program = program.run_decompositions()
            torch.export.save(program, f"{out}/{name}.pt2")
            save_file(record, f"{out}/{name}.safetensors")
        except Exception as e:
            print("FAILED", name, type(e).__name__, str(e).splitlines()[0][:200] if str(e) else "", flush=True)


main()
