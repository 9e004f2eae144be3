#include "client/src/mesh_monitor.h"

#include <algorithm>

#include "common/base/log.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

/// An ended mesh whose agents are silent about its output for so long: what is missing then does not come any more. Agents that live say
/// when it has ended, and hosts that are lost are not waited for; so this is long enough for an agent that is just being replaced on a
/// machine with many times more to do than it can (seen: more than 5 s).
constexpr std::chrono::seconds kOutputLimit{30};
/// Output that is silent for so long is asked for again: agents keep what we have not taken.
constexpr std::chrono::seconds kAskAgain{1};

}  // namespace

MeshMonitor::MeshMonitor(Reactor& reactor, HandlerThread& handlers, ProcMeshRef mesh, Options options)
    : reactor_(reactor),
      handlers_(handlers),
      mesh_(std::move(mesh)),
      options_(std::move(options)),
      table_(mesh_),
      accepted_(mesh_.hosts().size()),
      output_ended_(table_.size()),
      received_(table_.size()) {
  if (options_.restart.on == RestartPolicy::On::never) return;
  restarter_.emplace(options_.restart, table_.size(), options_.seed);
}

bool MeshMonitor::is_abandoned() const {
  const std::lock_guard lock(mutex_);
  return abandoned_;
}

void MeshMonitor::on_news(const HostAddr& from, const flatbuffers::Vector<const wire::RankState*>* ranks,
                          const flatbuffers::Vector<flatbuffers::Offset<wire::ExitReport>>* exit_reports,
                          const flatbuffers::Vector<const wire::LaunchTimes*>* launch) {
  RankTable::Changes changes;
  std::vector<RankReport> ended;
  {
    const std::lock_guard lock(mutex_);
    const bool is_told = options_.handlers.on_state && !abandoned_;
    changes = table_.apply(from, {.ranks = ranks, .exit_reports = exit_reports, .launch = launch}, reactor_.now(), is_told);
    if (changes.is_news) ++version_;
    // Failures are told with their exit reports, by settle().
    for (const auto rank : changes.ended) {
      if (table_.rank(rank).is_failure()) continue;
      ended.push_back(table_.rank(rank));
      if (restarter_) unjudged_.insert(rank);
    }
  }
  if (!changes.is_news) return;
  changed_.notify_all();
  for (const auto& report : changes.reports) tell_state(report);
  for (const auto& report : ended) tell_end(report);
  settle();
}

void MeshMonitor::tell_state(const RankReport& report) {
  handlers_.post([self = shared_from_this(), report] { self->gate_.pass([&] { self->options_.handlers.on_state(report); }); });
}

void MeshMonitor::lose(const HostAddr& host, const std::string& reason) {
  std::vector<RankReport> changed;
  {
    const std::lock_guard lock(mutex_);
    for (std::uint64_t index = 0; index < mesh_.hosts().size(); ++index) {
      if (mesh_.hosts()[index] != host) continue;
      for (const auto rank :
           table_.lose(index, "host lost: " + host.to_string() + ": " + reason, reactor_.now(), std::chrono::system_clock::now()))
        changed.push_back(table_.rank(rank));
    }
    if (changed.empty()) return;
    ++version_;
  }
  changed_.notify_all();
  if (options_.handlers.on_state) {
    for (const auto& report : changed) tell_state(report);
  }
  settle();
}

void MeshMonitor::listen(EndListener listener) {
  const auto now = table();
  for (const auto& rank : now.ranks()) {
    if (rank.is_terminal()) listener(rank);
  }
  listeners_.push_back(std::move(listener));
}

void MeshMonitor::tell_end(const RankReport& report) {
  std::erase_if(listeners_, [&](const EndListener& listener) { return !listener(report); });
}

bool MeshMonitor::is_alive_on(const HostAddr& host) const {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t index = 0; index < mesh_.hosts().size(); ++index) {
    if (mesh_.hosts()[index] == host && accepted_[index] && table_.is_alive_on(index)) return true;
  }
  return false;
}

bool MeshMonitor::has_untold_on(const HostAddr& host) const {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t index = 0; index < mesh_.hosts().size(); ++index) {
    if (mesh_.hosts()[index] == host && accepted_[index] && table_.has_untold_on(index)) return true;
  }
  return false;
}

void MeshMonitor::note_accepted(std::uint64_t host_index) {
  const std::lock_guard lock(mutex_);
  accepted_[host_index] = true;
}

bool MeshMonitor::is_accepted(std::uint64_t host_index) const {
  const std::lock_guard lock(mutex_);
  return accepted_[host_index];
}

struct MeshMonitor::OutputBatch {
  struct Chunk {
    std::uint64_t rank;
    Stream stream;
    std::string bytes;
  };
  std::vector<Chunk> chunks;
  std::vector<std::uint64_t> ended;
  wire::OutputTakenT taken;
};

MeshMonitor::OutputBatch MeshMonitor::receive(const HostAddr& from, const wire::Output& output) {
  const auto is_ours = [&](std::uint64_t rank) { return rank < table_.size() && table_.rank(rank).host == from; };
  const bool is_wanted = !abandoned_ && options_.handlers.on_output;
  OutputBatch batch;
  if (output.chunks() != nullptr) {
    for (const auto* chunk : *output.chunks()) {
      const auto rank = chunk->rank();
      if (!is_ours(rank) || (chunk->stream() != wire::Stream::out && chunk->stream() != wire::Stream::err)) continue;
      auto& received = received_[rank][chunk->stream() == wire::Stream::err ? 1 : 0];
      std::string_view bytes(reinterpret_cast<const char*>(chunk->data()->data()), chunk->data()->size());
      if (chunk->offset() > received) {
        batch.taken.resend = true;  // what is between got lost on its way
        continue;
      }
      bytes.remove_prefix(static_cast<std::size_t>(std::min<std::uint64_t>(received - chunk->offset(), bytes.size())));
      received += bytes.size();
      batch.taken.bytes += bytes.size();
      batch.taken.positions.emplace_back(rank, received, chunk->stream());
      if (is_wanted && !bytes.empty())
        batch.chunks.push_back({rank, chunk->stream() == wire::Stream::err ? Stream::err : Stream::out, std::string(bytes)});
    }
  }
  if (output.ends() != nullptr) {
    for (const auto* end : *output.ends()) {
      if (!is_ours(end->rank())) continue;
      if (received_[end->rank()] == std::array{end->out(), end->err()}) {
        batch.ended.push_back(end->rank());
      } else {
        batch.taken.resend = true;
      }
    }
  }
  return batch;
}

void MeshMonitor::on_output(const HostAddr& from, const wire::Output& output, OutputTaken taken) {
  OutputBatch batch;
  {
    const std::lock_guard lock(mutex_);
    const auto now = reactor_.now();
    last_output_ = now;
    batch = receive(from, output);
    // Once for all that comes behind a gap.
    if (batch.taken.resend && now - output_asked_ < kAskAgain) batch.taken.resend = false;
    if (batch.taken.resend) output_asked_ = now;
    output_heard_ = now;
    ++unhandled_;
  }
  handlers_.post([self = shared_from_this(), batch = std::move(batch), taken = std::move(taken)]() mutable {
    for (const auto& chunk : batch.chunks)
      self->gate_.pass([&] { self->options_.handlers.on_output(chunk.rank, chunk.stream, chunk.bytes); });
    self->end_output_of(batch.ended);
    self->reactor_.post([self, answer = std::move(batch.taken), ended = std::move(batch.ended), taken]() mutable {
      answer.ended = std::move(ended);
      if (!answer.positions.empty() || !answer.ended.empty() || answer.resend) taken(std::move(answer));
      self->settle();
    });
  });
}

bool MeshMonitor::should_ask_again() {
  const std::lock_guard lock(mutex_);
  const auto now = reactor_.now();
  if (abandoned_ || end_posted_ || is_output_over() || unhandled_ != 0 || now - output_heard_ < kAskAgain) return false;
  output_heard_ = now;
  return true;
}

void MeshMonitor::end_output_of(const std::vector<std::uint64_t>& ranks) {
  const std::lock_guard lock(mutex_);
  for (const auto rank : ranks) output_ended_[rank] = true;
  --unhandled_;
  last_output_ = Clock::now();
}

bool MeshMonitor::is_output_over() const {
  if (!options_.has_output) return true;
  if (handed_over_) return unhandled_ == 0;
  if (unhandled_ != 0) return false;
  for (const auto& report : table_.ranks()) {
    // A rank that never ran, or whose host is lost, has nothing to say.
    if (!output_ended_[report.rank] && report.pid != 0 && report.code != ErrorCode::host_unreachable) return false;
  }
  return true;
}

bool MeshMonitor::is_over() const {
  const std::lock_guard lock(mutex_);
  return table_.has_exit_reports(reactor_.now());
}

void MeshMonitor::settle() {
  const auto now = reactor_.now();
  std::vector<RankReport> failures;
  Judgement judgement;
  std::optional<RankTable::Time> next;
  std::optional<MeshOutcome> end;
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_ || end_posted_) return;
    if (armed_) failures = table_.take_failures(now);
    if (armed_ && restarter_) {
      judgement = judge(failures, now);
    } else {
      judgement.failures = failures;
    }
    failures_posted_ += judgement.failures.size();
    next = armed_ ? table_.next_due(now) : std::nullopt;
    if (const auto restart = armed_ ? next_restart(now) : std::nullopt) next = next ? std::min(*next, *restart) : restart;
    const bool is_going_on = restarter_ && restarter_->is_busy();
    if (armed_ && table_.is_complete(now) && !is_going_on) {
      const bool is_silent = unhandled_ == 0 && last_output_ && now - *last_output_ >= kOutputLimit;
      if (!last_output_) last_output_ = now;
      if (is_output_over() || is_silent) {
        if (!is_output_over())
          log::warn("mesh " + name() + ": its hosts did not say that its output has ended; what is missing is not waited for");
        end_posted_ = true;
        end = table_.outcome();
      } else {
        next = *last_output_ + kOutputLimit;
        if (*next <= now) next = now + kOutputLimit;
      }
    }
  }
  changed_.notify_all();
  for (const auto& failure : failures) tell_end(failure);
  reactor_.cancel(timer_);
  timer_ = 0;
  if (next && !end) {
    timer_ = reactor_.at(*next, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->settle();
    });
  }
  carry_out(std::move(judgement));
  if (!end) return;
  handlers_.post([self = shared_from_this(), end = std::move(*end)] {
    if (self->options_.handlers.on_end) self->gate_.pass([&] { self->options_.handlers.on_end(end); });
    {
      const std::lock_guard lock(self->mutex_);
      self->end_told_ = true;
    }
    self->changed_.notify_all();
  });
}

void MeshMonitor::arm() {
  {
    const std::lock_guard lock(mutex_);
    armed_ = true;
    if (restarter_) table_.set_judged();
  }
  reactor_.post([self = shared_from_this()] { self->settle(); });
}

void MeshMonitor::hand_over() {
  {
    const std::lock_guard lock(mutex_);
    handed_over_ = true;
  }
  reactor_.post([self = shared_from_this()] { self->settle(); });
}

bool MeshMonitor::is_handed_over() const {
  const std::lock_guard lock(mutex_);
  return handed_over_;
}

void MeshMonitor::abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  gate_.shut();
}

RankTable MeshMonitor::table() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

MeshOutcome MeshMonitor::outcome() const {
  const std::lock_guard lock(mutex_);
  return table_.outcome();
}

namespace {

/// A point in time, without overflow for `forever`.
std::optional<std::chrono::steady_clock::time_point> until(std::chrono::milliseconds deadline) {
  if (deadline > std::chrono::hours(24 * 365)) return std::nullopt;
  return std::chrono::steady_clock::now() + deadline;
}

template <typename Predicate>
bool wait_for(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, std::chrono::milliseconds deadline,
              Predicate predicate) {
  if (const auto end = until(deadline)) return changed.wait_until(lock, *end, predicate);
  changed.wait(lock, predicate);
  return true;
}

}  // namespace

bool MeshMonitor::wait(const std::function<bool(const RankTable&)>& done, std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  return wait_for(changed_, lock, deadline, [&] { return done(table_); });
}

bool MeshMonitor::wait_while_changing(const std::function<bool(const RankTable&)>& done, std::chrono::milliseconds idle) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto before = version_;
    if (done(table_)) return true;
    if (!wait_for(changed_, lock, idle, [&] { return version_ != before || done(table_); })) return false;
  }
}

bool MeshMonitor::wait_failure(std::chrono::milliseconds deadline) {
  const bool is_handler = handlers_.is_here();
  std::unique_lock lock(mutex_);
  return wait_for(changed_, lock, deadline, [&] {
    if (is_handler) return table_.has_told_failure() || table_.is_ended();
    return failures_told_ != 0 || end_told_;
  });
}

bool MeshMonitor::wait_settled(std::chrono::milliseconds deadline) {
  const bool is_handler = handlers_.is_here();
  std::unique_lock lock(mutex_);
  return wait_for(changed_, lock, deadline, [&] {
    if (!table_.has_exit_reports(Clock::now())) return false;
    // Before arm() nobody hears of failures, and a handler cannot wait for what comes after itself.
    if (!armed_ || abandoned_ || is_handler) return true;
    return !table_.has_untold() && given_up_.empty() && failures_told_ == failures_posted_;
  });
}

bool MeshMonitor::wait_end(std::chrono::milliseconds deadline) {
  const bool is_handler = handlers_.is_here();
  std::unique_lock lock(mutex_);
  // A handler cannot wait for what comes after itself.
  return wait_for(changed_, lock, deadline, [&] { return is_handler ? end_posted_ || table_.is_complete(Clock::now()) : end_told_; });
}

}  // namespace meshbus
