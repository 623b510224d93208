#include "runtime/support/signals.h"

#include <ctime>
#include <initializer_list>

namespace lockstep::runtime {

/// Signals that tell a thread of its own faults.
static constexpr int faults[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                 SIGTRAP, SIGABRT, SIGSYS};

static bool isFault(int signal) {
  for (int fault : faults)
    if (signal == fault)
      return true;
  return false;
}

static bool runsOnThisStack(int signal) {
  struct sigaction action;
  if (sigaction(signal, nullptr, &action) != 0)
    return false; // the C library's own
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
    return false;
  stack_t stack;
  bool apart = (action.sa_flags & SA_ONSTACK) &&
               sigaltstack(nullptr, &stack) == 0 &&
               !(stack.ss_flags & SS_DISABLE);
  return !apart;
}

HandlersHeld::HandlersHeld() {
  sigset_t held;
  sigemptyset(&held);
  for (int signal = 1; signal <= SIGRTMAX; ++signal)
    if (!isFault(signal) && runsOnThisStack(signal))
      sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &before);
}

HandlersHeld::~HandlersHeld() {
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void blockSignals() {
  sigset_t all;
  sigfillset(&all);
  for (int fault : faults)
    sigdelset(&all, fault);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

StopSignals::StopSignals() {
  sigemptyset(&watched);
  for (int signal : {SIGTERM, SIGINT}) {
    // An ignored signal would never be pending.
    std::signal(signal, SIG_DFL);
    sigaddset(&watched, signal);
  }
  pthread_sigmask(SIG_BLOCK, &watched, nullptr);
}

int StopSignals::received() {
  timespec noTime = {};
  int signal = sigtimedwait(&watched, nullptr, &noTime);
  if (signal > 0 && first == 0)
    first = signal;
  return first;
}

} // namespace lockstep::runtime
