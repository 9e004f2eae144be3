#include <algorithm>
#include <thread>

#include "client/src/host_mesh_impl.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;
/// A host whose lifeline has ended is gone within two seconds (spec 4.7).
constexpr std::chrono::milliseconds kLifelineLimit{2500};
/// How often an attached host's address is tried while it leaves.
constexpr std::chrono::milliseconds kProbeInterval{10};

std::chrono::milliseconds left_until(Clock::time_point end) {
  return std::max(std::chrono::milliseconds(0), std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()));
}

/// Waits until nothing listens at that address any more.
bool wait_free(const HostAddr& host, Clock::time_point end) {
  while (probe(host)) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(kProbeInterval);
  }
  return true;
}

}  // namespace

HostMesh::Impl::~Impl() {
  if (!core()->check_process()) {
    // A forked child: the hosts are its parent's. Their lifelines are closed on exec; here they are kept as they are.
    new std::vector<std::shared_ptr<HostProcess>>(std::move(processes_));
    return;
  }
  for (const auto& process : processes_) process->close_lifeline();
}

ConnectionUse HostMesh::Impl::use() const {
  return core()->use_again(core(), connection_.get());
}

Result<ShutdownSummary> HostMesh::Impl::shutdown(std::chrono::milliseconds deadline, std::optional<std::chrono::milliseconds> grace,
                                                 std::string_view reason) {
  const std::lock_guard lock(shutdown_mutex_);
  if (shutdown_) return *shutdown_;
  const auto end = Clock::now() + std::min<std::chrono::milliseconds>(deadline, std::chrono::hours(24));
  // A retired connection stays where it is.
  HostAddr home = HostAddr::local(0);
  core()->run([&] {
    connection_->retire();
    home = connection_->home();
  });

  const auto& hosts = ref_.hosts();
  ShutdownSummary summary;
  std::vector<std::string> problems(hosts.size());
  const auto order_shutdown = [&](std::size_t i) {
    wire::ShutdownHostT order;
    order.grace_ms = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(grace.value_or(core()->config().duration(keys::terminate_grace)).count(), 0, UINT32_MAX));
    order.in_flight = static_cast<std::uint16_t>(core()->config().count(keys::terminate_in_flight));
    order.reason = std::string(reason);
    return connection_->ask(Destination::to_agent(hosts[i]), std::move(order), left_until(end));
  };
  const auto collect = [&](std::size_t i, Connection::Answer& future) {
    // The end of a host of ours is an answer too, and may be the only one.
    while (!processes_.empty() && future.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready &&
           !processes_[i]->wait_exit(std::chrono::milliseconds(0))) {
    }
    if (!processes_.empty() && future.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
      problems[i] = "it ended before it had answered";
      return;
    }
    const auto answer = future.get();
    const auto* const done = answer ? answer->body_as<wire::ShutdownSummary>() : nullptr;
    if (done == nullptr) {
      problems[i] = answer ? "it answered " + answer->body_name() : answer.error().to_string();
      return;
    }
    summary.attempted += done->attempted();
    summary.ok += done->ok();
    summary.failed += done->failed();
    if (done->failed() != 0)
      problems[i] = std::to_string(done->failed()) + " of " + std::to_string(done->attempted()) +
                    " procs are still there: " + text_of(done->detail());
  };
  // All at once, but for the host whose broker brings us the answers of the others: it goes last.
  for (const bool is_home : {false, true}) {
    std::vector<std::pair<std::size_t, Connection::Answer>> answers;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      // A process that has ended needs no order, and cannot answer one.
      if ((hosts[i] == home) != is_home || (!processes_.empty() && processes_[i]->wait_exit(std::chrono::milliseconds(0)))) continue;
      answers.emplace_back(i, order_shutdown(i));
    }
    for (auto& [i, answer] : answers) collect(i, answer);
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    bool is_gone = false;
    if (!processes_.empty()) {
      auto& process = *processes_[i];
      is_gone = process.wait_exit(problems[i].empty() ? left_until(end) : std::chrono::milliseconds(0));
      if (!is_gone) process.close_lifeline();
      if (!is_gone && !process.wait_exit(kLifelineLimit)) {
        process.kill();
        problems[i] += (problems[i].empty() ? "" : "; ") + std::string("it did not end by itself and was killed");
      }
      is_gone = process.wait_exit(kLifelineLimit);
      // Down all the same, and with it, by the keeper's and the kernel's doing, its procs.
      if (is_gone && problems[i].starts_with("it ended before")) problems[i].clear();
    } else if (problems[i].empty()) {
      is_gone = wait_free(hosts[i], end);
      if (!is_gone) problems[i] = "its procs are ended, but something still listens at its address";
    }
    if (is_gone) ++summary.hosts;
  }
  std::string detail;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (problems[i].empty()) continue;
    detail += (detail.empty() ? "" : "; ") + ("host " + std::to_string(i) + " (" + hosts[i].to_string() + "): ") + problems[i];
  }
  // Nobody is left to talk to.
  if (summary.hosts == hosts.size()) core()->run([this] { connection_->close("its hosts were shut down"); });
  if (detail.empty()) {
    shutdown_ = summary;
  } else {
    shutdown_ = fail(ErrorCode::stop_error, "shutdown of " + ref_.name().to_string() + ": " + detail);
  }
  return *shutdown_;
}

}  // namespace meshbus
