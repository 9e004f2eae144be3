#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "common/http/http_message.h"
#include "common/http/http_parser.h"
#include "common/loop/reactor.h"

namespace meshbus::http {

/// One connection of an HTTP server: one request, one response or stream, then its end. It never
/// blocks, holds a bounded number of bytes, and every phase but `answering` has a deadline. The
/// server watches its descriptor.
class HttpConnection {
 public:
  using Time = Reactor::Time;
  enum class Phase : std::uint8_t {
    reading,    ///< The request is coming.
    answering,  ///< The server makes the response.
    writing,    ///< The response is leaving.
    streaming,  ///< The same, and more may be added.
    lingering,  ///< All is written; waits for the peer to have read it.
    ended,
  };
  struct Limits {
    HttpParser::Limits request = {};
    std::size_t stream = 4 * 1024 * 1024;  ///< Bytes that a reader has not taken.
    std::chrono::milliseconds reading{5'000};
    /// Nothing of a response or stream was taken for so long.
    std::chrono::milliseconds writing{20'000};
    std::chrono::milliseconds lingering{1'000};
  };

  HttpConnection(UniqueFd socket, const Limits& limits, Time now);

  int fd() const noexcept { return socket_.get(); }
  Phase phase() const noexcept { return phase_; }
  /// All that is to leave has left.
  bool is_idle() const noexcept { return output_.empty(); }
  /// Bytes held for the peer.
  std::size_t pending() const noexcept { return output_.size(); }
  /// What to wait for: EPOLLIN, EPOLLOUT.
  std::uint32_t interest() const noexcept;
  /// When on_deadline() is due.
  std::optional<Time> deadline() const noexcept { return deadline_; }

  /// Reads what has come. Returns the request once it is complete; a refused one is answered here.
  std::optional<HttpRequest> on_readable(Time now);
  void on_writable(Time now);
  void on_deadline();

  /// Answers the request: call it once, in `answering`.
  void answer(const HttpResponse& response, Time now);
  /// Begins a stream: the same, but write() may follow.
  void begin_stream(const HttpResponse& response, Time now);
  /// Adds to the stream. False: the stream is over, or its reader is too slow and loses it.
  bool write(std::string_view bytes, Time now);
  void end() { enter(Phase::ended, {}); }

 private:
  void enter(Phase phase, std::optional<Time> deadline);
  void flush(Time now);
  /// Reads and forgets. False: the peer is gone.
  bool discard();

  UniqueFd socket_;
  const Limits& limits_;
  Phase phase_ = Phase::reading;
  std::optional<Time> deadline_;
  bool is_head_ = false;  ///< The request was a HEAD: its response has no body.
  std::string input_;
  std::string output_;
  std::size_t written_ = 0;  ///< Bytes of output_ that have left.
};

}  // namespace meshbus::http
