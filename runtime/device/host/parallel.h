// The one way the runtime uses several threads for compute: an OpenMP loop on
// libgomp, which OpenBLAS and oneDNN share. The loop itself is in
// parallel_for.c, compiled by gcc: clang would bring a second OpenMP runtime
// into the process.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_PARALLEL_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_PARALLEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Calls body(context, chunk) for every chunk in [0, chunks), in any order, on
/// any thread. Nested calls run on the calling thread.
void lockstep_parallel_for(int64_t chunks,
                           void (*body)(void *context, int64_t chunk),
                           void *context);

/// Calls body once on every thread of lockstep_parallel_for but this one.
void lockstep_on_other_threads(void (*body)(void));

/// Threads that lockstep_parallel_for uses: OMP_NUM_THREADS or all cores.
int lockstep_max_threads(void);
void lockstep_set_threads(int threads);

/// Index of the calling thread within lockstep_parallel_for, else 0.
int lockstep_thread_index(void);

#ifdef __cplusplus
}

namespace lockstep::runtime {

/// While it lives, parallel loops and libraries on this thread use one thread:
/// for work that is over before another thread has woken up.
class OneThread {
public:
  explicit OneThread(bool wanted)
      : before(wanted ? lockstep_max_threads() : 0) {
    if (before > 1)
      lockstep_set_threads(1);
  }
  ~OneThread() {
    if (before > 1)
      lockstep_set_threads(before);
  }
  OneThread(const OneThread &) = delete;
  OneThread &operator=(const OneThread &) = delete;

private:
  int before;
};

/// lockstep_parallel_for over a callable `void(int64_t chunk)`.
template <typename Body> void parallelFor(int64_t chunks, Body &&body) {
  lockstep_parallel_for(
      chunks,
      [](void *context, int64_t chunk) {
        (*static_cast<Body *>(context))(chunk);
      },
      &body);
}

} // namespace lockstep::runtime
#endif

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_PARALLEL_H
