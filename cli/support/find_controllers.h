#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "meshbus/client.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::cli {

/// A controller has a fixed name at the broker that it is at home at, so it is found by asking at
/// each host.
ProcId controller_of(const HostAddr& host);

/// What the controllers of these hosts say of themselves and their meshes; with a mesh (its whole
/// name) of that one alone, with the status of each rank. Those that are not there, or do not know
/// it, are left out.
std::vector<wire::ControllerStateT> ask_controllers(Context& context,
                                                    const std::vector<HostAddr>& hosts,
                                                    const std::string& mesh,
                                                    std::chrono::milliseconds limit);

/// The controller that will answer for a mesh on these hosts: the one that `word` names (a host, or
/// a ProcId), or the first one that is at home at one of them; but not `except`. `waits`: one that
/// is not there may come within the limit, else that is an error at once. Errors: parse_error;
/// not_exist, no_such_proc, refused, ... with what each of them says.
Result<wire::OfferAcceptedT> choose_controller(Context& context, const std::vector<HostAddr>& hosts,
                                               const std::string& mesh, const std::string& word,
                                               const std::string& except, bool waits,
                                               std::chrono::milliseconds limit);

}  // namespace meshbus::cli
