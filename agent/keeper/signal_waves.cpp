#include "agent/keeper/signal_waves.h"

#include <csignal>

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

std::optional<Signal> SignalWaves::next() {
  if (waiting_.empty()) return std::nullopt;
  if (left_ >= procs_per_wave_ && waiting_.size() < kMostWaiting) return std::nullopt;
  const Signal signal = waiting_.front();
  waiting_.pop_front();
  return signal;
}

void SignalWaves::count(std::uint64_t& wave) {
  if (wave == wave_) return;
  wave = wave_;
  ++left_;
}

void SignalWaves::on_end(std::uint64_t wave) {
  if (wave == wave_ && left_ > 0) --left_;
}

}  // namespace meshbus::keeper
