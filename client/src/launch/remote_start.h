#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/src/launch/launched_host.h"
#include "meshbus/remote_hosts.h"
#include "meshbus/result.h"

namespace meshbus {

/// What a host that is started from afar is told before it starts. `meshbus host --remote` reads it
/// (cli/hosts/remote_host.cpp).
struct RemoteOrder {
  /// As --set takes them.
  std::vector<std::string> settings;
  std::string containment;
  /// The key of all hosts that are started together: each of them may be any of them.
  std::string host_public_key;
  std::string host_secret_key;
  /// The key of the launcher, which is an operator to them.
  std::string launcher_public_key;
  /// The address to be known by, if it is one of the machine's. Empty: the host finds its own.
  std::string address = {};

  std::string to_json_line() const;
};

/// Starts a host by each of these commands, in parallel, and waits until all are ready. What is
/// said, a line of JSON each: the order; where the host is (an IP address or a name), back; where
/// all of them are; the ready line, back. All or none: on error what did start is ended, and the
/// error names each machine that failed, why, and what to do. Any thread but the reactor's.
Result<std::vector<std::shared_ptr<LaunchedHost>>> start_remote(
    const std::vector<RemoteHost>& hosts, const RemoteOrder& order,
    std::chrono::milliseconds deadline, const LaunchedHost::Teller& tell);

/// What to do about a command that failed with these last words, for people. Empty: nobody knows.
/// Pure.
std::string advice(const std::string& how, const std::string& words);

}  // namespace meshbus
