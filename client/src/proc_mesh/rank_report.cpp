#include "meshbus/rank_report.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>

#include "mesh/text.h"
#include "meshbus/point.h"

namespace meshbus {
namespace {

/// "host=0,gpu=1" from "host=0/2,gpu=1/4": sizes are noise in a sentence.
std::string short_point(const std::string& point) {
  const auto parsed = Point::parse(point);
  if (!parsed) return point;
  std::string text;
  for (std::size_t i = 0; i < parsed->coordinates().size(); ++i) {
    if (i != 0) text += ',';
    text::append_label(text, parsed->extent().labels()[i]);
    text += '=' + std::to_string(parsed->coordinates()[i]);
  }
  return text;
}

}  // namespace

std::string_view to_string(ProcState state) noexcept {
  switch (state) {
    case ProcState::unknown: return "unknown";
    case ProcState::starting: return "starting";
    case ProcState::running: return "running";
    case ProcState::ready: return "ready";
    case ProcState::stopping: return "stopping";
    case ProcState::stopped: return "stopped";
    case ProcState::killed: return "killed";
    case ProcState::failed: return "failed";
  }
  return "unknown";
}

std::string_view to_string(StopStep step) noexcept {
  switch (step) {
    case StopStep::none: return "none";
    case StopStep::asked: return "asked";
    case StopStep::term: return "term";
    case StopStep::kill: return "kill";
  }
  return "none";
}

std::string_view to_string(Trouble trouble) noexcept {
  switch (trouble) {
    case Trouble::none: return "none";
    case Trouble::slow: return "slow";
    case Trouble::frozen: return "frozen";
    case Trouble::stuck: return "stuck";
  }
  return "none";
}

std::string_view to_string(Cause cause) noexcept {
  switch (cause) {
    case Cause::unknown: return "unknown";
    case Cause::exited: return "exited";
    case Cause::signaled: return "signaled";
    case Cause::exec_failed: return "exec_failed";
    case Cause::spawn_failed: return "spawn_failed";
    case Cause::not_ready: return "not_ready";
    case Cause::stopped: return "stopped";
    case Cause::killed_after_grace: return "killed_after_grace";
    case Cause::out_of_memory: return "out_of_memory";
    case Cause::killed_from_outside: return "killed_from_outside";
    case Cause::cpu_limit: return "cpu_limit";
    case Cause::frozen: return "frozen";
    case Cause::owner_gone: return "owner_gone";
    case Cause::lease_lapsed: return "lease_lapsed";
    case Cause::host_ended: return "host_ended";
    case Cause::keeper_lost: return "keeper_lost";
    case Cause::lost: return "lost";
    case Cause::unkillable: return "unkillable";
    case Cause::host_lost: return "host_lost";
  }
  return "unknown";
}

std::string signal_name(int signal) {
  // Thread-safe, unlike strsignal(); null for numbers that have no name.
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

std::string_view to_string(LaunchStage stage) noexcept {
  switch (stage) {
    case LaunchStage::none: return "unknown";
    case LaunchStage::asked: return "asked";
    case LaunchStage::spawned: return "spawned";
    case LaunchStage::exec: return "exec'd";
    case LaunchStage::connected: return "connected";
    case LaunchStage::hello: return "hello";
    case LaunchStage::ready: return "ready";
  }
  return "unknown";
}

const LaunchTimes::Time& LaunchTimes::at(LaunchStage stage) const noexcept {
  static const Time never;
  switch (stage) {
    case LaunchStage::asked: return asked;
    case LaunchStage::spawned: return spawned;
    case LaunchStage::exec: return exec;
    case LaunchStage::connected: return connected;
    case LaunchStage::hello: return hello;
    case LaunchStage::ready: return ready;
    case LaunchStage::none: break;
  }
  return never;
}

LaunchStage LaunchTimes::stage() const noexcept {
  for (auto stage = LaunchStage::ready; stage != LaunchStage::none;
       stage = static_cast<LaunchStage>(static_cast<int>(stage) - 1)) {
    if (at(stage)) return stage;
  }
  return LaunchStage::none;
}

namespace {

/// Where the start of a rank is stuck. Its times may not have been told yet. A host that gave up on
/// it says the stage of that moment; what the rank reached later does not count.
LaunchStage stuck_at(const RankReport& rank) {
  if (rank.reason.find("; stage: queued") != std::string::npos) return LaunchStage::asked;
  if (rank.reason.find("; stage: spawned") != std::string::npos) return LaunchStage::spawned;
  const auto told = rank.launch.stage();
  if (told != LaunchStage::none) return told;
  if (rank.pid != 0) return LaunchStage::exec;
  return rank.state == ProcState::unknown ? LaunchStage::none : LaunchStage::asked;
}

/// Whether these are mesh procs, as far as one of them shows it: plain ones have no hello to say.
bool has_hello(const std::vector<RankReport>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const RankReport& rank) {
    return rank.launch.connected || rank.launch.hello ||
           rank.reason.find("no hello") != std::string::npos;
  });
}

std::string_view words_of(LaunchStage stage, bool has_hello) {
  if (!has_hello && stage == LaunchStage::exec) return "exec'd, not ready yet";
  switch (stage) {
    case LaunchStage::none: return "not heard of yet";
    case LaunchStage::asked: return "not spawned yet";
    case LaunchStage::spawned: return "spawned, not exec'd yet";
    case LaunchStage::exec: return "exec'd, no hello yet";
    case LaunchStage::connected: return "connected, no hello yet";
    default: return "hello said, not ready yet";
  }
}

}  // namespace

std::string describe_stuck(const std::vector<RankReport>& ranks) {
  std::map<std::uint64_t, std::map<LaunchStage, std::vector<std::uint64_t>>> hosts;
  std::map<std::uint64_t, const RankReport*> any;
  const bool is_mesh = has_hello(ranks);
  for (const auto& rank : ranks) {
    // What is ready now was it before its times are known; a plain proc that is done too.
    const bool is_done =
        rank.state == ProcState::stopped && rank.signal == 0 && rank.exit_code == 0;
    const bool is_ready = rank.state == ProcState::ready || rank.launch.ready || is_done;
    if (is_ready) continue;
    hosts[rank.host_index][stuck_at(rank)].push_back(rank.rank);
    any[rank.host_index] = &rank;
  }
  std::string text;
  for (const auto& [host, stages] : hosts) {
    text += (text.empty() ? "on " : "; on ") + any[host]->host.to_string() + ": ";
    bool is_first = true;
    for (const auto& [stage, stuck] : stages) {
      text += (is_first ? "" : "; ") + std::string(stuck.size() == 1 ? "rank " : "ranks ") +
              to_string(to_rank_set(stuck)) + " ";
      text += words_of(stage, is_mesh);
      is_first = false;
    }
  }
  return text;
}

RankSet to_rank_set(const std::vector<std::uint64_t>& ranks) {
  RankSet set;
  for (const auto rank : ranks) {
    if (!set.empty() && set.back().end == rank) {
      ++set.back().end;
    } else {
      set.push_back({rank, rank + 1});
    }
  }
  return set;
}

bool contains(const RankSet& set, std::uint64_t rank) noexcept {
  return std::any_of(set.begin(), set.end(), [rank](const RankBlock& block) {
    return block.begin <= rank && rank < block.end;
  });
}

std::string to_string(const RankSet& set) {
  std::string text;
  for (const auto& block : set) {
    if (block.size() == 0) continue;
    if (!text.empty()) text += ',';
    text += std::to_string(block.begin);
    if (block.size() > 1) text += '-' + std::to_string(block.end - 1);
  }
  return text.empty() ? "none" : text;
}

Status RankReport::status() const {
  switch (state) {
    case ProcState::unknown: return Status::Kind::unknown;
    case ProcState::starting: return Status::Kind::initializing;
    case ProcState::running:
    case ProcState::ready: return Status::Kind::running;
    case ProcState::stopping: return Status::Kind::stopping;
    case ProcState::stopped: return Status::Kind::stopped;
    case ProcState::killed:
    case ProcState::failed: return Status::failed(words());
  }
  return Status::Kind::unknown;
}

bool RankReport::is_terminal() const noexcept {
  return state == ProcState::stopped || state == ProcState::killed || state == ProcState::failed;
}

bool RankReport::is_failure() const noexcept {
  switch (state) {
    case ProcState::stopped: return exit_code != 0 && step == StopStep::none;
    case ProcState::killed: return step == StopStep::none;
    case ProcState::failed: return true;
    default: return false;
  }
}

int RankReport::shell_code() const noexcept {
  switch (state) {
    case ProcState::stopped:
    case ProcState::killed: return signal != 0 ? 128 + signal : exit_code;
    case ProcState::failed:
      if (code == ErrorCode::exec_failed) return os_error == ENOENT ? 127 : 126;
      return 125;
    default: return 125;
  }
}

std::string RankReport::words() const {
  if (!reason.empty()) return reason;
  switch (state) {
    case ProcState::stopped:
      // What ends by a signal of a stop that was asked for is stopped, not killed (spec 4.2).
      if (signal != 0) return "stopped by " + signal_name(signal);
      return "exit " + std::to_string(exit_code);
    case ProcState::killed:
      return "killed by " + signal_name(signal) + (core_dumped ? " (core dumped)" : "");
    default: return std::string(to_string(state));
  }
}

std::string RankReport::describe() const {
  const auto place = short_point(point);
  return "rank " + std::to_string(rank) + " (" + place + (place.empty() ? "on " : " on ") +
         host.to_string() + "): " + words();
}

bool MeshOutcome::is_ended() const noexcept {
  return std::all_of(ranks.begin(), ranks.end(),
                     [](const RankReport& rank) { return rank.is_terminal(); });
}

int MeshOutcome::exit_code() const noexcept {
  if (trouble) return trouble->code;
  return first_failure ? first_failure->shell_code() : 0;
}

}  // namespace meshbus
