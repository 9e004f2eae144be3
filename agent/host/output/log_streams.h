#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/output/output_reader.h"
#include "agent/host/streams/log_reader.h"
#include "common/bus/bus.h"
#include "wire/forward.h"

namespace meshbus::host {

/// Sends readers what procs write (StreamLogs in schemas/logs.fbs), and what is sent to them.
/// Lives on the reactor's thread.
class LogStreams : public OutputFollower {
 public:
  static constexpr std::size_t kMostReaders = 1000;  ///< Readers of one mesh.

  explicit LogStreams(Bus& bus) : bus_(bus) {}
  ~LogStreams() override;
  LogStreams(const LogStreams&) = delete;
  LogStreams& operator=(const LogStreams&) = delete;

  /// Begins a stream, or begins it again. Errors: not_exist (a rank), queue_full, and those of its
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
  /// later. Returns that subscriber; nothing: it is no reader.
  std::optional<ProcId> on_undeliverable(std::uint64_t subscriber);
  /// There is a new session with the broker: what was under way may be lost.
  void on_up();

  void on_output(Proc& proc, OutputPipe& pipe) override;
  void flush(Mesh& mesh) override;
  /// Sends what it can of all meshes that were marked. Call it at the end of each turn.
  void flush();
  void mark(Mesh& mesh) {
    if (mesh.output.log_readers != 0) marked_.insert(&mesh);
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
