// A rank's connection to the control server: joins the run, reports signs of
// life, and learns when the run is to end or to stop.
#ifndef LOCKSTEP_RUNTIME_COMM_CONTROL_CLIENT_H
#define LOCKSTEP_RUNTIME_COMM_CONTROL_CLIENT_H

#include "runtime/comm/control_server.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

namespace lockstep::runtime {

/// What a heartbeat says of the rank.
struct RankPosition {
  int64_t step = 0;
  uint64_t instructions = 0;
  bool waiting = false;
};

struct ControlCallbacks {
  /// The run ends now, for the reason given; called on the client's thread,
  /// which does not go on afterwards.
  std::function<void(int exitCode, const std::string &text)> end;
  std::function<RankPosition()> position;
};

class ControlClient {
public:
  /// Connects to the server at host:basePort, or, when that port serves
  /// something else (torchrun keeps a store of its own there), one of the next
  /// `portsToTry`; waits until all ranks are there.
  static StatusOr<std::unique_ptr<ControlClient>>
  join(const std::string &host, int firstPort, int portsToTry, int rank,
       const RunIdentity &identity, const ControlTimeouts &limits,
       ControlCallbacks callbacks);
  ~ControlClient();

  /// The address of this rank on the network that leads to rank 0.
  std::string localAddress() const { return socket.localAddress(); }

  Status set(const std::string &key, const std::string &value);
  StatusOr<std::string> get(const std::string &key);

  /// The last thing this rank said, for the message should it be lost.
  void setLastLine(const std::string &line);

  /// Tells the others that this rank fails; they end with this code and text.
  void fail(int exitCode, const std::string &text);

  /// Asks for an orderly stop because of a signal. Any rank may ask.
  void requestStop(int signal);

  /// Called by the training loop before each step. Blocks while ranks agree on
  /// where to stop. The signal when step `step` is not to be run any more.
  std::optional<int> stopBefore(int64_t step);

  /// Says goodbye and waits until all ranks have. Error: one was lost.
  Status leave();

private:
  ControlClient(Socket socket, MessageParser parser, ControlCallbacks callbacks)
      : socket(std::move(socket)), parser(std::move(parser)),
        callbacks(std::move(callbacks)) {}
  void read();
  /// False: reading is over.
  bool handle(const Message &message);
  void beat();
  Status send(const Message &message);

  Socket socket;
  MessageParser parser;
  ControlCallbacks callbacks;
  std::mutex sending;
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false, goodbye = false, leaving = false, broken = false;
  std::map<std::string, std::string> values;
  std::string lastLine;
  int64_t currentStep = -1;
  bool held = false;
  std::optional<int64_t> lastStep;
  int stopSignal = 0;
  std::atomic<bool> closing{false};
  std::thread reader;
};

/// "host:pid" of this process.
std::string placeOfProcess();

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_COMM_CONTROL_CLIENT_H
