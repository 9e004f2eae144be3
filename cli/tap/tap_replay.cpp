#include "cli/tap/tap_replay.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "cli/tap/tap_file.h"
#include "common/bus/bus.h"
#include "common/config/config.h"
#include "common/loop/reactor.h"
#include "common/security/keys.h"
#include "common/security/launcher_name.h"
#include "common/security/token.h"
#include "wire/bus_generated.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kConnectLimit{5};
/// For the questions to the broker, and for the last message through it to ourselves.
constexpr std::chrono::seconds kAnswerLimit{30};
/// As much waits here, below what a session holds.
constexpr std::size_t kMostQueued = 4 * 1024 * 1024;
constexpr std::chrono::milliseconds kQueueWait{1};
/// A call of an old recording may have asked for hours.
constexpr std::chrono::milliseconds kCallLimit{10'000};
/// The port of the message to ourselves; no other program sends to this launcher.
constexpr std::uint32_t kEchoPort = 1;

/// What became of what was recorded: each message is in one of these, and `returned` are among
/// those sent.
struct Tally {
  std::uint64_t recorded = 0;
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;
  std::uint64_t failed = 0;
  std::uint64_t unanswered = 0;
  std::map<std::string, std::uint64_t> returned;
  std::map<std::string, std::uint64_t> skipped;
};

std::uint64_t sum(const std::map<std::string, std::uint64_t>& counts) {
  std::uint64_t total = 0;
  for (const auto& [why, count] : counts) total += count;
  return total;
}

/// The message once more, to a proc of the host that we are connected to.
class Replay {
 public:
  Replay(const TapArguments& arguments, const TapFilter& filter, HostAddr into)
      : arguments_(arguments), filter_(filter), into_(std::move(into)) {}

  /// Errors: those of the file, of the connection, and of its loss on the way. What had been done
  /// by then is in tally().
  Result<void> run() {
    if (auto surveyed = survey(); !surveyed) return surveyed;
    if (auto connected = connect(); !connected) return connected;
    if (auto asked = ask_who_is_there(); !asked) return asked;
    if (auto sent = send_all(); !sent) return sent;
    auto ended = wait_until([this] { return has_echo_ && open_calls_ == 0; }, kAnswerLimit,
                            "the last message did not come back");
    bus_->close("replayed");
    return ended;
  }
  const Tally& tally() const { return tally_; }
  std::uint64_t torn() const { return torn_; }

 private:
  bool is_chosen(const TapMessage& message) const {
    return filter_.matches(message.envelope,
                           [this](std::uint64_t key) { return names_.find(key); });
  }
  static bool is_for_a_proc(const wire::Envelope& envelope) {
    return envelope.kind() == wire::Kind::message || envelope.kind() == wire::Kind::call;
  }

  /// Reads all once: names may come later than the first message that needs them.
  Result<void> survey() {
    auto file = TapFileReader::open(arguments_.replay);
    if (!file) return fail(file.error());
    for (;;) {
      const auto batch = file->next();
      if (!batch) return fail(batch.error());
      if (!*batch) break;
      names_.learn(**batch);
      for (const TapMessage& message : (*batch)->messages()) {
        if (is_for_a_proc(message.envelope))
          receivers_.emplace(message.envelope.destination_proc(), std::nullopt);
      }
    }
    torn_ = file->torn();
    return {};
  }

  Result<void> connect() {
    Session::Options session;
    session.endpoint = into_.zmq_endpoint();
    auto config = Config::load(ConfigSources::of_process());
    if (!config) return fail(config.error());
    session.keys = keys_for(KeyDirectory::find(*config), into_);
    LauncherName::draw().introduce(session.hello);
    session.hello.kind = wire::PeerKind::launcher;
    session.hello.incarnation = random_u64();
    session.connect_limit = kConnectLimit;
    Bus::Events events;
    events.on_refused = [this](const Error& error) { problem_ = error; };
    events.on_down = [this](const std::string& reason) {
      problem_ = Error(ErrorCode::fate_unknown,
                       "the connection to " + into_.to_string() + " was lost: " + reason +
                           "; what became of the last messages is not known");
    };
    events.on_undeliverable = [this](const wire::Envelope&, const Error& error) {
      ++tally_.returned[std::string(to_string(error.code()))];
    };
    events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader&, Bytes) {
      if (envelope.source_proc() == bus_->self()->key()) has_echo_ = true;
    };
    Dispatcher handlers;
    handlers.on<wire::Gone>(Role::broker, [this](const Request&, const wire::Gone& gone) {
      absent_.insert(gone.proc()->str());
    });
    bus_.emplace(reactor_, std::move(session), std::move(handlers), std::move(events));
    return wait_until(
        [this] { return bus_->is_up(); }, kConnectLimit,
        "no broker answers at " + into_.to_string() + "; is it the address of a host that is up?");
  }

  /// Finds the receivers that are there under their names.
  Result<void> ask_who_is_there() {
    const HostAddr& host = bus_->self()->host();
    for (auto& [key, proc] : receivers_) {
      const auto old = ProcId::parse(names_.find(key));
      if (!old) continue;
      proc.emplace(host, old->name());
      watch(proc->to_string(), [](const Result<ControlMessage>&) {});
    }
    // Its answer comes after all others.
    std::optional<Result<ControlMessage>> last;
    watch(bus_->self()->to_string(),
          [&last](Result<ControlMessage> answer) { last = std::move(answer); });
    if (auto waited = wait_until([&last] { return last.has_value(); }, kAnswerLimit,
                                 "the broker does not answer");
        !waited)
      return waited;
    if (!*last) return fail(last->error());
    return {};
  }
  void watch(std::string proc, Bus::Answer answer) {
    wire::WatchT watch;
    watch.proc = std::move(proc);
    bus_->request(Destination::to_broker(), std::move(watch), kAnswerLimit, std::move(answer));
  }

  Result<void> send_all() {
    auto file = TapFileReader::open(arguments_.replay);
    if (!file) return fail(file.error());
    for (;;) {
      const auto batch = file->next();
      if (!batch) return fail(batch.error());
      if (!*batch) break;
      for (const TapMessage& message : (*batch)->messages()) {
        if (!is_chosen(message)) continue;
        if (auto sent = replay(message); !sent) return sent;
      }
    }
    return bus_->send(Destination::to(*bus_->self()), kEchoPort, {});
  }

  Result<void> replay(const TapMessage& message) {
    ++tally_.recorded;
    const wire::Envelope& envelope = message.envelope;
    const auto skip = [this](const std::string& why) {
      ++tally_.skipped[why];
      return Result<void>();
    };
    if (!is_for_a_proc(envelope)) return skip("control messages and answers");
    if (!message.has_whole_body()) return skip("bodies that were not recorded whole (--bodies)");
    const auto& to = receivers_.at(envelope.destination_proc());
    if (!to) return skip("receivers whose name the recording broker did not know");
    if (absent_.contains(to->to_string()))
      return skip("receivers that are not at " + bus_->self()->host().to_string());
    if (auto waited = wait_for_turn(message.time_ns); !waited) return waited;
    if (envelope.kind() == wire::Kind::call) return call(*to, message);
    if (auto sent = bus_->send(Destination::to(*to), envelope.port(), message.body); !sent)
      return sent;
    ++tally_.sent;
    return {};
  }

  Result<void> call(const ProcId& to, const TapMessage& message) {
    wire::CallHeader header;
    if (message.body.size() < sizeof header) {
      ++tally_.skipped["calls without their header"];
      return {};
    }
    std::memcpy(&header, message.body.data(), sizeof header);
    const auto limit = header.deadline_ms() == 0
                           ? kCallLimit
                           : std::min(kCallLimit, std::chrono::milliseconds(header.deadline_ms()));
    ++tally_.sent;
    ++open_calls_;
    bus_->call(Destination::to(to), message.envelope.port(), message.body.substr(sizeof header),
               limit, [this](const Result<std::string>& answer) {
                 --open_calls_;
                 if (answer) {
                   ++tally_.answered;
                 } else if (answer.error().code() == ErrorCode::timeout ||
                            answer.error().code() == ErrorCode::fate_unknown) {
                   ++tally_.unanswered;
                 } else if (answer.error().code() >= ErrorCode::queue_full ||
                            answer.error().code() == ErrorCode::undeliverable) {
                   ++tally_.returned[std::string(to_string(answer.error().code()))];
                 } else {
                   ++tally_.failed;
                 }
               });
    return {};
  }

  /// Until it is time for a message that was seen at that time, and there is room for it.
  Result<void> wait_for_turn(std::int64_t time_ns) {
    if (!begun_) begun_ = {time_ns, reactor_.now()};
    if (arguments_.speed > 0) {
      const auto due = begun_->second +
                       std::chrono::nanoseconds(static_cast<std::int64_t>(
                           static_cast<double>(std::max<std::int64_t>(0, time_ns - begun_->first)) /
                           arguments_.speed));
      if (auto waited = turn_until([this, due] { return reactor_.now() >= due; }, due); !waited)
        return waited;
    }
    if (bus_->queued_bytes() < kMostQueued) return {};
    while (bus_->queued_bytes() > kMostQueued / 2) {
      reactor_.turn(kQueueWait);
      if (problem_) return fail(*problem_);
    }
    return {};
  }

  template <typename Predicate>
  Result<void> turn_until(const Predicate& predicate, Reactor::Time end) {
    while (!predicate()) {
      if (problem_) return fail(*problem_);
      reactor_.turn(std::clamp<Reactor::Duration>(
          end - reactor_.now(), std::chrono::milliseconds(0), std::chrono::seconds(1)));
      if (reactor_.now() >= end) break;
    }
    return problem_ ? Result<void>(fail(*problem_)) : Result<void>();
  }
  template <typename Predicate>
  Result<void> wait_until(const Predicate& predicate, Reactor::Duration limit,
                          const std::string& otherwise) {
    if (auto waited = turn_until(predicate, reactor_.now() + limit); !waited) return waited;
    if (!predicate()) return fail(ErrorCode::timeout, otherwise);
    return {};
  }

  const TapArguments& arguments_;
  const TapFilter& filter_;
  HostAddr into_;
  TapNames names_;
  /// The proc of each key in the recording, if its name is known.
  std::map<std::uint64_t, std::optional<ProcId>> receivers_;
  std::set<std::string> absent_;
  Tally tally_;
  std::uint64_t torn_ = 0;
  /// When the first message was recorded, and when it was sent again.
  std::optional<std::pair<std::int64_t, Reactor::Time>> begun_;
  std::uint64_t open_calls_ = 0;
  bool has_echo_ = false;
  std::optional<Error> problem_;
  Reactor reactor_;
  std::optional<Bus> bus_;
};

void print_text(const Tally& tally) {
  std::cout << tally.recorded << " recorded, " << tally.sent << " sent, " << sum(tally.returned)
            << " of them returned, " << sum(tally.skipped) << " skipped\n";
  for (const auto& [why, count] : tally.returned)
    std::cout << "  returned " << count << ": " << why << "\n";
  for (const auto& [why, count] : tally.skipped)
    std::cout << "  skipped " << count << ": " << why << "\n";
  if (tally.answered + tally.failed + tally.unanswered > 0)
    std::cout << "  calls: " << tally.answered << " answered, " << tally.failed
              << " answered with an error, " << tally.unanswered << " not answered\n";
}

Json to_json(const Tally& tally) {
  return {
      {"recorded", tally.recorded},
      {"sent", tally.sent},
      {"returned", sum(tally.returned)},
      {"returned_by", tally.returned},
      {"skipped", sum(tally.skipped)},
      {"skipped_by", tally.skipped},
      {"calls",
       {{"answered", tally.answered}, {"failed", tally.failed}, {"unanswered", tally.unanswered}}}};
}

}  // namespace

int replay_tap(const TapArguments& arguments, const TapFilter& filter) {
  auto into = HostAddr::parse(arguments.into);
  if (!into) {
    complain("--into " + arguments.into + ": " + into.error().detail());
    return kUsage;
  }
  Replay replay(arguments, filter, std::move(*into));
  const auto done = replay.run();
  if (replay.torn() > 0)
    complain(arguments.replay + " ends within a record: its last " + std::to_string(replay.torn()) +
             " bytes are left out");
  // Also what was done before it failed.
  if (done || replay.tally().recorded > 0) {
    if (arguments.json) {
      std::cout << dump(to_json(replay.tally())) << "\n";
    } else {
      print_text(replay.tally());
    }
  }
  if (done) return 0;
  complain(done.error().detail());
  return 1;
}

}  // namespace meshbus::cli
