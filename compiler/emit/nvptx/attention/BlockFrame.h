//===- BlockFrame.h - What the parts of a kernel share ---------*- C++ -*-===//
//
// Attention kernels have warpgroups with roles, like GEMM kernels
// (../gemm/KernelFrame.h): one thread of warpgroup 0 starts tensor copies into
// rings of buffers, the other warpgroups, the consumers, multiply.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_BLOCKFRAME_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_BLOCKFRAME_H

#include "compiler/emit/nvptx/attention/AttentionBuilder.h"
#include "mlir/IR/BuiltinOps.h"

namespace lockstep::attention {

enum class ArgumentKind {
  /// A tensor map, by value in constant memory.
  Map,
  /// Global memory: that nobody writes during the kernel; any other.
  ReadOnly,
  Memory,
  /// i32, i64, f32.
  Number,
  Wide,
  Scalar,
};

/// One argument, and where to put its value.
struct KernelArgument {
  ArgumentKind kind;
  Value *value;
};

/// Adds an empty kernel with dynamic shared memory to the module, and sets the
/// builder into it.
void createKernel(AttentionBuilder &b, mlir::ModuleOp module,
                  llvm::StringRef symbol,
                  llvm::ArrayRef<KernelArgument> arguments, int threads);

/// Where a role is in a ring: the parity tells one round from the next.
struct Position {
  Value stage, parity;
};
Position advance(AttentionBuilder &b, Position position, int stages);

class BlockFrame {
public:
  /// Barriers are placed from an offset of the shared memory on.
  BlockFrame(AttentionBuilder &b, int barrierOffset);

  /// This block's items of a work table: from begin up to end.
  void findItems(Value bounds);
  /// The eight numbers of an item.
  Values loadItem(Value table, Value index);

  /// Places `count` barriers after those placed before; each phase ends after
  /// so many arrivals.
  Value addBarriers(int count, int arrivals);
  /// Makes the barriers usable, for all threads.
  void initializeBarriers();

  /// The two roles, in one if: setmaxnreg asks for that.
  void emitRoles(int consumers, llvm::function_ref<void()> producer,
                 llvm::function_ref<void()> consumer);
  /// In the producer: by one thread of one of its four warps.
  void inOneThread(int producerWarp, llvm::function_ref<void()> body);

  /// A place in shared memory as products want it.
  Value getMatrixAddress(int offset);

  AttentionBuilder &b;
  Value thread, lane, warp, warpgroup, sharedBase;
  Value begin, end;

private:
  struct Barriers {
    Value first;
    int count, arrivals;
  };
  llvm::SmallVector<Barriers> barriers;
  int nextBarrier;
};

/// A tile of queries and its blocks of keys, of a work table.
struct QueryWork {
  QueryWork(BlockFrame &frame, Value table, Value index)
      : QueryWork(load(frame, table, index)) {}
  /// From what `load` gave.
  explicit QueryWork(mlir::ValueRange numbers);

  /// The numbers of an item.
  static Values load(BlockFrame &frame, Value table, Value index);
  /// Those of the item after one, or of the last one again: for a consumer that
  /// would wait for them when it gets there.
  static Values loadNext(BlockFrame &frame, Value table, Value index);

  /// First key of the j-th block taken, of so many keys each.
  Value getFirstKey(AttentionBuilder &b, Value j, int keyBlock) const;
  Value row, head, keyHead, batch, firstBlock, blocks;
};

/// Buffers of equal size that copies fill and products read, in turn. A full
/// barrier counts the bytes that arrive, an empty barrier the readers that are
/// done with the buffer.
class Ring {
public:
  /// Without readers another ring's empty barriers stand for this one's too.
  Ring(BlockFrame &frame, int offset, int bytes, int stages, int readers);

  Value getAddress(Value stage);
  /// The buffer as a matrix of so many rows, from one of its rows on.
  Matrix getMatrix(Value stage, int rows, Value firstRow = nullptr);
  Value getFull(Value stage);
  Value getEmpty(Value stage);
  void waitUntilFull(Position at);
  void waitUntilEmpty(Position at);
  Position advance(Position at);

private:
  BlockFrame &frame;
  AttentionBuilder &b;
  int offset, bytes, stages;
  Value full, empty;
};

/// Who a thread is among the consumers. They have 64 rows of a tile each, or
/// with `sharesRows` the same 64 rows and a part of the columns each.
struct Consumer {
  explicit Consumer(BlockFrame &frame, bool sharesRows = false);

  /// The warpgroup, from 0; thread and warp in it; who does what one thread of
  /// the warpgroup, or of the warp, has to do.
  Value index, thread, warp, isLead, isWarpLead;
  /// The warpgroup's number among those with other rows, other columns.
  Value rowGroup, columnGroup;
  /// Its first row.
  Value firstRow;
  /// First row of the thread's sums, of all consumers' rows; first column of
  /// each 8.
  Value row, column;
  /// Where the lane stores its matrices of 64 rows by 16 columns; for those of
  /// the columns 16 q: exclusive or with 32 q.
  Value matrixOffset;
};

/// The barriers of some threads: of each consumer warpgroup; whose turn it is.
constexpr int firstGroupBarrier = 1, firstTurnBarrier = 4, pairBarrier = 7;

/// All threads of the warpgroup; of two of them.
void synchronizeGroup(BlockFrame &frame, const Consumer &self);
void synchronizePair(BlockFrame &frame);
/// By the warpgroup's lead thread, by the warp's.
void arriveOnce(BlockFrame &frame, const Consumer &self, Value barrier);
void arriveOfWarp(BlockFrame &frame, const Consumer &self, Value barrier);

/// Writes 64 rows as bf16 to shared memory: for each 64 columns `chunkBytes`
/// further. `offset` is the consumer's matrixOffset.
void stageRows(BlockFrame &frame, Value target, int chunkBytes, Value offset,
               llvm::ArrayRef<Value> packed);

/// The rows of a warpgroup to global memory, in columns of 64: through the
/// warpgroup's own buffer of so many columns, by the copy engine.
class RowStore {
public:
  RowStore(BlockFrame &frame, const Consumer &self, int offset,
           int stagedColumns);
  /// The coordinates are those after the column: row, head, batch.
  void store(Value map, llvm::ArrayRef<Value> sums,
             mlir::ValueRange coordinates);
  /// Until everything is written.
  void finish();

private:
  void storeStaged(Value map, llvm::ArrayRef<Value> sums, Value firstColumn,
                   mlir::ValueRange coordinates);

  BlockFrame &frame;
  const Consumer &self;
  int stagedColumns;
  Value buffer;
};

/// `rows` rows of a matrix into shared memory, in columns of 64. The
/// coordinates are those after the column: row, head, batch.
void copyRows(BlockFrame &frame, Value map, Value target, int rows, int headDim,
              mlir::ValueRange coordinates, Value barrier);

} // namespace lockstep::attention

#endif
