#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/model/proc.h"
#include "agent/host/streams/log_reader.h"
#include "common/bus/bus.h"
#include "wire/forward.h"

namespace meshbus::host {

/// The readers of what procs write (StreamLogs in schemas/logs.fbs), and what is sent to them.
/// Lives on the reactor's thread.
class LogStreams {
 public:
  static constexpr std::size_t most_readers = 1000;  ///< Of one mesh.
  /// An ended proc keeps so many bytes of each stream, when nobody reads them.
  static constexpr std::size_t kept_after_end = 16 * 1024;

  explicit LogStreams(Bus& bus) : bus_(bus) {}
  ~LogStreams();
  LogStreams(const LogStreams&) = delete;
  LogStreams& operator=(const LogStreams&) = delete;

  /// Begins a stream, or begins it anew. Errors: not_exist (a rank), queue_full, and those of its
  /// ranks.
  Result<wire::LogStartedT> start(Mesh& mesh, const ProcId& subscriber,
                                  const wire::StreamLogs& request);
  /// Errors: not_exist.
  Result<void> taken(Mesh& mesh, std::uint64_t subscriber, const wire::LogTaken& taken);
  void stop(Mesh& mesh, std::uint64_t subscriber, std::uint64_t stream);
  /// The connection of that subscriber has ended.
  void drop(const ProcId& subscriber);
  bool has(const ProcId& subscriber) const;
  /// A message to the subscriber with that key came back: what is under way is sent again a moment
  /// later. Who that is; nothing = no reader.
  std::optional<ProcId> on_undeliverable(std::uint64_t subscriber);
  /// There is a new session with the broker: what was under way may be lost.
  void on_up();

  /// A stream has more, or has ended. Only needed while Mesh::log_readers is not 0.
  void on_news(Proc& proc, OutputPipe& pipe);
  /// Sends what it can of that mesh, now.
  void flush(Mesh& mesh);
  /// The same for all that have news: at the end of each turn.
  void flush();
  void mark(Mesh& mesh) {
    if (mesh.log_readers != 0) marked_.insert(&mesh);
  }
  void forget(Mesh& mesh);

 private:
  struct Entry {
    ProcId subscriber;
    std::uint64_t key;
    std::uint64_t stream;
    std::vector<RankBlock> ranks;
    std::uint8_t streams;
    std::uint64_t tail;
    LogReader reader;
    Reactor::TimerId retry = 0;
  };
  using Entries = std::vector<std::unique_ptr<Entry>>;
  void erase_if(Mesh& mesh, const std::function<bool(const Entry&)>& condition);
  void send(Mesh& mesh, Entry& entry);
  void rewind_later(Mesh& mesh, Entry& entry);

  Bus& bus_;
  std::map<Mesh*, Entries> readers_;
  std::set<Mesh*> marked_;
};

}  // namespace meshbus::host
