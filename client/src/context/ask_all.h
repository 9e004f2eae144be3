#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/src/base/time_left.h"
#include "client/src/context/connection.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

/// A question to many hosts that may be repeated: for handovers.
namespace meshbus {

/// A host that did not answer is asked again after so long.
inline constexpr std::chrono::milliseconds kAskAllAgain{250};
/// For one answer: agents and controllers answer at once.
inline constexpr std::chrono::milliseconds kAskAllLimit{3000};

inline std::chrono::milliseconds ask_limit(std::chrono::steady_clock::time_point end) {
  return std::clamp<std::chrono::milliseconds>(left_until(end), std::chrono::milliseconds(1),
                                               kAskAllLimit);
}

/// Whether asking again may help.
inline bool may_pass(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
    case ErrorCode::fate_unknown:
    case ErrorCode::host_unreachable:
    case ErrorCode::link_lost:
    case ErrorCode::queue_full:
    case ErrorCode::no_such_proc: return true;  // an agent that is being replaced
    default: return false;
  }
}

/// The hosts that have not done it, and why.
using HostProblems = std::map<HostAddr, Error>;

/// Asks all of them once; or those that did not answer again, until the end. `message_for(host)`:
/// what each of them is asked. Waits.
template <typename MessageFor>
HostProblems ask_all(Connection& connection, std::vector<HostAddr> hosts, MessageFor message_for,
                     std::chrono::steady_clock::time_point end, bool once = false) {
  HostProblems problems;
  for (;;) {
    std::vector<std::pair<HostAddr, Connection::Answer>> answers;
    for (const auto& host : hosts)
      answers.emplace_back(
          host, connection.ask(Destination::to_agent(host), message_for(host), ask_limit(end)));
    hosts.clear();
    for (auto& [host, future] : answers) {
      const auto answer = future.get();
      problems.erase(host);
      if (answer) continue;
      problems.emplace(host, answer.error());
      if (may_pass(answer.error().code())) hosts.push_back(host);
    }
    if (hosts.empty() || once || left_until(end) <= kAskAllAgain) return problems;
    std::this_thread::sleep_for(kAskAllAgain);
  }
}

/// "1 of 2 hosts have confirmed it ...; not HOST: why", with the code of the first problem.
inline tl::unexpected<Error> not_confirmed(const std::string& what, std::size_t hosts,
                                           const HostProblems& problems) {
  std::string detail = what + ": " + std::to_string(hosts - problems.size()) + " of " +
                       std::to_string(hosts) +
                       " hosts have confirmed it, and it is not done before all have: do it again";
  for (const auto& [host, error] : problems)
    detail += "; not " + host.to_string() + ": " + error.to_string();
  return fail(problems.begin()->second.code(), std::move(detail));
}

}  // namespace meshbus
