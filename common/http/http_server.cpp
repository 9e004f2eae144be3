#include "common/http/http_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace meshbus::http {
namespace {

using namespace std::chrono_literals;

/// How often deadlines are looked at; and the pause when no descriptor is free.
constexpr auto kTick = 250ms;
/// Accepted in one turn.
constexpr int kMostAccepted = 16;
/// The limit of connections bounds responses of this size.
constexpr std::size_t kFewBytes = 64 * 1024;

HttpResponse too_busy() {
  return text_response(503,
                       "other readers are behind by more bytes than this server holds: try "
                       "again");
}

}  // namespace

HttpConnection* HttpServer::Reply::find() const {
  if (alive_.expired()) return nullptr;
  const auto found = server_->connections_.find(id_);
  return found == server_->connections_.end() ? nullptr : &found->second;
}

void HttpServer::Reply::send(const HttpResponse& response) const {
  auto* connection = find();
  if (connection == nullptr) return;
  connection->answer(server_->has_room_for(response.body.size()) ? response : too_busy(),
                     server_->reactor_.now());
  server_->settle(id_);
}

void HttpServer::Reply::begin_stream(const HttpResponse& response) const {
  auto* connection = find();
  if (connection == nullptr) return;
  if (!server_->has_room_for(response.body.size())) return send(too_busy());
  connection->begin_stream(response, server_->reactor_.now());
  server_->settle(id_);
}

bool HttpServer::Reply::write(std::string_view bytes) const {
  auto* connection = find();
  if (connection == nullptr) return false;
  server_->make_room_for(bytes.size());
  connection = find();
  if (connection == nullptr) return false;
  const bool is_taken = connection->write(bytes, server_->reactor_.now());
  server_->settle(id_);
  return is_taken;
}

bool HttpServer::Reply::is_open() const {
  return find() != nullptr;
}

bool HttpServer::Reply::is_idle() const {
  const auto* connection = find();
  return connection != nullptr && connection->is_idle();
}

HttpServer::HttpServer(Reactor& reactor, HttpSocket socket, Limits limits, Handler handler)
    : reactor_(reactor), socket_(std::move(socket)), limits_(limits), handler_(std::move(handler)) {
  listen();
}

HttpServer::~HttpServer() {
  if (is_listening_) reactor_.forget(socket_.fd.get());
  reactor_.cancel(tick_);
  for (auto& [id, connection] : connections_) reactor_.forget(connection.fd());
}

void HttpServer::listen() {
  if (std::exchange(is_listening_, true)) return;
  reactor_.watch(socket_.fd.get(), EPOLLIN, [this](std::uint32_t) { on_connections(); });
}

void HttpServer::make_room_for(std::size_t bytes) {
  while (!has_room_for(bytes)) {
    const auto most = std::ranges::max_element(
        connections_, {}, [](const auto& one) { return one.second.pending(); });
    if (most == connections_.end() || most->second.pending() == 0) return;
    const std::uint64_t id = most->first;
    most->second.end();
    settle(id);
  }
}

bool HttpServer::has_room_for(std::size_t bytes) const {
  if (bytes <= kFewBytes) return true;
  for (const auto& [id, connection] : connections_) bytes += connection.pending();
  return bytes <= limits_.pending;
}

bool HttpServer::make_room() {
  if (connections_.size() < limits_.connections) return true;
  // Peers that open connections and ask for nothing must not keep out those that ask.
  const auto idle = std::ranges::find_if(connections_, [](const auto& entry) {
    const auto phase = entry.second.phase();
    return phase == HttpConnection::Phase::reading || phase == HttpConnection::Phase::lingering;
  });
  if (idle == connections_.end()) return false;
  const std::uint64_t id = idle->first;
  idle->second.end();
  settle(id);
  return true;
}

void HttpServer::on_connections() {
  for (int i = 0; i < kMostAccepted; ++i) {
    UniqueFd socket(::accept4(socket_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) break;
      // No descriptor is left: the socket would stay readable, so look again with the next tick.
      reactor_.forget(socket_.fd.get());
      is_listening_ = false;
      break;
    }
    if (!make_room()) continue;
    const std::uint64_t id = next_id_++;
    connections_.try_emplace(id, std::move(socket), limits_.connection, reactor_.now());
    settle(id);
  }
  if (tick_ == 0) tick_ = reactor_.after(kTick, [this] { on_tick(); });
}

void HttpServer::on_event(std::uint64_t id, std::uint32_t events) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const auto now = reactor_.now();
  if ((events & EPOLLOUT) != 0) found->second.on_writable(now);
  std::optional<HttpRequest> request;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
    request = found->second.on_readable(now);
  const bool is_broken = (events & (EPOLLHUP | EPOLLERR)) != 0;
  if (is_broken && !request) found->second.end();
  settle(id);
  if (request) handler_(*request, Reply(*this, id));
}

void HttpServer::settle(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  HttpConnection& connection = found->second;
  if (connection.phase() == HttpConnection::Phase::ended) {
    reactor_.forget(connection.fd());
    connections_.erase(found);
    return;
  }
  reactor_.watch(connection.fd(), connection.interest(),
                 [this, id](std::uint32_t events) { on_event(id, events); });
}

void HttpServer::on_tick() {
  tick_ = 0;
  listen();
  const auto now = reactor_.now();
  std::vector<std::uint64_t> due;
  for (const auto& [id, connection] : connections_) {
    if (connection.deadline() && now >= *connection.deadline()) due.push_back(id);
  }
  for (const std::uint64_t id : due) {
    connections_.at(id).on_deadline();
    settle(id);
  }
  if (!connections_.empty()) tick_ = reactor_.after(kTick, [this] { on_tick(); });
}

}  // namespace meshbus::http
