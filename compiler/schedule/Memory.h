//===- Memory.h - Where every value of a program lives ----------*- C++ -*-===//
//
// A *storage* is a range of the arena with a lifetime; a *place* is a byte
// offset in a storage. Walking the ordered items once, the planner gives each
// value a place:
//   - a result that replaces an argument is written over it (Order.h says where
//   no reader is left), a metric into its scalar
//   - inputs of a bucketed all-reduce are neighbours in one storage and are
//   reduced in place; pieces of a join likewise
//   - a result may take over the storage of an operand that dies there, where
//   the kernel allows it (KernelModel.h)
//   - views share their root's place
// and writes down the steps of the program, copies and fills included, on
// places. Offsets come last (Arena.h).
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_SCHEDULE_MEMORY_H
#define LOCKSTEP_COMPILER_SCHEDULE_MEMORY_H

#include "compiler/schedule/Arena.h"
#include "compiler/schedule/Order.h"
#include "llvm/ADT/MapVector.h"
#include <map>
#include <string>

namespace lockstep::schedule {

struct Place {
  int storage = -1;
  int64_t offset = 0;
  /// Bytes by which the place moves with each iteration of the loop around it.
  int64_t stride = 0;
};

/// A place seen as a tensor.
struct Operand {
  Place place;
  mlir::RankedTensorType type;
};

/// One operation of the program to be.
struct Step {
  enum class Kind { Launch, Start, Wait, Loop, Copy, Fill };
  Kind kind;
  mlir::Location loc;
  llvm::SmallVector<Operand, 4> inputs = {}, outputs = {};
  /// Launch.
  mlir::StringAttr kernel = {};
  int64_t segments = 1;
  /// Start: the collective and its number; Wait: the number.
  mlir::Operation *collective = nullptr;
  int64_t id = 0;
  /// Loop.
  int64_t count = 0;
  std::vector<Step> body = {};
};

/// What is kept between runs or given from outside: has one place in all
/// programs of a module.
struct SharedBuffer {
  plan::BufferKind kind;
  mlir::StringAttr name;
  train::RoleAttr role;
  mlir::RankedTensorType type;
  /// Further attributes of the argument.
  mlir::DictionaryAttr attributes;
  int64_t offset = 0;
};

/// The shared buffers of a module, persistent ones first.
class SharedLayout {
public:
  /// Adds the arguments and metrics of `function`. Fails, with an error, where
  /// something has no name or role, or one name has two types.
  mlir::LogicalResult add(mlir::func::FuncOp function);
  /// Settles the offsets.
  void finish();

  int find(mlir::Value argument) const;
  /// The buffer that a function's result replaces or fills, -1 if there is
  /// none.
  int findResult(mlir::func::FuncOp function, unsigned result) const;
  const SharedBuffer &operator[](int index) const { return buffers[index]; }
  llvm::ArrayRef<SharedBuffer> getBuffers() const { return buffers; }
  int64_t getPersistentBytes() const { return persistentBytes; }
  /// Bytes of all shared buffers.
  int64_t getBytes() const { return bytes; }

private:
  mlir::LogicalResult addBuffer(mlir::Operation *user, plan::BufferKind kind,
                                mlir::DictionaryAttr attributes,
                                mlir::Type type, int &index);

  std::vector<SharedBuffer> buffers;
  llvm::DenseMap<mlir::Value, int> arguments;
  std::map<std::pair<mlir::Operation *, unsigned>, int> results;
  std::map<std::tuple<int, std::string>, int> byName;
  int64_t persistentBytes = 0, bytes = 0;
};

class MemoryPlanner {
public:
  /// `symbols` are those of the function's module.
  MemoryPlanner(mlir::func::FuncOp function, const SharedLayout &shared,
                const mlir::SymbolTable &symbols);

  mlir::LogicalResult run();

  std::vector<Step> &getSteps() { return steps; }
  /// Lifetimes of storages that are not shared, in the order of their numbers
  /// from getNumShared() on.
  llvm::SmallVector<Lifetime> getLifetimes() const;
  int getNumShared() const { return numShared; }
  /// What a storage holds, for messages.
  std::string describe(int storage) const;
  /// When an operation runs, as lifetimes count: a collective when it is waited
  /// for, a loop when it ends.
  int64_t getPosition(mlir::Operation *op) const {
    return positions.lookup(op);
  }
  /// The storage of a value with memory of its own; -1 for others.
  int getStorage(mlir::Value root) const {
    auto it = places.find(root);
    return it == places.end() ? -1 : it->second.storage;
  }

private:
  struct Storage {
    int64_t bytes;
    int64_t first = -1, last = -1;
    int depth = 0;
    mlir::Value value;
  };
  /// Uses of roots within one block.
  struct BlockInfo {
    std::vector<Item> items;
    /// Index of the last item that reads a root; items.size() where the
    /// terminator does.
    llvm::DenseMap<mlir::Value, int64_t> lastRead;
    /// Index of the item that computes a root.
    llvm::DenseMap<mlir::Operation *, int64_t> index;
  };

  BlockInfo analyze(mlir::Block &block,
                    llvm::ArrayRef<Replacement> replacements);
  mlir::LogicalResult walk(BlockInfo &info, std::vector<Step> &steps);

  // Places decided before the walk.
  void placeResults(BlockInfo &info);
  bool mayWriteOver(mlir::Operation *writer, mlir::Value result,
                    mlir::Value argument);
  void placeNeighbours(BlockInfo &info);
  bool mayMove(mlir::Value root, const BlockInfo &info) const;

  // The walk.
  void walkLaunch(const Item &item, int64_t index, BlockInfo &info,
                  std::vector<Step> &steps);
  Place placeCallResult(plan::CallOp call, unsigned result, bool alone,
                        int64_t index, const BlockInfo &info);
  mlir::LogicalResult walkStart(mlir::Operation *op, std::vector<Step> &steps);
  void walkJoin(plan::JoinOp op, std::vector<Step> &steps);
  mlir::LogicalResult walkLoop(train::AccumulateOp op, BlockInfo &info,
                               std::vector<Step> &steps);
  void placeCarried(train::AccumulateOp op, BlockInfo &body,
                    llvm::ArrayRef<Place> carried);
  void addSums(train::AccumulateOp op, llvm::ArrayRef<Place> sums,
               std::vector<Step> &steps);
  plan::KernelOp getAddKernel(mlir::Type element, bool increments);

  Place newStorage(mlir::Value value, int64_t bytes);
  Place getPlace(mlir::Value value);
  Operand getOperand(mlir::Value value);
  void touch(Place place);
  void copy(mlir::Location loc, Operand from, Operand to,
            std::vector<Step> &steps);

  mlir::func::FuncOp function;
  const SharedLayout &shared;
  const mlir::SymbolTable &symbols;
  std::vector<Storage> storages;
  int numShared;
  llvm::DenseMap<mlir::Value, Place> places;
  /// Places that a value must take when it is computed.
  llvm::DenseMap<mlir::Value, Place> reserved;
  /// Results that are copied to their place at the end: (value, shared buffer).
  llvm::SmallVector<std::pair<mlir::Value, int>> finalCopies;
  std::vector<Step> steps;
  int64_t position = 0, nextId = 0;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  int depth = 0;
  /// Storages from outside that the loop under way uses.
  llvm::SetVector<int> usedByLoop;
  llvm::DenseMap<mlir::Operation *, int64_t> ids;
};

} // namespace lockstep::schedule

#endif
