// The control server: one thread in rank 0's process that all ranks are
// connected to from start to end. It is the rendezvous (who is there, with the
// same plan and flags?), the key-value store that Gloo connects through, the
// heartbeat (a dead or stuck rank ends the run, and is named), and it agrees on
// the step after which an interrupted run stops.
#ifndef LOCKSTEP_RUNTIME_COMM_CONTROL_SERVER_H
#define LOCKSTEP_RUNTIME_COMM_CONTROL_SERVER_H

#include "runtime/comm/socket.h"

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <thread>

namespace lockstep::runtime {

/// What every rank must agree on, and how it is called in messages.
struct RunIdentity {
  int ranks = 1;
  int basePort = 0;     ///< tells runs on neighbouring ports apart
  std::string planHash; ///< of the artifact
  std::string planName; ///< file name and compiler version, for messages
  std::string flags;    ///< flags that shape the computation
};

struct ControlTimeouts {
  Milliseconds rendezvous{300000}; ///< until all ranks are there
  Milliseconds silence{10000};     ///< without a heartbeat: lost
  Milliseconds hang{600000};       ///< without progress: stuck
};

class ControlServer {
public:
  /// Serves on `listener` until every rank said Bye, or the run ended.
  ControlServer(Socket listener, RunIdentity identity, ControlTimeouts limits);
  /// Waits for the thread to finish.
  ~ControlServer();

private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    Socket socket;
    MessageParser parser;
    int rank = -1;
    std::string place; ///< host and process id
    Clock::time_point heard, moved;
    std::string position; ///< step and instruction count of the last beat
    bool waiting = false; ///< in a collective
    std::string lastLine;
    bool done = false;
    std::string heldAt; ///< step named in Held
  };
  using Peers = std::map<int, Peer>;

  void serve();
  void acceptPeer();
  /// False: the peer is to be dropped.
  bool readPeer(Peer &peer);
  bool handle(Peer &peer, const Message &message);
  bool hello(Peer &peer, const Message &message);
  void answerGets(const std::string &key);
  void beat(Peer &peer, const Message &message);
  void hold(const std::string &signal);
  void commitWhenHeld();
  void lose(const Peer &peer, const std::string &reason);
  void checkClocks();
  std::string describe(const Peer &peer) const;
  void end(const std::string &code, const std::string &text);
  void sendAll(const Message &message);
  void tellOwnRank();
  int present() const;

  Socket listener;
  RunIdentity identity;
  ControlTimeouts limits;
  Peers peers;
  std::map<std::string, std::string> values;
  std::multimap<std::string, int> waitingGets; ///< key to descriptor
  bool ready = false, ended = false, holding = false;
  Message lastWord; ///< how the run ended, for ranks that come late
  std::optional<Clock::time_point> tellOwnAt; ///< rank 0 hears it by then
  std::string stopSignal;
  Clock::time_point started;
  std::atomic<bool> shutdown{false};
  std::thread thread;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_COMM_CONTROL_SERVER_H
