#pragma once

#include <string>

#include "cli/top/top_state.h"

namespace meshbus::cli {

/// A site of three hosts, one of them lost, with two meshes, in several states.
SiteView make_view();
/// The row of that name is selected: "train 3" is a rank, "train" a mesh, "h1" a host.
TopState make_state(const std::string& selected = {});

}  // namespace meshbus::cli
