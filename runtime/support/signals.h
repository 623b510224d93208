// Signals and computing threads. A kernel may move the stack pointer: oneDNN's
// SGEMM (gemm/f32/jit_avx512_common_gemm_f32.cpp and its AVX2 sibling) points
// it at a buffer on the heap for products with a large inner dimension. A
// handler that runs then writes its frame of several KiB below that address,
// over whatever the heap keeps there. So no thread that computes runs a
// handler: signals wait, or go to another thread.
#ifndef LOCKSTEP_RUNTIME_SUPPORT_SIGNALS_H
#define LOCKSTEP_RUNTIME_SUPPORT_SIGNALS_H

#include <csignal>

namespace lockstep::runtime {

/// While it lives, signals that have a handler wait, for this thread and for
/// threads it starts. Faults (SIGSEGV, SIGFPE, ...) and handlers that run on a
/// stack of their own (SA_ONSTACK) are left alone, as is what has no handler:
/// what ends or stops a process still does.
class HandlersHeld {
public:
  HandlersHeld();
  ~HandlersHeld();
  HandlersHeld(const HandlersHeld &) = delete;
  HandlersHeld &operator=(const HandlersHeld &) = delete;

private:
  sigset_t before;
};

/// Blocks every signal but faults in the calling thread, for good: for threads
/// that do nothing but compute.
void blockSignals();

/// SIGTERM and SIGINT as requests that the training loop asks for, instead of
/// handlers. To be made before any other thread is.
class StopSignals {
public:
  /// Blocks both in this thread and in all that it starts.
  StopSignals();
  /// The first of them that has come, else 0. Never waits.
  int received();

private:
  sigset_t watched;
  int first = 0;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_SUPPORT_SIGNALS_H
