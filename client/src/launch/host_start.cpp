// LaunchedHost: many of them at once, from their start until all are ready or none is left.
#include <poll.h>

#include <algorithm>
#include <set>

#include "client/src/base/time_left.h"
#include "client/src/launch/launched_host.h"
#include "common/base/quantity.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;
using HostChange = AllocationEvent::Kind;

/// Ends those that are left of a start that failed.
void end_all(const std::vector<std::shared_ptr<LaunchedHost>>& hosts, const std::string& reason,
             const std::set<std::size_t>& failed, const LaunchedHost::Teller& tell) {
  for (const auto& host : hosts) host->close_lifeline();
  const auto end = Clock::now() + LaunchedHost::kEndLimit;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    hosts[i]->end_by(end);
    if (!failed.contains(i)) tell({HostChange::stopped, i, hosts[i]->address(), reason});
  }
}

}  // namespace

Result<std::vector<std::shared_ptr<LaunchedHost>>> LaunchedHost::start(
    const std::string& program, const std::vector<std::string>& arguments, std::uint64_t count,
    std::chrono::milliseconds deadline, const Teller& tell) {
  std::vector<std::shared_ptr<LaunchedHost>> hosts;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::shared_ptr<LaunchedHost> host(new LaunchedHost());
    if (auto spawned = host->spawn(program, arguments); !spawned) {
      tell({HostChange::failed, i, {}, spawned.error().detail()});
      end_all(hosts, "host " + std::to_string(i) + " failed", {}, tell);
      return fail(spawned.error().within("host " + std::to_string(i)));
    }
    tell({HostChange::created, i, {}, {}});
    hosts.push_back(std::move(host));
  }
  const auto end = Clock::now() + deadline;
  const auto is_open = [](const std::shared_ptr<LaunchedHost>& host) {
    return !host->announcement_ && host->problem_.empty();
  };
  // One that fails ends the wait: the others would be ended anyway.
  while (std::any_of(hosts.begin(), hosts.end(), is_open) &&
         std::all_of(hosts.begin(), hosts.end(),
                     [](const auto& host) { return host->problem_.empty(); })) {
    const auto left = left_until(end);
    if (left.count() <= 0) break;
    std::vector<pollfd> fds;
    for (const auto& host : hosts) {
      fds.push_back({host->ready_.get(), POLLIN, 0});
      fds.push_back({host->stderr_.get(), POLLIN, 0});
    }
    ::poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (fds[2 * i].revents != 0) {
        hosts[i]->read_ready();
        if (hosts[i]->announcement_)
          tell({HostChange::running, i, hosts[i]->announcement_->host, {}});
      }
      if (fds[2 * i + 1].revents != 0 && !hosts[i]->read_stderr()) hosts[i]->stderr_.reset();
    }
  }
  std::string problems;
  std::string names;
  std::set<std::size_t> failed;
  bool is_timeout = false;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    auto& host = *hosts[i];
    if (host.announcement_) continue;
    if (is_open(hosts[i])) {
      if (Clock::now() < end) continue;  // it would have become ready; another one failed
      is_timeout = true;
      host.problem_ = "not ready within " + duration_to_text(deadline);
    } else {
      // It said that it cannot, or closed its descriptor: it is about to end, and its last words
      // matter.
      host.close_lifeline();
      pollfd ended{host.pidfd_.get(), POLLIN, 0};
      ::poll(&ended, 1, 2000);
      if (host.reap() && host.problem_ == "it ended without a word") host.problem_ = host.how_;
    }
    if (host.stderr_) host.read_stderr();
    tell({HostChange::failed, i, {}, host.problem_ + host.quoted_last_words()});
    failed.insert(i);
    names += (names.empty() ? "host " : ", ") + std::to_string(i);
    problems += (problems.empty() ? "" : "; ") +
                ("host " + std::to_string(i) + " (" + program + " host, pid " +
                 std::to_string(host.pid_) + "): ") +
                host.problem_ + host.quoted_last_words();
  }
  if (problems.empty()) return hosts;
  end_all(hosts, names + " failed", failed, tell);
  return fail(is_timeout ? ErrorCode::timeout : ErrorCode::configuration_error, problems);
}

void LaunchedHost::end_by(Clock::time_point deadline) {
  if (!end_within(left_until(deadline)).empty()) return;
  kill();
  end_within(kEndLimit);
}

}  // namespace meshbus
