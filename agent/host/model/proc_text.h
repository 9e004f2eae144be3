#pragma once

#include <string>

#include "agent/host/model/proc.h"

namespace meshbus::host {

/// "rank 3 of train-13Se1Maqzryj"
inline std::string name_of_rank(const Proc& proc) {
  return "rank " + std::to_string(proc.rank()) + " of " + proc.mesh.name;
}

}  // namespace meshbus::host
