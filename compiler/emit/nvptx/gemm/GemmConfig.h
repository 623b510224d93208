//===- GemmConfig.h - What a generated GEMM kernel is ----------*- C++ -*-===//
//
// D[M,N] = epilogue(sum over k of A[m,k] B[k,n]), bf16 operands, f32 sums. One
// configuration is one kernel, for every size: the sizes come in through the
// tensor maps and the tile table (TileTable.h). No MLIR here, since whoever
// launches a kernel needs the same facts.
//
// Sizes that every kernel takes: any M, N, K and batch of at least 1 whose
// operands begin at 16 bytes and whose leading dimensions (elements from one
// row to the next) are multiples of 16 bytes, which is what the tensor copy
// engine asks for: a row of 1001 bf16 elements has to be stored as 1008. The
// engine writes whole 16 bytes: a row of D may be written up to there. A bias
// needs an even N.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_GEMMCONFIG_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_GEMM_GEMMCONFIG_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::gemm {

/// How the consumer warpgroups share the work. Ping-pong: two warpgroups, each
/// with a tile of its own, one multiplies while the other one stores.
/// Cooperative: all of them on one tile, which may be larger.
enum class Schedule { PingPong, Cooperative };

/// Which index of an operand is contiguous in memory: k, or the other one (m of
/// A, n of B).
enum class Major { K, Outer };

/// Two neighbouring blocks in a cluster, side by side along M (they share the
/// tile of B, each fetches half of it for both) or along N (they share A).
enum class Cluster { None, AlongM, AlongN };

enum class Output { BFloat16, Float32, Float32Accumulate };

/// Gelu is x Phi(x), the erf form; GeluTanh its approximation by tanh.
enum class Activation { None, Gelu, GeluTanh, Relu, Silu };

/// What a second tensor of D's shape and layout is for, if there is one.
enum class Side {
  None,
  /// Written: the sum (with bias) before the activation.
  SavePreactivation,
  /// Read and added after bias and activation.
  AddResidual,
  /// Read: the preactivation x; the sum is multiplied by activation'(x).
  ActivationGradient,
};

struct GemmConfig {
  Schedule schedule = Schedule::PingPong;
  /// Tile of one warpgroup (ping-pong) or of the block (cooperative).
  int tileM = 128, tileN = 128;
  /// Consumer warpgroups of 128 threads; one more of them loads.
  int consumers = 2;
  /// Tiles of A and B in flight, each of 64 elements along k.
  int stages = 6;
  /// Staging buffers (64 rows) of each consumer warpgroup for the output, and
  /// their bytes a row.
  int ring = 2, ringBytes = 128;
  Cluster cluster = Cluster::AlongM;
  Major a = Major::K, b = Major::K;
  Output output = Output::BFloat16;
  bool bias = false;
  Activation activation = Activation::None;
  Side side = Side::None;
  /// The bias gradient's partial sums: of D before rounding, in f32, over the
  /// rows that one warp has of a tile.
  bool columnSums = false;
  /// K may be cut; the pieces of a tile are added in a fixed order.
  bool splitK = false;
  /// Operands have a third, outermost index. A bias is shared by the batch.
  bool batched = false;
  /// Programmatic dependent launch: the kernel's start overlaps the end of the
  /// one before it.
  bool overlapLaunch = false;
  /// L2 hints: keep B, do not keep D and the second tensor.
  bool cacheHints = false;
  /// Registers of a thread after the roles part.
  int producerRegisters = 40, consumerRegisters = 232;
};

constexpr int tileK = 64;
constexpr int maxSharedBytes = 232448;

/// Empty, or what is wrong with the configuration: "expected ..., but got ...".
std::string checkConfig(const GemmConfig &config);
/// The part of it that output, bias, activation and second tensor alone decide.
std::string checkEpilogue(const GemmConfig &config);

/// A configuration as words in a fixed order: "pingpong 128x128 stages=6 ring=2
/// cluster=m bias gelu save". The schedule and the tile come first; words at
/// their default are left out.
std::string printConfig(const GemmConfig &config);
/// The reverse, with the words after the first two in any order; the error text
/// names the word. The result is not checked.
std::optional<GemmConfig> parseConfig(std::string_view text,
                                      std::string &error);

//===----------------------------------------------------------------------===//
// What follows from a configuration
//===----------------------------------------------------------------------===//

int getClusterSize(const GemmConfig &config);
/// Blocks of a cluster along M and along N.
int getClusterM(const GemmConfig &config);
int getClusterN(const GemmConfig &config);
int getThreads(const GemmConfig &config);
/// Rows of the tile that one consumer warpgroup multiplies.
int getWarpgroupRows(const GemmConfig &config);
int getOutputBytes(const GemmConfig &config);
/// Columns of D in one staging buffer.
int getRingColumns(const GemmConfig &config);
/// Staging buffers filled for one tile by one warpgroup.
int getRounds(const GemmConfig &config);
bool readsSide(const GemmConfig &config);
/// Lines of partial column sums for a D of so many rows: f32 [lines][N].
int64_t getColumnSumLines(const GemmConfig &config, int64_t rows);

/// Offsets into the block's shared memory, which begins at 1024 bytes.
struct SharedLayout {
  int aBytes, bBytes, stageBytes;
  int ringOffset, ringBufferBytes;
  int barrierOffset;
  int totalBytes;
};
SharedLayout getSharedLayout(const GemmConfig &config);

/// The box that one tensor copy moves, and how it lies in shared memory. The
/// map's dimensions are (inner, outer) or (inner, outer, batch).
struct CopyBox {
  int inner, outer;
  int elementBytes;
  int swizzleBytes;
};
CopyBox getBoxA(const GemmConfig &config);
CopyBox getBoxB(const GemmConfig &config);
CopyBox getBoxD(const GemmConfig &config);
/// Of the second tensor, bf16.
CopyBox getBoxSide(const GemmConfig &config);

} // namespace lockstep::gemm

#endif
