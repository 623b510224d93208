#include "runtime/comm/control_client.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::runtime {

static constexpr Milliseconds beatEvery{1000};

std::string placeOfProcess() {
  char host[HOST_NAME_MAX + 1] = "?";
  gethostname(host, sizeof(host) - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

StatusOr<std::unique_ptr<ControlClient>>
ControlClient::join(const std::string &host, int firstPort, int portsToTry,
                    int rank, const RunIdentity &identity,
                    const ControlTimeouts &limits, ControlCallbacks callbacks) {
  auto deadline = std::chrono::steady_clock::now() + limits.rendezvous;
  Message hello{MessageType::Hello,
                {std::to_string(identity.basePort), std::to_string(rank),
                 std::to_string(identity.ranks), identity.planHash,
                 identity.planName, identity.flags, placeOfProcess()}};
  std::string reason = "no answer";
  for (int attempt = 0;; ++attempt) {
    if (std::chrono::steady_clock::now() > deadline)
      return rankLost("cannot reach rank 0 at " + host + ":" +
                      std::to_string(firstPort) + ": " + reason)
          .remedy("check that rank 0 runs there, and MASTER_ADDR and "
                  "MASTER_PORT");
    int port = firstPort + attempt % portsToTry;
    StatusOr<Socket> socket = Socket::connect(host, port, Milliseconds(2000));
    if (!socket.ok())
      reason = socket.status().what();
    if (socket.ok() && socket->send(hello).ok()) {
      MessageParser parser;
      StatusOr<Message> answer = socket->receive(Milliseconds(3000), parser);
      if (answer.ok() && answer->type == MessageType::Welcome) {
        std::unique_ptr<ControlClient> client(new ControlClient(
            std::move(*socket), std::move(parser), std::move(callbacks)));
        client->reader = std::thread([raw = client.get()] { raw->read(); });
        std::unique_lock<std::mutex> lock(client->mutex);
        client->changed.wait(lock,
                             [&] { return client->ready || client->broken; });
        if (client->broken)
          return rankLost("the connection to rank 0 was lost");
        return client;
      }
      reason =
          answer.ok() ? "the port serves another run" : answer.status().what();
    }
    if (attempt % portsToTry == portsToTry - 1)
      std::this_thread::sleep_for(Milliseconds(50));
  }
}

ControlClient::~ControlClient() {
  closing = true;
  shutdown(socket.descriptor(), SHUT_RDWR);
  if (reader.joinable())
    reader.join();
}

Status ControlClient::send(const Message &message) {
  std::lock_guard<std::mutex> lock(sending);
  return socket.send(message);
}

void ControlClient::beat() {
  RankPosition position = callbacks.position();
  std::string line;
  {
    std::lock_guard<std::mutex> lock(mutex);
    line = lastLine;
  }
  (void)send(
      {MessageType::Beat,
       {std::to_string(position.step), std::to_string(position.instructions),
        position.waiting ? "1" : "0", line}});
}

void ControlClient::read() {
  auto lastBeat = std::chrono::steady_clock::now() - beatEvery;
  while (!closing) {
    Message message;
    MessageParser::Result result;
    while ((result = parser.next(message)) == MessageParser::Result::Message)
      if (!handle(message))
        return;
    if (result == MessageParser::Result::Malformed)
      break;
    auto now = std::chrono::steady_clock::now();
    if (now - lastBeat >= beatEvery) {
      beat();
      lastBeat = now;
    }
    pollfd wait{socket.descriptor(), POLLIN, 0};
    if (poll(&wait, 1, 250) <= 0)
      continue;
    char data[65536];
    ssize_t count = recv(socket.descriptor(), data, sizeof(data), 0);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      break;
    parser.append(data, size_t(count));
  }
  std::unique_lock<std::mutex> lock(mutex);
  broken = true;
  changed.notify_all();
  bool expected = closing || goodbye || leaving;
  lock.unlock();
  if (!expected)
    callbacks.end(int(ExitCode::RankLost),
                  "rank 0 was lost: its connection closed");
}

bool ControlClient::handle(const Message &message) {
  std::unique_lock<std::mutex> lock(mutex);
  auto text = [&](size_t i) {
    return i < message.fields.size() ? message.fields[i] : std::string();
  };
  switch (message.type) {
  case MessageType::Ready:
    ready = true;
    break;
  case MessageType::Value:
    values[text(0)] = text(1);
    break;
  case MessageType::End:
    if (leaving) // this rank failed itself and says so itself
      return false;
    lock.unlock();
    callbacks.end(atoi(text(0).c_str()), text(1));
    return false;
  case MessageType::Hold: {
    held = true;
    std::string step = std::to_string(currentStep);
    lock.unlock();
    (void)send({MessageType::Held, {step}});
    return true;
  }
  case MessageType::Commit:
    held = false;
    lastStep = atoll(text(0).c_str());
    stopSignal = atoi(text(1).c_str());
    break;
  case MessageType::Bye:
    goodbye = true;
    break;
  default:
    break;
  }
  changed.notify_all();
  return true;
}

Status ControlClient::set(const std::string &key, const std::string &value) {
  return send({MessageType::Set, {key, value}});
}

StatusOr<std::string> ControlClient::get(const std::string &key) {
  LOCKSTEP_RETURN_IF_ERROR(send({MessageType::Get, {key}}));
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return values.count(key) || broken; });
  if (!values.count(key))
    return rankLost("the connection to rank 0 was lost");
  return values[key];
}

void ControlClient::setLastLine(const std::string &line) {
  std::lock_guard<std::mutex> lock(mutex);
  lastLine = line;
}

void ControlClient::fail(int exitCode, const std::string &text) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    leaving = true;
  }
  (void)send({MessageType::Fail, {std::to_string(exitCode), text}});
}

void ControlClient::requestStop(int signal) {
  (void)send({MessageType::Stop, {std::to_string(signal)}});
}

std::optional<int> ControlClient::stopBefore(int64_t step) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return !held || broken; });
  if (lastStep && step > *lastStep)
    return stopSignal;
  currentStep = step;
  return std::nullopt;
}

Status ControlClient::leave() {
  LOCKSTEP_RETURN_IF_ERROR(send({MessageType::Bye, {}}));
  std::unique_lock<std::mutex> lock(mutex);
  leaving = true;
  changed.wait(lock, [&] { return goodbye || broken; });
  return Status::success();
}

} // namespace lockstep::runtime
