#pragma once

#include <atomic>
#include <deque>
#include <utility>

#include "meshbus/proc_mesh_ref.h"

namespace meshbus {

/// The reference of a mesh that may be resized. Earlier ones stay where they are, so what get() and
/// shown() return lives as long as this. They are for any thread; set() and show() for one at a
/// time.
class CurrentMesh {
 public:
  explicit CurrentMesh(ProcMeshRef mesh) { show(set(std::move(mesh))); }
  CurrentMesh(const CurrentMesh&) = delete;
  CurrentMesh& operator=(const CurrentMesh&) = delete;

  /// With ranks that are being started, or stopped, because the mesh is resized.
  const ProcMeshRef& get() const noexcept { return *current_.load(); }
  /// As the mesh was after the last resize that is done.
  const ProcMeshRef& shown() const noexcept { return *shown_.load(); }

  const ProcMeshRef& set(ProcMeshRef mesh) {
    all_.push_back(std::move(mesh));
    current_ = &all_.back();
    return all_.back();
  }
  /// What get() returns is what shown() returns from now on.
  void show() { shown_ = current_.load(); }

 private:
  void show(const ProcMeshRef& mesh) { shown_ = &mesh; }

  std::deque<ProcMeshRef> all_;
  std::atomic<const ProcMeshRef*> current_{nullptr};
  std::atomic<const ProcMeshRef*> shown_{nullptr};
};

}  // namespace meshbus
