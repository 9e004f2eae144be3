#include "cli/hosts/upgrade_order.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "client/src/base/wire_reports.h"
#include "common/wire/control.h"
#include "wire/control_generated.h"

namespace meshbus::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookPeriod = 50ms;
/// A question that a role took into its grave gets no answer.
constexpr std::chrono::milliseconds kLookLimit = 1s;

}  // namespace

Result<std::uint32_t> UpgradeOrder::start(std::chrono::milliseconds limit) {
  wire::UpgradeHostT order;
  order.programs = programs_;
  order.requester = connection_->self();
  const auto answer = connection_->ask(Destination::to_agent(host_), std::move(order), limit).get();
  if (!answer && answer.error().code() == ErrorCode::no_such_port)
    return fail(ErrorCode::refused,
                "host " + host_.to_string() +
                    " is of a release that cannot be upgraded in place: start it again with the "
                    "new one when it is idle (" +
                    answer.error().detail() + ")");
  if (!answer) return fail(answer.error());
  const auto* const started = answer->body_as<wire::UpgradeStarted>();
  if (started == nullptr)
    return fail(ErrorCode::malformed_message,
                "host " + host_.to_string() + " answered " + answer->body_name());
  return started->number();
}

Result<HostReport> UpgradeOrder::look(std::chrono::milliseconds limit) {
  const auto answer = connection_->ask(Destination::to_agent(host_), wire::GetHostT{}, limit).get();
  if (!answer) return fail(answer.error());
  const auto* const state = answer->body_as<wire::HostState>();
  if (state == nullptr)
    return fail(ErrorCode::malformed_message,
                "host " + host_.to_string() + " answered " + answer->body_name());
  return to_report(host_, *state);
}

Result<HostReport> UpgradeOrder::run(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  if (const auto up = connection_->wait_up(limit); !up) return fail(up.error());
  const auto left = [end] {
    return std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  };
  const auto number = start(std::max<std::chrono::milliseconds>(left(), 1ms));
  if (!number) return fail(number.error());
  std::string last = "it has not answered since";
  for (; left() > 0ms; std::this_thread::sleep_for(kLookPeriod)) {
    auto state = look(std::clamp<std::chrono::milliseconds>(left(), 1ms, kLookLimit));
    if (!state) {
      last = state.error().detail();
      if (has_ended_())
        return fail(ErrorCode::host_unreachable, "host " + host_.to_string() + " has ended");
      continue;
    }
    const auto& upgrade = state->upgrade;
    // A new agent hears of it a moment after it is up.
    if (!upgrade || upgrade->number < *number ||
        upgrade->outcome == HostUpgradeReport::Outcome::running) {
      last = upgrade ? upgrade->detail : "its agent does not tell";
      continue;
    }
    if (upgrade->number == *number) return state;
    return fail(ErrorCode::refused, "host " + host_.to_string() + ": upgrade " +
                                        std::to_string(upgrade->number) + " by " +
                                        upgrade->requester + " came in between");
  }
  return fail(ErrorCode::timeout, "host " + host_.to_string() + ": upgrade " +
                                      std::to_string(*number) + " has no outcome yet: " + last +
                                      " (meshbus ps shows it)");
}

}  // namespace meshbus::cli
