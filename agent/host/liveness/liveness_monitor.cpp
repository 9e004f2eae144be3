#include "agent/host/liveness/liveness_monitor.h"

#include <algorithm>
#include <chrono>

#include "agent/host/lifecycle/bootstrap_writer.h"
#include "agent/host/model/real_time.h"
#include "agent/os/process_table.h"
#include "common/base/log.h"
#include "common/base/own_pause.h"
#include "wire/bootstrap_generated.h"
#include "wire/bus_generated.h"
#include "wire/ranks_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;

constexpr Reactor::Duration kLongest = 1min;
constexpr Reactor::Duration kShortest = 5ms;
/// An answer that takes longer proves nothing.
constexpr std::chrono::milliseconds kProbeLimit{2000};
/// A check that is later than a whole interval, and than this, was delayed by a pause of this
/// process.
constexpr Reactor::Duration kLeastPause = 500ms;

/// A name of a handler is for people; what an actor calls its messages may be long.
constexpr std::size_t kLongestHandler = 128;
constexpr std::uint64_t kLongestBusy = std::uint64_t{1000} * 3600 * 24 * 365;

std::string words_of(const wire::RankTrouble& trouble, const wire::StuckHandlerT* stuck) {
  switch (trouble.trouble()) {
    case wire::Trouble::slow: return " is slow";
    case wire::Trouble::frozen:
      return " is frozen: nothing from it for " + std::to_string(trouble.silent_ms()) + " ms";
    case wire::Trouble::stuck:
      return " has a stuck handler: " + stuck->handler + " has run for " +
             std::to_string(stuck->busy_ms) + " ms, and " + std::to_string(stuck->waiting) +
             " messages wait behind it";
    default: return " is well again";
  }
}

bool is_watched(const Proc& proc) {
  return proc.mesh.spec.kind == wire::ProcKind::mesh &&
         proc.state.state() == wire::ProcState::ready && proc.stop.termination() == nullptr;
}

}  // namespace

LivenessMonitor::LivenessMonitor(Bus& bus, ProcTable& table, Config config, std::string host)
    : bus_(bus),
      table_(table),
      config_(std::move(config)),
      host_(std::move(host)),
      interval_(kLongest) {}

LivenessMonitor::~LivenessMonitor() {
  bus_.reactor().cancel(timer_);
}

void LivenessMonitor::add_live() {
  for (const Proc* proc : table_.live_procs()) {
    if (is_watched(*proc)) find(*proc);
  }
}

FailureDetector& LivenessMonitor::find(const Proc& proc) {
  if (const auto found = watched_.find(proc.id); found != watched_.end()) return found->second;
  if (pace_.of != proc.mesh.name) {
    const auto& settings = proc.mesh.spec.config;
    pace_.heartbeat = setting_for_proc(config_, keys::heartbeat, settings);
    pace_.limits = FailureDetector::limits_of(
        pace_.heartbeat, setting_for_proc(config_, keys::session_away, settings));
    pace_.of = proc.mesh.name;
  }
  interval_ = std::clamp<Reactor::Duration>(pace_.heartbeat / 4, kShortest, interval_);
  if (timer_ == 0 || bus_.reactor().now() + interval_ < due_) arm();
  return watched_.emplace(proc.id, FailureDetector(pace_.limits, bus_.reactor().now()))
      .first->second;
}

void LivenessMonitor::on_heartbeat(Proc& proc) {
  if (!is_watched(proc)) return;
  FailureDetector& detector = find(proc);
  detector.on_heartbeat(bus_.reactor().now());
  judge(proc, detector);
}

void LivenessMonitor::on_heartbeat(Proc& proc, const wire::ProcHeartbeat& message) {
  if (!is_watched(proc)) return;
  if (message.handler() == nullptr) {
    proc.stuck.reset();
  } else {
    if (proc.stuck == nullptr) proc.stuck = std::make_unique<wire::StuckHandlerT>();
    proc.stuck->rank = proc.rank();
    proc.stuck->handler = message.handler()->str().substr(0, kLongestHandler);
    proc.stuck->busy_ms = message.busy_ms();
    proc.stuck->waiting = message.waiting();
  }
  on_heartbeat(proc);
}

void LivenessMonitor::arm() {
  bus_.reactor().cancel(timer_);
  due_ = bus_.reactor().now() + interval_;
  timer_ = bus_.reactor().at(due_, [this] {
    timer_ = 0;
    on_tick();
  });
}

void LivenessMonitor::on_tick() {
  const auto now = bus_.reactor().now();
  // We were away, or cut off: heartbeats that were sent meanwhile may still be under way.
  const OwnPause pause(std::max(interval_, kLeastPause));
  const bool is_deaf = !bus_.is_up() || pause.was_away(due_, now);
  bool is_doubtful = false;
  for (auto entry = watched_.begin(); entry != watched_.end();) {
    auto& detector = entry->second;
    Proc* const proc = table_.find_id(entry->first);
    if (proc == nullptr || !is_watched(*proc)) {
      if (proc != nullptr) {
        proc->trouble = {};
        proc->stuck.reset();
      }
      entry = watched_.erase(entry);
      continue;
    }
    if (is_deaf) detector.on_deaf(now);
    is_doubtful = is_doubtful || detector.is_doubtful(now);
    ++entry;
  }
  if (is_doubtful) probe_way();
  if (watched_.empty()) {
    interval_ = kLongest;
  } else {
    arm();
  }
}

void LivenessMonitor::probe_way() {
  if (is_probing_) return;
  is_probing_ = true;
  wire::IntroduceT question;
  question.host = host_;
  bus_.request(Destination::to_broker(), std::move(question), kProbeLimit,
               [this, asked = bus_.reactor().now(),
                alive = std::weak_ptr<void>(alive_)](const Result<ControlMessage>& answer) {
                 if (alive.expired()) return;
                 is_probing_ = false;
                 if (answer) on_clear(asked);
               });
}

void LivenessMonitor::on_clear(Reactor::Time asked) {
  for (auto& [id, detector] : watched_) {
    detector.on_clear(asked);
    detector.on_check(bus_.reactor().now());
    if (Proc* const proc = table_.find_id(id); proc != nullptr && is_watched(*proc))
      judge(*proc, detector);
  }
}

void LivenessMonitor::judge(Proc& proc, const FailureDetector& detector) {
  auto trouble = detector.trouble();
  // What a proc has said before it froze is not its trouble now.
  if (trouble == wire::Trouble::frozen) proc.stuck.reset();
  if (proc.stuck != nullptr) trouble = wire::Trouble::stuck;
  if (trouble == proc.trouble.trouble()) return;
  const auto state = proc.state.to_wire();
  char letter = 0;
  auto since_ns = now_ns();
  auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(detector.silence()).count();
  if (trouble == wire::Trouble::frozen) {
    const auto process = os::read_process(static_cast<pid_t>(state.pid()));
    // The keeper is about to tell of its end.
    if (!process || process->state == 'Z' || process->state == 'X') return;
    letter = process->state;
  } else if (trouble == wire::Trouble::stuck) {
    silence = 0;
    since_ns -= static_cast<std::int64_t>(std::min(proc.stuck->busy_ms, kLongestBusy)) * 1'000'000;
  }
  proc.trouble = wire::RankTrouble(proc.rank(), state.incarnation(), since_ns,
                                   static_cast<std::uint32_t>(silence), trouble,
                                   static_cast<std::uint8_t>(letter));
  log::info(proc.address.to_string() + words_of(proc.trouble, proc.stuck.get()));
  table_.publish(proc, proc.trouble);
}

}  // namespace meshbus::host
