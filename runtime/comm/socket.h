// TCP sockets that carry small framed messages: rendezvous and heartbeat, never
// tensors.
#ifndef LOCKSTEP_RUNTIME_COMM_SOCKET_H
#define LOCKSTEP_RUNTIME_COMM_SOCKET_H

#include "runtime/support/status.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::runtime {

using Milliseconds = std::chrono::milliseconds;

/// What ranks and the control server say to each other. The numbers are part
/// of the protocol.
enum class MessageType : uint8_t {
  Hello = 1,    ///< rank: who I am and what I am about to run
  Welcome = 2,  ///< server: understood
  WrongJob = 3, ///< server: this port serves another run
  Ready = 4,    ///< server: all ranks are here
  Set = 5,      ///< rank: key, value
  Get = 6,      ///< rank: key; answered by Value once it is set
  Value = 7,    ///< server: key, value
  Beat = 8,     ///< rank: step, instructions, waiting, last line
  Fail = 9,     ///< rank: exit code, error text
  End = 10,     ///< server: exit code, error text; everybody ends
  Stop = 11,    ///< rank: signal; asks for an orderly stop
  Hold = 12,    ///< server: start no further step, say where you are
  Held = 13,    ///< rank: the step it runs or is about to run
  Commit = 14,  ///< server: stop after this step, because of this signal
  Bye = 15,     ///< rank: done; server: everybody is done
};

struct Message {
  MessageType type = MessageType::Bye;
  std::vector<std::string> fields;
};

/// Takes received bytes apart into messages.
class MessageParser {
public:
  void append(const char *data, size_t bytes) { buffer.append(data, bytes); }
  enum class Result { Message, Incomplete, Malformed };
  Result next(Message &message);

private:
  std::string buffer;
};

class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : fd(descriptor) {}
  Socket(Socket &&other) noexcept : fd(other.release()) {}
  Socket &operator=(Socket &&other) noexcept;
  ~Socket();

  /// Connects within `timeout`.
  static StatusOr<Socket> connect(const std::string &host, int port,
                                  Milliseconds timeout);
  /// Listens on all addresses; port 0 takes any free one.
  static StatusOr<Socket> listen(int port);
  StatusOr<Socket> accept() const;

  bool valid() const { return fd >= 0; }
  int descriptor() const { return fd; }
  int release();
  /// The port at this end.
  int localPort() const;
  /// The address at this end, as numbers.
  std::string localAddress() const;

  /// Sends a message whole. Error: the peer is gone.
  Status send(const Message &message) const;
  /// Receives one message within `timeout`; `parser` keeps what came after it.
  StatusOr<Message> receive(Milliseconds timeout, MessageParser &parser) const;

private:
  int fd = -1;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_COMM_SOCKET_H
