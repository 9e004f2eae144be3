#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/host/model/proc.h"
#include "agent/host/model/record_book.h"
#include "wire/forward.h"

namespace meshbus::host {

/// All meshes and procs of this host, the ended ones included as long as they are remembered.
class ProcTable {
 public:
  explicit ProcTable(RecordBook::Limits limits) : records_(limits) {}

  Mesh* find_mesh(std::string_view name);
  /// By the number that agent and keeper use.
  Proc* find_id(std::uint64_t id);
  /// By the key of its address; only while it lives.
  Proc* find_key(std::uint64_t key);
  const std::map<std::string, std::unique_ptr<Mesh>, std::less<>>& meshes() const noexcept {
    return meshes_;
  }
  /// Procs that have not ended.
  std::size_t live() const noexcept { return live_; }
  std::vector<Proc*> live_procs() const;

  Mesh& add_mesh(MeshSpec spec, Reactor::Time now);
  /// A new rank. Null when another proc has the same key: it must be refused.
  Proc* add_proc(Mesh& mesh, const std::shared_ptr<const Assignment>& assignment,
                 std::uint64_t rank, std::uint64_t incarnation, LineTail::Limits tail);
  /// A new life of a rank, whose `former` one is over and goes. Its streams go on where those
  /// ended. Null as above; then nothing has changed.
  Proc* add_life(Proc& former, const std::shared_ptr<const Assignment>& assignment,
                 std::uint64_t incarnation, LineTail::Limits tail);
  /// A rank as another agent knew it. Null as above.
  Proc* restore_proc(Mesh& mesh, const std::shared_ptr<const Assignment>& assignment,
                     const wire::LedgerProcT& known, LineTail::Limits tail);
  /// Something of it that must outlive this agent has changed.
  void touch(Proc& proc);
  void touch(Mesh& mesh);
  /// What was touched since this was last called, and the names of the meshes that were forgotten.
  struct Touched {
    std::vector<Mesh*> meshes;
    std::vector<Proc*> procs;
    std::vector<std::string> forgotten;
  };
  Touched take_touched();
  /// It has just ended: from now on it is not found by key.
  void on_ended(Proc& proc);
  /// Its exit report is there: it is remembered from now on.
  void remember(Proc& proc, Reactor::Time now);
  /// Forgets what is too old or too much. An exit report goes alone; the states of a mesh go
  /// together, when nothing of it is alive or remembered. `on_forgotten` is told each mesh that
  /// goes, before it goes.
  void forget_old(Reactor::Time now, const std::function<void(Mesh&)>& on_forgotten);
  std::optional<Reactor::Time> forget_due() const { return records_.due(); }

 private:
  std::map<std::string, std::unique_ptr<Mesh>, std::less<>> meshes_;
  std::unordered_map<std::uint64_t, Proc*> by_id_;
  std::unordered_map<std::uint64_t, Proc*> by_key_;
  Proc* insert(std::unique_ptr<Proc> proc);
  void remove(Proc& proc);

  Touched touched_;
  std::uint64_t next_id_ = 1;
  std::size_t live_ = 0;
  RecordBook records_;
  bool may_forget_meshes_ = false;
};

}  // namespace meshbus::host
