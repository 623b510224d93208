#include "runtime/comm/control_server.h"

#include <algorithm>
#include <cstdlib>
#include <poll.h>
#include <sys/socket.h>

namespace lockstep::runtime {

ControlServer::ControlServer(Socket listener, RunIdentity identity,
                             ControlTimeouts limits)
    : listener(std::move(listener)), identity(std::move(identity)),
      limits(limits), started(Clock::now()), thread([this] { serve(); }) {}

ControlServer::~ControlServer() {
  shutdown = true;
  thread.join();
}

int ControlServer::present() const {
  return int(std::count_if(peers.begin(), peers.end(), [](const auto &entry) {
    return entry.second.rank >= 0;
  }));
}

void ControlServer::serve() {
  Clock::time_point lastChance;
  for (bool leaving = false;;) {
    std::vector<pollfd> polled = {{listener.descriptor(), POLLIN, 0}};
    for (const auto &[fd, peer] : peers)
      polled.push_back({fd, POLLIN, 0});
    poll(polled.data(), polled.size(), 100);
    for (size_t i = 1; i < polled.size(); ++i)
      if (polled[i].revents) {
        Peer &peer = peers.at(polled[i].fd);
        if (readPeer(peer))
          continue;
        if (peer.rank >= 0 && !peer.done && !ended)
          lose(peer, "its connection closed");
        peers.erase(polled[i].fd);
      }
    if (polled[0].revents)
      acceptPeer();
    checkClocks();
    tellOwnRank();
    bool allDone =
        ready && std::all_of(peers.begin(), peers.end(), [](const auto &entry) {
          return entry.second.rank < 0 || entry.second.done;
        });
    if (allDone && !ended) {
      ended = true;
      sendAll({MessageType::Bye, {}});
    }
    // The process ends after this thread; a rank that is still on its way out
    // has a moment to read what was sent.
    if (shutdown && !leaving) {
      leaving = true;
      lastChance = Clock::now() + Milliseconds(ended ? 200 : 2000);
    }
    if (leaving && (peers.empty() || Clock::now() > lastChance))
      return;
  }
}

void ControlServer::acceptPeer() {
  StatusOr<Socket> accepted = listener.accept();
  if (!accepted.ok())
    return;
  int fd = accepted->descriptor();
  Peer &peer = peers[fd];
  peer.socket = std::move(*accepted);
  peer.heard = peer.moved = Clock::now();
}

bool ControlServer::readPeer(Peer &peer) {
  char data[65536];
  ssize_t count =
      recv(peer.socket.descriptor(), data, sizeof(data), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return true;
  if (count <= 0)
    return false;
  peer.heard = Clock::now();
  peer.parser.append(data, size_t(count));
  for (;;) {
    Message message;
    switch (peer.parser.next(message)) {
    case MessageParser::Result::Message:
      if (!handle(peer, message))
        return false;
      break;
    case MessageParser::Result::Malformed:
      return false;
    case MessageParser::Result::Incomplete:
      return true;
    }
  }
}

/// The field, or "" when the message is shorter.
static std::string field(const Message &message, size_t index) {
  return index < message.fields.size() ? message.fields[index] : "";
}

bool ControlServer::handle(Peer &peer, const Message &message) {
  if (message.type == MessageType::Hello)
    return hello(peer, message);
  if (peer.rank < 0)
    return false;
  switch (message.type) {
  case MessageType::Set:
    values[field(message, 0)] = field(message, 1);
    answerGets(field(message, 0));
    return true;
  case MessageType::Get:
    waitingGets.emplace(field(message, 0), peer.socket.descriptor());
    answerGets(field(message, 0));
    return true;
  case MessageType::Beat:
    beat(peer, message);
    return true;
  case MessageType::Fail:
    end(field(message, 0),
        identity.ranks > 1 && !field(message, 1).empty()
            ? "rank " + std::to_string(peer.rank) + ": " + field(message, 1)
            : field(message, 1));
    return true;
  case MessageType::Stop:
    hold(field(message, 0));
    return true;
  case MessageType::Held:
    peer.heldAt = field(message, 0);
    commitWhenHeld();
    return true;
  case MessageType::Bye:
    peer.done = true;
    return true;
  default:
    return false;
  }
}

// Fields of Hello: base port, rank, ranks, plan hash, plan name, flags, place.
bool ControlServer::hello(Peer &peer, const Message &message) {
  if (field(message, 0) != std::to_string(identity.basePort)) {
    (void)peer.socket.send({MessageType::WrongJob, {}});
    return false;
  }
  peer.place = field(message, 6);
  std::string rank = "rank " + field(message, 1) + " (" + peer.place + ")";
  auto refuse = [&](const std::string &text) {
    (void)peer.socket.send({MessageType::Welcome, {}});
    (void)peer.socket.send({MessageType::End, {"1", text}});
    end("1", text);
    return false;
  };
  if (ended) { // before this rank came
    (void)peer.socket.send({MessageType::Welcome, {}});
    (void)peer.socket.send(lastWord);
    return false;
  }
  if (field(message, 2) != std::to_string(identity.ranks))
    return refuse(rank + " expects " + field(message, 2) +
                  " ranks, but rank 0 expects " +
                  std::to_string(identity.ranks) +
                  "; start all ranks with the same world size");
  if (field(message, 3) != identity.planHash)
    return refuse("rank 0 has the plan " + identity.planHash.substr(0, 16) +
                  " (" + identity.planName + "), but " + rank +
                  " has the plan " + field(message, 3).substr(0, 16) + " (" +
                  field(message, 4) + "); give every rank the same artifact");
  if (field(message, 5) != identity.flags)
    return refuse("rank 0 runs with the flags '" + identity.flags + "', but " +
                  rank + " with '" + field(message, 5) +
                  "'; start all ranks with the same flags");
  int number = atoi(field(message, 1).c_str());
  for (const auto &[fd, other] : peers)
    if (other.rank == number)
      return refuse("two processes are rank " + field(message, 1) + ": " +
                    other.place + " and " + peer.place);
  peer.rank = number;
  if (!peer.socket.send({MessageType::Welcome, {}}).ok())
    return false;
  if (present() == identity.ranks) {
    ready = true;
    sendAll({MessageType::Ready, {}});
  }
  return true;
}

void ControlServer::answerGets(const std::string &key) {
  auto value = values.find(key);
  if (value == values.end())
    return;
  auto [begin, finish] = waitingGets.equal_range(key);
  for (auto it = begin; it != finish; ++it)
    if (auto peer = peers.find(it->second); peer != peers.end())
      (void)peer->second.socket.send(
          {MessageType::Value, {key, value->second}});
  waitingGets.erase(begin, finish);
}

// Fields of Beat: step, instructions, whether in a collective, last line.
void ControlServer::beat(Peer &peer, const Message &message) {
  std::string position = field(message, 0) + "/" + field(message, 1);
  if (position != peer.position) {
    peer.position = position;
    peer.moved = Clock::now();
  }
  peer.waiting = field(message, 2) == "1";
  peer.lastLine = field(message, 3);
}

void ControlServer::hold(const std::string &signal) {
  if (holding)
    return;
  holding = true;
  stopSignal = signal;
  sendAll({MessageType::Hold, {}});
}

/// All ranks said where they are: the furthest one decides.
void ControlServer::commitWhenHeld() {
  long long last = -1;
  for (const auto &[fd, peer] : peers) {
    if (peer.rank < 0 || peer.done)
      continue;
    if (peer.heldAt.empty())
      return;
    last = std::max(last, atoll(peer.heldAt.c_str()));
  }
  sendAll({MessageType::Commit, {std::to_string(last), stopSignal}});
}

std::string ControlServer::describe(const Peer &peer) const {
  std::string text =
      "rank " + std::to_string(peer.rank) + " (" + peer.place + ")";
  return text;
}

void ControlServer::lose(const Peer &peer, const std::string &reason) {
  std::string text = describe(peer) + " was lost: " + reason;
  if (!peer.lastLine.empty())
    text += "; its last line: " + peer.lastLine;
  end("4", text);
}

void ControlServer::checkClocks() {
  if (ended)
    return;
  Clock::time_point now = Clock::now();
  if (!ready) {
    if (now - started < limits.rendezvous)
      return;
    std::string missing;
    for (int rank = 0; rank < identity.ranks; ++rank)
      if (std::none_of(peers.begin(), peers.end(), [&](const auto &entry) {
            return entry.second.rank == rank;
          }))
        missing +=
            (missing.empty() ? "rank " : ", rank ") + std::to_string(rank);
    return end("4", missing + " did not appear in time; start every rank with "
                              "the same MASTER_ADDR and MASTER_PORT");
  }
  const Peer *stuck = nullptr;
  for (const auto &[fd, peer] : peers) {
    if (peer.rank < 0 || peer.done)
      continue;
    if (now - peer.heard > limits.silence)
      return lose(peer, "no sign of life for " +
                            std::to_string(limits.silence.count() / 1000) +
                            " s");
    // When all stand still, those that wait for others are not to blame.
    if (now - peer.moved > limits.hang && !peer.position.empty() &&
        (!stuck || (stuck->waiting && !peer.waiting) ||
         (stuck->waiting == peer.waiting && peer.moved < stuck->moved)))
      stuck = &peer;
  }
  if (stuck)
    lose(*stuck, "no progress for " +
                     std::to_string(limits.hang.count() / 1000) +
                     " s (step/instruction " + stuck->position + ")");
}

void ControlServer::end(const std::string &code, const std::string &text) {
  if (ended)
    return;
  ended = true;
  lastWord = {MessageType::End, {code, text}};
  for (const auto &[fd, peer] : peers)
    if (peer.rank > 0)
      (void)peer.socket.send(lastWord);
  tellOwnAt = Clock::now() + Milliseconds(1000);
}

/// Rank 0's process, and this thread with it, ends when rank 0 hears that the
/// run has: after the others, who hear it from here.
void ControlServer::tellOwnRank() {
  if (!tellOwnAt)
    return;
  bool others = std::any_of(peers.begin(), peers.end(), [](const auto &entry) {
    return entry.second.rank != 0;
  });
  if (others && Clock::now() < *tellOwnAt)
    return;
  tellOwnAt.reset();
  for (const auto &[fd, peer] : peers)
    if (peer.rank == 0)
      (void)peer.socket.send(lastWord);
}

void ControlServer::sendAll(const Message &message) {
  for (const auto &[fd, peer] : peers)
    if (peer.rank >= 0)
      (void)peer.socket.send(message);
}

} // namespace lockstep::runtime
