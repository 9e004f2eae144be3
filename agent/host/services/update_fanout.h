#pragma once

#include "agent/host/model/proc_table.h"
#include "agent/host/output/log_streams.h"
#include "agent/host/replies/collections.h"
#include "agent/host/updates/publisher.h"
#include "agent/host/updates/rank_waits.h"

namespace meshbus::host {

/// Takes the meshes that have changed from the table and passes them to everything that follows
/// them: owners and subscribers, waiting requests, collections of answers, readers of logs. Lives
/// on the reactor's thread.
class UpdateFanout {
 public:
  UpdateFanout(ProcTable& table, Publisher& publisher, RankWaits& waits, Collections& collections,
               LogStreams& logs)
      : table_(table),
        publisher_(publisher),
        waits_(waits),
        collections_(collections),
        logs_(logs) {}

  /// At the end of each turn, when what has happened is written down.
  void flush();
  /// Tells owners and subscribers now what has changed so far.
  void publish();
  /// The mesh is forgotten.
  void forget(Mesh& mesh);

 private:
  void take_changed();

  ProcTable& table_;
  Publisher& publisher_;
  RankWaits& waits_;
  Collections& collections_;
  LogStreams& logs_;
};

}  // namespace meshbus::host
