#include "cli/top/top_session.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>

#include "cli/top/top_keys.h"
#include "cli/top/top_render.h"

namespace meshbus::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostLines = 10'000;

volatile std::sig_atomic_t ended_by = 0;

void note_signal(int signal) {
  ended_by = signal;
}

/// These signals end the loop, so that the terminal is put in order again.
void take_signals() {
  struct sigaction action{};
  action.sa_handler = note_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaction(signal, &action, nullptr);
}

}  // namespace

TopSession::TopSession(Terminal& terminal, const Site& site, std::vector<std::string> host_words,
                       std::chrono::milliseconds period)
    : terminal_(terminal), site_(site), period_(period) {
  state_.host_words = std::move(host_words);
}

bool TopSession::take_changes() {
  const auto later = site_.view(state_.view.sequence);
  const bool is_new = later.sequence != state_.view.sequence;
  if (!state_.view.apply(later)) state_.view = site_.view();
  return is_new;
}

void TopSession::take_output() {
  std::vector<std::string> lines;
  const bool goes_on = command_->read_lines(lines);
  if (is_acting_) {
    for (auto& line : lines) {
      if (!line.empty()) last_words_ = std::move(line);
    }
    if (!goes_on) state_.message = last_words_.empty() ? "Done." : last_words_;
  } else {
    auto& all = state_.pane.lines;
    all.insert(all.end(), std::make_move_iterator(lines.begin()),
               std::make_move_iterator(lines.end()));
    if (all.size() > kMostLines)
      all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() - kMostLines));
    state_.pane.is_running = goes_on;
  }
  if (goes_on) return;
  command_.reset();
  is_acting_ = false;
}

void TopSession::draw() {
  terminal_.draw(render(state_, terminal_.columns(), terminal_.lines()));
}

void TopSession::carry_out(TopOrder order) {
  switch (order.kind) {
    case TopOrder::Kind::none: return;
    case TopOrder::Kind::quit: is_over_ = true; return;
    case TopOrder::Kind::end_pane:
      if (!is_acting_) command_.reset();
      return;
    case TopOrder::Kind::show:
    case TopOrder::Kind::act: break;
  }
  if (is_acting_) {
    state_.mode = TopState::Mode::list;
    state_.message = "The order before this one is still being carried out.";
    return;
  }
  command_.reset();
  auto started = SideCommand::start(order.words);
  if (!started) {
    state_.mode = TopState::Mode::list;
    state_.message = started.error().detail();
    return;
  }
  command_.emplace(std::move(*started));
  is_acting_ = order.kind == TopOrder::Kind::act;
  last_words_.clear();
}

int TopSession::run() {
  take_signals();
  take_changes();
  draw();
  auto next = Clock::now() + period_;
  while (!is_over_ && ended_by == 0) {
    std::array<pollfd, 2> ready{
        {{STDIN_FILENO, POLLIN, 0}, {command_ ? command_->fd() : -1, POLLIN, 0}}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    ::poll(ready.data(), ready.size(), static_cast<int>(std::max<std::int64_t>(0, left.count())));
    // The terminal is gone.
    if ((ready[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return 128 + SIGHUP;
    bool is_dirty = false;
    while (const auto key = terminal_.take_key()) {
      is_dirty = true;
      if (*key != 0) carry_out(on_key(state_, *key, terminal_.lines()));
    }
    if (command_ && (ready[1].revents & (POLLIN | POLLHUP)) != 0) {
      take_output();
      is_dirty = true;
    }
    if (Clock::now() >= next) {
      next = Clock::now() + period_;
      is_dirty = take_changes() || is_dirty;
    }
    if (is_dirty && !is_over_) draw();
  }
  return ended_by == 0 ? 0 : 128 + static_cast<int>(ended_by);
}

}  // namespace meshbus::cli
