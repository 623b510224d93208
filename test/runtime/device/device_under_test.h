// Builds small plans and runs them on the device that the suite was started
// for, through the same artifact and session as any run.
#ifndef LOCKSTEP_TEST_RUNTIME_DEVICE_DEVICE_UNDER_TEST_H
#define LOCKSTEP_TEST_RUNTIME_DEVICE_DEVICE_UNDER_TEST_H

#include "runtime/executor/session.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep::runtime::testing {

/// "host" or "cuda": --device of the suite.
extern std::string deviceKind;
/// Where the build put the suite's kernels; --kernels when it has moved.
extern std::string kernelFolder;
/// Targets whose cubins are there: none when nvcc was not, at the build.
std::vector<std::string> cubinTargets();

/// Elements that a kernel of the suite works on, those per CUDA block, and
/// threads of a block.
inline constexpr int64_t elementCount = 1000;
inline constexpr int64_t itemsPerBlock = 256;
inline constexpr uint32_t threadsPerBlock = 32;

/// A plan in the making, with one program.
class PlanBuilder {
public:
  PlanBuilder();

  /// A range of the arena, 256-aligned; its offset.
  int64_t allocate(int64_t bytes);
  /// A generated kernel of the suite; its index.
  uint32_t generated(const std::string &symbol, bool segmented = false);
  /// A library kernel; its index. Attributes: ints, doubles or text.
  uint32_t library(artifact::LibraryKernel kind);
  void attribute(const std::string &name, std::vector<int64_t> ints);
  void attribute(const std::string &name, double value);
  void attribute(const std::string &name, const std::string &text);

  void input(const std::string &name, int64_t offset);
  void scalar(const std::string &name, artifact::ScalarKind kind,
              int64_t offset);
  /// Ranges of whole elementCount f32 unless said otherwise.
  static artifact::Operand at(int64_t offset, int64_t bytes = elementCount * 4,
                              int64_t stride = 0) {
    return artifact::Operand(offset, bytes, stride);
  }
  static std::unique_ptr<artifact::InstructionT>
  launch(uint32_t kernel, std::vector<artifact::Operand> operands,
         int64_t items = elementCount);
  void add(std::unique_ptr<artifact::InstructionT> instruction);
  artifact::ProgramT &program() { return *plan.programs[0]; }
  artifact::PlanT plan;

private:
  int64_t end = 0;
};

/// A session on the device under test. Fails the test when it cannot be made.
class TestSession {
public:
  explicit TestSession(PlanBuilder &builder, SessionOptions options = {});
  ~TestSession();

  Session &operator*() { return *session; }
  Session *operator->() { return session.get(); }
  /// Runs the program, requiring success.
  StepMetrics step(int64_t number = 0);

  template <typename T>
  void write(int64_t offset, const std::vector<T> &values) {
    require(session->deviceOf().write(offset, values.data(),
                                      int64_t(values.size() * sizeof(T))));
  }
  template <typename T> std::vector<T> read(int64_t offset, int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    require(session->deviceOf().read(offset, values.data(),
                                     count * int64_t(sizeof(T))));
    return values;
  }

private:
  static void require(const Status &status);
  std::string folder;
  std::unique_ptr<ArtifactReader> artifact;
  std::unique_ptr<Collectives> collectives;
  std::unique_ptr<Session> session;
};

/// 0, 1, 2, ... times `factor`.
std::vector<float> ramp(float factor, int64_t count = elementCount);

} // namespace lockstep::runtime::testing

#endif // LOCKSTEP_TEST_RUNTIME_DEVICE_DEVICE_UNDER_TEST_H
