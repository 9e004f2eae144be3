#include "common/bus/conservation.h"

#include "wire/monitor_generated.h"

namespace meshbus {
namespace {

std::string sum_of(const SentMessages::Totals& sent, std::uint64_t outstanding) {
  return std::to_string(sent.sent) + " sent = " + std::to_string(sent.taken) + " taken + " +
         std::to_string(sent.returned) + " returned + " + std::to_string(sent.unknown) +
         " of unknown fate + " + std::to_string(sent.ignored) + " to receivers that do not say + " +
         std::to_string(outstanding) + " on their way";
}

}  // namespace

void Conservation::add(std::string_view name, const wire::BrokerCountersT& counters) {
  const auto dropped = counters.dropped_no_return + counters.dropped_not_needed +
                       counters.dropped_false_source + counters.dropped_old_incarnation;
  const auto in = counters.received + counters.originated;
  const auto out = counters.delivered + counters.handled + counters.returned +
                   counters.fate_unknown + dropped + counters.held;
  if (in == out) return;
  problems_.push_back(
      "broker " + std::string(name) + ": " + std::to_string(counters.received) + " received + " +
      std::to_string(counters.originated) + " originated, but " +
      std::to_string(counters.delivered) + " delivered + " + std::to_string(counters.handled) +
      " handled + " + std::to_string(counters.returned) + " returned + " +
      std::to_string(counters.fate_unknown) + " of unknown fate + " + std::to_string(dropped) +
      " dropped + " + std::to_string(counters.held) + " held");
}

void Conservation::add(std::string_view name, const Bus::Traffic& traffic) {
  const auto& sent = traffic.sent;
  if (sent.sent != sent.taken + sent.returned + sent.unknown + sent.ignored + traffic.outstanding)
    problems_.push_back("peer " + std::string(name) +
                        " does not balance: " + sum_of(sent, traffic.outstanding));
  all_.sent.sent += sent.sent;
  all_.sent.taken += sent.taken;
  all_.sent.returned += sent.returned;
  all_.sent.unknown += sent.unknown;
  all_.sent.ignored += sent.ignored;
  all_.outstanding += traffic.outstanding;
  all_.no_return += traffic.no_return;
  all_.taken += traffic.taken;
}

std::vector<std::string> Conservation::problems() const {
  auto problems = problems_;
  // Some of the messages of unknown fate were taken, and some of those on their way.
  const auto& sent = all_.sent;
  if (sent.taken > all_.taken)
    problems.push_back("senders know of " + std::to_string(sent.taken) +
                       " messages that were taken, receivers of " + std::to_string(all_.taken) +
                       " only");
  if (all_.taken > sent.taken + sent.unknown + sent.ignored + all_.outstanding)
    problems.push_back(
        "receivers took " + std::to_string(all_.taken) +
        " messages, more than were sent and not returned: " + sum_of(sent, all_.outstanding));
  return problems;
}

std::string Conservation::to_string() const {
  return sum_of(all_.sent, all_.outstanding);
}

}  // namespace meshbus
