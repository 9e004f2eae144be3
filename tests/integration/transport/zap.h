#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "common/loop/reactor.h"
#include "meshbus/result.h"

namespace meshbus {

/// Answers libzmq's question whether a connection with that key may go on (ZAP, RFC 27). libzmq
/// lets everybody in while nobody answers, so this is there before the first socket with keys is
/// bound and goes after the last; and Admission takes nobody without its word. One for each zmq
/// context. Lives on the reactor's thread.
class Zap {
 public:
  /// The domain of sockets that ask here. Without one libzmq would not ask.
  static constexpr const char* kDomain = "meshbus";
  /// Whether a connection with that key (Z85) from that address may come in. Nothing, if
  /// `may_wait`: the connection waits for ask_again().
  using Judge = std::function<std::optional<bool>(std::string_view key, std::string_view address,
                                                  bool may_wait)>;

  /// Errors: io_error (this zmq context has one already).
  static Result<std::unique_ptr<Zap>> open(Reactor& reactor, zmq::context_t& context, Judge judge);
  ~Zap();
  Zap(const Zap&) = delete;
  Zap& operator=(const Zap&) = delete;

  /// Judges the connections that wait.
  void ask_again();

 private:
  Zap(Reactor& reactor, zmq::context_t& context, Judge judge);
  using Question = std::vector<zmq::message_t>;
  bool on_readable();
  void answer(Question& question, bool may_wait);

  Reactor& reactor_;
  Judge judge_;
  zmq::socket_t socket_;
  std::vector<Question> waiting_;
};

}  // namespace meshbus
