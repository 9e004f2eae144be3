#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/host/model/host_counts.h"
#include "agent/host/model/mesh.h"
#include "agent/host/model/record_book.h"
#include "wire/forward.h"

namespace meshbus::host {

/// All meshes and procs of this host, the ended ones included as long as they are remembered, and
/// what has happened to them and is not written down or sent yet.
/// Large because: it is the one place where meshes and procs are kept, found and forgotten.
class ProcTable {
 public:
  using Meshes = std::map<std::string, std::unique_ptr<Mesh>, std::less<>>;

  explicit ProcTable(RecordBook::Limits limits) : records_(limits) {}

  Mesh* find_mesh(std::string_view name) const;
  /// By the number that agent and keeper use.
  Proc* find_id(std::uint64_t id) const;
  /// By the key of its address; only while it lives.
  Proc* find_key(std::uint64_t key) const;
  const Meshes& meshes() const noexcept { return meshes_; }
  /// Procs that have not ended.
  std::size_t live() const noexcept { return live_; }
  std::vector<Proc*> live_procs() const;
  /// What has happened since this agent started.
  const HostCounts& counts() const noexcept { return counts_; }

  Mesh& add_mesh(MeshSpec spec, Reactor::Time now);
  /// A new rank. Null when another proc has the same key: the rank must be refused.
  Proc* add_proc(Mesh& mesh, const std::shared_ptr<const Assignment>& assignment,
                 std::uint64_t rank, std::uint64_t incarnation, LineTail::Limits tail);
  /// A new incarnation of a rank in place of `former`, which is over. Its streams go on where
  /// those of `former` ended. Null as above; then nothing has changed.
  Proc* restart_proc(Proc& former, const std::shared_ptr<const Assignment>& assignment,
                     std::uint64_t incarnation, LineTail::Limits tail);
  /// A rank as another agent knew it. Null as above.
  Proc* restore_proc(Mesh& mesh, const std::shared_ptr<const Assignment>& assignment,
                     const wire::LedgerProcT& known, LineTail::Limits tail);

  /// Notes for the ledger that something of it has changed.
  void touch(Proc& proc);
  void touch(Mesh& mesh);
  /// The changes for the ledger since the last call, and the names of forgotten meshes.
  struct Touched {
    std::vector<Mesh*> meshes;
    std::vector<Proc*> procs;
    std::vector<std::string> forgotten;
  };
  Touched take_touched();

  /// The state of the proc has changed: adds it to the updates of its mesh. The times of its
  /// launch go with the first state from which on they do not change.
  void publish(Proc& proc);
  /// The proc is in trouble, or no longer.
  void publish(Proc& proc, const wire::RankTrouble& trouble);
  /// The exit report is made; it is remembered from now on.
  void publish(Proc& proc, std::unique_ptr<wire::ExitReportT> exit_report, Reactor::Time now);
  /// There is something to send for this mesh.
  void mark_changed(Mesh& mesh) { changed_.insert(&mesh); }
  /// The meshes with something to tell since the last call.
  std::set<Mesh*> take_changed() { return std::exchange(changed_, {}); }

  /// The proc has just ended: from now on it is not found by key.
  void on_ended(Proc& proc);
  /// An exit report that another agent has made is remembered from now on.
  void remember(Proc& proc, Reactor::Time now);
  /// Forgets what is too old or too much. An exit report is forgotten alone; the states of a mesh
  /// together, when none of its procs is alive or remembered. `on_forgotten` gets each mesh before
  /// it is deleted.
  void forget_old(Reactor::Time now, const std::function<void(Mesh&)>& on_forgotten);
  std::optional<Reactor::Time> forget_due() const { return records_.due(); }

 private:
  Proc* insert(std::unique_ptr<Proc> proc);
  void remove(Proc& proc);

  Meshes meshes_;
  std::unordered_map<std::uint64_t, Proc*> by_id_;
  std::unordered_map<std::uint64_t, Proc*> by_key_;
  Touched touched_;
  std::set<Mesh*> changed_;
  std::uint64_t next_id_ = 1;
  std::size_t live_ = 0;
  RecordBook records_;
  HostCounts counts_;
  bool may_forget_meshes_ = false;
};

}  // namespace meshbus::host
