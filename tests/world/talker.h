#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/bus/bus.h"
#include "tests/world/hello.h"
#include "wire/frame_generated.h"
#include "wire/logs_generated.h"

namespace meshbus::test {

inline std::string number_body(std::uint64_t number, std::size_t size) {
  std::string body(std::max(size, sizeof number), 'b');
  std::memcpy(body.data(), &number, sizeof number);
  return body;
}
inline std::uint64_t number_of(const std::string& body) {
  std::uint64_t number = 0;
  std::memcpy(&number, body.data(), std::min(body.size(), sizeof number));
  return number;
}

/// A peer that numbers what it sends to its partner on the other host, in both lanes, and checks
/// what it gets.
struct Talker {
  Talker(Loop& loop, const Broker& broker) {
    auto options = session_options(endpoint_of(broker), launcher_hello());
    Dispatcher handlers;
    handlers.on<wire::OutputTaken>(Role::observe,
                                   [this](const Request&, const wire::OutputTaken& taken) {
                                     hear(taken.bytes(), received_control, "control");
                                   });
    Bus::Events events;
    events.on_data = [this](const wire::Envelope&, const wire::CallHeader&, Bytes body) {
      hear(number_of(std::string(body.substr(0, 8))), received, "data");
    };
    events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
      if (envelope.kind() == wire::Kind::message) {
        ++told[error.code()];
        told_numbers.push_back(envelope.port());
      } else {
        ++told_control;
      }
    };
    bus.emplace(loop.reactor, std::move(options), std::move(handlers), std::move(events));
  }
  void hear(std::uint64_t number, std::uint64_t& last, const char* lane) {
    if (number <= last)
      problems.push_back(std::string(lane) + ": " + std::to_string(number) + " after " +
                         std::to_string(last));
    if (&last == &received) got.push_back(number);
    if (&last == &received_control) ++got_control;
    last = number;
  }
  Destination address() const { return Destination::to(*bus->self()); }
  bool say(const Talker& to, std::size_t size) {
    // The port is there to recognise it by.
    if (!bus->send(to.address(), static_cast<std::uint32_t>(sent + 1), number_body(sent + 1, size)))
      return false;
    ++sent;
    return true;
  }
  bool say_control(const Talker& to) {
    wire::OutputTakenT message;
    message.bytes = sent_control + 1;
    if (!bus->tell(to.address(), std::move(message))) return false;
    ++sent_control;
    return true;
  }

  /// What was sent to us and neither came nor was told to `from`.
  std::vector<std::uint64_t> silently_lost(const Talker& from) const {
    std::vector<std::uint64_t> known = got, lost;
    known.insert(known.end(), from.told_numbers.begin(), from.told_numbers.end());
    const std::set<std::uint64_t> numbers(known.begin(), known.end());
    for (std::uint64_t number = 1; number <= from.sent; ++number) {
      if (!numbers.contains(number)) lost.push_back(number);
    }
    return lost;
  }
  /// How many came that were told to be of unknown fate.
  std::uint64_t told_and_came(const Talker& from) const {
    return got.size() + from.told_numbers.size() - from.sent + silently_lost(from).size();
  }

  std::uint64_t sent = 0, sent_control = 0;
  /// The last that came, and all.
  std::uint64_t received = 0, received_control = 0, got_control = 0;
  std::vector<std::uint64_t> got;
  std::map<ErrorCode, std::uint64_t> told;
  std::vector<std::uint64_t> told_numbers;
  std::uint64_t told_control = 0;
  std::vector<std::string> problems;
  std::optional<Bus> bus;
};

inline std::uint64_t unknown(const Talker& talker) {
  const auto found = talker.told.find(ErrorCode::fate_unknown);
  return found == talker.told.end() ? 0 : found->second;
}

inline std::uint64_t all_told(const Talker& talker) {
  return talker.told_numbers.size();
}

}  // namespace meshbus::test
