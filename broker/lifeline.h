#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"

namespace meshbus {

/// The broker's end of the socket pair to its parent, the warden: texts both ways, and its end says
/// that the other is gone. Lives on the reactor's thread.
class Lifeline {
 public:
  struct Events {
    /// The warden says `stop`.
    std::function<void()> on_stop;
    /// The warden is gone.
    std::function<void()> on_end;
  };
  Lifeline(Reactor& reactor, UniqueFd fd, Events events);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// Sends one text without blocking. What cannot be sent is of no use any more: the warden is gone
  /// or does not read.
  void say(const std::string& text);

 private:
  void on_readable();

  Reactor& reactor_;
  UniqueFd fd_;
  Events events_;
};

}  // namespace meshbus
