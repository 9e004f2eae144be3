#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/http/http_connection.h"
#include "common/http/http_message.h"
#include "common/http/http_socket.h"
#include "common/loop/reactor.h"

namespace meshbus::http {

/// Serves HTTP from a listening socket. Slow and hostile peers cost a bounded number of
/// connections, bytes and seconds (HttpConnection::Limits), and no thread. Lives on the reactor's
/// thread.
class HttpServer {
 public:
  struct Limits {
    std::size_t connections = 64;
    /// Bytes held for all peers together: a large response that does not fit is 503, and the stream
    /// of the peer that is behind most ends.
    std::size_t pending = 1024 * 1024 * 1024;
    HttpConnection::Limits connection = {};
  };

  /// The way to answer one request, now or later; a copy is the same way. When the peer is gone, or
  /// the server, nothing of it has an effect.
  class Reply {
   public:
    void send(const HttpResponse& response) const;
    /// Answers with a stream instead, which ends with the connection.
    void begin_stream(const HttpResponse& response) const;
    /// Adds to the stream. False: it is over.
    bool write(std::string_view bytes) const;
    bool is_open() const;
    /// Whether all that was written to the stream has left.
    bool is_idle() const;

   private:
    friend class HttpServer;
    Reply(HttpServer& server, std::uint64_t id)
        : server_(&server), alive_(server.alive_), id_(id) {}
    HttpConnection* find() const;

    HttpServer* server_;
    std::weak_ptr<void> alive_;
    std::uint64_t id_;
  };
  /// Gets every request that is well-formed.
  using Handler = std::function<void(const HttpRequest&, const Reply&)>;

  HttpServer(Reactor& reactor, HttpSocket socket, Limits limits, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const HttpSocket& socket() const noexcept { return socket_; }
  std::size_t connections() const noexcept { return connections_.size(); }

 private:
  void listen();
  void on_connections();
  /// Whether so many bytes more may be held for peers. Few always may.
  bool has_room_for(std::size_t bytes) const;
  /// Ends the connection that holds most, until they may be.
  void make_room_for(std::size_t bytes);
  /// Makes room for one more. False: every connection has a request that is being answered.
  bool make_room();
  void on_event(std::uint64_t id, std::uint32_t events);
  /// After anything was done with the connection: watches it for what it waits for now, or deletes
  /// it.
  void settle(std::uint64_t id);
  void on_tick();

  Reactor& reactor_;
  HttpSocket socket_;
  Limits limits_;
  Handler handler_;
  std::map<std::uint64_t, HttpConnection> connections_;  // by number: the oldest comes first
  std::uint64_t next_id_ = 1;
  Reactor::TimerId tick_ = 0;
  bool is_listening_ = false;
  /// Lets a Reply see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus::http
