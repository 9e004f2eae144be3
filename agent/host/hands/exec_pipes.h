#pragma once

#include <functional>
#include <utility>

#include "agent/host/hands/exec_output.h"
#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"

namespace meshbus::host {

/// stdout and stderr of an exec: read only as far as its requester takes what was read before.
/// Lives on the reactor's thread.
class ExecPipes {
 public:
  /// `on_news`: something was read, or a stream has ended.
  ExecPipes(Reactor& reactor, std::size_t window, std::function<void()> on_news)
      : reactor_(reactor), output_(window), on_news_(std::move(on_news)) {}
  ~ExecPipes();
  ExecPipes(const ExecPipes&) = delete;
  ExecPipes& operator=(const ExecPipes&) = delete;

  void attach(UniqueFd out, UniqueFd err);
  /// Nobody takes it any more: it is read and dropped, so that the process comes to its end.
  void discard();
  /// Nothing more belongs to this exec, although other processes may hold the pipes open: takes
  /// what is there now and ends both streams.
  void finish();
  /// There may be room again.
  void read_on();
  bool are_ended() const noexcept { return out_.is_ended && err_.is_ended; }
  ExecOutput& output() noexcept { return output_; }

 private:
  struct Pipe {
    wire::Stream stream;
    UniqueFd fd;
    bool is_watched = false;
    bool is_ended = false;
  };
  void read(Pipe& pipe);
  void take(const Pipe& pipe, Bytes bytes);
  void read_rest(const Pipe& pipe);

  Reactor& reactor_;
  ExecOutput output_;
  std::function<void()> on_news_;
  Pipe out_{.stream = wire::Stream::out, .fd = {}};
  Pipe err_{.stream = wire::Stream::err, .fd = {}};
  bool is_discarding_ = false;
};

}  // namespace meshbus::host
