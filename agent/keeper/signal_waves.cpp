#include "agent/keeper/signal_waves.h"

#include <csignal>
#include <utility>

namespace meshbus::keeper {

bool ends_a_process(int signal) {
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP ||
         signal == SIGQUIT;
}

bool SignalWaves::begin(Time now) {
  if (waiting_.empty()) return false;
  const bool is_busy = left_ > procs_per_wave_ / 2 && now < next_wave_;
  if (is_busy && waiting_.size() < kMostWaiting) return false;
  ++wave_;
  left_ = 0;
  next_wave_ = now + kWaveLimit;
  return true;
}

std::optional<SignalWaves::Entry> SignalWaves::next() {
  if (waiting_.empty()) return std::nullopt;
  const Entry entry = waiting_.front();
  const bool is_full = left_ >= procs_per_wave_ && waiting_.size() < kMostWaiting;
  if (is_full && !std::holds_alternative<Mark>(entry)) return std::nullopt;
  waiting_.pop_front();
  return entry;
}

void SignalWaves::count(std::uint64_t& wave) {
  if (wave == wave_) return;
  wave = wave_;
  ++left_;
}

void SignalWaves::on_end(std::uint64_t wave) {
  if (wave == wave_ && left_ > 0) --left_;
}

void SignalWaves::on_refused(std::uint64_t id, int error) {
  if (refused_.error == 0) refused_ = {.token = 0, .id = id, .error = error};
}

Signalled SignalWaves::answer(Mark mark) {
  Signalled answer = std::exchange(refused_, {});
  answer.token = mark.token;
  return answer;
}

}  // namespace meshbus::keeper
