#include "runtime/comm/socket.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::runtime {

static constexpr uint32_t largestMessage = 16 << 20;
static constexpr char frameMagic[5] = "LKS1";

static Status systemError(const std::string &what, int error) {
  return inputError(what + ": " + strerror(error));
}

static void setOptions(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  timeval timeout{5, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
}

Socket &Socket::operator=(Socket &&other) noexcept {
  std::swap(fd, other.fd);
  return *this;
}

Socket::~Socket() {
  if (fd >= 0)
    ::close(fd);
}

int Socket::release() {
  int descriptor = fd;
  fd = -1;
  return descriptor;
}

using Clock = std::chrono::steady_clock;

/// Waits until the descriptor is ready, whatever signals come. False: it is not
/// by the deadline.
static bool waitFor(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
    if (left.count() <= 0)
      return false;
    pollfd wait{fd, events, 0};
    int ready = poll(&wait, 1, int(left.count()));
    if (ready >= 0 || errno != EINTR)
      return ready == 1;
  }
}

static StatusOr<Socket> connectTo(const addrinfo &address,
                                  Milliseconds timeout) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid())
    return systemError("cannot make a socket", errno);
  int flags = fcntl(socket.descriptor(), F_GETFL);
  fcntl(socket.descriptor(), F_SETFL, flags | O_NONBLOCK);
  if (::connect(socket.descriptor(), address.ai_addr, address.ai_addrlen)) {
    if (errno != EINPROGRESS)
      return systemError("cannot connect", errno);
    if (!waitFor(socket.descriptor(), POLLOUT, Clock::now() + timeout))
      return inputError("cannot connect: no answer");
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error)
      return systemError("cannot connect", error);
  }
  fcntl(socket.descriptor(), F_SETFL, flags);
  setOptions(socket.descriptor());
  return socket;
}

StatusOr<Socket> Socket::connect(const std::string &host, int port,
                                 Milliseconds timeout) {
  addrinfo hints = {}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  int error =
      getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error)
    return inputError("cannot resolve '" + host + "': " + gai_strerror(error));
  StatusOr<Socket> result = inputError("'" + host + "' has no address");
  for (addrinfo *address = list; address; address = address->ai_next) {
    result = connectTo(*address, timeout);
    if (result.ok())
      break;
  }
  freeaddrinfo(list);
  return result;
}

StatusOr<Socket> Socket::listen(int port) {
  // An IPv6 socket takes IPv4 as well, where the machine has both.
  for (int family : {AF_INET6, AF_INET}) {
    Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.valid())
      continue;
    int on = 1, off = 0;
    setsockopt(socket.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (family == AF_INET6)
      setsockopt(socket.fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    sockaddr_storage storage = {};
    socklen_t size;
    if (family == AF_INET6) {
      auto *address = reinterpret_cast<sockaddr_in6 *>(&storage);
      address->sin6_family = AF_INET6;
      address->sin6_port = htons(uint16_t(port));
      address->sin6_addr = in6addr_any;
      size = sizeof(*address);
    } else {
      auto *address = reinterpret_cast<sockaddr_in *>(&storage);
      address->sin_family = AF_INET;
      address->sin_port = htons(uint16_t(port));
      size = sizeof(*address);
    }
    if (bind(socket.fd, reinterpret_cast<sockaddr *>(&storage), size) == 0 &&
        ::listen(socket.fd, 1024) == 0)
      return socket;
    if (family == AF_INET || errno == EADDRINUSE || errno == EACCES)
      return systemError("cannot listen on port " + std::to_string(port),
                         errno);
  }
  return systemError("cannot listen on port " + std::to_string(port), errno);
}

StatusOr<Socket> Socket::accept() const {
  Socket socket(accept4(fd, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid())
    return systemError("cannot accept a connection", errno);
  setOptions(socket.descriptor());
  return socket;
}

int Socket::localPort() const {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  getsockname(fd, reinterpret_cast<sockaddr *>(&storage), &size);
  return storage.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<sockaddr_in6 *>(&storage)->sin6_port)
             : ntohs(reinterpret_cast<sockaddr_in *>(&storage)->sin_port);
}

std::string Socket::localAddress() const {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  getsockname(fd, reinterpret_cast<sockaddr *>(&storage), &size);
  char text[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<sockaddr *>(&storage), size, text, sizeof(text),
              nullptr, 0, NI_NUMERICHOST);
  std::string address = text;
  const std::string mapped = "::ffff:";
  return address.rfind(mapped, 0) == 0 ? address.substr(mapped.size())
                                       : address;
}

static void appendNumber(std::string &bytes, uint32_t value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

// A frame: magic, bytes that follow, type, then each field with its length.
Status Socket::send(const Message &message) const {
  std::string body(1, char(message.type));
  for (const std::string &field : message.fields) {
    appendNumber(body, uint32_t(field.size()));
    body += field;
  }
  std::string frame(frameMagic, 4);
  appendNumber(frame, uint32_t(body.size()));
  frame += body;
  size_t sent = 0;
  while (sent < frame.size()) {
    ssize_t count =
        ::send(fd, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return rankLost(std::string("cannot send: ") + strerror(errno));
    sent += size_t(count);
  }
  return Status::success();
}

StatusOr<Message> Socket::receive(Milliseconds timeout,
                                  MessageParser &parser) const {
  auto deadline = Clock::now() + timeout;
  for (;;) {
    if (!waitFor(fd, POLLIN, deadline))
      return rankLost("no answer");
    char data[4096];
    ssize_t count = recv(fd, data, sizeof(data), 0);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return rankLost("the connection was closed");
    parser.append(data, size_t(count));
    Message message;
    switch (parser.next(message)) {
    case MessageParser::Result::Message:
      return message;
    case MessageParser::Result::Malformed:
      return rankLost("not a lockstep run");
    case MessageParser::Result::Incomplete:
      break;
    }
  }
}

MessageParser::Result MessageParser::next(Message &message) {
  if (buffer.compare(0, std::min<size_t>(buffer.size(), 4), frameMagic,
                     std::min<size_t>(buffer.size(), 4)) != 0)
    return Result::Malformed;
  if (buffer.size() < 8)
    return Result::Incomplete;
  uint32_t size;
  std::memcpy(&size, buffer.data() + 4, sizeof(size));
  if (size < 1 || size > largestMessage)
    return Result::Malformed;
  if (buffer.size() < 8 + size_t(size))
    return Result::Incomplete;
  message = {MessageType(uint8_t(buffer[8])), {}};
  size_t position = 9, end = 8 + size_t(size);
  while (position < end) {
    uint32_t length;
    if (end - position < sizeof(length))
      return Result::Malformed;
    std::memcpy(&length, buffer.data() + position, sizeof(length));
    position += sizeof(length);
    if (end - position < length)
      return Result::Malformed;
    message.fields.push_back(buffer.substr(position, length));
    position += length;
  }
  buffer.erase(0, end);
  return Result::Message;
}

} // namespace lockstep::runtime
