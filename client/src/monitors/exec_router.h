#pragma once

#include <map>
#include <memory>
#include <string>

#include "client/src/monitors/exec_stream.h"
#include "common/wire/dispatcher.h"

namespace meshbus {

class Gateway;

/// The execs of a launcher through one connection. Lives on the reactor's thread.
class ExecRouter {
 public:
  explicit ExecRouter(Gateway& gateway) : gateway_(gateway) {}

  void handle(Dispatcher& handlers);
  void add(const std::shared_ptr<ExecStream>& stream);
  void remove(const ExecStream& stream) { streams_.erase(stream.number()); }
  /// Messages may have been lost.
  void resync_all();
  void lose(const HostAddr& host, const std::string& reason);
  void close(const std::string& reason);

 private:
  void on_output(const Request& request, const wire::ExecOutput& output);
  void on_ended(const Request& request, const wire::ExecEnded& ended);
  ExecStream* find(const Request& request, std::uint64_t number) const;

  Gateway& gateway_;
  std::map<std::uint64_t, std::shared_ptr<ExecStream>> streams_;
};

}  // namespace meshbus
