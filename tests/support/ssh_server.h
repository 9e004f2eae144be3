#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace meshbus::test {

/// A real sshd with keys, configuration and port of its own, on 127.0.0.1 and ::1 where there is
/// one, in which only this user may log in, by a key that was made for it. Each login gets a
/// greeting, so that there is noise on stdout. With it comes a configuration for `ssh` in PATH: the
/// names `a`, `b`, `c` are this server; `stranger` uses a key that it does not take; `unknown`
/// expects another host key; `nowhere` is not found; on the port of `deaf` nothing listens.
class SshServer {
 public:
  /// In plain words why there can be none here; empty when there can.
  static const std::string& why_not();

  /// `environment`: for what is run there.
  explicit SshServer(const std::vector<std::pair<std::string, std::string>>& environment);
  SshServer(const SshServer&) = delete;
  SshServer& operator=(const SshServer&) = delete;

  /// The PATH in which `ssh` knows it.
  std::string path() const;
  std::uint16_t port() const noexcept { return port_; }
  /// Pids of the processes that serve connections.
  std::vector<pid_t> sessions() const;

 private:
  bool start(const std::string& config);

  TempDir dir_;
  std::uint16_t port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace meshbus::test
