#include "agent/host/liveness/liveness_monitor.h"

#include <algorithm>
#include <chrono>

#include "agent/host/lifecycle/bootstrap_writer.h"
#include "agent/host/model/real_time.h"
#include "agent/os/process_table.h"
#include "common/base/log.h"
#include "wire/bus_generated.h"
#include "wire/ranks_generated.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;

constexpr Reactor::Duration kLongest = 1min;
constexpr Reactor::Duration kShortest = 5ms;
/// An answer that takes longer proves nothing.
constexpr std::chrono::milliseconds kWayLimit{2000};

bool is_watched(const Proc& proc) {
  return proc.mesh.spec.kind == wire::ProcKind::mesh &&
         proc.state.state() == wire::ProcState::ready && !proc.termination;
}

}  // namespace

LivenessMonitor::LivenessMonitor(Bus& bus, ProcTable& table, Config config, std::string host,
                                 std::function<void(Mesh&)> on_changed)
    : bus_(bus),
      table_(table),
      config_(std::move(config)),
      host_(std::move(host)),
      on_changed_(std::move(on_changed)),
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

void LivenessMonitor::on_sign(Proc& proc) {
  if (!is_watched(proc)) return;
  FailureDetector& signs = find(proc);
  signs.on_sign(bus_.reactor().now());
  judge(proc, signs);
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
  // We were stopped, or starved, or cut off: what they said meanwhile may still be under way.
  const bool is_deaf = !bus_.is_up() || now - due_ > std::max<Reactor::Duration>(interval_, 500ms);
  bool is_doubtful = false;
  for (auto entry = watched_.begin(); entry != watched_.end();) {
    auto& signs = entry->second;
    Proc* const proc = table_.find_id(entry->first);
    if (proc == nullptr || !is_watched(*proc)) {
      if (proc != nullptr) proc->trouble = {};
      entry = watched_.erase(entry);
      continue;
    }
    if (is_deaf) signs.on_deaf(now);
    is_doubtful = is_doubtful || signs.is_doubtful(now);
    ++entry;
  }
  if (is_doubtful) ask_way();
  if (watched_.empty()) {
    interval_ = kLongest;
  } else {
    arm();
  }
}

void LivenessMonitor::ask_way() {
  if (is_asking_) return;
  is_asking_ = true;
  wire::IntroduceT question;
  question.host = host_;
  bus_.request(Destination::to_broker(), std::move(question), kWayLimit,
               [this, asked = bus_.reactor().now(),
                alive = std::weak_ptr<void>(alive_)](const Result<ControlMessage>& answer) {
                 if (alive.expired()) return;
                 is_asking_ = false;
                 if (answer) on_clear(asked);
               });
}

void LivenessMonitor::on_clear(Reactor::Time asked) {
  for (auto& [id, signs] : watched_) {
    signs.on_clear(asked);
    signs.on_look(bus_.reactor().now());
    if (Proc* const proc = table_.find_id(id); proc != nullptr && is_watched(*proc))
      judge(*proc, signs);
  }
}

void LivenessMonitor::judge(Proc& proc, const FailureDetector& signs) {
  const auto trouble = signs.trouble();
  if (trouble == proc.trouble.trouble()) return;
  const auto state = proc.state.to_wire();
  char letter = 0;
  if (trouble == wire::Trouble::frozen) {
    const auto process = keeper::read_process(static_cast<pid_t>(state.pid()));
    // Its end is under way to us.
    if (!process || process->state == 'Z' || process->state == 'X') return;
    letter = process->state;
  }
  const auto silence =
      std::chrono::duration_cast<std::chrono::milliseconds>(signs.silence()).count();
  proc.trouble = wire::RankTrouble(proc.rank(), state.incarnation(), now_ns(),
                                   static_cast<std::uint32_t>(silence), trouble,
                                   static_cast<std::uint8_t>(letter));
  proc.mesh.troubles.push_back(proc.trouble);
  log::info(proc.address.to_string() +
            (trouble == wire::Trouble::none ? " is well again"
             : trouble == wire::Trouble::slow
                 ? " is slow"
                 : " is frozen: nothing from it for " + std::to_string(silence) + " ms"));
  on_changed_(proc.mesh);
}

}  // namespace meshbus::host
