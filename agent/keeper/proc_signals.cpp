#include "agent/keeper/proc_signals.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <type_traits>
#include <variant>

#include "agent/os/process_tree.h"

namespace meshbus::keeper {

ProcSignals::Time ProcSignals::due() const {
  const Time held = plan_.due();
  return waves_.empty() ? held : std::min(held, waves_.due());
}

void ProcSignals::advance(Time now) {
  if (waves_.begin(now)) {
    while (const auto entry = waves_.next()) {
      if (const auto* const signal = std::get_if<Signal>(&*entry)) {
        send(*signal);
      } else if (const auto* const hold = std::get_if<Hold>(&*entry)) {
        begin(*hold, now);
      } else {
        agent_.report(waves_.answer(std::get<Mark>(*entry)));
      }
    }
  }
  if (now < plan_.due()) return;
  for (const auto& step : plan_.take_steps(now)) take_step(step);
}

void ProcSignals::on_end(const ProcTable::Process& process) {
  waves_.on_end(process.wave);
  // Its descendants are orphans now, which the keeper kills.
  plan_.release(process.first);
  stopped_.erase(process.first);
}

void ProcSignals::send(const Signal& signal) {
  const pid_t pid = table_.find_pid(signal.id);
  auto* const process = table_.find(pid);
  if (process == nullptr) return;  // the proc has ended
  // A proc that is told to end, or to go on, is not held any more.
  const bool is_release = signal.signal == SIGCONT || ends_a_process(signal.signal);
  if (is_release && plan_.release(signal.id)) take_step({signal.id, false});
  if (process->shared && process->shared->aim(signal) == SharedProcess::Aim::none) return;
  // Not reaped: the number is its own.
  if (::kill(signal.group ? -pid : pid, signal.signal) != 0) waves_.on_refused(signal.id, errno);
  if (ends_a_process(signal.signal)) waves_.count(process->wave);
}

void ProcSignals::begin(const Hold& hold, Time now) {
  const auto* const process = table_.find(table_.find_pid(hold.id));
  if (process == nullptr) return waves_.on_refused(hold.id, ESRCH);
  // Its other procs are not meant.
  if (process->shared) return waves_.on_refused(hold.id, EOPNOTSUPP);
  if (const int error = plan_.add(hold, now); error != 0) return waves_.on_refused(hold.id, error);
  // Stopped before the mark behind it is answered.
  for (const auto& step : plan_.take_steps(now)) take_step(step);
}

void ProcSignals::take_step(const HoldPlan::Step& step) {
  const pid_t pid = table_.find_pid(step.id);
  if (pid <= 0) {
    plan_.release(step.id);
    stopped_.erase(step.id);
    return;
  }
  if (step.stop) {
    stopped_[step.id] = os::stop_tree(pid);
    return;
  }
  const auto found = stopped_.find(step.id);
  if (found == stopped_.end()) return;
  os::continue_tree(pid, found->second);
  stopped_.erase(found);
}

}  // namespace meshbus::keeper
