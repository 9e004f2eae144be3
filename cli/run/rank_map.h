#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "meshbus/binding.h"
#include "meshbus/proc_mesh_ref.h"

namespace meshbus::cli {

/// `--display-map`: a line for each rank with its host, its point, and what it is bound to.
std::string rank_map_text(const ProcMeshRef& mesh, const BindingMap& map);

/// What hosts say about their bindings, a line each, for people.
std::string binding_notes_text(const BindingMap& map);

/// The same for `--json`; null: the ranks are not bound.
nlohmann::ordered_json rank_map_json(const ProcMeshRef& mesh, const BindingMap& map);

}  // namespace meshbus::cli
