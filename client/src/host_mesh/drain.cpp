#include <algorithm>

#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "common/wire/control.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

/// "host 1 (unix:/run/m/broker): PROBLEM; ..."
void add_problem(std::string& problems, const std::string& host, const std::string& problem) {
  problems += (problems.empty() ? "" : "; ") + host + ": " + problem;
}

/// One host is asked again so often: an agent that was replaced goes on with the drain, but has
/// nobody to answer.
constexpr std::chrono::seconds kAskDrainAgain{5};

/// A drain of one host. A second question joins what is under way, so the first answer is that of
/// all questions.
class HostDrain {
 public:
  using Clock = std::chrono::steady_clock;
  HostDrain(Connection& connection, HostAddr host, const wire::DrainHostT& order,
            Clock::time_point end)
      : connection_(connection), host_(std::move(host)), order_(order), end_(end) {
    ask();
  }

  Result<ControlMessage> get() {
    for (;;) {
      for (auto& answer : answers_) {
        if (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
        auto got = answer.get();
        // After a loss on the way nothing more is known than before.
        const bool is_lost =
            !got && got.error().code() == ErrorCode::fate_unknown && Clock::now() < end_;
        if (!is_lost) return got;
        answer = std::move(answers_.back());
        answers_.pop_back();
        break;
      }
      const auto now = Clock::now();
      if (answers_.empty() && now >= end_) return fail(ErrorCode::timeout, "no answer in time");
      if (now < end_ && (answers_.empty() || now - asked_ >= kAskDrainAgain)) ask();
      if (!answers_.empty()) answers_.back().wait_for(std::chrono::milliseconds(50));
    }
  }

 private:
  void ask() {
    asked_ = Clock::now();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - asked_);
    answers_.push_back(
        connection_.ask(Destination::to_agent(host_), wire::DrainHostT(order_), left));
  }

  Connection& connection_;
  HostAddr host_;
  const wire::DrainHostT& order_;
  Clock::time_point end_;
  Clock::time_point asked_{};
  std::vector<Connection::Answer> answers_;
};

}  // namespace

Result<DrainSummary> HostMesh::drain(DrainOptions options) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  const auto& config = impl_->core()->config();
  auto& connection = impl_->connection();
  const auto grace = options.grace.value_or(config.duration(keys::terminate_grace));
  const auto in_flight = config.count(keys::terminate_in_flight);
  std::chrono::milliseconds deadline = options.deadline.value_or(std::chrono::milliseconds(0));
  if (!options.deadline) {
    std::uint64_t most = 0;
    for (const auto& host : ask_hosts(connection, impl_->distinct_hosts(), std::chrono::seconds(5)))
      most = std::max(most, host.live);
    deadline = config.duration(keys::stop_idle) + grace * (most / in_flight + 1);
  }
  wire::DrainHostT order;
  order.owner = options.owner;
  order.mesh = options.mesh;
  order.reason = options.reason;
  order.requester = connection.self();
  order.grace_ms =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(grace.count(), 0, UINT32_MAX));
  order.in_flight = static_cast<std::uint16_t>(in_flight);
  order.hold = options.hold;
  const auto end = HostDrain::Clock::now() +
                   std::min<std::chrono::milliseconds>(deadline, std::chrono::hours(24));
  std::vector<HostDrain> drains;
  for (const auto& host : impl_->distinct_hosts())
    drains.emplace_back(connection, host, order, end);
  DrainSummary summary;
  std::string problems;
  for (std::size_t i = 0; i < drains.size(); ++i) {
    const auto answer = drains[i].get();
    const auto* const done = answer ? answer->body_as<wire::ShutdownSummary>() : nullptr;
    if (done == nullptr) {
      add_problem(problems, impl_->describe(impl_->distinct_hosts()[i]),
                  answer ? "it answered " + answer->body_name() : answer.error().to_string());
      continue;
    }
    summary.attempted += done->attempted();
    summary.ok += done->ok();
    summary.failed += done->failed();
    if (done->failed() != 0)
      add_problem(
          problems, impl_->describe(impl_->distinct_hosts()[i]),
          std::to_string(done->failed()) + " of " + std::to_string(done->attempted()) +
              (done->failed() == 1 ? " procs is still there: " : " procs are still there: ") +
              text_of(done->detail()));
  }
  if (!problems.empty()) return fail(ErrorCode::stop_error, "drain: " + problems);
  return summary;
}

Result<void> HostMesh::resume(std::string_view mesh, std::string_view owner,
                              std::chrono::milliseconds deadline) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  wire::ResumeHostT order;
  order.mesh = mesh;
  order.owner = owner;
  std::vector<Connection::Answer> answers;
  for (const auto& host : impl_->distinct_hosts())
    answers.push_back(
        impl_->connection().ask(Destination::to_agent(host), wire::ResumeHostT(order), deadline));
  std::string problems;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (const auto answer = answers[i].get(); !answer)
      add_problem(problems, impl_->describe(impl_->distinct_hosts()[i]),
                  answer.error().to_string());
  }
  if (!problems.empty()) return fail(ErrorCode::host_unreachable, "resume: " + problems);
  return {};
}

}  // namespace meshbus
