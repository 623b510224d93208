//===- Passes.td - Passes of the fuse stage ----------------*- tablegen -*-===//
#ifndef LOCKSTEP_COMPILER_FUSE_PASSES
#define LOCKSTEP_COMPILER_FUSE_PASSES

include "mlir/Pass/PassBase.td"

def FuseDecomposePass : Pass<"lockstep-fuse-decompose", "::mlir::ModuleOp"> {
  let summary = "Replaces composite operations that have no kernel of their own by primitive ones";
  let description = [{
    Norms, softmax, losses, embeddings become pointwise operations, broadcasts, reduces, gathers and scatters, which later passes group into
    loop kernels. What has a library kernel or a kernel kind stays: attention and its gradient (as `attention` says), sgd, adam,
    global_norm.
    Sorts, cumulative operations and arg_reduce are turned to the last dimension. `dist.local_slice` becomes a gather by
    `dist.coordinate`; collectives along an inner dimension, and all_to_all, become such along the leading one, which is what the runtime does, and
    transposes. Examples: test/fuse/decompose.mlir, test/fuse/collectives.mlir.
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect", "::lockstep::dist::DistDialect"];
  let options = [Option<"attention", "attention", "::lockstep::fuse::AttentionKernels", "::lockstep::fuse::AttentionKernels::Library", "Which attention the target has kernels of; other becomes products and softmax",
                        [{::llvm::cl::values(
                          clEnumValN(::lockstep::fuse::AttentionKernels::Library, "library", "All"),
                          clEnumValN(::lockstep::fuse::AttentionKernels::Tiles, "tiles", "What suits the generated kernels (AttentionForm.h)"),
                          clEnumValN(::lockstep::fuse::AttentionKernels::None, "none", "None"))}]>];
}

def FuseCutLossPass : Pass<"lockstep-fuse-cut-loss", "::mlir::ModuleOp"> {
  let summary = "Computes large logits, their loss and what their gradient gives a part of the rows at a time";
  let description = [{
    Logits and their gradient are the largest tensor of a model with a vocabulary, and are alive together with everything that the backward pass needs.
    From the product that gives them to the products that read their gradient, each part of the rows has operations of its own: the gradient of the
    hidden state is joined, the weight's is added up in f32. Example: test/fuse/cut-loss.mlir.
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect", "::lockstep::plan::PlanDialect"];
  let options = [Option<"maxBytes", "max-bytes", "int64_t", "1 << 30", "Most bytes of the logits of a part">,
                 Option<"leastRows", "least-rows", "int64_t", "8192", "Least rows of a part: fewer would leave processors idle">];
}

def FuseWidenProductsPass : Pass<"lockstep-fuse-widen-products", "::mlir::ModuleOp"> {
  let summary = "Computes products of bf16 and f16 in f32 where the target has no kernel of narrow ones";
  let description = [{
    Operands are widened, the result is rounded. Products of two bf16 or f16 are exact in f32, and sums are in f32 either way, so the result is
    that of the narrow operation. Example: test/fuse/widen-products.mlir.
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect"];
  let options = [Option<"dots", "dots", "bool", "true", "Matrix products as well, besides convolutions and attention">,
                 Option<"attention", "keep-attention", "bool", "false", "Not attention that suits the generated kernels (AttentionForm.h)">];
}

def FusePadClassesPass : Pass<"lockstep-fuse-pad-classes", "::mlir::ModuleOp"> {
  let summary = "Pads the classes of bf16 logits so that tensor copies can move their rows";
  let description = [{
    Where cross-entropy without smoothing follows from a bf16 product (with a bias or without), the classes become a multiple of `multiple`: the weight gets
    zeros, the bias minus infinity, which leaves loss and gradients what they are. The products that take or give the gradient of the logits keep
    the padded size, and only the gradients of weight and bias are cut. Example: test/fuse/pad-classes.mlir.
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect"];
  let options = [Option<"multiple", "multiple", "int64_t", "8", "Elements of 16 bytes">];
}

def FuseSplitReductionsPass : Pass<"lockstep-fuse-split-reductions", "::mlir::ModuleOp"> {
  let summary = "Splits a large reduction to one element into two steps";
  let description = [{
    A kernel is parallel over what it does not reduce, so a sum over everything would run on one thread. The first step reduces chunks whose
    size depends on the shape alone (so the result does not depend on the number of threads), the second their results.
    `train.global_norm` becomes chunked sums of squares of each operand, joined in one buffer, and one final sum. With
    `column-blocks`, a reduction of leading dimensions to few columns is cut likewise, along its rows. Example: test/fuse/split-reductions.mlir.
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect", "::lockstep::plan::PlanDialect"];
  let options = [Option<"threshold", "threshold", "int64_t", "16384", "Most elements that one reduction to an element combines in one step">,
                 Option<"columnBlocks", "column-blocks", "int64_t", "0", "Blocks of 128 columns that a reduction should have for a GPU, counting each piece of a column; 0: columns stay whole">];
}

def FuseLayoutsPass : Pass<"lockstep-fuse-layouts", "::mlir::ModuleOp"> {
  let summary = "Lets products and attention write their results in the layout of the use that cannot read another";
  let description = [{
    An attention result that is transposed and reshaped for a product, and also used as it is by the gradient, is written transposed: the
    other uses see it through the inverse views, which their kernels fold into strides. Example: test/fuse/layouts.mlir.
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect"];
}

def FuseEpiloguesPass : Pass<"lockstep-fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "Moves pointwise work behind bf16 products into the products' kernels";
  let description = [{
    For targets whose product kernels have epilogues (ProductEpilogue.h): a row added, an activation, with its input saved where a derivative
    needs it, the product with an activation's derivative, a residual added, sums stored as f32 where those are read from memory. The
    kernel holds the operations; conversions in their midst no longer round, and what also read the sums now reads them rounded to bf16. Biases are
    rounded to bf16, as torch.autocast does. Sizes that tensor copies cannot move (16 bytes) stay as they are. Example: test/fuse/epilogues.mlir.
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect", "::lockstep::plan::PlanDialect"];
}

def FuseKernelsPass : Pass<"lockstep-fuse-kernels", "::mlir::ModuleOp"> {
  let summary = "Groups operations into kernels and calls them";
  let description = [{
    Each anchor (product, attention, convolution, sort, scatter, scan, window) takes the views around it that fold into strides. Each optimizer update becomes an
    `update` kernel. Everything else forms loop kernels: a value joins the kernel of one of its operands where both have one iteration
    space, cheap values are computed again instead of stored where that moves no more bytes, kernels that read the same large value are
    joined. Equal kernels become one symbol. Afterwards functions hold plan.call, plan.view, plan.join and collectives. Every kernel is
    reported by a remark `kernel` of category `fuse` with its operations and bytes. Example: test/fuse/kernels.mlir.
  }];
  let dependentDialects = ["::lockstep::train::TrainDialect", "::lockstep::plan::PlanDialect"];
  let options = [Option<"maxArguments", "max-arguments", "int64_t", "20", "Most arguments of a loop kernel">];
}

def FuseVerifyOutputPass : Pass<"lockstep-fuse-verify-output", "::mlir::ModuleOp"> {
  let summary = "Verifies that functions hold only kernel calls and collectives";
  let description = [{
    What schedule relies on. Example: test/fuse/verify-output-errors.mlir.
  }];
}

#endif
