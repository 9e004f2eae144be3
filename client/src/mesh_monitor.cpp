#include "client/src/mesh_monitor.h"

#include <algorithm>

#include "common/log.h"

namespace meshbus {
namespace {

/// An ended mesh whose agents fall silent about its output: what is missing then does not come any more.
constexpr std::chrono::seconds kOutputLimit{5};

std::string_view bytes_of_chunk(const wire::OutputChunk& chunk) {
  return {reinterpret_cast<const char*>(chunk.data()->data()), chunk.data()->size()};
}

}  // namespace

MeshMonitor::MeshMonitor(Reactor& reactor, HandlerThread& handlers, ProcMeshRef mesh, Options options)
    : reactor_(reactor),
      handlers_(handlers),
      mesh_(std::move(mesh)),
      options_(std::move(options)),
      table_(mesh_),
      accepted_(mesh_.hosts().size()),
      output_ended_(table_.size()),
      output_positions_(table_.size()) {}

bool MeshMonitor::is_abandoned() const {
  const std::lock_guard lock(mutex_);
  return abandoned_;
}

void MeshMonitor::on_news(const HostAddr& from, const flatbuffers::Vector<const wire::RankState*>* ranks,
                          const flatbuffers::Vector<flatbuffers::Offset<wire::Certificate>>* certificates) {
  const auto now = reactor_.now();
  std::vector<RankReport> changed;
  bool is_news = false;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint64_t> changed_ranks;
    if (ranks != nullptr) {
      for (const auto* rank : *ranks) {
        if (table_.apply(from, *rank, now)) changed_ranks.push_back(rank->rank());
      }
    }
    if (certificates != nullptr) {
      for (const auto* certificate : *certificates) is_news = table_.apply(from, *certificate) || is_news;
    }
    is_news = is_news || !changed_ranks.empty();
    if (is_news) ++version_;
    if (options_.handlers.on_state && !abandoned_) {
      for (const auto rank : changed_ranks) changed.push_back(table_.rank(rank));
    }
  }
  if (!is_news) return;
  changed_.notify_all();
  for (const auto& report : changed) tell_state(report);
  settle();
}

void MeshMonitor::tell_state(const RankReport& report) {
  handlers_.post([self = shared_from_this(), report] { self->tell([&] { self->options_.handlers.on_state(report); }); });
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

bool MeshMonitor::is_alive_on(const HostAddr& host) const {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t index = 0; index < mesh_.hosts().size(); ++index) {
    if (mesh_.hosts()[index] == host && accepted_[index] && table_.is_alive_on(index)) return true;
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

void MeshMonitor::on_output(const HostAddr& from, const wire::Output& output, OutputTaken taken) {
  struct Chunk {
    std::uint64_t rank;
    Stream stream;
    std::string bytes;
  };
  std::vector<Chunk> chunks;
  std::vector<std::uint64_t> ended;
  std::uint64_t bytes = 0;
  const auto is_ours = [&](std::uint64_t rank) { return rank < table_.size() && table_.rank(rank).host == from; };
  {
    const std::lock_guard lock(mutex_);
    last_output_ = reactor_.now();
    if (output.chunks() != nullptr) {
      for (const auto* chunk : *output.chunks()) {
        bytes += chunk->data()->size();
        if (abandoned_ || !options_.handlers.on_output || !is_ours(chunk->rank())) continue;
        const auto news = output.session() == 0 ? bytes_of_chunk(*chunk) : new_bytes(*chunk);
        if (!news.empty())
          chunks.push_back({chunk->rank(), chunk->stream() == wire::Stream::err ? Stream::err : Stream::out, std::string(news)});
      }
    }
    if (output.ended() != nullptr) {
      for (const auto rank : *output.ended()) {
        if (is_ours(rank)) ended.push_back(rank);
      }
    }
    ++unhandled_;
  }
  handlers_.post([self = shared_from_this(), chunks = std::move(chunks), ended = std::move(ended), bytes, session = output.session(),
                  taken = std::move(taken)] {
    for (const auto& chunk : chunks) self->tell([&] { self->options_.handlers.on_output(chunk.rank, chunk.stream, chunk.bytes); });
    self->end_output_of(ended);
    self->reactor_.post([self, bytes, session, taken] {
      if (bytes != 0) taken(bytes, session);
      self->settle();
    });
  });
}

std::string_view MeshMonitor::new_bytes(const wire::OutputChunk& chunk) {
  auto& position = output_positions_[chunk.rank()][chunk.stream() == wire::Stream::err ? 1 : 0];
  auto bytes = bytes_of_chunk(chunk);
  const auto end = chunk.position() + bytes.size();
  if (end <= position || end < chunk.position()) return {};
  if (chunk.position() < position) bytes.remove_prefix(position - chunk.position());
  position = end;
  return bytes;
}

void MeshMonitor::end_output_of(const std::vector<std::uint64_t>& ranks) {
  const std::lock_guard lock(mutex_);
  for (const auto rank : ranks) output_ended_[rank] = true;
  --unhandled_;
  last_output_ = Clock::now();
}

bool MeshMonitor::is_output_over() const {
  if (!options_.has_output) return true;
  if (unhandled_ != 0) return false;
  for (const auto& report : table_.ranks()) {
    // A rank that never ran, or whose host is lost, has nothing to say.
    if (!output_ended_[report.rank] && report.pid != 0 && report.code != ErrorCode::host_unreachable) return false;
  }
  return true;
}

bool MeshMonitor::is_over() const {
  const std::lock_guard lock(mutex_);
  return table_.is_complete(reactor_.now());
}

void MeshMonitor::settle() {
  const auto now = reactor_.now();
  std::vector<RankReport> failures;
  std::optional<RankTable::Time> next;
  std::optional<MeshOutcome> end;
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_ || end_posted_) return;
    if (armed_) failures = table_.take_failures(now);
    next = armed_ ? table_.next_due(now) : std::nullopt;
    if (armed_ && table_.is_complete(now)) {
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
  for (auto& failure : failures) {
    handlers_.post([self = shared_from_this(), failure = std::move(failure)] {
      self->tell([&] { self->options_.handlers.on_failure(failure); });
      {
        const std::lock_guard lock(self->mutex_);
        ++self->failures_told_;
      }
      self->changed_.notify_all();
    });
  }
  if (end) {
    handlers_.post([self = shared_from_this(), end = std::move(*end)] {
      if (self->options_.handlers.on_end) self->tell([&] { self->options_.handlers.on_end(end); });
      {
        const std::lock_guard lock(self->mutex_);
        self->end_told_ = true;
      }
      self->changed_.notify_all();
    });
  }
  reactor_.cancel(timer_);
  timer_ = 0;
  if (!next || end) return;
  timer_ = reactor_.at(*next, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->settle();
  });
}

void MeshMonitor::tell(const std::function<void()>& handler) {
  const std::lock_guard gate(gate_);
  if (!is_shut_) handler();
}

void MeshMonitor::arm() {
  {
    const std::lock_guard lock(mutex_);
    armed_ = true;
  }
  reactor_.post([self = shared_from_this()] { self->settle(); });
}

void MeshMonitor::abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  const std::lock_guard gate(gate_);
  is_shut_ = true;
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

bool MeshMonitor::wait_end(std::chrono::milliseconds deadline) {
  const bool is_handler = handlers_.is_here();
  std::unique_lock lock(mutex_);
  // A handler cannot wait for what comes after itself.
  return wait_for(changed_, lock, deadline, [&] { return is_handler ? end_posted_ || table_.is_complete(Clock::now()) : end_told_; });
}

}  // namespace meshbus
